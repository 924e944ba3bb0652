#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests of scripts/test.sh with the nightly budgets, and static analysis.
usage() {
  cat <<'TEXT'
usage: scripts/nightly.sh [--regimes=LIST] [--tests=REGEX]

Takes hours. Runs static analysis (scripts/tidy.sh), for which each source is compiled by itself; then the tests of
scripts/test.sh, which explains the arguments, with the nightly budgets; then the test programs once more, with small
budgets, while their processes are stopped and continued at random (scripts/stop_and_go.py). The exit code is 0 only
when all of that passed.
TEXT
}
for argument in "$@"; do
  case "$argument" in
    --regimes=?* | --tests=?*) ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && echo "nightly.sh: unknown argument '$argument'" >&2 && exit 2 ;;
  esac
done
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
setup build test
tidy=0
step "apart configure" build/logs/apart-configure.log cmake --preset apart &&
  step "apart build" build/logs/apart-build.log cmake --build --preset apart && scripts/tidy.sh || tidy=$?
# Guests with two processors each, for faults that only concurrent threads show.
BONSAI_TESTBED_PROCESSORS=2 BONSAI_TEST_BUDGET=nightly scripts/test.sh "$@" || exit $?
# The tests of bench/ are left out, because they test the measurement of time itself.
BONSAI_TEST_BUDGET=fast scripts/stop_and_go.py build/release --tests='^(?!bench_)' || exit $?
exit "$tidy"
