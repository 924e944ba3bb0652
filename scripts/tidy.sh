#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the sources (checks: .clang-tidy).
usage() {
  cat <<'TEXT'
usage: scripts/tidy.sh [--changed [BRANCH] | FILE...]

Without arguments over every product source; with --changed over what differs from the merge base with BRANCH (default
main) and from the last commit; or over the named files.
TEXT
}
for argument in "$@"; do
  case "$argument" in
    -h | --help) usage && exit 0 ;;
    --changed) ;;
    -*) usage >&2 && echo "tidy.sh: unknown argument '$argument'" >&2 && exit 2 ;;
    *) [[ ${1:-} == --changed || -f "$(dirname "$0")/../$argument" ]] ||
      { echo "tidy.sh: there is no file $argument" >&2 && exit 2; } ;;
  esac
done
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
setup build test

[[ -f build/apart/build.ninja ]] || step "apart configure" build/logs/apart-configure.log cmake --preset apart
case "${1:-}" in
  "") wanted=$(find base rdma scale persist index store bench admin -name '*.cc' ! -name '*_test.cc' | sort) ;;
  --changed) wanted=$({
    git diff --name-only "$(git merge-base HEAD "${2:-main}")"
    git ls-files --others --exclude-standard
  } | grep '\.cc\?$' | sort -u || true) ;;
  *) wanted=$(printf '%s\n' "$@") ;;
esac
# Only files that the build compiles have the flags that the check needs.
files=()
for file in $wanted; do
  [[ -f $file ]] && grep -qF "\"$root/$file\"" build/apart/compile_commands.json && files+=("$file")
done
((${#files[@]})) || { echo "tidy: nothing to check" && exit 0; }

tidy_all() {
  printf '%s\0' "${files[@]}" |
    xargs -0 -n 1 -P "$(nproc)" sh -c 'echo "$0" && clang-tidy-14 --quiet -p build/apart "$0"'
}
BONSAI_LOG_LINES=200 step "tidy ${#files[@]} files" build/logs/tidy.log tidy_all
