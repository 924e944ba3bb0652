# SPDX-License-Identifier: Apache-2.0
"""Tests of the style test: every rule finds its seeded breaches (a rule that cannot fail is no rule) and accepts the
correct variant."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import style  # noqa: E402

LONG_BODY = "  f();\n" * 75
LONG_DASH = "\u2014"

# rule: (path, text) that must be caught
BAD = {
    "thread": [("index/a.cc", "std::thread worker(run);"), ("persist/a.cc", "pthread_create(&t, nullptr, f, nullptr);"),
               ("store/a.cc", "auto f = std::async(run);")],
    "thread_status": [("scale/a.cc", 'thread_ = base::Thread("x", run);'), ("bench/a.cc", 'Thread t("x", run);'),
                      ("store/a.cc", 'threads_.emplace_back("x", run);')],
    "descriptor": [("base/nvm/a.cc", "const int fd = ::open(path, O_RDONLY);"), ("rdma/a.cc", "OsFile(eventfd(0, 0))"),
                   ("scale/a.cc", "std::ifstream in(path);"), ("rdma/a.cc", "::accept4(fd, nullptr, nullptr, 0);"),
                   ("store/a.cc", "std::fopen(path, \"r\");"), ("base/a.cc", "::flock(fd, LOCK_EX);"),
                   ("rdma/a.cc", "recvmsg(fd, &header, 0);"),
                   ("store/a.cc", "for (std::filesystem::directory_iterator it(path), end;;) {}")],
    "sleep": [("scale/a.cc", "std::this_thread::sleep_for(pause);"), ("index/a.cc", "usleep(10);"),
              ("rdma/a.h", "nanosleep(&t, nullptr);"), ("index/a.cc", "_mm_pause();")],
    "child": [("admin/testing/a.cc", "::execv(words[0], words);"), ("bench/a_test.cc", "execlp(\"sh\", 0);"),
              ("base/a.cc", "::posix_spawnp(&pid, name, 0, 0, words, environ);")],
    "clock": [("index/a.cc", "auto t = std::chrono::steady_clock::now();"), ("persist/a.cc", "time(nullptr);"),
              ("store/a.cc", "clock_gettime(CLOCK_MONOTONIC, &t);"), ("index/a.cc", "__rdtsc();")],
    "random": [("index/a.cc", "int x = rand();"), ("store/a.cc", "std::random_device entropy;"),
               ("persist/a.cc", "std::mt19937_64 random(1);")],
    "nvm": [("persist/a.cc", "pmem_persist(p, 8);"), ("index/a_test.cc", "_mm_clwb(p);"),
            ("base/a.cc", "_mm_sfence();"),
            ("store/a.cc", "_mm_stream_si64(p, 1);"), ("persist/a.cc", "#include <libpmem.h>"),
            ("bench/a.cc", "msync(p, n, MS_SYNC);")],
    "seam": [("persist/dnode.cc", "std::memcpy(&x, volume.resident(addr), 8);"),
             ("index/a.cc", "const auto* at = medium->view() + 8;"), ("store/a.h", "volume_->local(addr);")],
    "target": [("store/a.cc", "if (name.is_remote()) return;"), ("store/a.h", '#include "scale/remote_links.h"'),
               ("persist/a.cc", "base::Mapping::open(path, options, &mapping);"),
               ("store/a.cc", 'if (path.find("://") != std::string::npos) return;'),
               ("index/a.cc", "scale::RemoteLinks links;"),
               ("store/a.cc", "return name.scheme.empty();")],
    "far": [("index/read.cc", "if (volume_.has_far()) return;"), ("store/a.h", "return volume->has_far();")],
    "scratch": [("store/a_test.cc", "::mkdtemp(name.data());"), ("rdma/testing/a.cc", "mkdtemp(x);")],
    "flags": [("store/a.cc", "#include <glog/logging.h>"), ("base/a_test.cc", "#include <gflags/gflags.h>")],
    "layer": [("base/a.h", '#include "scale/volume.h"'), ("persist/a.cc", '#include "index/tree.h"'),
              ("index/a_test.cc", '#include "store/db.h"'), ("include/bonsai/a.h", '#include "base/check.h"'),
              ("admin/a.cc", '#include "persist/log.h"'), ("examples/a.cc", '#include "base/check.h"'),
              ("bench/a.cc", '#include "store/db_impl.h"'),
              ("bench/a.cc", '#include "rdma/fabric.h"'), ("store/a.cc", '#include "../base/check.h"'),
              ("rdma/a.cc", '#include "bench/driver/driver.h"'), ("store/a.cc", '#include "testing/history.h"'),
              ("admin/a.cc", '#include "testing/sim/life.h"'),
              ("bench/engines/a.cc", '#include "bench/results/results.h"'),
              ("bench/studies/maps/a.cc", '#include "bench/studies/rivals/race.h"'),
              ("bench/cli/a_test.cc", '#include "bench/studies/testing/experiment.h"'),
              ("bench/main.cc", '#include "bench/studies/commands/requests.h"'),
              ("bench/studies/rivals/a.cc", '#include "scale/volume.h"')],
    "narrow": [("persist/a.cc", "desc.count = static_cast<uint32_t>(entries.size());"),
               ("persist/a.h", "return static_cast<std::uint16_t>(n);")],
    "print": [("persist/a.cc", 'printf("x");'), ("index/a.cc", "std::cerr << 1;"),
              ("base/a.cc", "fprintf(stderr, s);")],
    "exception": [("index/a.cc", "throw std::bad_alloc();"), ("include/bonsai/a.h", "throw 1;")],
    "experiment": [("index/a.h", "// One experiment: no log."), ("include/bonsai/testing.h", "// Experiments only."),
                   ("store/a.cc", "size_t done = bench::patched::put_in_place(*tiers_, puts);")],
    "guard": [("base/nvm/a.h", "#ifndef BONSAI_NVM_A_H_\n#define BONSAI_NVM_A_H_\n"),
              ("include/bonsai/a.h", "#pragma once\n")],
    "test_name": [("base/a_test.cc", "TEST(Event, wakes_a_thread) {}"), ("store/a_test.cc", "TEST_F(golden, Case) {}"),
                  ("rdma/a_test.cc", "TEST_P(Fabric,\n       Reads_all) {}"),
                  ("store/a_test.cc", "TYPED_TEST(List, DISABLED_makesIt) {}")],
    "line": [("base/a.cc", "x" * 121), ("scripts/a.py", "#" * 121)],
    "file": [("base/a.cc", "int x;\n" * 601)],
    "function": [("base/a.cc", "namespace a {\nint f(int x) {\n" + LONG_BODY + "}\n}\n"),
                 ("base/a.cc", "struct S {\n  S() : a_{1}, b_(2) {\n" + LONG_BODY + "  }\n};\n"),
                 ("base/a_test.cc", "TEST(Suite, Case) {\n" + LONG_BODY + "}\n"),
                 ("base/a.cc",
                  "void g() {\n#ifdef A\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n" + LONG_BODY + "}\n")],
    "unfinished": [("base/a.cc", "// TO" + "DO: later"), ("scripts/a.sh", "# FIX" + "ME")],
    "dead_code": [("index/a.cc", "// node->next.store(head);"), ("index/a.cc", "//  int x = f(1);"),
                  ("index/a.cc", "// if (x == 0) {"), ("index/a.cc", "// return x;"), ("index/a.cc", "// }"),
                  ("index/a.cc", "//#include <x.h>")],
    "dash": [("docs/a.md", f"fast {LONG_DASH} and safe"), ("base/a.h", f"// fast {LONG_DASH} safe")],
    "path": [("scripts/a.sh", "cd /root" + "/checkout"), ("base/a_test.cc", 'open("/home' + '/me/pool");')],
}

GOOD = [
    ("base/thread.cc", "std::thread worker(run);"),
    ("index/a_test.cc", "// An experiment."), ("bench/studies/patched/a.cc", "// The experiment bench::run()."),
    ("base/nvm/descriptor.cc", "return ::open(path, flags);"), ("base/child_process.cc", "::posix_spawnp(&pid);"),
    ("store/a_test.cc", "ChildProcess::start(words, streams, &child); execute(command);"),
    ("scale/a.cc", "Mapping::open(path); link->open(name); file.try_lock(true); base::Thread::start(name, run, &t);"),
    ("store/a_test.cc", 'base::Thread t("x", run); std::ifstream in(path); ::open(path, 0);'),
    ("bench/studies/fabric/run.cc", "::mkdtemp(x);"), ("store/a_test.c", "mkdtemp(x);"),
    ("index/a_test.cc", "std::thread worker(run); std::mt19937_64 random(seed);"),
    ("testing/a.cc", "std::this_thread::sleep_for(pause); printf(\"x\");"),
    ("index/a.cc", "// waits as std::this_thread::yield() would, then rand() decides what runs"),
    ("index/a.cc", 'const char* text = "std::thread and printf(";'),
    ("index/a.cc", "operand(1); std::snprintf(text, 3, format);"),
    ("persist/a.cc", "desc.count = base::checked_narrow<uint32_t>(n); x = static_cast<uint64_t>(y);"),
    ("persist/a_test.cc", "const auto n = static_cast<uint32_t>(m);"),
    ("base/nvm/a.cc", "pmem_flush(p, 8); _mm_sfence();"),
    ("store/a.cc", '// as "shm://node/pool"\nfor (const auto& target : targets) target->open(0); node->link();'),
    ("store/a_test.cc", 'open("shm://node/pool"); Mapping::open(path);'), ("scale/a.cc", "name.is_remote();"),
    ("persist/pool.cc", "volume.resident(at);"), ("persist/a_test.cc", "medium.view();"),
    ("persist/a.cc", "reads.issue(at, 8); RunView view(at);"),
    ("bench/a.cc", "#include <gflags/gflags.h>\n#include \"base/clock.h\"\n"),
    ("bench/studies/rivals/a.cc", '#include "rdma/fabric.h"'),
    ("store/a.cc", '#include "index/tree.h"\n#include "bonsai/db.h"\n#include <vector>\n'),
    ("bench/a_test.cc", '#include "base/testing/budget.h"\n'), ("store/a_test.cc", '#include "testing/history.h"\n'),
    ("bench/pages/a.cc", '#include "bench/ycsb/keys.h"\n#include "bench/testing/run.h"\n'),
    ("bench/studies/cluster/a.cc", '#include "scale/volume.h"\n#include "bench/studies/rivals/race.h"\n'),
    ("bench/studies/testing/a.cc", '#include "bench/studies/experiments/experiment.h"\n'),
    ("include/bonsai/a.h", "#ifndef BONSAI_A_H_\n#define BONSAI_A_H_\n"),
    ("base/nvm/a.h", "// What it is.\n#ifndef BONSAI_BASE_NVM_A_H_\n#define BONSAI_BASE_NVM_A_H_\n"),
    ("base/a_test.cc", "TEST(Event, DISABLED_WakesAThread2) {}\n// TEST(Event, in_a_comment)\n"),
    ("base/a.cc", "int f() {\n" + "  g();\n" * 60 + "}\nint h() {\n" + "  g();\n" * 60 + "}\n"),
    ("base/a.cc", "class Long {\n" + "  void g();\n" * 75 + "};\n"),
    ("base/a.cc", "const int table[] = {\n" + "  1,\n" * 75 + "};\n"),
    ("base/a.cc", "int x = 10'000; int f() { return '{'; }\nint g() {\n}\n" + "int h();\n" * 75),
    ("index/a.cc", "// The reader helps; the writer waits.\n// See log.append (persist/log.h); it fences.\n"),
    ("index/a.h",
     "#ifndef BONSAI_INDEX_A_H_\n#define BONSAI_INDEX_A_H_\n// Example:\n//   Tree tree;\n//   tree.put(a, b);\n"),
]


def breaches(path, text, ratchet=None):
    return list(style.check_source(style.Source(path, text), ratchet or {}))


class StyleTest(unittest.TestCase):
    def test_each_seeded_breach_is_caught(self):
        for rule, samples in BAD.items():
            for path, text in samples:
                with self.subTest(rule=rule, path=path, text=text[:60]):
                    self.assertIn(rule, [breach.rule for breach in breaches(path, text)])

    def test_every_rule_has_a_canary(self):
        elsewhere = {"format", "test_ratio", "spdx", *style.style_prose.RULES}  # below; style_prose_test.py
        self.assertEqual(set(style.RULES), set(BAD) | elsewhere)

    def test_good_code_passes(self):
        for path, text in GOOD:
            with self.subTest(path=path, text=text[:60]):
                self.assertEqual([], [b for b in breaches(path, text) if b.rule != "guard" or path.endswith(".h")])

    def test_format(self):
        class Misformatted:
            path, is_cpp = pathlib.Path(style.__file__).parent / "testing" / "misformatted.cc.sample", True
        found = style.check_format([Misformatted])
        if found is None:
            self.skipTest("clang-format-14 is not installed")
        self.assertEqual(["format"], [breach.rule for breach in found])

    def test_licences(self):
        def found(rule_text, path="base/a.h", text="int x;\n"):
            tree = [style.Source("scripts/style.py", rule_text), style.Source(path, text)]
            return [str(breach.path) for breach in style.style_spdx.check_tree(tree)]

        line = f"# {style.style_spdx.LICENCE}\n"
        in_force = f"#!/usr/bin/env python3\n{line}"
        self.assertEqual([], found("#!/usr/bin/env python3\n"), "in force once style.py has its line")
        self.assertEqual(["base/a.h"], found(in_force))
        self.assertEqual(["base/a.h"], found(in_force, text=f"int x;\nint y;\n//{line[1:]}"), "too late")
        self.assertEqual([], found(in_force, text=f"//{line[1:]}int x;\n"))
        self.assertEqual([], found(in_force, "docs/a.md", "# A page\n"))
        self.assertEqual([], breaches("base/a.cc", f"//{line[1:]}" + "int x;\n" * 600), "not counted by the rule file")

    def test_licences_are_added_once_and_after_the_line_for_the_shell(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {"a.h": "int x;\n", "a.sh": "#!/bin/bash\ntrue\n", "CMakeLists.txt": "project(a)\n",
                     "c.c": "int x;\n", "a.md": "# A page\n"}
            for name, text in texts.items():
                (root / name).write_text(text)

            def add():
                sources = [style.Source(name, (root / name).read_text()) for name in texts]
                return style.style_spdx.add_lines(root, sources)

            self.assertEqual(4, add())
            self.assertEqual(0, add())
            licence = style.style_spdx.LICENCE
            self.assertEqual(f"// {licence}\nint x;\n", (root / "a.h").read_text())
            self.assertEqual(f"#!/bin/bash\n# {licence}\ntrue\n", (root / "a.sh").read_text())
            self.assertEqual(f"# {licence}\nproject(a)\n", (root / "CMakeLists.txt").read_text())
            self.assertEqual(f"/* {licence} */\nint x;\n", (root / "c.c").read_text())
            self.assertEqual(texts["a.md"], (root / "a.md").read_text())

    def test_ratio(self):
        product = style.Source("base/a.cc", "int x;\n" * 10)
        few, enough = (style.Source("base/a_test.cc", "int x;\n" * count) for count in (5, 6))
        self.assertEqual(1, len(list(style.check_test_ratio([product, few]))))
        self.assertEqual(0, len(list(style.check_test_ratio([product, enough]))))
        elsewhere = style.Source("admin/a_test.py", "x = 1\n" * 100)
        self.assertEqual(["base"], [breach.path for breach in style.check_test_ratio([product, few, elsewhere])])

    def test_ratchet_allows_what_it_lists_and_no_line_more(self):
        text = "int f() {\n" + LONG_BODY + "}\n"
        self.assertEqual([], breaches("base/a.cc", text, {("base/a.cc", "f"): 77}))
        self.assertEqual(1, len(breaches("base/a.cc", text, {("base/a.cc", "f"): 76})))
        self.assertEqual(1, len(breaches("base/a.cc", text, {("base/b.cc", "f"): 77})))

    def test_ratchet_must_shrink_with_its_function(self):
        source = style.Source("base/a.cc", "int f() {\n" + LONG_BODY + "}\n")
        self.assertEqual(0, len(list(style.check_ratchet([source], {("base/a.cc", "f"): 77}))))
        self.assertEqual(1, len(list(style.check_ratchet([source], {("base/a.cc", "f"): 90}))))
        self.assertEqual(1, len(list(style.check_ratchet([source], {("base/a.cc", "gone"): 90}))))

    def test_names_of_functions(self):
        code = ("template <typename T>\nT Box<T>::get() const {\n}\nbool operator==(A a, B b) {\n}\n"
                "auto f(int x) -> int {\n}\nBox::~Box() {\n}\nclass [[nodiscard]] C {\n  void in() {\n  }\n};\n"
                "TEST_F(Suite, Case) {\n}\nextern \"C\" {\nint c_call(void) {\n}\n}\n")
        names = [name for name, _, _ in style.find_functions(style.Source("base/a.cc", code).code)]
        self.assertEqual(["get", "operator==", "f", "Box::~Box", "in", "Suite.Case", "c_call"],
                         [name.split(">::")[-1] for name in names])


if __name__ == "__main__":
    unittest.main()
