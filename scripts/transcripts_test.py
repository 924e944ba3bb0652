# SPDX-License-Identifier: Apache-2.0
"""scripts/transcripts.py."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import transcripts  # noqa: E402

CONSOLE, SHELL, END = "```console\n", "```sh\n", "```\n"


class Agreement(unittest.TestCase):
    def test_dots_stand_for_any_text_of_a_line(self):
        self.assertTrue(transcripts.agrees(["log ... of 2 MiB"], ["log 1.5 KiB of 2 MiB"]))
        self.assertFalse(transcripts.agrees(["log ... of 2 MiB"], ["log 1.5", "KiB of 2 MiB"]))
        self.assertFalse(transcripts.agrees(["log ... of 2 MiB"], ["log 1.5 of 3 MiB"]))

    def test_a_line_of_dots_stands_for_any_lines(self):
        for lines in ([], ["b"], ["b", "c"]):
            self.assertTrue(transcripts.agrees(["a", "...", "z"], ["a", *lines, "z"]), lines)
        self.assertFalse(transcripts.agrees(["a", "...", "z"], ["a", "b"]))

    def test_a_missing_and_an_added_line_are_noticed(self):
        self.assertFalse(transcripts.agrees(["a", "b"], ["a"]))
        self.assertFalse(transcripts.agrees(["a"], ["a", "b"]))
        self.assertFalse(transcripts.agrees([], ["a"]))


class Pages(unittest.TestCase):
    def run_page(self, text):
        """(exit code, what was printed) for a page with this text."""
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            pathlib.Path(page).write_text(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                code = transcripts.main([f"--bin={folder}", page])
        return code, out.getvalue()

    def test_agreeing(self):
        code, out = self.run_page("text\n" + CONSOLE + "$ echo a; echo b >&2\na\nb\n$ true\n" + END)
        self.assertEqual((0, "1 pages agree\n"), (code, out))

    def test_what_differs_is_shown_with_its_line(self):
        code, out = self.run_page("text\n" + CONSOLE + "$ echo a\nb\n" + END)
        self.assertEqual(1, code)
        self.assertIn("page.md:3: $ echo a\nthe page says:\nb\nprinted (exit code 0):\na\n", out)

    def test_a_failure_must_be_on_the_page(self):
        self.assertEqual(1, self.run_page(CONSOLE + "$ false\n" + END)[0])
        self.assertEqual(0, self.run_page(CONSOLE + "$ false\n(exit code 1)\n" + END)[0])
        self.assertEqual(1, self.run_page(CONSOLE + "$ true\n(exit code 1)\n" + END)[0])
        self.assertEqual(1, self.run_page(SHELL + "false\n" + END)[0])

    def test_blocks_share_a_shell_and_a_folder_of_their_own(self):
        code, out = self.run_page(SHELL + "echo x > /dev/shm/transcripts-test; y=1\n" + END + CONSOLE +
                                  "$ cat /dev/shm/transcripts-test; echo $y\nx\n1\n" + END)
        self.assertEqual(0, code, out)
        self.assertFalse(os.path.exists("/dev/shm/transcripts-test"))

    def test_a_command_may_go_on_and_output_need_not_end_its_line(self):
        code, out = self.run_page(CONSOLE + "$ printf '%s' \\\n>   a\na\n" + END)
        self.assertEqual(0, code, out)

    def test_pages_that_show_nothing_are_an_error(self):
        self.assertEqual(2, self.run_page("no block\n")[0])
        self.assertEqual(2, self.run_page(CONSOLE + "output\n" + END)[0])
        self.assertEqual(2, self.run_page(SHELL + "exit 0\n" + END)[0])

    def test_a_command_that_never_ends_is_an_error(self):
        bound, transcripts.COMMAND_SECONDS_MAX = transcripts.COMMAND_SECONDS_MAX, 1
        try:
            code, out = self.run_page(CONSOLE + "$ sleep 600\n" + END)
        finally:
            transcripts.COMMAND_SECONDS_MAX = bound
        self.assertEqual(2, code)
        self.assertIn("line 2: a command took more than 1 s", out)


if __name__ == "__main__":
    unittest.main()
