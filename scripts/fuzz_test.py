# SPDX-License-Identifier: Apache-2.0
"""scripts/fuzz.py, with a program that simulates libFuzzer."""
import contextlib
import io
import os
import pathlib
import stat
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fuzz  # noqa: E402

# Finds the canary's fault unless BLIND is set; `weak` crashes, `sound` does not.
PROGRAM = """\
    #!/usr/bin/env python3
    import os, sys
    target = os.environ.get("BONSAI_FUZZ_TARGET")
    if sys.argv[1] == "--targets":
        print("sound\\nweak\\ncanary")
    elif sys.argv[1] == "--seeds":
        open(sys.argv[2] + "/seed-0", "w").write("seed")
    elif any(word.startswith("-merge") for word in sys.argv):
        folder, grown = sys.argv[2:4]
        for i in range(40):
            open(f"{folder}/{i}", "w").write("x" * i)
        open(f"{folder}/huge", "w").write("x" * 100000)
    else:
        prefix = [word.split("=")[1] for word in sys.argv if word.startswith("-artifact_prefix")][0]
        print("#8\\tNEW    cov: 20 ft: 30 corp: 4/9b lim: 4 exec/s: 0 rss: 30Mb")
        print("#9\\tDONE   cov: 21 ft: 33 corp: 5/9b lim: 4 exec/s: 0 rss: 30Mb")
        print("stat::number_of_executed_units: 1000")
        crash = {"canary": None if os.environ.get("BLIND") else "bug!", "weak": "boom"}.get(target)
        if crash:
            open(prefix + "crash-1", "w").write(crash)
            sys.exit(77)
    """


class Fuzz(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "fuzz"
        self.program.write_text(textwrap.dedent(PROGRAM))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def run_it(self, *arguments, **environment):
        output = io.StringIO()
        figures = self.folder / "figures"
        with mock.patch.dict(os.environ, {"BONSAI_FIGURES": str(figures), **environment}), \
                contextlib.redirect_stdout(output):
            code = fuzz.main(["--program", str(self.program), "--corpora", str(self.folder / "corpora"),
                              "--grown", str(self.folder / "grown"), "--seconds", "2", *arguments])
        return code, output.getvalue(), figures.read_text() if figures.exists() else ""

    def test_a_sound_target_passes_and_is_counted(self):
        code, output, figures = self.run_it("--targets", "sound")
        self.assertEqual(0, code, output)
        self.assertIn("fuzz_executions 1000\n", figures)
        self.assertIn("fuzz_seconds 2\n", figures)
        self.assertIn("table\tfuzz targets\tsound\texecutions=1000 features=33 crashes=0", figures)

    def test_a_crash_fails_and_becomes_a_file_that_tests_replay(self):
        code, output, figures = self.run_it()
        self.assertEqual(1, code)
        kept = list((self.folder / "corpora" / "weak").iterdir())
        self.assertEqual(["boom"], [path.read_text() for path in kept])
        self.assertTrue(kept[0].name.startswith("crash-"))
        self.assertIn(str(kept[0]), output)
        self.assertIn("fuzz_crashes 1", figures)

    def test_without_the_canarys_fault_nothing_is_believed(self):
        code, output, figures = self.run_it("--targets", "sound", BLIND="1")
        self.assertEqual(1, code)
        self.assertIn("planted fault was not found", output)
        self.assertEqual("", figures)

    def test_keep_takes_few_small_inputs(self):
        self.run_it("--targets", "sound", "--keep")
        kept = list((self.folder / "corpora" / "sound").glob("kept-*"))
        self.assertEqual(fuzz.KEPT_MAX, len(kept))
        self.assertLessEqual(max(path.stat().st_size for path in kept), fuzz.KEPT_BYTES_MAX)

    def test_unknown_targets_and_a_missing_program_are_refused(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(2, self.run_it("--targets", "none")[0])
            self.program.unlink()
            self.assertEqual(2, self.run_it()[0])


if __name__ == "__main__":
    unittest.main()
