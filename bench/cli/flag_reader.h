// SPDX-License-Identifier: Apache-2.0
// The flags of bonsai-bench: those of the registered commands (Command::flag). Every command accepts all of them;
// admin/flag_parser.h parses them.
#ifndef BONSAI_BENCH_CLI_FLAG_READER_H_
#define BONSAI_BENCH_CLI_FLAG_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::bench {

// Parses flags. Errors: InvalidArgument, as parse_flags() without operands and help.
Status read_flags(const std::vector<std::string>& words);

// Every bonsai-bench flag and its value, as written in the manifest.
[[nodiscard]] std::map<std::string, std::string> flag_values();

// The parts of a list that are not empty.
[[nodiscard]] std::vector<std::string> split(const std::string& list, char separator = ',');

// Errors: InvalidArgument, unless low <= value <= high.
Status check_range(const char* flag, uint64_t value, uint64_t low, uint64_t high);

// The value of a flag that takes one of two words: false for the first. Errors: InvalidArgument (neither).
Status read_either(const char* flag, const std::string& value, const char* first, const char* second, bool* is_second);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_FLAG_READER_H_
