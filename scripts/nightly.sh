#!/usr/bin/env bash
# The same tests as scripts/test.sh with the nightly budgets, for hours rather than minutes, then static analysis.
# Arguments are those of scripts/test.sh. The scorecard comes last.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
setup build test
tidy=0
scripts/tidy.sh || tidy=$?
BONSAI_TEST_BUDGET=nightly scripts/test.sh "$@" || exit $?
exit "$tidy"
