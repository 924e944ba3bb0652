# SPDX-License-Identifier: Apache-2.0
"""The scorecard counts right: cases, crashes, skips, failed steps, figures; and it fails when nothing ran."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCORECARD = pathlib.Path(__file__).resolve().parent / "scorecard.py"

CTEST = """<testsuite name="x">
  <testcase name="good_test" status="run"/>
  <testcase name="bad_test" status="fail"><failure message="Failed"/></testcase>
  <testcase name="crashed_test" status="fail"><failure message="Failed"/>
    <system-out>[ RUN      ] Suite.Case
SIGSEGV received
</system-out></testcase>
  <testcase name="leaky_test" status="fail"><failure message="Failed"/></testcase>
  <testcase name="script" status="run"/>
  <testcase name="absent" status="notrun"><skipped message="SKIP"/></testcase>
</testsuite>"""


def gtest(*cases):
    inside = {"ok": '<testcase name="{0}" classname="S" result="completed"/>',
              "bad": '<testcase name="{0}" classname="S" result="completed"><failure message="no">'
                     'a_test.cc:7\nExpected: a word</failure></testcase>',
              "skip": '<testcase name="{0}" classname="S" result="skipped"><skipped/></testcase>'}
    body = "".join(inside[outcome].format(f"case{i}") for i, outcome in enumerate(cases))
    return f"<testsuites><testsuite>{body}</testsuite></testsuites>"


class ScorecardTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_scorecard(self):
        done = subprocess.run([sys.executable, SCORECARD, "--records", self.root / "records",
                               "--build", self.root / "build", "--out", self.root / "summary.json"],
                              capture_output=True, text=True)
        return done.returncode, done.stdout, json.loads((self.root / "summary.json").read_text())

    def release(self, ctest, **gtests):
        self.write("records/release/steps.tsv", "configure\t0\t1\nbuild\t0\t9\ntest\t0\t5\n")
        self.write("records/release/ctest.xml", ctest)
        for name, text in gtests.items():
            self.write(f"build/release/test-results/{name}.xml", text)

    def test_counts_cases_and_programs(self):
        self.release(CTEST, good_test=gtest("ok", "ok", "skip"), bad_test=gtest("ok", "bad"), leaky_test=gtest("ok"))
        code, out, summary = self.run_scorecard()
        # passed: 2 good, 1 bad, 1 leaky, 1 script; failed: 1 case, the crash, the leak; skipped: 1 case, 1 program
        self.assertEqual((5, 3, 2), (summary["passed"], summary["failed"], summary["skipped"]))
        self.assertEqual("5 passed, 3 failed, 2 skipped", out.splitlines()[-1])
        self.assertIn("FAILED release: crashed_test\n    [ RUN      ] Suite.Case\n    SIGSEGV received\n", out)
        self.assertIn("FAILED release: bad_test S.case1\n    a_test.cc:7\n    Expected: a word\n", out)
        self.assertEqual(1, code)

    def test_all_passed(self):
        self.release('<testsuite><testcase name="t"/></testsuite>', t=gtest("ok", "ok"))
        code, out, _ = self.run_scorecard()
        self.assertEqual((0, "2 passed, 0 failed, 0 skipped"), (code, out.splitlines()[-1]))

    def test_nothing_ran_is_a_failure(self):
        (self.root / "records").mkdir()
        code, out, _ = self.run_scorecard()
        self.assertEqual((1, "0 passed, 0 failed, 0 skipped"), (code, out.splitlines()[-1]))
        self.release('<testsuite><testcase name="t" status="notrun"><skipped/></testcase></testsuite>')
        self.assertEqual(1, self.run_scorecard()[0])

    def test_a_program_that_skips_itself_says_why_on_the_scorecard(self):
        self.release('<testsuite><testcase name="t"/><testcase name="guests" status="notrun"><skipped/>'
                     '<system-out>looking\nno virtual machines here\n</system-out></testcase></testsuite>')
        code, out, summary = self.run_scorecard()
        self.assertEqual((0, 1), (code, summary["skipped"]))
        self.assertIn("NOT RUN release: guests: no virtual machines here", out)

    def test_a_failed_step_is_a_failed_test(self):
        self.write("records/asan/steps.tsv", "configure\t0\t1\nbuild\t2\t9\n")
        code, out, summary = self.run_scorecard()
        self.assertEqual((1, 1), (code, summary["failed"]))
        self.assertIn("FAILED asan: build (exit code 2", out)

    def test_a_runner_that_fails_without_a_failed_test_is_a_failed_test(self):
        self.release('<testsuite><testcase name="t"/></testsuite>')
        self.write("records/release/steps.tsv", "test\t8\t5\n")
        self.assertEqual((1, 1), (self.run_scorecard()[0], self.run_scorecard()[2]["failed"]))

    def test_a_clang_build_is_a_test(self):
        self.write("records/clang/steps.tsv", "configure\t0\t1\nbuild\t0\t9\n")
        code, _, summary = self.run_scorecard()
        self.assertEqual((0, 1), (code, summary["passed"]))

    def test_fuzzing_is_a_test_that_can_fail(self):
        self.write("records/clang/steps.tsv", "configure\t0\t1\nbuild\t0\t9\nfuzz\t0\t31\n")
        code, _, summary = self.run_scorecard()
        self.assertEqual((0, 2), (code, summary["passed"]))
        self.write("records/clang/steps.tsv", "configure\t0\t1\nbuild\t0\t9\nfuzz\t1\t31\n")
        code, _, summary = self.run_scorecard()
        self.assertEqual((1, 1, 1), (code, summary["passed"], summary["failed"]))

    def test_figures_are_summed_and_maxima_kept(self):
        self.release('<testsuite><testcase name="t"/></testsuite>')
        self.write("records/release/figures", "kill_rounds 50\nkill_rounds=7\nlag_us_max 3\nlag_us_max 9\nnonsense\n")
        self.write("records/tsan/figures", "kill_rounds 5\nlag_us_max 4\n")
        _, out, summary = self.run_scorecard()
        self.assertEqual({"kill_rounds": 62, "lag_us_max": 9}, summary["figures"])
        self.assertEqual({"kill_rounds": 57, "lag_us_max": 9}, summary["regimes"]["release"]["figures"])
        self.assertIn("kill_rounds", out)

    def test_rows_of_tables_are_summed_and_printed(self):
        self.release('<testsuite><testcase name="t"/></testsuite>')
        self.write("records/release/figures", "table\tcrash images\tlog.append\tfences=3 images=50\nkill_rounds 1\n"
                   "table\tcrash images\tlog.append\tfences=2 images=1\ntable\tcrash images\tbroken\tfences\n")
        _, out, summary = self.run_scorecard()
        self.assertEqual({"crash images": {"log.append": {"fences": 5, "images": 51}}},
                         summary["regimes"]["release"]["tables"])
        self.write("records/tsan/figures", "table\tcrash images\tlog.append\tfences=7\n")
        _, out, summary = self.run_scorecard()
        self.assertEqual(7, summary["regimes"]["tsan"]["tables"]["crash images"]["log.append"]["fences"])
        self.assertNotIn("crash images (tsan):", out)
        self.assertIn("crash images (release):", out)
        self.assertRegex(out, r"log\.append +5 +51\n")


if __name__ == "__main__":
    unittest.main()
