// SPDX-License-Identifier: Apache-2.0
// The commands of the program. Each is a table entry: adding one adds it to help, errors and flag checking.
#ifndef BONSAI_ADMIN_COMMAND_H_
#define BONSAI_ADMIN_COMMAND_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admin/exit_code.h"
#include "bonsai/status.h"

namespace bonsai::admin {

struct Command {
  std::string_view name;
  std::string_view operands;  // as in the usage line, e.g. "KEY VALUE"
  size_t operands_min;
  size_t operands_max;
  std::string_view summary;  // one line
  std::string_view text;     // paragraphs of help and examples
  std::vector<std::string_view> flags;
  // Runs the command. Flags are parsed and the number of operands is checked. Results go to stdout; an error is
  // returned, not printed. *exit starts as kExitOk; it is the exit code if the status is OK.
  Status (*run)(const std::vector<std::string>& operands, ExitCode* exit);
};

std::span<const Command> all_commands();

Status run_create(const std::vector<std::string>& operands, ExitCode* exit);
Status run_put(const std::vector<std::string>& operands, ExitCode* exit);
Status run_increment(const std::vector<std::string>& operands, ExitCode* exit);
Status run_get(const std::vector<std::string>& operands, ExitCode* exit);
Status run_exists(const std::vector<std::string>& operands, ExitCode* exit);
Status run_del(const std::vector<std::string>& operands, ExitCode* exit);
Status run_scan(const std::vector<std::string>& operands, ExitCode* exit);
Status run_delete_range(const std::vector<std::string>& operands, ExitCode* exit);
Status run_count(const std::vector<std::string>& operands, ExitCode* exit);
Status run_stat(const std::vector<std::string>& operands, ExitCode* exit);
Status run_groups(const std::vector<std::string>& operands, ExitCode* exit);
Status run_scrub(const std::vector<std::string>& operands, ExitCode* exit);
Status run_check(const std::vector<std::string>& operands, ExitCode* exit);
Status run_checkpoint(const std::vector<std::string>& operands, ExitCode* exit);
Status run_salvage(const std::vector<std::string>& operands, ExitCode* exit);
Status run_list(const std::vector<std::string>& operands, ExitCode* exit);
Status run_remove(const std::vector<std::string>& operands, ExitCode* exit);
Status run_grow(const std::vector<std::string>& operands, ExitCode* exit);
Status run_dump(const std::vector<std::string>& operands, ExitCode* exit);
Status run_load(const std::vector<std::string>& operands, ExitCode* exit);
Status run_plan(const std::vector<std::string>& operands, ExitCode* exit);
Status run_doctor(const std::vector<std::string>& operands, ExitCode* exit);

// Help of the program, and of one command.
std::string program_help();
std::string command_help(const Command& command);

// Writes to stdout; IoError when that fails, e.g. on a full disk.
Status print(std::string_view text);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_COMMAND_H_
