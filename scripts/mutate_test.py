# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate.py: the copy that a list of mutants gives, and each reason for which a list fails to apply."""
import pathlib
import tempfile
import unittest

import mutate

SOURCE = "int f() {\n  help();\n  return 1;\n}\nint g() {\n  wait();\n  return 1;\n}\n"
RULES = "enum Mutant : uint32_t {\n  kNoHelp = 1u << 0,  // f does not help\n};\n"
LIST = "What it changes.\n\n@@ kNoHelp\n-  help();\n+  if (!mutant(kNoHelp)) help();\n"


class MutateTest(unittest.TestCase):
    def made(self, text=LIST, rules=RULES, source=SOURCE):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "room" / "testing" / "mutants").mkdir(parents=True)
            (root / "room" / "f.cc").write_text(source)
            (root / "room" / "testing" / "mutants.h").write_text(rules)
            (root / "room" / "testing" / "mutants" / "f.cc.mutants").write_text(text)
            mutate.mutate(root, "room", root / "out")
            return (root / "out" / "room" / "f.cc").read_text()

    def assert_misfit(self, message, **changed):
        with self.assertRaisesRegex(mutate.Misfit, message):
            self.made(**changed)

    def test_a_line_is_replaced(self):
        made = self.made()
        self.assertIn('#include "room/testing/mutants.h"\n', made)
        self.assertTrue(made.endswith(SOURCE.replace("  help();", "  if (!mutant(kNoHelp)) help();")))

    def test_lines_that_stay_tell_equal_lines_apart(self):
        made = self.made(text="Of g.\n@@ kNoHelp\n   wait();\n-  return 1;\n+  return mutant(kNoHelp) ? 2 : 1;\n")
        self.assertTrue(made.endswith("  wait();\n  return mutant(kNoHelp) ? 2 : 1;\n}\n"))
        self.assertEqual(1, made.count("  return 1;"))

    def test_text_that_is_not_there(self):
        self.assert_misfit("kNoHelp: .* stands 0 times in room/f.cc", source="int f();\n")

    def test_text_that_is_there_twice(self):
        self.assert_misfit("kNoHelp: .* stands 2 times in room/f.cc",
                           text=LIST.replace("-  help();", "-  return 1;"))

    def test_part_of_a_line_is_not_the_line(self):
        self.assert_misfit("stands 0 times", source=SOURCE.replace("  help();", "  help(); // much"))

    def test_a_block_that_changes_nothing(self):
        self.assert_misfit(r"asks for mutant\(kNoHelp\)", text=LIST.replace("if (!mutant(kNoHelp)) ", ""))

    def test_two_blocks_on_one_text(self):
        self.assert_misfit("replace the same text", text=LIST + LIST.split("\n", 2)[2])

    def test_a_rule_without_a_block(self):
        for late in ("1u << 1", "uint64_t{1} << 40"):
            self.assert_misfit("kLate is named", rules=RULES.replace("};", f"  kLate = {late},\n}};"))

    def test_a_block_without_a_rule(self):
        self.assert_misfit("kNoHelp is named", rules="")

    def test_a_line_of_no_kind(self):
        self.assert_misfit("f.cc.mutants:6: ", text=LIST + "help();\n")

    def patched(self, text, header="[[nodiscard]] bool helps();\n"):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "study" / "room").mkdir(parents=True)
            (root / "room").mkdir()
            (root / "room" / "f.cc").write_text(SOURCE)
            (root / "study" / "patches.h").write_text(header)
            (root / "study" / "room" / "f.cc.patches").write_text(text)
            mutate.patch(root, "study", root / "out")
            return (root / "out" / "room" / "f.cc").read_text()

    def test_a_patch_calls_what_its_header_declares(self):
        made = self.patched("Of f.\n@@ helps\n-  help();\n+  if (helps()) help();\n")
        self.assertIn('#include "study/patches.h"\n', made)
        self.assertTrue(made.endswith(SOURCE.replace("  help();", "  if (helps()) help();")))

    def test_a_patch_that_does_not_call_it(self):
        with self.assertRaisesRegex(mutate.Misfit, r"helps: no line added to room/f.cc asks for helps\(\)"):
            self.patched("Of f.\n@@ helps\n-  help();\n+  if (true) help();\n")

    def test_a_function_that_no_patch_calls(self):
        with self.assertRaisesRegex(mutate.Misfit, "waits is named by study/patches.h"):
            self.patched("Of f.\n@@ helps\n-  help();\n+  if (helps()) help();\n",
                         "[[nodiscard]] bool helps();\n[[nodiscard]] bool waits();\n")


if __name__ == "__main__":
    unittest.main()
