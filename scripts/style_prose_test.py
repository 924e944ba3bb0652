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


class WordsTest(unittest.TestCase):
    ARCHITECTURE = ("# Architecture\nIt tells a story.\n### Words that are not used\n\n| not used | say instead |\n"
                    "|---|---|\n"
                    "| tell, tells | report |\n| under way | in flight |\n"
                    "| level durable, level kDurable | mode durable |\n"
                    "| grow up, grown up | settle |\n| `aside` | reserve |\n")

    def found(self, path, text):
        architecture = source("ARCHITECTURE.md", self.ARCHITECTURE)
        breaches = style_prose.check_words([architecture, source(path, text)])
        return [breach.message.split(":")[0] for breach in breaches if str(breach.path) == path]

    def test_the_list_is_that_of_the_glossary(self):
        self.assertEqual({"tell": "report", "tells": "report", "under way": "in flight",
                          "level durable": "mode durable", "level kDurable": "mode durable",
                          "grow up": "settle", "grown up": "settle", "`aside`": "reserve"},
                         style_prose.words_not_used(self.ARCHITECTURE))
        breaches = list(style_prose.check_words([source("ARCHITECTURE.md", self.ARCHITECTURE)]))
        self.assertEqual([2], [breach.line for breach in breaches], "the list itself is exempt")

    def test_documents_comments_messages_and_scripts_are_searched(self):
        self.assertEqual(["tells", "under way"], self.found("room/a.md", "It tells what is under way."))
        self.assertEqual(["tells"], self.found("room/a.cc", "int x;  // tells the time"))
        self.assertEqual(["tell"], self.found("room/a.cc", 'return Status::IoError("cannot tell why");'))
        self.assertEqual(["tell"], self.found("room/a.h", "/* What the C\n   interface can tell. */"))
        self.assertEqual(["tell"], self.found("room/a.cc", 'auto help = R"(shows\nwhat to tell)";'))
        self.assertEqual(["tell"], self.found("room/a.sh", "# what to tell"))
        self.assertEqual(["tell"], self.found("room/CMakeLists.txt", "# what to tell"))
        self.assertEqual(["Tell".lower()], self.found("room/a.md", "Tell it."))

    def test_a_mode_in_backticks_or_by_its_constant_is_found(self):
        self.assertEqual(["level durable"], self.found("room/a.md", "at level `durable`, it"))
        self.assertEqual(["level kdurable"], self.found("room/a.h", "int x;  // waits at level kDurable"))
        self.assertEqual([], self.found("room/a.md", "`level durable`, levels durable"))

    def test_phrases_over_the_end_of_a_line_are_found(self):
        self.assertEqual(["under way"], self.found("room/a.md", "what is under\nway"))
        self.assertEqual(["under way"], self.found("room/a.h", "// what is under\n// way\n"))
        self.assertEqual([], self.found("room/a.h", "// what is under\nint x;\n// way\n"))

    def test_code_is_exempt(self):
        self.assertEqual([], self.found("room/a.md", "`tell()` retells, it does not teller; foretells"))
        self.assertEqual([], self.found("room/a.cc", 'tell(x); const char* key = "tells";'))
        self.assertEqual([], self.found("room/a_test.cc", 'EXPECT_TRUE(x) << "he could tell";'))

    def test_names_are_read_as_words(self):
        for name in ("grow_up", "has_grown_up_", "kGrowUpLate", "TEST(Bnode, TheyGrowUp)", "NVMGrownUp", "set_aside"):
            with self.subTest(name=name):
                self.assertEqual(1, len(self.found("index/a.h", f"int {name};")), name)
                self.assertEqual(1, len(self.found("bench/studies/maps/a_test.cc", f"int {name};")), name)
        self.assertEqual([], self.found("index/a.h", "int growup, regrow_up, grow_upper, grow;  // `grow_up()`"))
        self.assertEqual([], self.found("index/a.h", "int tell_all;"), "plain in a name")
        self.assertEqual([], self.found("docs/a.md", "what is set aside"), "`aside` is wrong in names alone")

    def test_a_name_is_found_on_each_of_its_lines(self):
        breaches = style_prose.check_words([source("ARCHITECTURE.md", self.ARCHITECTURE),
                                            source("index/a.cc", "int grow_up();\n\nvoid f() { grow_up(); }\n")])
        self.assertEqual([1, 3], [breach.line for breach in breaches if str(breach.path) == "index/a.cc"])


if __name__ == "__main__":
    unittest.main()
