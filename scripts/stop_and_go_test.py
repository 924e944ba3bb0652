# SPDX-License-Identifier: Apache-2.0
"""stop_and_go.py stops the tests that it runs: a test that reads the clock fails, one that counts its own steps does
not."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

STOP_AND_GO = pathlib.Path(__file__).resolve().parent / "stop_and_go.py"

HASTY = """import time
for _ in range(200):
  begin = time.monotonic()
  time.sleep(.1)
  assert time.monotonic() - begin < .2
"""
PATIENT = "import time\nfor _ in range(10): time.sleep(.1)"


class StopAndGoTest(unittest.TestCase):
    def run_on(self, *words, **tests):
        with tempfile.TemporaryDirectory() as folder:
            lines = [f'add_test({name} "{sys.executable}" "{folder}/{name}.py")' for name in tests]
            pathlib.Path(folder, "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
            for name, text in tests.items():
                pathlib.Path(folder, f"{name}.py").write_text(text)
            done = subprocess.run([sys.executable, STOP_AND_GO, folder, "--seed=1", *words], capture_output=True,
                                  text=True)
            return done.returncode, done.stdout + done.stderr

    def test_what_takes_lost_time_for_a_broken_promise_fails(self):
        code, said = self.run_on("--jobs=2", hasty=HASTY, patient=PATIENT)
        self.assertEqual(1, code, said)
        self.assertIn("FAILED hasty", said)
        self.assertIn("AssertionError", said)
        self.assertIn("passed patient", said)
        self.assertEqual("1 failed: hasty", said.splitlines()[-1])

    def test_nothing_to_run_is_an_error(self):
        code, said = self.run_on("--tests=absent", patient=PATIENT)
        self.assertEqual(2, code)
        self.assertIn("no test that matches", said)


if __name__ == "__main__":
    unittest.main()
