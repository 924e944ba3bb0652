#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tests, from a bare clone on a bare Debian 12, ending with a scorecard (also in build/test-summary.json).
usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--fast] [--regimes=LIST] [--tests=REGEX]

Installs what is missing, then runs the regimes
  style    layout and house rules                     scripts/style.py
  release  every test, as shipped
  asan     the same under AddressSanitizer and UndefinedBehaviorSanitizer; most of bench/ by night only
  tsan     the same under ThreadSanitizer
  clang    what is fuzzed compiles with clang 14 without a warning, by night everything; then a minute of fuzzing
           (scripts/fuzz.py)
  --fast          style and release only, with small budgets: within 5 minutes on 2 cores, once built
  --regimes=LIST  only these, comma-separated, e.g. --regimes=asan,tsan
  --tests=REGEX   only the CTest tests whose name matches
The budget of randomised tests is BONSAI_TEST_BUDGET = fast, full (default) or nightly (scripts/nightly.sh);
with full, the sanitizers' regimes, where a step costs up to twenty times as much, take the fast one.
BONSAI_SEED=N replays a seed that a failed test printed. docs/testing.md says more.
The release regime also starts two virtual machines (scripts/testbed.sh) and runs the fabric over Soft-RoCE in them;
where that is not possible the scorecard says so, and with BONSAI_TESTBED_REQUIRED=1 it is a failure.

The last line is `N passed, N failed, N skipped`; the exit code is 0 only when something passed and nothing failed.
TEXT
}

regimes=style,release,asan,tsan,clang
filter=()
for argument in "$@"; do
  case "$argument" in
    --fast) regimes=style,release && export BONSAI_TEST_BUDGET=fast ;;
    --regimes=*) regimes=${argument#*=} ;;
    --tests=*) filter=(--tests-regex "${argument#*=}") ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && echo "test.sh: unknown argument '$argument'" >&2 && exit 2 ;;
  esac
done
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

export BONSAI_TEST_BUDGET=${BONSAI_TEST_BUDGET:-full}
case "$BONSAI_TEST_BUDGET" in
  fast | full) timeout_scale=1 ;;
  nightly) timeout_scale=60 ;;
  *) echo "test.sh: BONSAI_TEST_BUDGET=$BONSAI_TEST_BUDGET: use fast, full or nightly" >&2 && exit 2 ;;
esac
IFS=, read -ra regimes <<<"$regimes"
for regime in "${regimes[@]}"; do
  [[ " style release asan tsan clang " == *" $regime "* ]] ||
    { echo "test.sh: unknown regime '$regime'; there are style, release, asan, tsan, clang" >&2 && exit 2; }
done

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
cores=$(nproc)
records=build/scorecard
rm -rf "$records" build/test-summary.json
begin=$SECONDS

# recorded REGIME STEP COMMAND...: a step whose result goes into the records of the scorecard.
recorded() {
  local regime=$1 what=$2 code=0
  shift 2
  mkdir -p "$records/$regime"
  step "$regime $what" "build/logs/$regime-$what.log" "$@" || code=$?
  printf '%s\t%d\t%d\n' "$what" "$code" "$step_seconds" >>"$records/$regime/steps.tsv"
  return "$code"
}

build_regime() {
  rm -rf "build/$1/test-results"
  recorded "$1" configure cmake --preset "$1" -DBONSAI_TIMEOUT_SCALE="$timeout_scale" &&
    recorded "$1" build cmake --build --preset "$1" --parallel "$cores" "${@:2}"
}

# ThreadSanitizer needs its shadow addresses free, which a strongly randomised address space may not leave.
without_address_randomisation() {
  local fixed=(setarch "$(uname -m)" --addr-no-randomize)
  "${fixed[@]}" true 2>/dev/null || fixed=()
  "${fixed[@]}" "$@"
}

test_regime() {
  local at_once=$((cores + 2)) # some wait for nodes and guests most of their time
  [[ $1 == tsan ]] && at_once=$cores # which slows threads down enough
  local command=(ctest --test-dir "build/$1" --output-on-failure --no-tests=error --parallel "$at_once"
    --label-exclude '^style$' --output-junit "$root/$records/$1/ctest.xml" "${filter[@]}")
  [[ $1 == tsan ]] && command=(without_address_randomisation "${command[@]}")
  local budget=$BONSAI_TEST_BUDGET
  [[ $1 != release && $budget == full ]] && budget=fast
  BONSAI_TEST_BUDGET=$budget BONSAI_FIGURES="$root/$records/$1/figures" recorded "$1" test "${command[@]}"
}

# Runs the fuzzers, for which the clang build is instrumented.
fuzz_regime() {
  BONSAI_FIGURES="$root/$records/clang/figures" recorded clang fuzz python3 scripts/fuzz.py
}

fuzzed=(--target fuzz) # by night everything
[[ $BONSAI_TEST_BUDGET == nightly ]] && fuzzed=()
setup build test
setup testbed || echo "test.sh: the tests in virtual machines will not run" # the scorecard shows it, too
broken=
for regime in "${regimes[@]}"; do
  [[ -z $broken ]] || { echo "$regime: not run, since $broken does not build" && continue; }
  case "$regime" in
    style) recorded style check python3 scripts/style.py --junit "$records/style/ctest.xml" || true ;;
    clang) { build_regime clang "${fuzzed[@]}" && fuzz_regime; } || true ;;
    *) if build_regime "$regime"; then test_regime "$regime" || true; else broken=$regime; fi ;;
  esac
done
exec python3 scripts/scorecard.py --records "$records" --build build --out build/test-summary.json \
  --budget "$BONSAI_TEST_BUDGET" --seconds "$((SECONDS - begin))"
