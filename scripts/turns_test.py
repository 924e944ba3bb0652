# SPDX-License-Identifier: Apache-2.0
"""scripts/turns.py, with a simulated compiler whose programs print the content of the build's library."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import turns  # noqa: E402

# The program runs the build's library as a script.
COMPILER = """\
#!/usr/bin/env python3
import pathlib, sys
words = sys.argv[1:]
program = pathlib.Path(words[words.index("-o") + 1])
library = next(word[2:] for word in words if word.startswith("-L"))
program.write_text(f"#!/bin/sh\\nexec sh {library}/libbonsai.so \\"$@\\"\\n")
program.chmod(0o755)
"""


class TurnsTest(unittest.TestCase):
    def run_script(self, *libraries, words=()):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            compiler = root / "compiler"
            compiler.write_text(COMPILER)
            compiler.chmod(0o755)
            builds = []
            for i, library in enumerate(libraries):
                build = root / str(i)
                build.mkdir()
                (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={root}\n")
                if library is not None:
                    (build / "libbonsai.so").write_text(library)
                builds.append(str(build))
            out, err = io.StringIO(), io.StringIO()
            with mock.patch.dict(os.environ, CXX=str(compiler)), \
                    contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = turns.main([*builds, "--rounds=3", *words])
                except SystemExit as end:
                    code = end.code
            return code, out.getvalue() + err.getvalue()

    def test_medians_and_the_ratio_to_the_first(self):
        code, said = self.run_script("echo 'C zipf: 2.0'; echo 'D: 1'", "echo 'C zipf: 3.0'; echo 'D: 1'")
        self.assertEqual(0, code, said)
        self.assertRegex(said, r"(?m)^C zipf +2.00 +3.00 +1.50$")
        self.assertRegex(said, r"(?m)^D +1.00 +1.00 +1.00$")

    def test_ratios_are_of_the_same_round(self):
        rows = turns.table([[{"D": 1.0}, {"D": 2.0}], [{"D": 10.0}, {"D": 20.0}], [{"D": 4.0}, {"D": 4.0}]])
        self.assertEqual([("D", [4.0, 4.0], [2.0])], rows)

    def test_a_line_below_the_bound_fails(self):
        self.assertEqual(0, self.run_script("echo 'D: 100'", "echo 'D: 98'", words=["--at-least=0.97"])[0])
        code, said = self.run_script("echo 'D: 100'", "echo 'D: 96'", words=["--at-least=0.97"])
        self.assertEqual(1, code, said)
        self.assertIn("0.96", said)

    def test_named_lines_alone_run(self):
        code, said = self.run_script('shift 4; for line; do echo "$line: 2"; done',
                                     words=["--line=E zipf", "--line=D"])
        self.assertEqual(0, code, said)
        self.assertRegex(said, r"(?m)^E zipf +2.00 *\nD +2.00 *$")

    def test_a_missing_library_is_named(self):
        code, said = self.run_script(None)
        self.assertEqual(2, code)
        self.assertIn("--target bonsai_library", said)

    def test_a_program_that_fails_ends_it(self):
        with self.assertRaisesRegex(RuntimeError, "exit code 3"):
            self.run_script("exit 3")


if __name__ == "__main__":
    unittest.main()
