#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows which lines of the product the tests execute.
usage() {
  cat <<'TEXT'
usage: scripts/coverage.sh [CTEST-REGEX]

Installs gcovr if it is missing, builds the preset `coverage`, runs the tests (all, or those whose name matches, with
the fast budget), writes build/coverage/report/index.html, a page per file, and prints a line per room.
TEXT
}
case "${1:-}" in
  -h | --help) usage && exit 0 ;;
  -*) usage >&2 && echo "coverage.sh: unknown argument '$1'" >&2 && exit 2 ;;
esac
(($# <= 1)) || { usage >&2 && echo "coverage.sh: one expression is taken; '$2' is another" >&2 && exit 2; }
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

setup build test docs
export BONSAI_TEST_BUDGET=fast
step configure build/logs/coverage-configure.log cmake --preset coverage
step build build/logs/coverage-build.log cmake --build --preset coverage
find build/coverage -name '*.gcda' -delete
step test build/logs/coverage-test.log ctest --test-dir build/coverage --output-on-failure --parallel "$(nproc)" \
  --label-exclude '^(style|build|scripts)$' --tests-regex "${1:-.}" ||
  echo "some tests failed; the report covers what ran"
mkdir -p build/coverage/report
step report build/logs/coverage-report.log gcovr --root . build/coverage \
  --filter '(admin|base|bench|index|persist|rdma|scale|store)/' \
  --exclude '.*_(test|fuzz)\.cc' --exclude '.*/testing/.*' --exclude-unreachable-branches --exclude-throw-branches \
  --html-details build/coverage/report/index.html --html-title "Bonsai: lines that the tests reach" \
  --json-summary build/coverage/report/summary.json
python3 - <<'PY'
import collections, json
rooms = collections.defaultdict(lambda: [0, 0])
for file in json.load(open("build/coverage/report/summary.json"))["files"]:
    room = rooms[file["filename"].split("/")[0]]
    room[0] += file["line_covered"]
    room[1] += file["line_total"]
for room, (covered, total) in sorted(rooms.items()):
    print(f"{room:<10}{covered:>7} of {total:>6} lines {100 * covered / max(total, 1):>5.1f} %")
PY
echo "The report is in build/coverage/report/index.html"
