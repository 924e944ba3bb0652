# SPDX-License-Identifier: Apache-2.0
"""Every script that a person types answers --help, and refuses an argument that it does not know, before it does
anything: nothing is built, installed or started here."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS_MAX = 60
NO_PROGRAMS = {"driver.py", "lib.sh", "style_prose.py", "style_spdx.py"}  # imported or sourced by other scripts
# Scripts that pass flags to bonsai-bench, which is not built yet when they check their names.
PASSED_ON = {"run.sh", "fabric-bench.sh", "remote-bench.sh"}


def programs():
    return sorted(path for path in (ROOT / "scripts").iterdir()
                  if path.suffix in (".sh", ".py") and not path.name.endswith("_test.py")
                  and path.name not in NO_PROGRAMS)


class Arguments(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        # A script that starts its work calls one of these, which the test notices.
        self.trace = pathlib.Path(self.folder.name) / "trace"
        for name in ("cmake", "ctest", "apt-get", "doxygen", "gcovr", "qemu-system-x86_64"):
            fake = pathlib.Path(self.folder.name) / name
            fake.write_text(f"#!/bin/sh\necho {name} \"$@\" >>{self.trace}\nexit 1\n")
            fake.chmod(0o755)

    def run_script(self, path, *arguments):
        path_of_fakes = self.folder.name + os.pathsep + os.environ["PATH"]
        interpreter = [sys.executable] if path.suffix == ".py" else ["bash"]
        done = subprocess.run([*interpreter, str(path), *arguments], capture_output=True, text=True, cwd="/",
                              timeout=SECONDS_MAX, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": path_of_fakes})
        begun = self.trace.exists()
        self.trace.unlink(missing_ok=True)
        self.assertFalse(begun, f"{path.name} {arguments} has begun to work")
        return done

    def test_help_is_answered_at_once(self):
        self.assertGreater(len(programs()), 15)
        for path in programs():
            for form in ("--help", "-h"):
                with self.subTest(script=path.name, form=form):
                    done = self.run_script(path, form)
                    self.assertIn("usage", (done.stdout + done.stderr).lower())
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_unknown_argument_is_refused(self):
        for path in programs():
            with self.subTest(script=path.name):
                done = self.run_script(path, "--nonsense")
                self.assertIn(done.returncode, (1, 2), done.stdout + done.stderr)
                self.assertIn("usage", done.stderr)

    def test_a_flag_that_is_passed_on_is_known_before_the_build(self):
        for name in PASSED_ON:
            for arguments in (["--recrods=5"], ["--records=5", "-nonsense"], ["--nopin", "--value-byte", "3"]):
                with self.subTest(script=name, arguments=arguments):
                    done = self.run_script(ROOT / "scripts" / name, *arguments)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn("unknown flag", done.stderr)
                    self.assertIn(" value_bytes ", done.stderr, "the known ones are listed")

    def test_a_word_where_none_belongs_is_refused(self):
        for name in ("api.sh", "nightly.sh", "run.sh", "test.sh", "tidy.sh", "setup.sh"):
            with self.subTest(script=name):
                self.assertIn(self.run_script(ROOT / "scripts" / name, "nonsense").returncode, (1, 2))

    def test_run_builds_what_the_readme_uses(self):
        text = (ROOT / "scripts" / "run.sh").read_text()
        for program in ("bonsai", "bonsai-bench", "bonsaid", "bonsai-server"):
            self.assertRegex(text, rf"--target .*\b{program}(\s|$)")


if __name__ == "__main__":
    unittest.main()
