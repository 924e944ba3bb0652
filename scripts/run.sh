#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, from a bare clone on a bare Debian 12: installs what is missing, builds, runs YCSB Load and A-F, and
# says where the result is. A second start installs and rebuilds nothing.
usage() {
  cat <<'TEXT'
usage: scripts/run.sh [flag of bonsai-bench run]...

Builds the programs bonsai, bonsai-bench and bonsaid of the release preset (in build/release/bin) and runs
  build/release/bin/bonsai-bench run --records=1000000 --operations=1000000 --out=results/latest
Flags given here come after these, so they win: scripts/run.sh --records=10000000 --out=results/large.
All flags: build/release/bin/bonsai-bench run --help, once it is built.
TEXT
}
out=results/latest
previous=
for argument in "$@"; do
  case "$argument" in
    -h | --help) usage && exit 0 ;;
    --out=* | -out=*) out=${argument#*=} ;;
    # The value of a flag may be a separate word.
    -*) ;;
    *) [[ $previous == -* && $previous != *=* ]] ||
      { usage >&2 && echo "run.sh: '$argument' is no flag" >&2 && exit 2; } ;;
  esac
  previous=$argument
done
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

check_flags run.sh bench/cli/flags.cc -- "$@"
setup build
# Without the studies, which it does not run, unless the folder is configured already.
[[ -f build/release/build.ninja ]] ||
  step configure build/logs/release-configure.log cmake --preset release -DBONSAI_STUDIES=OFF
step build build/logs/release-build.log cmake --build --preset release \
  --target bonsai bonsai-bench bonsaid bonsai-server

echo "running: bonsai-bench run --records=1000000 --operations=1000000 --out=results/latest $*"
build/release/bin/bonsai-bench run --records=1000000 --operations=1000000 --out=results/latest "$@"
echo "The report is in $out/report.html"
