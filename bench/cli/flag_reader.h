// SPDX-License-Identifier: Apache-2.0
// Reads the command line of bonsai-bench. Flags are gflags, so that their values are typed and known by name, but they
// are read and explained here: an error names the known flags, the help teaches, and gflags' own flags stay out of
// sight. Our flags are those of the registered commands (Command::flag).
#ifndef BONSAI_BENCH_CLI_FLAG_READER_H_
#define BONSAI_BENCH_CLI_FLAG_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::bench {

// Reads `--name=value`, `--name value` and single-dash forms; '-' and '_' in names are the same; `-P` and `-p` may come
// more than once; switches need no value. Errors: InvalidArgument (unknown flag, bad value, a word that is no flag)
// with the remedy.
Status read_flags(const std::vector<std::string>& words);

// Every bonsai-bench flag and its value, as written in the manifest.
[[nodiscard]] std::map<std::string, std::string> flag_values();

// Whether the user gave the flag `name` (with underscores).
[[nodiscard]] bool was_given(const char* name);

inline constexpr char kListed = '\n';  // between the values of a flag that came more than once
// The parts of a list that are not empty.
[[nodiscard]] std::vector<std::string> split(const std::string& list, char separator = ',');

// Errors: InvalidArgument, unless low <= value <= high.
Status check_range(const char* flag, uint64_t value, uint64_t low, uint64_t high);

// The value of a flag that takes one of two words: false for the first. Errors: InvalidArgument (neither).
Status read_either(const char* flag, const std::string& value, const char* first, const char* second, bool* is_second);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_FLAG_READER_H_
