#!/usr/bin/env python3
"""The README's first steps, typed as they stand.

usage: readme_test.py FOLDER-OF-THE-PROGRAMS [unittest arguments]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
POOL = "/dev/shm/fruit.pool"


def first_steps():
    """The commands of the first block of the README that begins with the path of the programs."""
    begin = re.escape("    export PATH=$PWD/build/release/bin:$PATH")
    return re.search(rf"^{begin}\n((?:    .+\n)+)", README.read_text(), re.MULTILINE)[1]


class FirstSteps(unittest.TestCase):
    def test_each_command_succeeds(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            commands = first_steps().replace(POOL, folder + "/fruit.pool")
            self.assertIn("bonsai put", commands)
            result = subprocess.run(["bash", "-e", "-c", commands], capture_output=True, text=True,
                                    env={**os.environ, "PATH": PROGRAMS + ":" + os.environ["PATH"]})
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            self.assertIn("red\napple\tred\n", result.stdout)


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
