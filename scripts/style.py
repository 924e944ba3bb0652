#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house style as a test. Prints each breach as `file:line: [rule] what to do`; the exit code is 0 without any.

Which rule applies where (tests = *_test.cc, *_fuzz.cc, testing.h and folders named testing):

  rule          applies to                       forbids
  format        all C and C++                    what clang-format-14 would change
  thread        rooms above base, not tests      std::thread, jthread, async, pthread_create: use base/thread.h
  thread_status rooms, programs, no tests        threads by the constructor of base::Thread: use Thread::start
  descriptor    rooms, not tests                 calls that make descriptors: use base/nvm/descriptor.h
  sleep         rooms above base, not tests      sleeping by other means than base/
  child         all C and C++                    starting another program: use base/child_process.h. Two helpers of
                                                 tests do what it does not (SPAWNERS)
  clock         rooms above base, not tests      reading a clock by other means than base/clock.h
  random        rooms above base, not tests      random numbers by other means than base/random.h
  narrow        persist, not tests               casts to narrower integers: use base/narrow.h
  nvm           all C and C++ but base/nvm       raw flushes, fences and non-temporal stores: use a medium
  seam          persist, index, store, no tests  bytes of a volume read where they are: issue a ReadBatch; what is
                                                 resident is read by a few files of persist (RESIDENT_READERS)
  target        persist, index, store, no tests  asking what kind a target is, or where: scale/target.h knows
  scratch       tests                            folders made by mkdtemp: use base/testing/temp_folder.h
  flags         all but the programs             gflags and glog
  layer         all C and C++                    includes against base <- rdma <- scale <- persist <- index <- store;
                                                 admin, examples and python see include/bonsai only, bench also
                                                 rdma, base and admin, bonsaid rdma, base, scale and admin, server
                                                 base and admin, admin/metrics base,
                                                 bench/studies/cluster scale, bench/studies/patched all rooms;
                                                 a wing of bench sees the wings below it (WINGS), and what is no study
                                                 sees no study; only tests see testing
  print         rooms and include, not tests     writing to stdout or stderr: report by Status or the log sink
  exception     rooms and include, not tests     throw
  experiment    rooms and include, not tests     the word, and bench: a study patches the store (bench/studies/patched)
  guard         *.h                              a header guard other than BONSAI_<PATH>_H_
  test_name     all C and C++                    names of test suites and cases other than CamelCase
  line          all source                       lines over 120 columns
  file          C and C++, Python, shell         files over 600 lines
  function      C and C++                        functions over 70 lines, but those in style-ratchet.txt, which shrink
  unfinished    all source                       notes to fix or do something later, and hacks
  dead_code     C and C++                        code kept as a comment (examples indented by 3 or more are welcome)
  dash          all source and prose             long dashes: write plain English
  path          all source                       absolute paths of somebody's machine
  spdx          all source but texts             a file that does not name its licence (style_spdx.py)
  test_ratio    rooms, programs                  fewer than 0.6 lines of test per line of product in one of them

Rules about documents, comments and texts are in style_prose.py.

Options: --junit FILE writes one test case per rule; --tighten rewrites style-ratchet.txt after functions shrank (it
never adds or raises an entry); --ratio prints the lines of test and product of each room; --spdx adds the lines that
name the licence.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import style_prose  # noqa: E402
import style_spdx  # noqa: E402
from style_prose import Breach  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATCHET = ROOT / "scripts" / "style-ratchet.txt"
ROOMS = ["base", "rdma", "scale", "persist", "index", "store"]
PROGRAMS = ["bench", "admin", "bonsaid", "server"]
# The wings of bench, lowest first. Its program and its tests' helpers (bench/testing) may include all of them but the
# studies.
WINGS = ["ycsb", "engines", "results", "driver", "report", "pages", "cli", "studies/maps", "studies/rivals",
         "studies/engines", "studies/published", "studies/claims", "studies/patched", "studies/cluster", "studies/melt",
         "studies/fabric", "studies/experiments", "studies/commands"]
