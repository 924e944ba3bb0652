#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that Bonsai needs, and nothing else. Idempotent: if nothing is missing it prints one line
# and needs no rights.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--list | --check] [build] [test] [testbed] [docs]

Installs the missing packages of the named groups (default: build).
  build    what compiling the library, the programs and the tests takes
  test     what scripts/test.sh adds: the second compiler, the formatter, the linter
  testbed  what scripts/testbed.sh adds: virtual machines with Soft-RoCE
  docs     what scripts/api.sh, coverage.sh, instructions.py and server-bench.sh add
  --list   prints the packages of the groups with the reason for each; installs nothing
  --check  names what is missing and fails if anything is; installs nothing
TEXT
}

# group | package | why
read -r -d '' packages <<'LIST' || true
build | cmake               | configures the build (3.25 or newer)
build | ninja-build         | runs the build
build | g++                 | compiles C++20, with the sanitizer runtimes
build | pkg-config          | finds libpmem and isa-l
build | ccache              | a second build of the same source takes seconds
build | libboost-context-dev | Boost.Context and Boost.Coroutine2, the coroutines of the scheduler
build | libboost-dev        | Boost.Asio and Boost.Beast, the connections of bonsai-server and of metrics
build | libpmem-dev         | flushes and copies to non-volatile memory, chosen by CPUID
build | libisal-dev         | fast checksums
build | libxxhash-dev       | hashes of keys; its header alone is used
build | libtbb-dev          | huge pages for what rivals of the benchmark allocate
build | libibverbs-dev      | RDMA devices, for the verbs provider of the fabric
build | librdmacm-dev       | connections between RDMA devices
build | libsodium-dev       | nodes of the fabric prove who they are
build | libabsl-dev         | B-trees: of free space, and the yardstick of the benchmark
build | librocksdb-dev      | RocksDB, a rival in the benchmark
build | liblmdb-dev         | LMDB, a rival in the benchmark
build | libcuckoo-dev       | a hash map for threads, a rival in the benchmark
build | libsparsehash-dev   | dense and sparse hash maps, rivals in the benchmark
build | libtsl-hopscotch-map-dev | a hash map, a rival in the benchmark
build | zlib1g-dev          | compresses the latency histograms of the benchmark
build | libgflags-dev       | command-line flags of the programs
build | libgoogle-glog-dev  | logging of the programs
build | nlohmann-json3-dev  | result files of the programs
build | libtomlplusplus-dev | reads the configuration of bonsaid
build | prometheus-cpp-dev  | metrics of bonsaid and bonsai-server
build | libsystemd-dev      | bonsai-server on the sockets of a .socket unit
build | libhiredis-dev      | a client of bonsai-server in its tests
build | libgtest-dev        | the tests beside the code
test  | mold                | links test programs in a quarter of the time
test  | clang-14            | the second compiler that must stay without warnings
test  | libclang-rt-14-dev  | the fuzzer and its sanitizer (scripts/fuzz.py)
test  | clang-format-14     | the layout of the source (style test)
test  | clang-tidy-14       | static analysis (scripts/tidy.sh)
test  | chromium            | shows the report of the benchmark to its test
test  | python3             | the style test and the scorecard
test  | dpkg-dev            | finds what the Debian package depends on
test  | python3-dev         | compiles the Python package
test  | python3-venv        | installs the Python package apart
test  | redis-tools         | redis-cli and redis-benchmark, clients of bonsai-server in its tests
test  | python3-redis       | a client of bonsai-server in its tests
test  | systemd             | starts bonsai-server by a socket in a test, and judges its units
test  | prometheus          | scrapes bonsaid and bonsai-server in a test, and judges their metrics
test  | file                | says for cpack which files are programs
docs  | doxygen             | the API reference (scripts/api.sh)
docs  | gcovr               | the coverage report (scripts/coverage.sh)
docs  | redis-server        | what bonsai-server is compared with (scripts/server-bench.sh)
docs  | valgrind            | counts instructions per operation (scripts/instructions.py)
testbed | qemu-system-x86   | the guests
testbed | busybox-static    | their first programs
testbed | cpio              | packs their first file system
testbed | kmod              | finds the modules that a module depends on
testbed | iproute2          | makes rxe0 and cuts the network
testbed | ndctl             | makes the emulated NVDIMM a devdax
testbed | ibverbs-providers | the user-space half of Soft-RoCE
testbed | perftest          | what Soft-RoCE is compared with
testbed | python3           | widens the guests' network sockets
LIST

fail() {
  echo "setup: $*" >&2
  exit 1
}

mode=install
groups=()
for argument in "$@"; do
  case "$argument" in
    --list) mode=list ;;
    --check) mode=check ;;
    build | test | testbed | docs) groups+=("$argument") ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && fail "unknown argument '$argument'" ;;
  esac
done
((${#groups[@]})) || groups=(build)

wanted=()
declare -A reason
while IFS='|' read -r group package why; do
  group=${group// /} package=${package// /} why=${why# }
  [[ -n $package && " ${groups[*]} " == *" $group "* ]] || continue
  wanted+=("$package")
  reason[$package]=$why
done <<<"$packages"

if [[ $mode == list ]]; then
  for package in "${wanted[@]}"; do printf '%-22s %s\n' "$package" "${reason[$package]}"; done
  exit 0
fi

for tool in dpkg-query apt-get; do
  command -v "$tool" >/dev/null || fail "this is not a Debian system ($tool is missing). Install what corresponds to" \
    "these Debian 12 packages by hand, then set BONSAI_SKIP_SETUP=1: ${wanted[*]}"
done

installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^ii *//p' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#wanted[@]} packages are installed"
  exit 0
fi
[[ $mode == install ]] || fail "missing: ${missing[*]}"

by_hand="apt-get install --no-install-recommends ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    fail "packages are missing, this user is not root, and there is no sudo. As root run: $by_hand"
  as_root=(sudo)
  [[ -t 0 ]] || as_root=(sudo -n)
  "${as_root[@]}" true 2>/dev/null || fail "packages are missing and sudo was refused. As root run: $by_hand"
fi

echo "setup: installing ${#missing[@]} Debian packages"
for package in "${missing[@]}"; do printf '  %-22s %s\n' "$package" "${reason[$package]}"; done
# shellcheck disable=SC1091
. /etc/os-release
[[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]] ||
  echo "setup: note: written for Debian 12, this is ${PRETTY_NAME:-unknown}"

log=$(mktemp -t bonsai-setup.XXXXXX)
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; }; then
  tail -n 20 "$log" >&2
  fail "apt-get failed (whole output: $log). When that is repaired, run this again, or as root: $by_hand"
fi
rm -f "$log"
echo "setup: done"
