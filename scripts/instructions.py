#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions per operation of one build or several, counted by valgrind's callgrind: exact, whatever else runs here.

  scripts/instructions.py build/release [OTHER_BUILD...]

Each figure is what one more operation costs: the difference of two runs of testing/library_driver.cc with the build's
library. With several builds the ratio to the first is shown; with --at-most=1.02 the exit code is 1 if one is above.
scripts/driver.py says what a build is. Needs the Debian package valgrind.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import driver

# Operations of the shorter run.
KINDS = {"put": 20000, "multi_put": 20000, "get": 20000, "multi_get": 20000, "scan": 2000,
         "session_put": 20000, "session_get": 20000, "session_mixed": 20000,
         "session_insert": 20000, "session_scan": 4000,
         "long_scan": 20, "long_scan_16": 20, "compaction": 16384}
# Kinds that the other builds need not have, compared with a kind of the last build.
WITHIN = {"put_if": ("put", 20000)}


def instructions(program, kind, records, operations):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), "count", kind, str(records),
         str(operations)], capture_output=True, text=True)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or counted is None:
        raise RuntimeError(f"{program} {kind} ended with exit code {done.returncode}: {done.stderr[-400:]}")
    return int(counted[1])


def per_operation(program, kind, records):
    few = KINDS[kind] if kind in KINDS else WITHIN[kind][1]
    many = 3 * few
    return (instructions(program, kind, records, many) - instructions(program, kind, records, few)) / (many - few)


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--at-most", type=float, help="the largest ratio to the first build that is no failure")
    options = parser.parse_args(words)
    if shutil.which("valgrind") is None:
        parser.error("valgrind is missing; run apt-get install valgrind")
    if driver.missing(options.builds):
        parser.error(driver.missing(options.builds))
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        programs = driver.compiled(options.builds, folder)
        last = {}
        for kind in KINDS:
            counts = [per_operation(program, kind, options.records) for program in programs]
            last[kind] = counts[-1]
            ratios = [count / counts[0] for count in counts[1:]]
            worst = max([worst, *ratios])
            print(f"{kind:<13}", *(f"{count:9.0f}" for count in counts), *(f"{ratio:7.3f}" for ratio in ratios),
                  flush=True)
        for kind, (other, _) in WITHIN.items():
            count = per_operation(programs[-1], kind, options.records)
            print(f"{kind:<13} {count:9.0f} of the last build, {count / last[other]:.3f} of its {other}")
    if options.at_most is not None and worst > options.at_most:
        print(f"instructions.py: a ratio of {worst:.3f} is above {options.at_most}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