SHARED_BY_TESTS = ("base/testing/", "base/check.h", "base/child_process.h", "testing/")
# What starts programs. The second sets limits between fork and exec, the third talks over a socket pair.
SPAWNERS = ["base/child_process.cc", "testing/hostile_programs_test.cc", "rdma/testing/channel.cc"]
LINE_COLUMNS_MAX, FILE_LINES_MAX, FUNCTION_LINES_MAX, TEST_RATIO_MIN = 120, 600, 70, 0.6
# The files that read superblocks, tables and headers, which are resident.
RESIDENT_READERS = ["persist/words.h", "persist/pool.cc", "persist/dnode_store.cc", "persist/recovery.cc"]
CPP = {".h", ".cc", ".cpp", ".c"}
SOURCE = CPP | {".py", ".sh", ".cmake", ".txt", ".in"}
RULES = ["format", "thread", "thread_status", "descriptor", "sleep", "child", "clock", "random", "narrow", "nvm",
         "seam", "target", "far", "scratch", "flags", "layer", "print", "exception", "experiment", "guard", "test_name",
         "line", "file", "function", "unfinished", "dead_code", "dash", "path", "test_ratio", *style_prose.RULES,
         *style_spdx.RULES]


class Source:
    """One file: its text, the text without comments and literals, and its place in the tree."""

    def __init__(self, path, text):
        self.path = pathlib.PurePosixPath(path)
        self.text = text
        self.lines = text.splitlines()
        self.folder = self.path.parts[0] if len(self.path.parts) > 1 else ""
        self.is_cpp = self.path.suffix in CPP
        self.is_source = self.path.suffix in SOURCE or self.path.name == "run"
        self.is_test = "testing" in self.path.with_suffix("").parts or bool(re.search(r"_(test|fuzz)$", self.path.stem))
        self.code, self.comments = split_comments(text) if self.is_cpp else (text, [])


TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                   r"(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def split_comments(text):
    """Returns the code with comments and literals blanked (same lines, #include names kept), and the // comments."""
    comments = []

    def blank(match):
        token = match[0]
        if token.startswith("//"):
            comments.append((text.count("\n", 0, match.start()) + 1, token[2:]))
        elif token.startswith('"'):
            line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
            return token if line.lstrip().startswith("#include") else '""'
        return re.sub(r"[^\n]", " ", token)

    return TOKEN.sub(blank, text), comments


# ---- rules that are a pattern in the code -------------------------------------------------------------------------

def above_base(source):
    return source.folder in ROOMS[1:] and not source.is_test


def library(source):
    return source.folder in ROOMS + ["include"] and not source.is_test and str(source.path) != "base/check.h"


