#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes every parser of untrusted bytes for its share of a minute, guided by coverage (base/testing/fuzz.h).

usage: scripts/fuzz.py [--program build/clang/tests/fuzz] [--seconds N] [--targets a,b] [--keep]

Each target starts from its seeds, from what is kept in testing/corpora/TARGET, and from what earlier runs have found
(build/corpora/TARGET, which grows). Prints executions, coverage and crashes, and adds the figures fuzz_seconds,
fuzz_executions and fuzz_crashes (docs/testing.md). A canary with a planted fault goes first: if that is not found, the
others prove nothing, and this fails.

An input that crashes is copied to testing/corpora/TARGET/crash-HASH, which every later test run replays
(fuzz_replay_test): repair what it shows, and commit it.
  --seconds N  of all targets together, as processors count; default: 60, with BONSAI_TEST_BUDGET=fast 12, nightly 3600
  --targets    only these
  --keep       afterwards take the few inputs that reach most into testing/corpora
"""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
CANARY = "canary"
CANARY_SECONDS = 20          # one is enough; a busy machine may take longer
INPUT_SECONDS_MAX = 10       # per input: more is reported as a hang
INPUT_BYTES_MAX = 4096
MEMORY_MB_MAX = 2048
KEPT_MAX, KEPT_BYTES_MAX = 12, 4096
WEIGHTS = {"pool": 5}        # a slow target gets more; the others have 1
SECONDS = {"fast": 12, "full": 60, "nightly": 3600}


def run(program, target, arguments, **options):
    environment = {**os.environ, "BONSAI_FUZZ_TARGET": target, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:"
                   "handle_abort=1:detect_stack_use_after_return=0"}
    return subprocess.run([program, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False, **options)


class Outcome:
    """The report of libFuzzer on one target."""

    def __init__(self, target, seconds, code, output, crashes):
        self.target, self.seconds, self.code, self.output, self.crashes = target, seconds, code, output, crashes
        executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", output)
        lines = re.findall(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)", output, re.MULTILINE)
        self.executions = int(executed[-1]) if executed else int(lines[-1][0]) if lines else 0
        self.edges, self.features, self.inputs = (int(n) for n in lines[-1][1:]) if lines else (0, 0, 0)

    def failed(self):
        return bool(self.crashes) or self.code != 0 or self.executions == 0


def fuzz(program, target, seconds, grown, kept):
    """Runs one target from the corpora `grown`, which receives new inputs, and `kept`."""
    grown.mkdir(parents=True, exist_ok=True)
    seeded = run(program, target, ["--seeds", str(grown)])
    if seeded.returncode != 0:
        return Outcome(target, seconds, seeded.returncode, seeded.stdout, [])
    with tempfile.TemporaryDirectory() as folder:
        found = run(program, target, [
            f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}",
            f"-max_len={INPUT_BYTES_MAX}", f"-artifact_prefix={folder}/", "-print_final_stats=1", "-verbosity=1",
            str(grown), *([str(kept)] if kept.is_dir() else [])])
        crashes = [path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())
                   if not path.name.startswith("slow-unit")]
    return Outcome(target, seconds, found.returncode, found.stdout, crashes)


def keep_crash(corpora, target, crash):
    path = corpora / target / f"crash-{hashlib.sha256(crash).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(crash)
    return path


def keep_best(program, target, grown, kept):
    """Keeps the few inputs with the most coverage, smallest first, and the crashes that are there."""
    with tempfile.TemporaryDirectory() as folder:
        run(program, target, ["-merge=1", folder, str(grown)])
        best = sorted(pathlib.Path(folder).iterdir(), key=lambda path: path.stat().st_size, reverse=True)
        best = [path for path in best if path.stat().st_size <= KEPT_BYTES_MAX][:KEPT_MAX]
        kept.mkdir(parents=True, exist_ok=True)
        for old in kept.glob("kept-*"):
            old.unlink()
        for path in best:
            shutil.copy(path, kept / f"kept-{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}")


def add_figures(outcomes):
    path = os.environ.get("BONSAI_FIGURES")
    if not path:
        return
    with open(path, "a", encoding="ascii") as file:
        for outcome in outcomes:
            file.write(f"fuzz_seconds {outcome.seconds}\nfuzz_executions {outcome.executions}\n"
                       f"fuzz_crashes {len(outcome.crashes)}\n")
            file.write(f"table\tfuzz targets\t{outcome.target}\texecutions={outcome.executions} "
                       f"features={outcome.features} crashes={len(outcome.crashes)}\n")


def report(outcome, corpora, program):
    print(f"{outcome.target:<18}{outcome.seconds:>5} s{outcome.executions:>10} executions{outcome.edges:>7} edges"
          f"{outcome.features:>7} features{outcome.inputs:>6} inputs{len(outcome.crashes):>3} crashes", flush=True)
    if not outcome.failed():
        return
    print("\n".join(outcome.output.splitlines()[-40:]))
    for crash in outcome.crashes:
        path = keep_crash(corpora, outcome.target, crash)
        print(f"fuzz: {outcome.target} fails on {path}; replay: BONSAI_FUZZ_TARGET={outcome.target} {program} {path}")


def canary_dies(program, corpora, grown):
    shutil.rmtree(grown / CANARY, ignore_errors=True)
    outcome = fuzz(program, CANARY, CANARY_SECONDS, grown / CANARY, corpora / CANARY)
    if outcome.crashes != [b"bug!"]:
        print("\n".join(outcome.output.splitlines()[-20:]))
        print(f"fuzz: the planted fault was not found in {CANARY_SECONDS} s; nothing that follows would mean anything")
        return False
    print(f"canary: its planted fault was found after {outcome.executions} executions")
    return True


def main(arguments=None):
    budget = os.environ.get("BONSAI_TEST_BUDGET") or "full"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/clang/tests/fuzz"))
    parser.add_argument("--seconds", type=int, default=SECONDS.get(budget, SECONDS["full"]))
    parser.add_argument("--targets", default="")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--corpora", type=pathlib.Path, default=ROOT / "testing" / "corpora")
    parser.add_argument("--grown", type=pathlib.Path, default=ROOT / "build" / "corpora")
    chosen = parser.parse_args(arguments)
    if not pathlib.Path(chosen.program).is_file():
        print(f"fuzz: {chosen.program} is missing; build it: cmake --preset clang && cmake --build --preset clang "
              "--target fuzz", file=sys.stderr)
        return 2
    if not canary_dies(chosen.program, chosen.corpora, chosen.grown):
        return 1
    names = subprocess.run([chosen.program, "--targets"], capture_output=True, text=True, check=True).stdout.split()
    wanted = set(filter(None, chosen.targets.split(",")))
    names = sorted(name for name in names if name != CANARY and (not wanted or name in wanted))
    if not names or wanted - set(names):
        print(f"fuzz: no target is called {', '.join(sorted(wanted - set(names)))}", file=sys.stderr)
        return 2
    parts = sum(WEIGHTS.get(name, 1) for name in names)

    def one(target):
        seconds = max(1, chosen.seconds * WEIGHTS.get(target, 1) // parts)
        outcome = fuzz(chosen.program, target, seconds, chosen.grown / target, chosen.corpora / target)
        if chosen.keep and not outcome.failed():
            keep_best(chosen.program, target, chosen.grown / target, chosen.corpora / target)
        return outcome

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        outcomes = []
        for outcome in pool.map(one, names):
            report(outcome, chosen.corpora, chosen.program)
            outcomes.append(outcome)
    add_figures(outcomes)
    failed = [outcome.target for outcome in outcomes if outcome.failed()]
    print(f"fuzz: {len(outcomes)} targets, {sum(o.executions for o in outcomes)} executions in "
          f"{sum(o.seconds for o in outcomes)} s, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
