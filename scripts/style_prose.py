# SPDX-License-Identifier: Apache-2.0
"""The rules of style.py about what people read: documents, comments, help and error texts.

  rule          applies to                       forbids
  authority     all source and prose             references to what is not in the tree: numbered issues, drafts
  reference     *.md but docs/lab; docs/*.md     files, links, anchors and identifiers in backticks that are not in the
                named in source                  tree (a room's README: single words in its own room);
                                                 NAMES_ALLOWED is the exception
  lab           docs/lab/*.md                    pages that do not name the commit which their figures came from
  reflow        comments of C++                  a line of a few words where a formatter broke a longer one
  readme        README.md                        more than 800 words: measurements go to docs/lab, the rest to headers
"""
import re
from collections import namedtuple

Breach = namedtuple("Breach", "path line rule message")
RULES = ["authority", "reference", "reflow", "readme", "lab"]

README_WORDS_MAX = 800


def is_history(source):
    """Pages that record one day's state: they name things of that day."""
    return source.path.parts[:2] == ("docs", "lab") or source.path.name == "CHANGELOG.md"


# ---- authority ----------------------------------------------------------------------------------------------------

AUTHORITY = [(re.compile(pattern), remedy) for pattern, remedy in (
    (r"\bDESIGN\b", "refer to docs/design.md and its section"),
    (r"\b[Ii]ssues? #?\d+", "issues are not in the tree: write what the reader needs, or refer to docs/design.md"),
    (r"\b[Ss]eeds? 0\d\d\b", "refer to the paper by its name (docs/design.md, section 7)"),
    (r"\b[Tt]he specifications?\b", "name the paper (docs/design.md, section 7), or call a target of our own a goal"),
    (r"\bfacts/\w", "this file is not in the tree"))]


def check_authority(source):
    if not source.is_source and source.path.suffix != ".md":
        return
    for line, text in enumerate(source.lines, 1):
        for pattern, remedy in AUTHORITY:
            if match := pattern.search(text):
                yield Breach(source.path, line, "authority", f"{match[0]}: {remedy}")


# ---- length -------------------------------------------------------------------------------------------------------

def check_readme(source):
    if source.path.name != "README.md":
        return
    words = len(source.text.split())
    if words > README_WORDS_MAX:
        yield Breach(source.path, 1, "readme",
                     f"{words} words; {README_WORDS_MAX} are allowed: see docs/lab and headers")


COMMIT = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,40}\b")


def check_lab(source):
    if source.path.parts[:2] == ("docs", "lab") and source.path.suffix == ".md" and source.path.name != "README.md":
        if not COMMIT.search(source.text):
            yield Breach(source.path, 1, "lab", "name the commit that the figures were measured on")


# ---- reflow wrecks ------------------------------------------------------------------------------------------------

COMMENT_LINE = re.compile(r"\s*//\s*(\S.*)$")
FULL_LINE = 100  # columns: the least length of a line that a formatter has broken


def check_reflow(source):
    """A long comment line, then one of at most three words in the middle of a sentence, then the rest of it."""
    if not source.is_cpp:
        return
    for line, (before, text, after) in enumerate(zip(source.lines, source.lines[1:], source.lines[2:]), 2):
        short = re.fullmatch(r"\s*//\s*[a-z]\S*( \S+){0,2}(?<![.:;,|])", text)
        next_words = COMMENT_LINE.match(after)
        if short and len(before) >= FULL_LINE and COMMENT_LINE.match(before) and next_words:
            if len(text) + 1 + len(next_words[1].split()[0]) < FULL_LINE:
                yield Breach(source.path, line, "reflow", f"broken by a formatter: {text.strip()}")


# ---- references ---------------------------------------------------------------------------------------------------

# Names that documents may use although they are not in the tree: examples, build outputs, future files.
NAMES_ALLOWED = {"foo.cc", "foo_test.cc", "replicas", "replicas_min", "software", "hardware", "debug",
                 "latency_us_read_p50", "bench_output_test", "bench_report_page_test", "_fuzz.cc",
                 "user6284781860667377211", "insertstart"}  # keys and fields of YCSB
FILE_NAME = re.compile(r"(?<![\w$/.{-])(?:[\w.-]+/)*[\w-]+\.(?:h|cc|cpp|py|sh|md|cmake|svg|yml)\b(?![\w/}])")
IDENTIFIER = re.compile(r"(?<![\w-])(?:[a-z]\w*_\w+|k[A-Z]\w+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z]+_[A-Z_]+)"
                        r"(?![\w-])")