Banned = namedtuple("Banned", "rule applies pattern remedy")
ASK_THE_TARGET = "only scale knows what kind a target is: ask a scale::Target"
BANNED = [
    Banned("thread", above_base,
           r"std::(jthread|async|thread)\b|\bpthread_create\b|#include <thread>", "use base/thread.h"),
    Banned("thread_status", lambda source: source.folder in ROOMS + PROGRAMS and not source.is_test and
           source.path.stem != "thread", r'\bThread(\s+\w+)?[({]""|[tT]hreads?_?\.emplace_back\(""',
           "the system may refuse a thread: use Thread::start() and return its status"),
    Banned("descriptor", lambda source: library(source) and str(source.path) != "base/nvm/descriptor.cc",
           r"(?<!\w)::(open(at)?|creat|accept|dup[23]?|pipe|socket|flock)\s*\(|"
           r"\b(socketpair|accept4|memfd_create|eventfd|epoll_create1?|pipe2|mko?stemp|tmpfile|f(d|re)?open|"
           r"f?d?opendir|recvmm?sg|signalfd|timerfd_create|inotify_init1?|shm_open|userfaultfd|pidfd_open)\s*\(|"
           r"\bF_DUPFD|\bstd::[io]?fstream\b|directory_iterator",
           "it may become what a host prints to, and children keep it: use base/nvm/descriptor.h"),
    Banned("sleep", above_base,
           r"\bstd::this_thread::\w+|\b(u|nano|clock_nano)?sleep\s*\(|\bsched_yield\s*\(|_mm_pause\b",
           "wait through base/"),
    Banned("child", lambda source: str(source.path) not in SPAWNERS, r"\bposix_spawnp?\s*\(|\bexec(l[ep]?|vp?e?)\s*\(",
           "use base::ChildProcess (base/child_process.h)"),
    Banned("clock", above_base, r"\b(steady|system|high_resolution)_clock\b|\bclock_gettime\b|\bgettimeofday\b|"
           r"\btime\s*\(\s*(nullptr|NULL|0)\s*\)|rdtsc", "use base/clock.h"),
    Banned("random", above_base, r"\bstd::(random_device|mt19937(_64)?|default_random_engine|minstd_rand)\b|"
           r"\bs?rand(om|48)?\s*\(|\bgetrandom\b|#include <random>", "use base/random.h"),
    Banned("narrow", lambda source: source.folder == "persist" and not source.is_test,
           r"static_cast<(std::)?(u?int(8|16|32)_t|unsigned short|short|int)>",
           "use checked_narrow or low_bits (base/narrow.h): what is written here is believed for years"),
    Banned("nvm", lambda source: not str(source.path).startswith("base/nvm/"),
           r"\bpmem2?_\w+\s*\(|_mm_(clwb|clflush\w*|stream\w*|sfence)\b|"
           r"__builtin_ia32_(clwb|clflush\w*|sfence|movnt\w*)\b|\bmsync\s*\(|libpmem",
           "write persistent memory through a medium (base/nvm/medium.h)"),
    Banned("seam", lambda source: source.folder in ["persist", "index", "store"] and not source.is_test and
           str(source.path) not in RESIDENT_READERS, r"(\.|->)(resident|view|local)\s*\(",
           "bytes may be on another node: issue a ReadBatch (scale/read_batch.h), wait, look at the answer"),
    Banned("target", lambda source: source.folder in ["persist", "index", "store"] and not source.is_test,
           r"\bis_remote\b|\b(Local|Remote)(Target|Medium|Links?)\b|\bMapping::|(\.|->)scheme\b|"
           r'#include "scale/(local|remote)_', ASK_THE_TARGET),
    Banned("far", lambda source: source.folder in ["index", "store"] and not source.is_test, r"\bhas_far\b",
           "read runs through persist/run_reader.h, which knows where their bytes are"),
    Banned("scratch", lambda source: source.is_test and source.path.suffix != ".c" and
           str(source.path) != "base/testing/temp_folder.h",
           r"\bmkdtemp\s*\(", "use testing::TempFolder (base/testing/temp_folder.h)"),
    Banned("flags", lambda source: source.folder not in PROGRAMS, r"#include <(gflags|glog)/",
           "gflags and glog belong to the programs: a host program has its own"),
    Banned("print", library,
           r"\b(std::)?(printf|puts|putchar|perror|v?fprintf)\s*\(|\bstd::(cout|cerr|clog)\b",
           "a library does not print: return a Status or use the log sink"),
    # base/memory.cc stands for operator new.
    Banned("exception", lambda source: library(source) and str(source.path) != "base/memory.cc",
           r"\bthrow\b(?!\s*\()", "no exceptions in product code: return a Status"),
]


# A name of a remote target has "://" in it, and literals are not in `Source.code`.
def check_target_names(source):
    if not source.is_cpp or source.folder not in ["persist", "index", "store"] or source.is_test:
        return
    for match in TOKEN.finditer(source.text):
        if match[0].startswith('"') and "://" in match[0]:
            yield Breach(source.path, source.text.count("\n", 0, match.start()) + 1, "target",
                         f"{match[0]}: {ASK_THE_TARGET}")


