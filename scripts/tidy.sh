#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the sources (checks: .clang-tidy). Without arguments over every product source; with --changed over
# what differs from the merge base with the given branch (default main) and from the last commit; or over named files.
# shellcheck source=scripts/lib.sh
case "${1:-}" in -h | --help) grep -v SPDX- "$0" | sed -n 's/^# \{0,1\}//; 2,3p' && exit 0 ;; esac
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
# Only what the build compiles has flags to be checked with.
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
