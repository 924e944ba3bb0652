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

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
# pylint: disable=wrong-import-position
from testing import documented_schema, hdr_log, ycsb_output  # noqa: E402

ENGINES = ["bonsai", "absl_btree", "unordered_map"]
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
