#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# YCSB through RDMA: bonsaid in one virtual machine, bonsai-bench in another, Soft-RoCE between. No hardware is needed.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: scripts/remote-bench.sh [FLAG...]

Starts two guests (scripts/testbed.sh). In one of them bonsaid serves a folder on tmpfs; in the other bonsai-bench loads
a pool of it through rdma:// and runs YCSB A to F, checking every record that it reads. Writes results/remote on this
machine and takes the guests down again. Each FLAG is passed on to `bonsai-bench run` after these:
  --engines=bonsai --workloads=load,a,b,c,d,e,f --records=100000 --operations=20000 --threads=1 --depth=32
  OUT  folder for the results (default results/remote)
It takes about four minutes after the build; fewer records or operations take less.
Times are those of emulated processors and of emulated NVM: only counts and behaviour mean anything.
TEXT
}
[[ ${1:-} == -h || ${1:-} == --help ]] && usage && exit 0
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

check_flags remote-bench.sh bench/cli/flags.cc -- "$@"
setup build testbed
[[ -f build/release/build.ninja ]] ||
  step configure build/logs/release-configure.log cmake --preset release -DBONSAI_STUDIES=OFF
step build build/logs/release-build.log cmake --build --preset release --target bonsai-bench bonsaid
bin=$root/build/release/bin
out=${OUT:-$root/results/remote}

BONSAI_TESTBED=$(mktemp -d -t bonsai-remote-bench.XXXXXX)/state
export BONSAI_TESTBED
testbed=$root/scripts/testbed.sh
share=$BONSAI_TESTBED/share
cleanup() {
  "$testbed" down >/dev/null 2>&1 || true
  rm -rf "$(dirname "$BONSAI_TESTBED")"
}
trap cleanup EXIT
"$testbed" up 2
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$share/secret")
"$testbed" exec 2 "mkdir -p /dev/shm/pools && setsid '$bin/bonsaid' --folder=/dev/shm/pools --domain=adr \
  --listen=rdma://10.66.0.2:7471 --secret_file='$share/secret' >'$share/bonsaid.log' 2>&1 </dev/null &"
for ((tries = 0; tries < 120; ++tries)); do # bonsaid tests the device first, which is slow on emulated processors
  grep -q ' ready: ' "$share/bonsaid.log" 2>/dev/null && break
  sleep 1
done
flags=(--engines=bonsai --workloads=load,a,b,c,d,e,f --records=100000 --operations=20000 --threads=1 --depth=32 "$@")
code=0
"$testbed" exec 1 "cd /run && BONSAI_SECRET_FILE='$share/secret' '$bin/bonsai-bench' run \
  --pool-dir=rdma://10.66.0.2:7471 ${flags[*]@Q} --out='$share/out'" || code=$?
((code == 0)) || tail -n 20 "$share/bonsaid.log" >&2
mkdir -p "$out"
cp -r "$share"/out/* "$out/"
echo "on this machine: $out/report.html"
exit "$code"
