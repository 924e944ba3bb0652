#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Git's commit-msg hook: refuses a subject over 72 columns, or without a room (CONTRIBUTING.md, 7).
# Install: ln -s ../../scripts/commit-msg.sh "$(git rev-parse --git-path hooks)/commit-msg"
case "${1:-}" in -h | --help) echo "usage: scripts/commit-msg.sh FILE    # of the message" && exit 0 ;; esac
[ $# = 1 ] && [ -f "$1" ] || { echo "usage: scripts/commit-msg.sh FILE    # of the message" >&2 && exit 2; }
subject=$(grep -v '^#' "$1" | head -n 1)
case $subject in
  "fixup! "* | "squash! "* | "Merge "* | "Revert "*) exit 0 ;;
esac
if [ "${#subject}" -gt 72 ]; then
  echo "commit-msg: the subject has ${#subject} columns; 72 are allowed" >&2
  exit 1
fi
case $subject in
  [a-z]*": "?*) exit 0 ;;
esac
echo "commit-msg: write the subject as 'room: what', for example 'index: a get reads one line less'" >&2
exit 1