# A single word in backticks, or a call of one: `word`, `word()`, `word(x)`.
BARE = re.compile(r"^([a-z]\w*)$|(?<![\w.>:-])([a-z]\w*)(?=\()")
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^()\s]+)\)")


def words_of(sources):
    """Every identifier of code, scripts and build files, without comments."""
    words = set()
    for source in sources:
        if source.path.suffix == ".md" or source.path.name.startswith("style_"):
            continue
        text = re.sub(r"//[^\n]*", "", source.text) if source.is_cpp else source.text
        words.update(re.findall(r"\w+", text))
    return words


def anchors_of(text):
    """The anchors of a document's headings, in GitHub's form."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading)).strip().lower().replace(" ", "-")
            for heading in headings}


def words_of_rooms(sources):
    """{top-level folder: words_of it, and the words of its files' names}."""
    rooms = {}
    for source in sources:
        rooms.setdefault(source.folder, []).append(source)
    return {room: words_of(files).union(*(re.findall(r"\w+", str(file.path)) for file in files))
            for room, files in rooms.items()}


class Tree:
    """The names that documents may use. `names` are the paths of all files of the tree."""

    def __init__(self, sources, names):
        self.words = words_of(sources) | NAMES_ALLOWED
        self.rooms = words_of_rooms(sources)
        self.names = set(names)
        self.base_names = {name.rsplit("/", 1)[-1] for name in names}
        self.folders = {"/".join(name.split("/")[:depth]) for name in names for depth in range(1, name.count("/") + 1)}
        self.documents = {str(source.path): source.text for source in sources if source.path.suffix == ".md"}

    def has_bare(self, word, source):
        """A room's README speaks of its room: the same word elsewhere is another thing."""
        words = self.words
        if source.path.name == "README.md" and source.folder not in ("", "docs"):
            seen = (source.folder, "include", "cmake", "scripts")
            words = NAMES_ALLOWED.union(*(self.rooms.get(folder, set()) for folder in seen))
        return word in words or f"{word}_" in words

    def has_file(self, name, folder):
        """Whether a document in `folder` may call a file by this name; NAME.cc is for the reader to fill in."""
        if name in NAMES_ALLOWED or name.startswith("build/") or re.match(r"[A-Z]+\.", name.rsplit("/", 1)[-1]):
            return True
        if "/" not in name:
            return name in self.base_names
        return name in self.names or resolve(folder, name) in self.names or any(
            known.endswith("/" + name) for known in self.names)


def resolve(folder, name):
    parts = [] if folder == "." else folder.split("/")
    for part in name.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def check_links(source, line, text, tree):
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = resolve(str(source.path.parent), file.rstrip("/")) if file else str(source.path)
        if path not in tree.names | tree.folders:
            yield Breach(source.path, line, "reference", f"the link {target} leads to nothing")
        elif anchor and anchor not in anchors_of(tree.documents.get(path, "")):
            yield Breach(source.path, line, "reference", f"{path} has no heading #{anchor}")


def check_names(source, line, text, tree):
    for span in SPAN.findall(text):
        files = FILE_NAME.findall(span)
        for name in files:
            if not tree.has_file(name, str(source.path.parent)):
                yield Breach(source.path, line, "reference", f"{name} is not in the tree")
        for name in files:
            span = span.replace(name, "")
        for name in IDENTIFIER.findall(span):
            if name not in tree.words:
                yield Breach(source.path, line, "reference", f"`{name}` is not in the tree: rename or remove it")
        for words in BARE.findall(span):
            name = next(filter(None, words))
            if not IDENTIFIER.fullmatch(name) and not tree.has_bare(name, source):
                yield Breach(source.path, line, "reference", f"`{name}` is not in the code here: rename or remove it")


def check_reference(source, tree):
    if source.path.suffix == ".md" and not is_history(source):
        for line, text in enumerate(source.lines, 1):
            yield from check_links(source, line, text, tree)
            yield from check_names(source, line, text, tree)
    elif source.is_source and not source.is_test:
        for line, text in enumerate(source.lines, 1):
            for name in re.findall(r"(?<![\w/.-])docs/[\w/-]+\.md\b", text):
                if name not in tree.names:
                    yield Breach(source.path, line, "reference", f"{name} is not in the tree")


def check_source(source):
    yield from check_authority(source)
    yield from check_readme(source)
    yield from check_lab(source)
    yield from check_reflow(source)


def check_tree(sources, names):
    tree = Tree(sources, names)
    for source in sources:
        yield from check_reference(source, tree)
