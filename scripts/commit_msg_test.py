# SPDX-License-Identifier: Apache-2.0
"""The commit-msg hook: which subjects it takes."""
import pathlib
import subprocess
import tempfile
import unittest

HOOK = pathlib.Path(__file__).resolve().parent / "commit-msg.sh"


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


if __name__ == "__main__":
    unittest.main()
