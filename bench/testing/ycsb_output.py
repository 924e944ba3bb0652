# SPDX-License-Identifier: Apache-2.0
"""A reader of YCSB's text output, written from YCSB's documentation (its wiki page "Running a Workload" and the
shape of its text exporter): lines `[METRIC], measurement, value`; whatever else is on the stream is not ours.

A stream may hold several runs, each beginning with [OVERALL], RunTime(ms).
"""
import re

LINE = re.compile(r"^\[([A-Z][A-Za-z_-]*)\], ([^,]+), ([-+]?[0-9]+(?:\.[0-9]+)?(?:E[-+]?[0-9]+)?)$")
INTEGERS = re.compile(r"RunTime\(ms\)|Operations|(Min|Max)Latency\(us\)|.*PercentileLatency\(us\)|Return=\w+|"
                      r"(Dram|Process|Nvm)Bytes")  # the last line is ours
REAL = re.compile(r"Throughput\(ops/sec\)|AverageLatency\(us\)")


def parse_runs(text):
    """[{metric: {measurement: number}}], one per run."""
    runs = []
    for line in text.splitlines():
        if not line.startswith("["):
            continue
        match = LINE.match(line)
        if match is None:
            raise ValueError(f"not a line of YCSB: {line}")
        metric, measurement, value = match.groups()
        if metric == "OVERALL" and measurement == "RunTime(ms)":
            runs.append({})
        if INTEGERS.fullmatch(measurement):
            number = int(value)
        elif REAL.fullmatch(measurement) and "." in value:
            number = float(value)
        else:
            raise ValueError(f"not a measurement of YCSB: {line}")
        runs[-1].setdefault(metric, {})[measurement] = number
    return runs
