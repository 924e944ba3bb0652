# SPDX-License-Identifier: Apache-2.0
"""The commit-msg hook: which subjects it accepts, and that it accepts those of this tree."""
import pathlib
import re
import subprocess
import tempfile
import unittest

HOOK = pathlib.Path(__file__).resolve().parent / "commit-msg.sh"
# Some older commits have longer subjects, which cannot be changed any more.
HELD_SINCE = "2026-11-27T20:00:00+00:00"


def accepts(message):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(message)
        file.flush()
        return subprocess.run(["sh", HOOK, file.name], capture_output=True).returncode == 0


class CommitMessageTest(unittest.TestCase):
    def test_a_room_and_72_columns(self):
        self.assertTrue(accepts("index: " + "x" * 65 + "\n\nA body may be " + "long " * 40))
        self.assertTrue(accepts("# a comment of git\npersist, index: what\n"))
        self.assertFalse(accepts("index: " + "x" * 66))

    def test_a_subject_without_a_room(self):
        for subject in ("", "Fixed things", "index:", "what changed"):
            with self.subTest(subject=subject):
                self.assertFalse(accepts(subject + "\n"))

    def test_what_git_writes_itself(self):
        self.assertTrue(accepts("Merge branch 'a' into " + "b" * 80))
        self.assertTrue(accepts("fixup! index: what"))

    def test_the_commits_of_this_tree(self):
        listed = subprocess.run(["git", "log", "--no-merges", f"--since={HELD_SINCE}", "--format=%h %s"],
                                cwd=HOOK.parent, capture_output=True, text=True)
        if listed.returncode != 0:
            self.skipTest("this is no checkout of git")
        for line in listed.stdout.splitlines():
            commit, _, subject = line.partition(" ")
            if re.match(r"[a-z, ]+: ", subject):  # subjects of merges have another form
                with self.subTest(commit=commit):
                    self.assertTrue(accepts(subject + "\n"), subject)


if __name__ == "__main__":
    unittest.main()
