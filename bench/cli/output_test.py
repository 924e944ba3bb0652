#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of a real run, read by readers that were written from the formats' descriptions and not from the
program: results.json against docs/results.md, YCSB's text, HdrHistogram's logs, CSV.

usage: output_test.py PROGRAM [unittest arguments]
"""
import collections
import copy
import csv
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
# pylint: disable=wrong-import-position
from testing import documented_schema, hdr_log, ycsb_output  # noqa: E402

ENGINES = ["bonsai", "absl_btree", "unordered_map"]
HEAP_PARTS, REGION_BYTES = 2 * 4, 2 << 20  # base/memory.h, base/heap.h
HEAP_BYTES_MAX = HEAP_PARTS * 2 * REGION_BYTES  # of a few records: each part has a region in use and one in hand
DELETING = "readproportion=0.5\nupdateproportion=0\ndeleteproportion=0.5\nrequestdistribution=uniform\n"


class OutputTest(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.scratch.name) / "out"
        deleting = pathlib.Path(cls.scratch.name) / "workloadx"
        deleting.write_text(DELETING)
        command = [cls.program, "run", "--engines=" + ",".join(ENGINES), f"--workloads=load,a,d,e,f,{deleting}",
                   "--records=3000", "--operations=20000", "--threads=2", f"--out={cls.out}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        cls.stdout = ended.stdout
        cls.results = json.loads((cls.out / "results.json").read_text())
        cls.schema = (HERE.parent / "docs" / "results.md").read_text()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_of(self, engine, workload):
        return next(run for run in self.results["runs"] if (run["engine"], run["workload"]) == (engine, workload))

    def named_runs(self):
        """(name of its files, run); a name that comes again gets its number as a suffix."""
        seen = collections.Counter()
        for run in self.results["runs"]:
            name = f"{run['engine']}-{run['workload']}"
            seen[name] += 1
            yield name + (f"-{seen[name]}" if seen[name] > 1 else ""), run

    # ---- results.json

    def test_results_are_as_documented(self):
        self.assertEqual(documented_schema.schema_breaches(self.schema, self.results), [])

    def test_what_was_measured_of_the_fabric_is_as_documented(self):
        command = [self.program, "fabric", "--providers=shm,sim", "--repeat=2", "--cell-ms=1", "--sizes=64,512",
                   "--batches=1,4", "--depths=1", f"--out={self.out}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        fabric = json.loads((self.out / "fabric.json").read_text())
        # What an RDMA device would fill in besides.
        fabric["rows"][0].update(perftest="ib_read_lat", perftest_us=1.5, ratio=0.9, goal=1.3, runs_perftest=[1.5])
        fabric["rows"][1].update(perftest_messages_per_s=2.5)
        fabric["notes"].append("made up")
        self.assertEqual(documented_schema.schema_breaches(self.schema, fabric, "fabric.json"), [])
        first = (self.out / "fabric.csv").read_text().splitlines()[0]
        self.assertEqual(first.split(","), list(fabric["rows"][0])[:12])

    def test_the_schema_check_can_fail(self):
        def breaches(change):
            broken = copy.deepcopy(self.results)
            change(broken)
            return documented_schema.schema_breaches(self.schema, broken)

        self.assertIn("runs[].memory.nvm_bytes: documented and missing",
                      breaches(lambda json_: json_["runs"][0]["memory"].pop("nvm_bytes")))
        self.assertIn("manifest.cpu: documented and missing", breaches(lambda json_: json_["manifest"].pop("cpu")))
        self.assertIn("runs[].latency_us.{kind}.p99: documented and missing",
                      breaches(lambda json_: json_["runs"][1]["latency_us"]["read"].pop("p99")))
        self.assertIn("runs[].speed: not documented", breaches(lambda json_: json_["runs"][0].update(speed=1)))
        self.assertIn("runs[].threads: 'two' is no integer",
                      breaches(lambda json_: json_["runs"][0].update(threads="two")))

    def test_absent_facts_are_null(self):
        volatile = self.run_of("absl_btree", "a")
        for fact in (volatile["nvm"], volatile["durability"], volatile["medium"], volatile["memory"]["nvm_bytes"]):
            self.assertIsNone(fact)
        ours = self.run_of("bonsai", "a")
        self.assertIn("domain", ours["medium"])
        self.assertTrue(ours["emulated"])
        self.assertTrue(self.results["manifest"]["emulated"])
        self.assertGreater(ours["nvm"]["fences"], 0)
        for run in self.results["runs"]:
            self.assertIsNotNone(run["memory"]["process_bytes"], run["engine"])
        self.assertIsNone(self.run_of("bonsai", "x")["memory"]["user_bytes"])

    def test_operations_by_kind_add_up(self):
        for run in self.results["runs"]:
            self.assertEqual(sum(run["operations_of"].values()), run["operations"], run)
            self.assertEqual(set(run["failures_of"].values()), {0}, run)
        self.assertEqual(set(self.run_of("bonsai", "x")["operations_of"]), {"read", "delete"})
        shares = self.run_of("bonsai", "a")["operations_of"]
        self.assertLess(abs(shares["read"] - shares["update"]), 1500)

    def test_what_an_engine_cannot_do_is_left_out_with_its_reason(self):
        self.assertEqual(self.results["left_out"],
                         [{"engine": "unordered_map", "workload": "e", "reason": "has no ordered scan"}])

    def test_another_store_takes_less_than_a_hundred_lines(self):
        self.assertIn((HERE / "engines" / "std_map.cc").read_text().count("\n"), range(20, 100))
        others = [path for path in HERE.rglob("*") if path.is_file() and path.name != "std_map.cc"
                  and not path.stem.endswith("_test") and path.suffix in (".cc", ".h", ".txt")]
        self.assertEqual([path.name for path in others if "std_map" in path.read_text()], [])

    # ---- CSV

    def test_the_status_line_lives_on_a_terminal_only(self):
        command = [self.program, "run", "--engines=absl_btree", "--workloads=c", "--records=1000", "--operations=3000",
                   "--target=3000", f"--out={self.out.parent / 'live'}"]
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            seen = b""
            while True:
                try:
                    part = os.read(ours, 4096)
                except OSError:  # the terminal's other end is closed
                    break
                if not part:
                    break
                seen += part
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        live = rb"\r\x1b\[Kabsl_btree, workload c: \d+ %, 0\.00 Mop/s, p99 [\d.]+( k)? us, \d s left"
        self.assertRegex(seen, live)
        quiet = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=True)
        self.assertNotIn(b"p99", quiet.stderr)
        self.assertNotIn(b"\r", quiet.stderr)

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
            self.assertEqual(figures["floor"], [1.9, 4.8, 6.2, 10, 3.2, 4.5, 4.5, 2.2, 2.8])
            self.assertEqual(figures["goal"], [2.8, 7.5, 9.5, 14, 4.8, 7, 6.7, 3.4, 4])
            for row in each["rows"]:
                self.assertAlmostEqual(row["ratio"], row["bonsai Mop/s"] / row["absl_btree Mop/s"])
                self.assertEqual((row["least"], row["most"]), (row["ratio"], row["ratio"]))
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

    def test_an_engine_that_ends_early_is_reported(self):
        out = pathlib.Path(self.scratch.name) / "early"
        command = [self.program, "run", "--engines=bonsai,absl_btree", "--workloads=c", "--records=1000",
                   "--operations=1000", "--pool-dir=/nowhere", f"--out={out}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 1)
        results = json.loads((out / "results.json").read_text())
        self.assertEqual(documented_schema.schema_breaches(self.schema, results), [])
        [error] = results["errors"]
        self.assertEqual(error["engine"], "bonsai")
        self.assertIn("--pool-dir", error["message"])
        self.assertEqual({run["engine"] for run in results["runs"]}, {"absl_btree"})
        self.assertIn("ENDED EARLY", (out / "report.html").read_text())

    def test_an_open_loop_tells_intended_latencies(self):
        out = pathlib.Path(self.scratch.name) / "open"
        command = [self.program, "run", "--engines=absl_btree", "--workloads=c", "--records=1000", "--operations=4000",
                   "--target=40000", "--repeat=3", "--latency=all", f"--out={out}"]
        subprocess.run(command, capture_output=True, timeout=240, check=True)
        results = json.loads((out / "results.json").read_text())
        self.assertEqual(documented_schema.schema_breaches(self.schema, results), [])
        run = next(run for run in results["runs"] if run["workload"] == "c")
        self.assertEqual(len(run["repeats_ops_per_s"]), 3)
        self.assertEqual(run["throughput_ops_per_s"], sorted(run["repeats_ops_per_s"])[1])
        self.assertGreaterEqual(run["intended_latency_us"]["read"]["p99"], run["latency_us"]["read"]["p50"])
        [parsed] = ycsb_output.parse_runs((out / "ycsb" / "absl_btree-c.txt").read_text())
        self.assertIn("99thPercentileLatency(us)", parsed["Intended-READ"])
        self.assertIn(">absl_btree*<", (out / "report.html").read_text())

    def test_csv_has_a_line_per_run(self):
        with open(self.out / "results.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(self.results["runs"]))
        for row, run in zip(rows, self.results["runs"]):
            self.assertEqual(row["engine"], run["engine"])
            self.assertEqual(float(row["throughput_ops_per_s"]), run["throughput_ops_per_s"])
            if "read" in run["latency_us"]:
                self.assertEqual(float(row["latency_us_read_p99"]), run["latency_us"]["read"]["p99"])
            self.assertEqual(row["nvm_fences"], str(run["nvm"]["fences"]) if run["nvm"] else "")
            self.assertEqual(row["medium"], run["medium"] or "")

    # ---- YCSB

    def test_stdout_is_read_by_a_ycsb_parser(self):
        runs = ycsb_output.parse_runs(self.stdout)
        self.assertEqual(len(runs), len(self.results["runs"]))
        for parsed, run in zip(runs, self.results["runs"]):
            self.compare(parsed, run)

    def test_every_run_has_a_ycsb_file(self):
        for name, run in self.named_runs():
            text = (self.out / "ycsb" / f"{name}.txt").read_text()
            parsed = ycsb_output.parse_runs(text)
            self.assertEqual(len(parsed), 1)
            self.compare(parsed[0], run)

    def compare(self, parsed, run):
        self.assertAlmostEqual(parsed["OVERALL"]["Throughput(ops/sec)"], run["throughput_ops_per_s"], delta=0.01)
        self.assertAlmostEqual(parsed["OVERALL"]["RunTime(ms)"], max(1, run["seconds"] * 1000), delta=0.51)
        names = {"rmw": "READ-MODIFY-WRITE"}
        for kind, operations in run["operations_of"].items():
            metric = parsed[names.get(kind, kind.upper())]
            self.assertEqual(metric["Operations"], operations)
            self.assertEqual(metric["Return=OK"], operations)
            latency = run["latency_us"][kind]
            self.assertAlmostEqual(metric["AverageLatency(us)"], latency["mean"], delta=0.001)
            self.assertEqual(metric["MinLatency(us)"], int(latency["min"]))
            self.assertEqual(metric["MaxLatency(us)"], int(latency["max"]))
            self.assertEqual(metric["95thPercentileLatency(us)"], int(latency["p95"]))
            self.assertEqual(metric["99thPercentileLatency(us)"], int(latency["p99"]))
        self.assertEqual(parsed["MEMORY"], {part.title() + "Bytes": run["memory"][part + "_bytes"]
                                            for part in ("dram", "process", "nvm")
                                            if run["memory"][part + "_bytes"] is not None})
        self.assertEqual(len(parsed), 2 + len(run["operations_of"]))

    # ---- HdrHistogram

    def test_histograms_decode_to_the_same_percentiles(self):
        files = 0
        for name, run in self.named_runs():
            for kind, latency in run["latency_us"].items():
                text = (self.out / "hdr" / f"{name}-{kind}.hdr").read_text()
                self.assertTrue(re.search(r"^#\[StartTime: \d+\.\d{3} \(seconds since epoch\)", text, re.MULTILINE))
                [(start, length, largest, histogram)] = hdr_log.read_log(text)
                self.assertEqual(start, 0)
                self.assertAlmostEqual(length, run["seconds"], delta=0.001)
                self.assertAlmostEqual(largest, latency["max"] / 1000, delta=0.001)
                self.assertEqual(histogram.total(), latency["samples"])
                self.assertEqual(histogram.digits, 3)
                for percent, field in ((50, "p50"), (99, "p99"), (99.9, "p999")):
                    expected = latency[field] * 1000
                    self.assertLessEqual(abs(min(histogram.percentile(percent), latency["max"] * 1000) - expected), 1)
                files += 1
        self.assertEqual(files, len(list((self.out / "hdr").iterdir())))


if __name__ == "__main__":
    OutputTest.program = sys.argv.pop(1)
    unittest.main()