def check_banned(source):
    for banned in BANNED:
        if source.is_cpp and banned.applies(source):
            for match in re.finditer(banned.pattern, source.code):
                line = source.code.count("\n", 0, match.start()) + 1
                yield Breach(source.path, line, banned.rule, f"{match[0].strip()}: {banned.remedy}")


# ---- rules about one file -----------------------------------------------------------------------------------------

def wing_of(path):
    """The wing of a file of bench, such as "cli" or "studies/maps"; some other word for what is in no wing."""
    parts = path.split("/")[1:-1]
    return "/".join(parts[:2 if parts[:1] == ["studies"] else 1])


def visible_folders(source):
    if source.folder == "include":
        return {"bonsai"}
    if source.folder in ROOMS:
        return {"bonsai", *ROOMS[:ROOMS.index(source.folder) + 1]}
    if source.folder == "bench":
        fabric = {"rdma"} if source.path.parts[1] == "studies" else set()
        rooms = {"cluster": {"scale"}, "patched": ROOMS}.get(wing_of(str(source.path)).removeprefix("studies/"), {})
        return {"bonsai", "bench", "admin", "base", *fabric, *rooms}
    if source.folder == "bonsaid":
        return {"bonsai", "bonsaid", "admin", "scale", "rdma", "base"}
    if source.folder == "server":
        return {"bonsai", "server", "admin", "base"}
    if str(source.path).startswith("admin/metrics/"):
        return {"bonsai", "admin", "base"}
    if source.folder in ("admin", "examples", "cmake", "python"):
        return {"bonsai", source.folder}
    return None


def check_wings(source):
    if not source.is_cpp or source.folder != "bench":
        return
    mine = wing_of(str(source.path))
    for line, text in enumerate(source.code.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*"(bench/[^"]+)"', text)
        theirs = wing_of(match[1]) if match is not None else None
        of_studies = match is not None and match[1].startswith("bench/studies/")
        if (mine in WINGS and theirs in WINGS[WINGS.index(mine) + 1:] or
                of_studies and not str(source.path).startswith("bench/studies/")):
            yield Breach(source.path, line, "layer", f"{source.path.parent}/ may not include {match[1]}")


def check_layer(source):
    yield from check_wings(source)
    visible = visible_folders(source)
    if not source.is_cpp or visible is None:
        return
    for line, text in enumerate(source.code.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', text)
        if match is None:
            continue
        folder = match[1].split("/")[0]
        if match[1].startswith("../") or folder in {"bonsai", "testing", *ROOMS, *PROGRAMS} - visible:
            shared = source.is_test and match[1].startswith(SHARED_BY_TESTS)
            if not shared:
                yield Breach(source.path, line, "layer", f"{source.folder}/ may not include {match[1]}")


def check_experiments(source):
    of_product = not source.is_test or str(source.path) == "include/bonsai/testing.h"
    if not source.is_cpp or source.folder not in ROOMS + ["include"] or not of_product:
        return
    for line, text in enumerate(source.lines, 1):
        match = re.search(r"\bexperiment\w*|\bbench(::|/)", text, re.IGNORECASE)
        if match is not None:
            yield Breach(source.path, line, "experiment",
                         f"{match[0]}: the product knows no experiment; patch the store in bench/studies/patched")


def check_guard(source):
    if source.path.suffix != ".h":
        return
    parts = source.path.parts[2:] if source.path.parts[:2] == ("include", "bonsai") else source.path.parts
    guard = "BONSAI_" + re.sub(r"[^A-Z0-9]", "_", "/".join(parts).upper()) + "_"
    if f"#ifndef {guard}\n#define {guard}\n" not in source.text:
        yield Breach(source.path, 1, "guard", f"the header guard must be {guard}")


TEST_CASE = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(?:DISABLED_)?(\w+)\s*\)")


