#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bonsai-server beside Debian's redis-server, both durable on tmpfs, under redis-benchmark.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: scripts/server-bench.sh [REQUESTS [ROUNDS]]

Starts bonsai-server, and redis-server with appendonly yes and appendfsync always, both on tmpfs and on Unix sockets.
redis-benchmark then runs SET, GET, MSET (of 10 keys) and INCR on each in turns, ROUNDS times (default 5): 50
connections that pipeline 1, 16 and 64 requests, REQUESTS (default 100000) in all, random keys of 100,000, values of 3
bytes. Prints the medians of the rounds: requests per second, median and 99th percentile of the latency in milliseconds,
and the ratio of the rates.
The benchmark shares the machine's processors with the servers. On tmpfs fsync costs a system call, on a disk more.
TEXT
}
[[ ${1:-} == -h || ${1:-} == --help ]] && usage && exit 0
requests=${1:-100000} rounds=${2:-5}
if (($# > 2)) || ! [[ $requests =~ ^[1-9][0-9]*$ && $rounds =~ ^[1-9][0-9]*$ ]]; then
  usage >&2
  echo "server-bench.sh: give a number of requests, and one of rounds, or none" >&2
  exit 2
fi
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

setup build test docs
[[ -f build/release/build.ninja ]] || step configure build/logs/release-configure.log cmake --preset release
step build build/logs/release-build.log cmake --build --preset release --target bonsai-server

place=$(mktemp -d -p /dev/shm bonsai-server-bench.XXXXXX)
servers=()
cleanup() {
  ((${#servers[@]} == 0)) || kill "${servers[@]}" 2>/dev/null || true
  wait
  rm -rf "$place"
}
trap cleanup EXIT
mkdir "$place/redis"
build/release/bin/bonsai-server --pool="$place/pool" --create --bytes=1G --listen=unix:"$place/bonsai" 2>"$place/log" &
servers+=($!)
redis-server --port 0 --unixsocket "$place/redis/socket" --dir "$place/redis" --appendonly yes --appendfsync always \
  --save '' --daemonize no >"$place/redis/log" &
servers+=($!)
for socket in "$place/bonsai" "$place/redis/socket"; do
  for ((tries = 0; tries < 100; ++tries)); do
    redis-cli -s "$socket" ping >/dev/null 2>&1 && continue 2
    sleep 0.1
  done
  cat "$place/log" "$place/redis/log" >&2
  echo "server-bench.sh: no server answers at $socket within 10 s; above are the logs" >&2
  exit 1
done

# measure SOCKET TEST PIPELINED: a line: requests per second, p50, p99
measure() {
  redis-benchmark -s "$1" -t "$2" -n "$requests" -c 50 -P "$3" -r 100000 --csv 2>/dev/null |
    awk -F'","|"' 'NR == 2 { print $3, $6, $8 }'
}

# medians FILE: of each column
medians() {
  local column
  for column in 1 2 3; do cut -d' ' -f"$column" "$1" | sort -n | sed -n "$(((rounds + 1) / 2))p"; done | paste -sd' '
}

printf '%-6s %9s %12s %8s %8s %12s %8s %8s %6s\n' test pipelined bonsai/s p50 p99 redis/s p50 p99 ratio
for pipelined in 1 16 64; do
  for test in set get mset incr; do
    : >"$place/ours"
    : >"$place/theirs"
    for ((round = 0; round < rounds; ++round)); do
      measure "$place/bonsai" "$test" "$pipelined" >>"$place/ours"
      measure "$place/redis/socket" "$test" "$pipelined" >>"$place/theirs"
    done
    read -r rate p50 p99 <<<"$(medians "$place/ours")"
    read -r other other50 other99 <<<"$(medians "$place/theirs")"
    ratio=$(awk -v a="$rate" -v b="$other" 'BEGIN { printf "%.2f", a / b }')
    printf '%-6s %9d %12.0f %8s %8s %12.0f %8s %8s %6s\n' "$test" "$pipelined" "$rate" "$p50" "$p99" "$other" \
      "$other50" "$other99" "$ratio"
  done
done
