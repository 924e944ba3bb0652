// SPDX-License-Identifier: Apache-2.0
// Runs the built `bonsai` as a shell would and returns its output.
#ifndef BONSAI_ADMIN_TESTING_RUN_PROGRAM_H_
#define BONSAI_ADMIN_TESTING_RUN_PROGRAM_H_

#include <string>
#include <vector>

namespace bonsai::admin {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal if a signal killed it; -1 if it did not end within kProgramSecondsMax
  std::string out;
  std::string err;
};

// Runs `bonsai arguments...` with `in` as standard input. A program that hangs is killed after kProgramSecondsMax.
inline constexpr unsigned kProgramSecondsMax = 60;
ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& in = "");

// As above, but standard output goes to `out_path` (e.g. /dev/full) and is not returned.
ProgramResult run_program_into(const std::string& out_path, const std::vector<std::string>& arguments);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_TESTING_RUN_PROGRAM_H_
