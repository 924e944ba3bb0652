#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files that studies leave, at trial size, against docs/results.md and against what each of them is to show.

usage: output_test.py PROGRAM [unittest arguments]
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(HERE))
# pylint: disable=wrong-import-position
from testing import documented_schema  # noqa: E402

HEAP_PARTS, REGION_BYTES = 2 * 4, 2 << 20  # base/memory.h, base/heap.h
HEAP_BYTES_MAX = HEAP_PARTS * 2 * REGION_BYTES  # of a few records: each part has a region in use and one in hand


class StudiesOutputTest(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.scratch.name) / "out"
        cls.schema = (HERE.parent / "docs" / "results.md").read_text()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_what_was_measured_of_the_fabric_is_as_documented(self):
        command = [self.program, "experiment", "fabric", "--providers=shm,sim", "--repeat=2", "--cell-ms=1",
                   "--sizes=64,512", "--batches=1,4", "--depths=1", f"--out={self.out}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        fabric = json.loads((self.out / "fabric.json").read_text())
        self.assertEqual(documented_schema.schema_breaches(self.schema, fabric, "NAME.json"), [])
        columns = list(documented_schema.documented_fields(self.schema, "The columns of fabric.json"))
        self.assertEqual(fabric["columns"], columns)
        self.assertEqual((self.out / "fabric.csv").read_text().splitlines()[0].split(","), columns)
        self.assertEqual([row["provider"] for row in fabric["rows"]], ["shm"] * 13 + ["sim"] * 13)
        for row in fabric["rows"]:
            self.assertLessEqual(row["messages_per_s_least"], row["messages_per_s_most"])
        labels = " ".join(fabric["labels"])
        for text in ("NO NETWORK", "SIMULATED", "litmus tests: ", "Medians of 2 runs"):
            self.assertIn(text, labels)
        self.assertIn("Experiment fabric", (self.out / "report.html").read_text())

    def test_a_group_of_experiments_runs_them_all(self):
        out = pathlib.Path(self.scratch.name) / "kiwi"
        command = [self.program, "experiment", "kiwi", "--scale=trial", "--threads=2", f"--out={out}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        names = ["gets", "puts", "scans", "beside", "sizes", "memory", "order", "interference", "crowd"]
        rivals = ["bonsai as left", "kiwi_like", "snaptree_like", "ctrie_like", "kary_tree_like", "skiplist_like"]
        with_rivals = names[:7]
        for name in names:
            found = json.loads((out / f"kiwi-{name}.json").read_text())
            self.assertEqual(documented_schema.schema_breaches(self.schema, found, "NAME.json"), [])
            self.assertIn(f"kiwi-{name}.json", ended.stdout)
            self.assertTrue(any("EMULATED" in label for label in found["labels"]))
            for row in found["rows"]:
                for column in found["columns"]:
                    self.assertTrue(row[column] is not None or " / " in column, (name, column))
            for rival in rivals if name in with_rivals else []:
                self.assertTrue(any(f", {rival}" in column for column in found["columns"]), (name, rival))
            scans = ["scans", "beside", "sizes"]
            for rival, of in {"bonsai drained": with_rivals[:6], "bonsai sampled": scans}.items():
                shown = any(f", {rival}" in column for column in found["columns"])
                self.assertEqual(shown, name in of, (name, rival))
                labels = " ".join(found["labels"])
                self.assertEqual(f"{rival}: drained" in labels, name in of, (name, rival))
            if name in ("gets", "puts", "scans"):
                of = {"gets": "gets", "puts": "updates", "scans": "scanned"}[name]
                for row in found["rows"]:
                    kiwi, *others = (row[f"{of}, {rival}, 4 K"] for rival in rivals[1:])
                    self.assertAlmostEqual(row["kiwi_like / next best map, 4 K"], kiwi / max(others))
        self.assertEqual(sorted(path.name for path in out.glob("*.svg")), sorted(f"kiwi-{name}.svg" for name in names))
        crowd = json.loads((out / "kiwi-crowd.json").read_text())
        self.assertEqual(len(crowd["rows"]), 24)

    def experiments(self, group, *names):
        """Runs a group of experiments in a moment; returns what each left, checked against the documented format."""
        out = pathlib.Path(self.scratch.name) / group
        command = [self.program, "experiment", group, "--scale=trial", f"--out={out}"]
        subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        self.assertEqual(sorted(path.name for path in out.glob("*.svg")), sorted(f"{name}.svg" for name in names))
        for name in names:
            found = json.loads((out / f"{name}.json").read_text())
            self.assertEqual(documented_schema.schema_breaches(self.schema, found, "NAME.json"), [])
            self.assertTrue(any("EMULATED" in label for label in found["labels"]))
            absent = found["absent"]
            self.assertTrue(all((row[name] is None) == (name in absent) for row in found["rows"] for name in row))
            yield found

    def test_writes_against_space_packing_and_value_size(self):
        (found,) = self.experiments("write-amplification", "write-amplification")
        small, large = found["rows"][0], found["rows"][-1]
        for column in found["charted"]:
            self.assertGreater(small[column], large[column], "a larger log writes less")
            self.assertGreater(large[column], 1)
        (found,) = self.experiments("log-packing", "log-packing")
        fences = [row["fences per update"] for row in found["rows"]]
        self.assertEqual(fences, sorted(fences, reverse=True), "what is packed shares a fence")
        self.assertGreater(fences[0], 1)
        self.assertLess(fences[-1], 0.2)
        self.assertEqual(max(row[found["charted"][0]] for row in found["rows"]), 1)
        (found,) = self.experiments("value-staging", "value-staging")
        ratios = [row["media bytes / user bytes"] for row in found["rows"]]
        self.assertLess(max(ratios[3:]), 1.5, "values from 4 KiB on are written once")

    def test_put_tails_are_reported_with_what_made_puts_wait(self):
        (found,) = self.experiments("put-tails", "put-tails")
        self.assertEqual([row["alpha"] for row in found["rows"]], [0, 0.9, 0.99])
        self.assertEqual([row["p99.9 / p50"] for row in found["reference"]], [20, 20, 20])
        for row in found["rows"]:
            times = [row[name] for name in ("p50", "p99", "p99.9", "p99.99", "longest")]
            self.assertEqual(times, sorted(times))
            self.assertGreater(times[0], 0)
            self.assertAlmostEqual(row["p99.9 / p50"], row["p99.9"] / row["p50"])
            for name in ("stalls", "pauses", "wake-ups", "replacements"):
                self.assertTrue(0 <= row[name] <= 1e6, name)

    def test_offloading_beside_updates_in_place(self):
        names = ["offloading-groups", "offloading-single", "offloading-buffers"]
        groups, single, buffers = self.experiments("offloading", *names)
        for found in (groups, single):
            self.assertEqual([row["alpha"] for row in found["rows"]], [0, 0.9, 0.99, 1.2, 1.5])
            self.assertEqual(found["reference"][2]["A: WRR %"], 64)
            self.assertTrue(all(row["B: WRR %"] == 0 for row in found["rows"]))
            for row in found["rows"]:
                self.assertAlmostEqual(row["A / B"], row["A: Mop/s"] / row["B: Mop/s"])
                self.assertGreaterEqual(row["A: Mop/s"], row["A with the puts"])
            uniform = found["rows"][0]
            self.assertTrue(any(f"uniform {uniform['A / B']:.1f} (goal 3" in label for label in found["labels"]))
            # A block, or two where a record crosses their border.
            self.assertGreater(uniform["B: media bytes per update"], 150)
            self.assertLess(uniform["B: media bytes per update"], 300)
        rates = [[row[name] for name in row if "WRR" in name] for row in buffers["rows"]]
        self.assertTrue(all(len(row) == 5 and row == sorted(row) for row in rates), rates)
        self.assertTrue(all(small < large for small, large in zip(rates[0], rates[-1])), rates)

    def test_pipelining_has_a_row_for_each_depth(self):
        out = pathlib.Path(self.scratch.name) / "pipelining"
        command = [self.program, "experiment", "pipelining", "--scale=trial", "--threads=1", f"--out={out}"]
        subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        for name in ("pipelining-gets", "pipelining-mix"):
            found = json.loads((out / f"{name}.json").read_text())
            self.assertEqual(documented_schema.schema_breaches(self.schema, found, "NAME.json"), [])
            self.assertEqual([row["operations in flight"] for row in found["rows"]], [1 << i for i in range(11)])
            self.assertTrue(any("EMULATED optane" in label for label in found["labels"]))
            self.assertTrue(any("95 %" in label for label in found["labels"]))
            for row in found["reference"]:
                self.assertEqual(set(row) - set(found["columns"]), set(), "neither measured nor absent for a reason")
            for row in found["rows"]:
                for column in found["columns"]:
                    if column not in found["absent"]:
                        self.assertGreater(row[column], 0, column)

        ways = json.loads((out / "pipelining-ways.json").read_text())
        self.assertEqual(documented_schema.schema_breaches(self.schema, ways, "NAME.json"), [])
        rows = ["none", "intra only"] + [f"intra + {depth} inter" for depth in (2, 4, 8, 16, 32)]
        self.assertEqual([row["pipelining"] for row in ways["rows"]], rows)
        self.assertEqual([row["pipelining"] for row in ways["reference"]], rows[:5], "those of the paper")
        for way in ways["charted"]:
            self.assertTrue(any(f"{way}: " in label for label in ways["labels"]), "what it gains is a label")
            self.assertTrue(all(row[way] > 0 for row in ways["rows"]), way)

    def test_speed_holds_every_line_against_its_floor_and_goal(self):
        out = pathlib.Path(self.scratch.name) / "speed"
        command = [self.program, "experiment", "speed", "--scale=trial", "--records=3000", "--operations=2000",
                   "--depth=8", f"--out={out}"]
        one = {min(os.sched_getaffinity(0))}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True,
                               preexec_fn=lambda: os.sched_setaffinity(0, one))
        command = [self.program, "experiment", "speed-strings", "--scale=trial", f"--out={out}"]
        subprocess.run(command, capture_output=True, timeout=240, check=True)
        found, strings = (json.loads((out / f"{name}.json").read_text()) for name in ("speed", "speed-strings"))
        lines = ["Load", "C zipf", "C uniform", "multi-get of 32", "A zipf", "B zipf", "D", "E zipf", "C at depth 1"]
        for each, share, records in ((found, 1, 3000), (strings, 0.5, 2000)):
            self.assertEqual(documented_schema.schema_breaches(self.schema, each, "NAME.json"), [])
            self.assertEqual([row["line"] for row in each["rows"]], lines)
            figures = {name: [row[name] / share for row in each["rows"]] for name in ("floor", "goal")}
            self.assertEqual(figures["floor"], [1.4, 4.6, 6, 6.6, 1.4, 3.8, 3.2, 1.4, 2.1])
            self.assertEqual(figures["goal"], [2.8, 7.5, 9.5, 14, 4.8, 7, 6.7, 3.4, 4])
            for row in each["rows"]:
                self.assertAlmostEqual(row["ratio"], row["bonsai Mop/s"] / row["absl_btree Mop/s"])
                self.assertEqual((row["least"], row["most"]), (row["ratio"], row["ratio"]))
                self.assertIsNone(row["ratio, low"], "one round has no interval")
                words = {(False, False): "neither", (True, False): "floor", (True, True): "goal"}
                self.assertEqual(row["reached"], words[row["ratio"] >= row["floor"], row["ratio"] >= row["goal"]])
                self.assertGreater(row["as left Mop/s"], 0)
                self.assertAlmostEqual(row["as left"], row["as left Mop/s"] / row["absl_btree Mop/s"])
                self.assertEqual(row["sampled Mop/s"] is not None, row["line"] == "E zipf", "what has scans")
                self.assertEqual(row["written"] is None, row["line"][0] in "Cm", row)
                if row["line"][0] in "Cm":
                    self.assertEqual(row["by dnodes %"], 100)
                    # No updates. What few records take is counted in regions of the heaps: a thread that is
                    # preempted while it holds a part of a heap has others open the next part.
                    self.assertLess(row["undrained"], row["DRAM B/rec"] + HEAP_BYTES_MAX / records)
                self.assertGreater(row["NVM B/rec"], 16)
                for name in ("process B/rec", "process, undrained", "absl_btree process"):
                    self.assertGreaterEqual(row[name], 0)
            labels = " ".join(each["labels"])
            for text in ("EMULATED", "E zipf", "a fresh load, D", "answered by dnodes", "what the process holds",
                         "Log, of the data", "As left: ", "Sampled: "):
                self.assertIn(text, labels)
        self.assertIn("3000 records of 8 + 8 bytes, 2000 requests", " ".join(found["labels"]))
        self.assertIn("2000 records of 24 + 100 bytes", " ".join(strings["labels"]))
        self.assertIn("in flight: 8 per thread", " ".join(found["labels"]))
        self.assertEqual(found["manifest"]["processors"], 1)
        self.assertEqual(found["reference"][0]["goal Mop/s"], 6)
        self.assertIn("round 1 of 1: Load", ended.stderr)

    def test_claims_are_judged_by_what_the_directory_has(self):
        out = pathlib.Path(self.scratch.name) / "claims"
        command = [self.program, "experiment", "log-packing", "--scale=trial", f"--out={out}"]
        subprocess.run(command, capture_output=True, timeout=240, check=True)
        command = [self.program, "experiment", "claims", f"--out={out}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        judged = json.loads((out / "claims.json").read_text())
        self.assertEqual(documented_schema.schema_breaches(self.schema, judged, "claims.json"), [])
        self.assertGreater(len(judged["claims"]), 100)
        measured = [claim for claim in judged["claims"] if claim["measured"] is not None]
        self.assertEqual([claim["command"].split()[2] for claim in measured], ["log-packing"])
        self.assertIn(measured[0]["outcome"], ("holds", "fails", "not judged: noisy"))
        self.assertIn("not measured", {claim["outcome"] for claim in judged["claims"]})
        self.assertTrue(all(claim["outcome"] for claim in judged["claims"]), "a row without an outcome")
        self.assertIn(judged["title"], ended.stdout)
        self.assertIn('<h2 id="claims">', (out / "report.html").read_text())
        with open(out / "claims.csv", newline="", encoding="utf-8") as file:
            self.assertEqual(len(list(csv.DictReader(file))), len(judged["claims"]))

    def test_an_experiment_leaves_its_table_and_its_picture(self):
        out = pathlib.Path(self.scratch.name) / "experiment"
        command = [self.program, "experiment", "index-technique", "--scale=trial", "--threads=2", f"--out={out}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        found = json.loads((out / "index-technique.json").read_text())
        self.assertEqual(documented_schema.schema_breaches(self.schema, found, "NAME.json"), [])
        self.assertEqual([row["thread"] for row in found["rows"]], [1, 2])
        self.assertEqual([row["thread"] for row in found["reference"]], [1, 6, 12, 18, 24])
        self.assertEqual(found["reference"][4]["data offloading only"], 6.04)
        self.assertGreater(len(found["charted"]), 4)
        for row in found["rows"]:
            for column in found["columns"]:
                self.assertEqual(row[column] is None, column in found["absent"], column)
        self.assertTrue(any("EMULATED" in label for label in found["labels"]))
        with open(out / "index-technique.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["thread"] for row in rows], ["1", "2"])
        ElementTree.parse(out / "index-technique.svg")
        self.assertIn("Experiment index-technique", (out / "report.html").read_text())
        self.assertTrue(ended.stdout.endswith(f"report: {out}/report.html\n"))


if __name__ == "__main__":
    StudiesOutputTest.program = sys.argv.pop(1)
    unittest.main()
