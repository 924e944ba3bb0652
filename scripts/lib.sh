# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts that people run; source it. Sets `root` (the checkout), changes to it, and defines step.
# shellcheck shell=bash
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# A clone in another folder finds the same objects in the compiler cache.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=1

# check_flags SCRIPT SOURCE... -- WORD...: refuses a flag that no SOURCE of bonsai-bench defines, before anything is
# built for it: prints the text of usage() and exits with 2. Values are checked by the program.
check_flags() {
  local script=$1 known=" " word name
  shift
  while [[ $1 != -- ]]; do
    known+=$(sed -nE 's/^DEFINE_[a-z0-9]+\(([A-Za-z_]+),.*/\1/p' "$1" | tr '\n' ' ')" "
    shift
  done
  shift
  for word in "$@"; do
    [[ $word == -* ]] || continue
    name=${word#-} && name=${name#-} && name=${name%%=*} && name=${name//-/_}
    [[ $known == *" $name "* || $known == *" ${name#no} "* ]] && continue
    usage >&2
    echo "$script: unknown flag $word; known:$known" >&2
    exit 2
  done
}

setup() {
  [[ ${BONSAI_SKIP_SETUP:-} == 1 ]] || scripts/setup.sh "$@"
}

# Shows that a step is running, every second on a terminal, else every half minute, until its standard input ends.
heartbeat() {
  local name=$1 log=$2 begin=$SECONDS pause=30 last
  [[ -t 1 ]] && pause=1
  until read -rt "$pause" || (($? <= 128)); do # above 128: the time ran out
    last=$(tail -c 400 "$log" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 || true)
    if [[ -t 1 ]]; then
      printf '\r\033[K%.*s' "$(($(tput cols 2>/dev/null || echo 80) - 1))" "  $name, $((SECONDS - begin)) s: $last"
    else
      printf '  %s, %d s: %.100s\n' "$name" "$((SECONDS - begin))" "$last"
    fi
  done
}

# step NAME LOG COMMAND...: runs the command with its output in LOG, shows that it is running, and prints its result.
# On failure prints the end of LOG and returns the command's exit code. Sets step_seconds.
step() {
  local name=$1 log=$2 code=0 begin=$SECONDS
  shift 2
  mkdir -p "$(dirname "$log")"
  : >"$log"
  exec {alive}> >(heartbeat "$name" "$log")
  local heartbeat_pid=$!
  "$@" >"$log" 2>&1 </dev/null {alive}>&- || code=$?
  exec {alive}>&-
  wait "$heartbeat_pid" || true
  step_seconds=$((SECONDS - begin))
  [[ -t 1 ]] && printf '\r\033[K'
  if ((code == 0)); then
    printf '%-16s ok      %4d s\n' "$name" "$step_seconds"
  else
    printf '%-16s FAILED  %4d s, exit code %d; the end of %s:\n' "$name" "$step_seconds" "$code" "$log"
    tail -n "${BONSAI_LOG_LINES:-60}" "$log" | sed 's/^/    /'
  fi
  return "$code"
}
