// SPDX-License-Identifier: Apache-2.0
// bonsai: the admin program. Dispatches to the commands of commands.cc.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "admin/command.h"
#include "admin/flags.h"
#include "admin/log_sink.h"
#include "admin/run_main.h"
#include "admin/stop_signals.h"
#include "admin/text.h"
#include "bonsai/c.h"

namespace bonsai::admin {
namespace {

const Command* find_command(std::string_view name) {
  for (const Command& command : all_commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

Status unknown_command(std::string_view name) {
  std::string known;
  for (const Command& command : all_commands()) known += std::string(command.name) + " ";
  if (name.starts_with("-")) {
    return Status::InvalidArgument("the command comes first, then its flags; known commands: " + known +
                                   "help version");
  }
  return Status::InvalidArgument("unknown command '" + escape(name) + "'; known: " + known + "help version");
}

ExitCode fail(std::string_view command, const Status& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "bonsai%s%.*s: %s\n", command.empty() ? "" : " ", static_cast<int>(command.size()),
               command.data(), status.ToString().c_str());
  return exit_code(status);
}

// Detects a common mistake, a pool as the first operand instead of a flag: `bonsai put /dev/shm/a.pool apple red`.
Status look_for_a_pool(const Command& command, const std::vector<std::string>& words) {
  const bool takes_a_pool = std::find(command.flags.begin(), command.flags.end(), "pool") != command.flags.end();
  if (!takes_a_pool || !FLAGS_pool.empty() || words.empty() || words[0].find('/') == std::string::npos) {
    return Status::OK();
  }
  std::string meant = "bonsai " + std::string(command.name) + " --pool=" + words[0];
  for (size_t i = 1; i < words.size(); ++i) meant += " " + words[i];
  return Status::InvalidArgument("no pool was named; is this meant? " + meant);
}

Status count_operands(const Command& command, size_t count) {
  if (count >= command.operands_min && count <= command.operands_max) return Status::OK();
  const std::string name(command.name), wanted(command.operands.empty() ? "no operands" : command.operands);
  return Status::InvalidArgument("takes " + wanted + ", but " + std::to_string(count) +
                                 " operands were given; see: bonsai help " + name);
}

// Runs the command, and checks that its output was written.
Status run(const Command& command, const std::vector<std::string>& arguments, ExitCode* exit) {
  bool help = false;
  std::vector<std::string> operands;
  if (Status status = parse_flags(arguments, command.flags, &help, &operands); !status.ok()) return status;
  if (help) return print(command_help(command));
  if (Status status = look_for_a_pool(command, operands); !status.ok()) return status;
  if (Status status = count_operands(command, operands.size()); !status.ok()) return status;
  Status status = command.run(operands, exit);
  if (status.ok() && std::fflush(stdout) != 0) {
    status = Status::IoError("standard output cannot be written: " + std::string(std::strerror(errno)));
  }
  return status;
}

ExitCode help(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return exit_code(print(program_help()));
  const Command* command = find_command(arguments[0]);
  if (command == nullptr) return fail("help", unknown_command(arguments[0]));
  return exit_code(print(command_help(*command)));
}

ExitCode dispatch(const std::string& name, const std::vector<std::string>& arguments) {
  if (name == "help" || name == "--help" || name == "-h") return help(arguments);
  if (name == "version" || name == "--version")
    return exit_code(print("bonsai " + std::string(bonsai_version()) + "\n"));
  const Command* command = find_command(name);
  if (command == nullptr) return fail("", unknown_command(name));
  ExitCode exit = kExitOk;
  const Status status = run(*command, arguments, &exit);
  return status.ok() ? exit : fail(name, status);
}

}  // namespace
}  // namespace bonsai::admin

int main(int argc, char** argv) {
  const int exit = bonsai::admin::run_main("bonsai", [argc, argv]() -> int {
    bonsai::admin::start_log(argv[0]);
    if (argc < 2) {
      std::fputs(bonsai::admin::program_help().c_str(), stderr);
      return bonsai::admin::kExitUsage;
    }
    return bonsai::admin::dispatch(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  });
  // A command that was done when the signal came has succeeded, and what it made stays.
  if (exit != bonsai::admin::kExitOk) bonsai::admin::end_as_signalled();
  return exit;
}
