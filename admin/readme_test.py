#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's first steps, typed as they stand.

usage: readme_test.py FOLDER-OF-THE-PROGRAMS [unittest arguments]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
POOL = "/dev/shm/fruit.pool"


def block(begin):
    """The commands of the README's block whose first line begins so."""
    return re.search(rf"^    {re.escape(begin)}.*\n(?:    .+\n)*", README.read_text(), re.MULTILINE)[0]


def type_in(commands, folder):
    return subprocess.run(["bash", "-e", "-c", commands], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "PATH": PROGRAMS + ":" + os.environ["PATH"], "BONSAI_SHM_FOLDER": folder})


class FirstSteps(unittest.TestCase):
    def test_each_command_succeeds(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            begin, commands = block("export PATH=$PWD/build/release/bin:$PATH").split("\n", 1)
            commands = commands.replace(POOL, folder + "/fruit.pool")
            self.assertIn("bonsai put", commands)
            result = type_in(commands, folder)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            self.assertIn("red\napple\tred\n", result.stdout)

    def test_two_lines_run_ycsb_through_bonsaid(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            commands = block("bonsaid --folder").replace("/dev/shm/pools", folder + "/pools")
            self.assertEqual(2, len(commands.splitlines()), commands)
            result = type_in(f"trap 'kill %1; wait' EXIT\n{commands}", folder)
            self.assertEqual(0, result.returncode, result.stdout + result.stderr)
            runs = json.loads(pathlib.Path(folder, "results/latest/results.json").read_text())["runs"]
            self.assertLessEqual({"load", "a", "b", "c", "d", "e", "f"}, {run["workload"] for run in runs})
            for run in runs:
                self.assertEqual(0, run["failures"], run)
                self.assertIn("over shm", run["medium"])
                self.assertTrue(run["emulated"])
            self.assertGreater(runs[0]["fabric"]["round_trips"], 0)
            self.assertIn("stopped", result.stderr)


if __name__ == "__main__":
    PROGRAMS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
