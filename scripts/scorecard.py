#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scorecard of scripts/test.sh: counts tests and figures of all regimes, prints them, writes them as JSON.

Reads, for each folder RECORDS/REGIME:
  steps.tsv   one line `step TAB exit code TAB seconds` for each step that ran (configure, build, test, check)
  ctest.xml   JUnit, one test case per CTest test or style rule
  figures     lines `name value` or `name=value`, and rows of tables, that tests appended (base/testing/figures.h)
and BUILD/REGIME/test-results/NAME.xml, the cases of the GoogleTest program NAME.

A GoogleTest program counts with its cases; when CTest calls it failed though no case failed (a crash, a time limit, a
leak), one failure is added. A failed step that left no failed test counts as one failed test; a clang build is a test.
"""
import argparse
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

REASON_LINES = 20


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self.not_run = []  # CTest tests that skipped themselves as a whole, with the last line of their output
        self.reasons = {}  # per failure: the messages of its assertions, or the program's last output

    def add(self, name, outcome, reason=()):
        if outcome == "failed":
            self.failed += 1
            self.failures.append(name)
            self.reasons[name] = list(reason)
        elif outcome == "skipped":
            self.skipped += 1
        else:
            self.passed += 1

    def tests(self):
        return self.passed + self.failed + self.skipped


def parse_xml(path):
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None


def outcome_of_case(case):
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    skipped = case.get("status") in ("notrun", "disabled") or case.get("result") == "skipped"
    if skipped or case.find("skipped") is not None:
        return "skipped"
    return "passed"


def count_gtest(path):
    """The cases of one GoogleTest XML file, or None when the program left none (it crashed, or is no GoogleTest)."""
    root = parse_xml(path)
    if root is None:
        return None
    count = Count()
    for case in root.iter("testcase"):
        said = "\n".join(failure.text or failure.get("message") or "" for failure in case.iter("failure"))
        reason = said.splitlines()[:REASON_LINES]
        count.add(f"{case.get('classname')}.{case.get('name')}", outcome_of_case(case), reason)
    return count


def count_ctest(root, results):
    """All tests of one regime: each CTest test as one, or as its GoogleTest cases."""
    count = Count()
    for case in root.iter("testcase"):
        name, outcome = case.get("name"), outcome_of_case(case)
        said = (case.findtext("system-out") or "").strip().splitlines()
        ending = said[-REASON_LINES:]
        cases = count_gtest(results / f"{name}.xml") if results else None
        if cases is None or cases.tests() == 0:
            count.add(name, outcome, ending)
            if outcome == "skipped" and said:
                count.not_run.append(f"{name}: {said[-1]}")
            continue
        count.passed += cases.passed
        count.skipped += cases.skipped
        for failure in cases.failures:
            count.add(f"{name} {failure}", "failed", cases.reasons[failure])
        if outcome == "failed" and not cases.failures:
            count.add(f"{name} (the program failed outside its cases)", "failed", ending)
    return count


def read_figures(path):
    """The figures {name: value} and the tables {table: {row: {column: value}}} of one regime."""
    figures, tables = {}, {}
    if path.exists():
        for line in path.read_text().splitlines():
            row = re.fullmatch(r"table\t([^\t]+)\t([^\t]+)\t((?:\w+=\d+ ?)+)", line)
            if row:
                columns = tables.setdefault(row[1], {}).setdefault(row[2], {})
                for column in row[3].split():
                    name, value = column.split("=")
                    merge_figure(columns, name, int(value))
                continue
            match = re.fullmatch(r"\s*([A-Za-z0-9_]+)[ =](\d+)\s*", line)
            if match is None:
                print(f"scorecard: not a figure, ignored: {line!r} in {path}", file=sys.stderr)
                continue
            merge_figure(figures, match[1], int(match[2]))
    return figures, tables


def merge_figure(figures, name, value):
    old = figures.get(name)
    figures[name] = value if old is None else max(old, value) if name.endswith("_max") else old + value


def read_steps(path):
    steps = {}
    if path.exists():
        for line in path.read_text().splitlines():
            name, code, seconds = line.split("\t")
            steps[name] = (int(code), int(seconds))
    return steps


def read_regime(records, build):
    name = records.name
    steps = read_steps(records / "steps.tsv")
    root = parse_xml(records / "ctest.xml")
    count = Count() if root is None else count_ctest(root, build / name / "test-results")
    if name == "clang" and steps.get("build", (1, 0))[0] == 0:
        count.add("compiles without warnings", "passed")
    if steps.get("fuzz", (1, 0))[0] == 0:
        count.add("fuzz targets do not crash", "passed")
    for step, (code, _) in steps.items():
        if code != 0 and not count.failures:
            count.add(f"{step} (exit code {code}, see build/logs/{name}-{step}.log)", "failed")
    figures, tables = read_figures(records / "figures")
    return {
        "passed": count.passed,
        "failed": count.failed,
        "skipped": count.skipped,
        "seconds": {step: seconds for step, (_, seconds) in steps.items()},
        "figures": figures,
        "tables": tables,
        "failures": count.failures,
        "not_run": count.not_run,
        "reasons": count.reasons,
    }


def summarize(records, build, budget, seconds):
    order = ["style", "release", "asan", "tsan", "clang"]
    folders = [folder for folder in records.iterdir() if folder.is_dir()] if records.exists() else []
    folders.sort(key=lambda folder: order.index(folder.name) if folder.name in order else len(order))
    regimes = {folder.name: read_regime(folder, build) for folder in folders}
    figures = {}
    for regime in regimes.values():
        for name, value in regime["figures"].items():
            merge_figure(figures, name, value)
    total = {key: sum(regime[key] for regime in regimes.values()) for key in ("passed", "failed", "skipped")}
    return {**total, "budget": budget, "seconds": seconds, "figures": figures, "regimes": regimes}


def print_table(regime, table, rows):
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    print(f"{table} ({regime}):")
    print(f"  {'':<32}" + "".join(f"{column:>14}" for column in columns))
    for name, row in sorted(rows.items()):
        print(f"  {name:<32}" + "".join(f"{row.get(column, 0):>14,}" for column in columns))


def print_summary(summary, out):
    print()
    print(f"{'regime':<10}{'passed':>8}{'failed':>8}{'skipped':>8}{'build':>9}{'tests':>9}")
    for name, regime in summary["regimes"].items():
        spent = regime["seconds"]
        build = spent.get("configure", 0) + spent.get("build", 0)
        tests = spent.get("test", 0) + spent.get("check", 0) + spent.get("fuzz", 0)
        print(f"{name:<10}{regime['passed']:>8}{regime['failed']:>8}{regime['skipped']:>8}{build:>7} s{tests:>7} s")
    printed = set()  # tables of the first regime that has them; the JSON has all
    for name, regime in summary["regimes"].items():
        for table, rows in sorted(regime["tables"].items()):
            if table not in printed:
                print_table(name, table, rows)
            printed.add(table)
    for name, value in sorted(summary["figures"].items()):
        print(f"{name:<34}{value:>16,}")
    for name, regime in summary["regimes"].items():
        for failure in regime["failures"]:
            print(f"FAILED {name}: {failure}")
            for line in regime["reasons"].get(failure, []):
                print(f"    {line}")
        for reason in regime["not_run"]:
            print(f"NOT RUN {name}: {reason}")
    print(f"budget {summary['budget']}, {summary['seconds']} s; the same as data: {out}")
    print(f"{summary['passed']} passed, {summary['failed']} failed, {summary['skipped']} skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--budget", default="full")
    parser.add_argument("--seconds", type=int, default=0)
    arguments = parser.parse_args()
    summary = summarize(arguments.records, arguments.build, arguments.budget, arguments.seconds)
    arguments.out.write_text(json.dumps(summary, indent=2) + "\n")
    print_summary(summary, arguments.out)
    return 0 if summary["failed"] == 0 and summary["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
