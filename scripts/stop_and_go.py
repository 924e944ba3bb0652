#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the test programs of a build while their processes are stopped and continued at random, as a busy or suspended
machine does: a test that takes lost time for a broken promise fails, and so does a product that does.

  scripts/stop_and_go.py build/release [--tests=REGEX] [--jobs=2] [--seed=N]

All processes of a test are stopped together, for up to 2.2 s after 0.2 to 3 s of running. Prints a line per test and
what failed ones printed; the exit code is 1 if one failed. Left out are tests labelled style or testbed.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

STOP_SECONDS = (0.15, 0.5, 1.2, 2.2)
TEST_SECONDS_MAX = 1800
EXIT_SKIPPED = 77


def tests_of(build, pattern):
    """(name, command, folder, environment) of each of CTest's tests, the long ones first."""
    shown = subprocess.run(["ctest", "--show-only=json-v1", "--label-exclude", "style|testbed"], cwd=build,
                           capture_output=True, text=True, check=True)
    found = []
    for test in json.loads(shown.stdout)["tests"]:
        if "command" not in test or not re.search(pattern, test["name"]):
            continue
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        environment = dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
        found.append((properties.get("COST", 0),
                      (test["name"], test["command"], properties.get("WORKING_DIRECTORY", build), environment)))
    return [test for _, test in sorted(found, key=lambda each: -each[0])]


def session(leader):
    """The processes that a test has started, including itself."""
    pids = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == leader:
            pids.append(int(path.parent.name))
    return pids


def send(pids, what):
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass


def run(command, folder, environment, chance, out):
    """Returns the exit code, and how long the test was stopped."""
    stopped, begin = 0.0, time.monotonic()
    child = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, stdout=out,
                             stderr=subprocess.STDOUT, start_new_session=True)
    while child.poll() is None:
        try:
            child.wait(chance.uniform(0.2, 3))
            break
        except subprocess.TimeoutExpired:
            pass
        if time.monotonic() - begin > TEST_SECONDS_MAX and child.poll() is None:
            send(session(child.pid), signal.SIGKILL)
            break
        pids, seconds = session(child.pid), chance.choice(STOP_SECONDS)
        send(pids, signal.SIGSTOP)
        time.sleep(seconds)
        send(pids, signal.SIGCONT)
        stopped += seconds
    return child.wait(), stopped


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--tests", default="", help="only those whose name matches")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args(words)
    todo, failed, lock = tests_of(options.build.resolve(), options.tests), [], threading.Lock()
    if not todo:
        parser.error(f"{options.build} has no test that matches; build it first")
    print(f"{len(todo)} tests, --seed={options.seed}")

    def work():
        while True:
            with lock:
                if not todo:
                    return
                name, command, folder, environment = todo.pop(0)
            with tempfile.TemporaryFile("w+", errors="replace") as out:
                code, stopped = run(command, folder, environment, random.Random(f"{options.seed} {name}"), out)
                passed = code in (0, EXIT_SKIPPED)
                with lock:
                    print(f"{'passed' if passed else 'FAILED'} {name}, stopped for {stopped:.1f} s", flush=True)
                    if not passed:
                        failed.append(name)
                        out.seek(0)
                        print(out.read(), flush=True)

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(failed)} failed{': ' if failed else ''}{' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
