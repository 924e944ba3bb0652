#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the pages of the API reference from the comments in include/bonsai.
usage() {
  cat <<'TEXT'
usage: scripts/api.sh

Installs doxygen if it is missing, and writes build/api/html/index.html. A comment that doxygen cannot read is an error.
TEXT
}
case "${1:-}" in -h | --help) usage && exit 0 ;; esac
(($# == 0)) || { usage >&2 && echo "api.sh: it takes no argument, but '$1' was given" >&2 && exit 2; }
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

setup docs
version=$(sed -n 's/^project(bonsai VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
mkdir -p build/api
cat >build/api/Doxyfile <<TEXT
PROJECT_NAME = Bonsai
PROJECT_NUMBER = $version
PROJECT_BRIEF = "a durable, ordered key-value store for tiered memory"
OUTPUT_DIRECTORY = build/api
INPUT = include/bonsai
FILE_PATTERNS = *.h
RECURSIVE = YES
# doxygen reads only comments with a third slash, so it is added. The licence line is left out.
FILTER_PATTERNS = "*.h=sed -E 's#^// SPDX-.*##; s#^( *)// #\1/// #; s#^( *)//\$#\1///#; s#([;,{] +)// #\1///< #'"
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = YES
GENERATE_LATEX = NO
HAVE_DOT = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = BONSAI_EXPORT=
WARN_AS_ERROR = FAIL_ON_WARNINGS
TEXT
step api build/logs/api.log doxygen build/api/Doxyfile
echo "The reference is in build/api/html/index.html"
