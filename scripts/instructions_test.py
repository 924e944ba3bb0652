# SPDX-License-Identifier: Apache-2.0
"""scripts/instructions.py, with programs that simulate valgrind and a compiler, which copies the build's library."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import instructions  # noqa: E402

# Counts 1,000, and for each operation the number in the program's file.
VALGRIND = """\
#!/usr/bin/env python3
import pathlib, sys
program, operations = sys.argv[-5], int(sys.argv[-1])
cost = int(pathlib.Path(program).read_text())
print(f"==1== Collected : {1000 + cost * operations}", file=sys.stderr)
sys.exit(0 if cost else 3)
"""


COMPILER = """\
#!/usr/bin/env python3
import shutil, sys
words = sys.argv[1:]
library = next(word[2:] for word in words if word.startswith("-L"))
shutil.copyfile(f"{library}/libbonsai.so", words[words.index("-o") + 1])
"""


class InstructionsTest(unittest.TestCase):
    def run_script(self, *costs, words=()):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (("valgrind", VALGRIND), ("compiler", COMPILER)):
                (root / name).write_text(text)
                (root / name).chmod(0o755)
            builds = []
            for i, cost in enumerate(costs):
                (root / str(i)).mkdir()
                (root / str(i) / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={root}\n")
                if cost is not None:
                    (root / str(i) / "libbonsai.so").write_text(str(cost))
                builds.append(str(root / str(i)))
            out, err = io.StringIO(), io.StringIO()
            with mock.patch.dict(os.environ, CXX=f"{folder}/compiler", PATH=f"{folder}:{os.environ['PATH']}"), \
                    contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = instructions.main([*builds, *words])
                except SystemExit as end:
                    code = end.code
            return code, out.getvalue() + err.getvalue()

    def test_an_operation_costs_the_difference(self):
        code, said = self.run_script(700)
        self.assertEqual(0, code, said)
        self.assertRegex(said, r"(?m)^put +700$")

    def test_a_ratio_above_the_bound_fails(self):
        self.assertEqual(0, self.run_script(1000, 1019, words=["--at-most=1.02"])[0])
        code, said = self.run_script(1000, 1021, words=["--at-most=1.02"])
        self.assertEqual(1, code, said)
        self.assertIn("1.021", said)

    def test_what_is_missing_is_named(self):
        code, said = self.run_script(None)
        self.assertEqual(2, code)
        self.assertIn("--target bonsai_library", said)

    def test_a_program_that_fails_ends_the_count(self):
        with self.assertRaisesRegex(RuntimeError, "exit code 3"):
            self.run_script(0)


if __name__ == "__main__":
    unittest.main()
