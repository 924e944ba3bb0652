# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules about documents and texts: each rule finds its seeded breaches and accepts the correct variant."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import style  # noqa: E402
import style_prose  # noqa: E402


def source(path, text):
    return style.Source(path, text)


def rules_of(breaches):
    return [breach.rule for breach in breaches]


class AuthorityTest(unittest.TestCase):
    BAD = ["// see DES" + "IGN section 2", "asked for by iss" + "ue 4", "Iss" + "ue #12", "see" + "d 004, table (a)",
           "as the specifi" + "cation says", "fac" + "ts/put-protocol.md"]
    GOOD = ["docs/design.md, section 2", "this issue has 4 parts", "seed 17 of the run", "a specification of a format",
            "artefacts/x"]

    def test_bad_references_are_caught_in_code_documents_and_scripts(self):
        for path in ("base/a.cc", "docs/a.md", "scripts/a.sh", "index/a.h"):
            for text in self.BAD:
                with self.subTest(path=path, text=text):
                    self.assertEqual(["authority"], rules_of(style_prose.check_authority(source(path, text))))

    def test_good_text_passes(self):
        for text in self.GOOD:
            with self.subTest(text=text):
                self.assertEqual([], rules_of(style_prose.check_authority(source("docs/a.md", text))))


class ReadmeTest(unittest.TestCase):
    def test_800_words_and_no_more(self):
        self.assertEqual([], rules_of(style_prose.check_readme(source("room/README.md", "word " * 800))))
        self.assertEqual(["readme"], rules_of(style_prose.check_readme(source("room/README.md", "word " * 801))))
        self.assertEqual([], rules_of(style_prose.check_readme(source("docs/a.md", "word " * 801))))


class ReflowTest(unittest.TestCase):
    LONG = "// " + "word " * 22 + "ends"

    def found(self, *lines):
        return rules_of(style_prose.check_source(source("base/a.h", "\n".join(lines) + "\n")))

    def test_the_middle_of_a_sentence_does_not_stand_alone(self):
        self.assertEqual(["reflow"], self.found(self.LONG, "//  is", "//    retired durably"))
        self.assertEqual(["reflow"], self.found(self.LONG, "//   and retired", "//   4. open segments"))

    def test_ends_and_headings_may_be_short(self):
        self.assertEqual([], self.found(self.LONG, "// is.", "// And more"))
        self.assertEqual([], self.found(self.LONG, "// is", "int x;"))
        self.assertEqual([], self.found(self.LONG, "// Not promised", "//  - a thing"))
        self.assertEqual([], self.found("// short", "//  is", "//    retired"))


class LabTest(unittest.TestCase):
    def test_pages_name_a_commit(self):
        for path, text, expected in (("docs/lab/a.md", "Measured on a fast machine.", ["lab"]),
                                     ("docs/lab/a.md", "1234567 records, defaced", ["lab"]),
                                     ("docs/lab/a.md", "Measured on 48dbd0a.", []),
                                     ("docs/lab/README.md", "All pages.", []), ("docs/a.md", "Not of a day.", [])):
            with self.subTest(path=path, text=text):
                self.assertEqual(expected, rules_of(style_prose.check_source(source(path, text))))


class ReferenceTest(unittest.TestCase):
    CODE = ("index/bnode.h", "class BnodeWord { int bnode; int claim_pending(); };  // only_in_comment\nint kLow;\n"
            "int claim(); int low_;\n")
    NAMES = ["index/bnode.h", "index/README.md", "docs/design.md", "docs/a.md", "docs/lab/old.md"]

    def check(self, path, text):
        design = source("docs/design.md", "# Design\n## 2. The `claim`\n")
        return list(style_prose.check_tree([source(*self.CODE), design, source(path, text)], self.NAMES))

    def test_what_is_not_there_is_caught(self):
        for text in ("`claim_old`", "`BnodeWords::find`", "`only_in_comment`", "`kHigh`", "`index/gone.h`", "`gone.h`",
                     "[x](gone.md)", "[x](design.md#2-the-claims)", "`bnode.h`, `gone.cc`"):
            with self.subTest(text=text):
                self.assertEqual(["reference"], rules_of(self.check("docs/a.md", text)))
        self.assertEqual(["reference"], rules_of(self.check("index/a.cc", "// see docs/gone.md, section 2")))

    def test_single_words_and_calls_are_looked_up_too(self):
        for text in ("`abandon`", "`abandon()`", "`abandon(put)`"):
            with self.subTest(text=text):
                self.assertEqual(["reference"], rules_of(self.check("docs/a.md", text)))

    def test_a_readme_speaks_of_its_own_room(self):
        fiber = source("base/fiber.h", "void abandon();")
        for path, expected in (("index/README.md", ["reference"]), ("base/README.md", []), ("docs/a.md", []),
                               ("README.md", [])):
            with self.subTest(path=path):
                text = source(path, "what ended by `abandon`")
                self.assertEqual(expected, rules_of(style_prose.check_tree([fiber, text], [path])))

    def test_what_is_there_passes(self):
        for text in ("`claim_pending`", "`BnodeWord`", "`kLow`", "`index/bnode.h`", "`bnode.h`", "[x](design.md)",
                     "[x](design.md#2-the-claim)", "[x](../index/)", "`NAME.cc`", "`Word`", "old_name unticked",
                     "`bnode`", "`claim`", "`low`"):
            with self.subTest(text=text):
                self.assertEqual([], self.check("docs/a.md", text))
        self.assertEqual([], self.check("index/a.cc", "// see docs/design.md, section 2"))

    def test_history_names_what_there_was(self):
        self.assertEqual([], self.check("docs/lab/old.md", "`gone_since` and `gone.h`"))


if __name__ == "__main__":
    unittest.main()
