#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same tests as scripts/test.sh with the nightly budgets, for hours rather than minutes, and static analysis, for
# which each source is compiled by itself (test.sh compiles several at a time).
# Arguments are those of scripts/test.sh. The scorecard comes last.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
setup build test
tidy=0
step "apart configure" build/logs/apart-configure.log cmake --preset apart &&
  step "apart build" build/logs/apart-build.log cmake --build --preset apart && scripts/tidy.sh || tidy=$?
BONSAI_TEST_BUDGET=nightly scripts/test.sh "$@" || exit $?
exit "$tidy"