def check_test_names(source):
    if not source.is_cpp:
        return
    for match in TEST_CASE.finditer(source.code):
        for name in match.groups():
            if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
                line = source.code.count("\n", 0, match.start()) + 1
                yield Breach(source.path, line, "test_name", f"{name}: test suites and cases are CamelCase")


def check_lines(source):
    if not source.is_source and source.path.suffix != ".md":
        return
    for line, text in enumerate(source.lines, 1):
        if re.search("[\u2012-\u2015]", text):
            yield Breach(source.path, line, "dash", "a long dash: use a comma, a colon or two sentences")
        if not source.is_source:
            continue
        if len(text) > LINE_COLUMNS_MAX and "http" not in text:
            yield Breach(source.path, line, "line", f"{len(text)} columns; {LINE_COLUMNS_MAX} are allowed")
        if re.search(r"\b(FIX" r"ME|TO" r"DO|XX" r"X|HA" r"CK)\b", text):
            yield Breach(source.path, line, "unfinished", "finish it, or file an issue")
        if re.search(r"(?<![\w.$}])/(root|home|work|Users)/\w", text):
            yield Breach(source.path, line, "path", "a path of one machine")
    count = len(source.lines) - any(style_spdx.LICENCE in text for text in source.lines[:2])
    if count > FILE_LINES_MAX and source.path.suffix in CPP | {".py", ".sh"}:
        yield Breach(source.path, FILE_LINES_MAX, "file", f"{count} lines; split it at {FILE_LINES_MAX}")


DEAD_CODE = [re.compile(pattern) for pattern in (
    r"[\w:<>,*&\[\]().\->]*\w\([^;]*\);$",                        # a call
    r"(const |auto |static |constexpr )*[\w:<>,*&\[\].\->]+( [\w*&\[\]]+)? [-+|&^]?= [^;]+;$",
    r"(if|for|while|switch) ?\(.*\) ?\{?$", r"return\b[^;]*;$", r"\} ?(else.*)?\{?;?$",
    r"#(include|define|if|endif)\b.*$")]


def check_dead_code(source):
    for line, comment in source.comments:
        if comment.startswith("   "):
            continue
        text = comment.strip()
        if any(pattern.match(text) for pattern in DEAD_CODE):
            yield Breach(source.path, line, "dead_code", f"code kept as a comment: {text[:60]}")


# ---- functions ----------------------------------------------------------------------------------------------------

def drop_preprocessor(code):
    """Blanks directives and all but the first branch of each conditional, so that braces balance."""
    kept, branches, continued = [], [], False
    for line in code.splitlines():
        directive = re.match(r"\s*#\s*(\w+)", line) if not continued else None
        if directive or continued:
            word = directive[1] if directive else ""
            if word.startswith("if"):
                branches.append(False)
            elif word in ("else", "elif") and branches:
                branches[-1] = True
            elif word == "endif" and branches:
                branches.pop()
            continued = line.endswith("\\")
            kept.append("")
        else:
            kept.append("" if any(branches) else line)
    return "\n".join(kept)


NO_FUNCTION = {"if", "for", "while", "switch", "catch", "decltype", "alignas", "requires", "return", "sizeof",
               "noexcept", "__attribute__", "defined"}
SCOPE = re.compile(r"(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b", re.DOTALL)


def function_name(header):
    """The name when `header` (the text before a brace) declares a function, else None."""
    if SCOPE.match(header) and not re.search(r"\)\s*(const|noexcept|override|final|->.*)?\s*$", header):
        return None
    match = re.search(r"(operator\s*[^\s\w(]+|operator\s*\(\)|[~\w][\w:~]*)\s*\(", header)
    if match is None or match[1] in NO_FUNCTION or "=" in header[:match.start()].replace("operator", ""):
        return None
    if re.fullmatch(r"TEST(_[FP])?|TYPED_TEST|RC_GTEST_PROP", match[1]):
        return re.sub(r"\s*,\s*", ".", header[match.end():].rstrip().rstrip(")"))
    return match[1]


