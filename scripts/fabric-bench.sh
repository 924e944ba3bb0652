#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `bonsai-bench experiment fabric` between two virtual machines with Soft-RoCE, beside perftest: no hardware.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: scripts/fabric-bench.sh [FLAG...]

Starts two guests (scripts/testbed.sh), measures the fabric between them beside perftest, writes results/fabric on this
machine and takes the guests down again: about 12 minutes. Each FLAG is passed on to `bonsai-bench experiment
fabric` after these: --sizes=64,4096 --batches=1 --depths=1,16 (bonsai-bench help fabric; --repeat=3 is quicker).
  OUT  folder for the results (default results/fabric)
Times are those of emulated processors: only ratios mean anything, and only on a machine that does nothing else.
TEXT
}
[[ ${1:-} == -h || ${1:-} == --help ]] && usage && exit 0
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

check_flags fabric-bench.sh bench/cli/flags.cc bench/studies/commands/fabric.cc -- "$@"
setup build testbed
step configure build/logs/release-configure.log cmake --preset release # with the studies, one of which this is
step build build/logs/release-build.log cmake --build --preset release --target bonsai-bench
bench=$root/build/release/bin/bonsai-bench
out=${OUT:-$root/results/fabric}

BONSAI_TESTBED=$(mktemp -d -t bonsai-fabric-bench.XXXXXX)/state
export BONSAI_TESTBED
testbed=$root/scripts/testbed.sh
cleanup() {
  "$testbed" down >/dev/null 2>&1 || true
  rm -rf "$(dirname "$BONSAI_TESTBED")"
}
trap cleanup EXIT
"$testbed" up 2
"$testbed" exec 2 "setsid '$bench' fabric --serve=10.66.0.2:7000 >/run/serve.log 2>&1 </dev/null &"
flags=(--sizes=64,4096 --batches=1 --depths=1,16 "$@")
measure="'$bench' experiment fabric --peer=10.66.0.2:7000 ${flags[*]@Q}"
"$testbed" exec 1 "cd /run && $measure --out='$BONSAI_TESTBED/share/out'"
mkdir -p "$out"
cp "$BONSAI_TESTBED"/share/out/* "$out/"
echo "on this machine: $out/report.html"
