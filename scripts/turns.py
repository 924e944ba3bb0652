#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of several builds in turns: the lines of `bonsai-bench experiment speed`, driven by the same program.

  scripts/turns.py OTHER_BUILD build/release [--strings] [--records=1000000] [--rounds=5] [--at-least=0.97]
                   [--line="E zipf"]...

Each round runs testing/library_driver.cc once against the library of each build, so that all see the same minutes.
Printed are the medians in Mop/s and, for each build after the first, the ratio to the first: the median of the rounds'
ratios. scripts/driver.py says what a build is. Pools are in memory (tmpfs as emulated NVM).
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import driver

RUN_SECONDS_MAX = 1800


def measured(program, options):
    form = "strings" if options.strings else "fixed"
    words = [str(program), "speed", str(options.records), form, str(options.settle_ms), *options.lines]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    lines = dict(re.findall(r"^(.+): ([\d.]+)$", done.stdout, re.M))
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{program} ended with exit code {done.returncode}: {done.stderr[-400:]}")
    return {line: float(mops) for line, mops in lines.items()}


def table(rounds):
    """Rows (line, medians, ratios) of rounds[i][build][line]."""
    rows = []
    for line in rounds[0][0]:
        columns = list(zip(*([build[line] for build in builds] for builds in rounds)))
        ratios = [[mops / first for mops, first in zip(column, columns[0])] for column in columns[1:]]
        medians = [statistics.median(column) for column in columns]
        rows.append((line, medians, [statistics.median(each) for each in ratios]))
    return rows


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--strings", action="store_true", help="24 + 100 bytes in place of 8 + 8")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--settle-ms", type=int, default=0, help="rest between a drain and the next line")
    parser.add_argument("--line", action="append", default=[], dest="lines", metavar="NAME", help="only this line")
    parser.add_argument("--at-least", type=float, help="the least ratio to the first build that is no failure")
    options = parser.parse_args(words)
    if driver.missing(options.builds):
        parser.error(driver.missing(options.builds))
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        programs = driver.compiled(options.builds, folder)
        for i in range(options.rounds):
            if sys.stderr.isatty():
                print(f"round {i + 1} of {options.rounds}", file=sys.stderr)
            rounds.append([measured(program, options) for program in programs])
    least = 1.0
    for line, medians, ratios in table(rounds):
        least = min([least, *ratios])
        print(f"{line:<16}", *(f"{mops:8.2f}" for mops in medians), *(f"{ratio:7.2f}" for ratio in ratios))
    if options.at_least is not None and least < options.at_least:
        print(f"turns.py: a ratio of {least:.2f} is below {options.at_least}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