def find_functions(code):
    """Yields (name, first line, lines) of each function outside other functions: a heuristic over braces."""
    code = drop_preprocessor(code)
    start, parentheses, depth_inside, name, begin, index = 0, 0, 0, None, 0, -1
    for index, char in enumerate(code):
        if name is not None:
            depth_inside += (char == "{") - (char == "}")
            if depth_inside == 0:
                first = code.count("\n", 0, begin) + 1
                yield name, first, code.count("\n", 0, index) + 2 - first
                name, start = None, index + 1
        elif char in "()":
            parentheses += 1 if char == "(" else -1
        elif char in ";}" and parentheses <= 0:
            start = index + 1
        elif char == "{" and parentheses <= 0:
            header = code[start:index]
            begin = start + len(header) - len(header.lstrip())
            header = re.sub(r"^((public|private|protected)\s*:\s*)+", "", header.strip())
            in_initializers = re.search(r"\)\s*(noexcept\s*)?:\s", header) and re.search(r"[\w>]\s*$", header)
            if in_initializers:
                parentheses += 1000  # a braced member initializer: skip to its end
                continue
            name = function_name(header)
            depth_inside = 1
            start = start if name else index + 1
        if parentheses >= 1000 and char == "}":
            parentheses -= 1000


def check_functions(source, ratchet):
    if not source.is_cpp:
        return
    for name, line, lines in find_functions(source.code):
        allowed = max(FUNCTION_LINES_MAX, ratchet.get((str(source.path), name), 0))
        if lines > allowed:
            yield Breach(source.path, line, "function", f"{name} has {lines} lines; {allowed} are allowed")


def read_ratchet():
    entries = {}
    if RATCHET.exists():
        for line in RATCHET.read_text().splitlines():
            if line and not line.startswith("#"):
                path, name, lines = line.split()
                entries[path, name] = int(lines)
    return entries


def longest_functions(sources, ratchet):
    longest = {}
    for source in sources:
        if source.is_cpp and any(path == str(source.path) for path, _ in ratchet):
            for name, _, lines in find_functions(source.code):
                longest[str(source.path), name] = max(lines, longest.get((str(source.path), name), 0))
    return longest


def check_ratchet(sources, ratchet):
    """Reports entries that are larger than their function, which would let it grow again."""
    longest = longest_functions(sources, ratchet)
    for (path, name), lines in ratchet.items():
        if longest.get((path, name), 0) < lines:
            yield Breach(path, 1, "function", f"{name} shrank: run scripts/style.py --tighten")


def tighten(sources, ratchet):
    longest = longest_functions(sources, ratchet)
    text = "# Functions over 70 lines that are older than the rule: file, function, lines. They may only shrink.\n"
    for key, lines in sorted(ratchet.items()):
        lines = min(lines, longest.get(key, 0))
        if lines > FUNCTION_LINES_MAX:
            text += f"{key[0]} {key[1]} {lines}\n"
    RATCHET.write_text(text)


# ---- rules about the tree -----------------------------------------------------------------------------------------

def count_lines(sources):
    """Non-blank lines per room: {room: [product, test]}."""
    counts = {}
    for source in sources:
        counted = source.is_cpp or source.path.suffix == ".py"
        if counted and source.folder in ROOMS + PROGRAMS + ["include", "testing"]:
            room = counts.setdefault("store" if source.folder in ("include", "testing") else source.folder, [0, 0])
            room[source.is_test] += sum(1 for line in source.lines if line.strip())
    return counts


def check_test_ratio(sources):
    for room, (product, test) in sorted(count_lines(sources).items()):
        if test < TEST_RATIO_MIN * product:
            yield Breach(room, 1, "test_ratio", f"{test} lines of test for {product} of product: "
                         f"{test / product:.2f}, needs {TEST_RATIO_MIN} (scripts/style.py --ratio)")


