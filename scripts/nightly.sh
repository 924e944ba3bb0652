#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same tests as scripts/test.sh with the nightly budgets, for hours rather than minutes, and static analysis, for
# which each source is compiled by itself (test.sh compiles several at a time).
# Arguments are those of scripts/test.sh. After the scorecard the test programs run once more, with small budgets, while
# their processes are stopped and continued at random (scripts/stop_and_go.py).
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
setup build test
tidy=0
step "apart configure" build/logs/apart-configure.log cmake --preset apart &&
  step "apart build" build/logs/apart-build.log cmake --build --preset apart && scripts/tidy.sh || tidy=$?
# Guests of two processors each, for what only threads at work together show.
BONSAI_TESTBED_PROCESSORS=2 BONSAI_TEST_BUDGET=nightly scripts/test.sh "$@" || exit $?
# What bench/ tests is the measuring of time itself.
BONSAI_TEST_BUDGET=fast scripts/stop_and_go.py build/release --tests='^(?!bench_)' || exit $?
exit "$tidy"