def check_format(sources):
    """Returns the breaches, or None when clang-format-14 is not installed."""
    if shutil.which("clang-format-14") is None:
        return None
    paths = [str(source.path) for source in sources if source.is_cpp]

    def run(part):
        return subprocess.run(["clang-format-14", "--dry-run", *part], cwd=ROOT, capture_output=True, text=True).stderr

    with ThreadPoolExecutor(4) as pool:
        output = "".join(pool.map(run, [paths[i:i + 16] for i in range(0, len(paths), 16)]))
    found = dict(reversed(re.findall(r"^([^\s:]+):(\d+):\d+: ", output, re.MULTILINE)))  # the first of each file
    return [Breach(path, line, "format", f"run: clang-format-14 -i {path}") for path, line in found.items()]


def check_source(source, ratchet):
    yield from check_banned(source)
    yield from check_target_names(source)
    yield from check_layer(source)
    yield from check_experiments(source)
    yield from check_guard(source)
    yield from check_test_names(source)
    yield from check_lines(source)
    yield from check_dead_code(source)
    yield from check_functions(source, ratchet)
    yield from style_prose.check_source(source)


def files_that_git_knows():
    """Tracked files and new ones that are not ignored; empty without git or outside a checkout."""
    if shutil.which("git") is None:
        return []
    return subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                          capture_output=True, text=True).stdout.split("\n")[:-1]


def names_of_files():
    names = files_that_git_knows()
    if not names:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
                 if path.relative_to(ROOT).parts[0] not in (".git", "build", "results")]
    return sorted(name for name in set(names) if (ROOT / name).is_file())


def read_tree(names):
    sources = []
    for name in names:
        path = ROOT / name
        if path.suffix in SOURCE | {".md"} or path.name == "run":
            sources.append(Source(name, path.read_text(errors="replace")))
    return sources


def write_junit(path, breaches, skipped):
    suite = ElementTree.Element("testsuite", name="style", tests=str(len(RULES)))
    for rule in RULES:
        case = ElementTree.SubElement(suite, "testcase", name=rule, classname="style")
        found = [breach for breach in breaches if breach.rule == rule]
        if found:
            failure = ElementTree.SubElement(case, "failure", message=f"{len(found)} breaches")
            failure.text = "\n".join(map(show, found))
        elif rule in skipped:
            ElementTree.SubElement(case, "skipped")
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="unicode")


def show(breach):
    return f"{breach.path}:{breach.line}: [{breach.rule}] {breach.message}"


def print_ratio(sources):
    for room, (product, test) in sorted(count_lines(sources).items()):
        print(f"{room:<10}{product:>8} product{test:>8} test{test / max(product, 1):>8.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--junit", type=pathlib.Path)
    parser.add_argument("--tighten", action="store_true")
    parser.add_argument("--ratio", action="store_true")
    parser.add_argument("--spdx", action="store_true")
    arguments = parser.parse_args()
    names, ratchet = names_of_files(), read_ratchet()
    sources = read_tree(names)
    if arguments.tighten:
        tighten(sources, ratchet)
        return 0
    if arguments.ratio:
        print_ratio(sources)
        return 0
    if arguments.spdx:
        print(f"style: {style_spdx.add_lines(ROOT, sources)} lines added")
        return 0
    breaches = [breach for source in sources for breach in check_source(source, ratchet)]
    breaches += [*check_ratchet(sources, ratchet), *check_test_ratio(sources), *style_prose.check_tree(sources, names),
                 *style_spdx.check_tree(sources)]
    format_breaches = check_format(sources)
    breaches += format_breaches or []
    for breach in breaches:
        print(show(breach))
    if arguments.junit:
        skipped = {"format"} if format_breaches is None else set()
        skipped |= set() if style_spdx.is_in_force(sources) else {"spdx"}
        write_junit(arguments.junit, breaches, skipped)
    skipped = "" if format_breaches is not None else ", format not checked: clang-format-14 is not installed"
    print(f"style: {len(sources)} files, {len(breaches)} breaches{skipped}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
