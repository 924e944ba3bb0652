// SPDX-License-Identifier: Apache-2.0
// The commands of bonsai-bench: `bonsai-bench NAME [flag]...`. A file adds its command by a variable
// `const Registered<Command>`; its texts become part of the help.
#ifndef BONSAI_BENCH_CLI_COMMAND_H_
#define BONSAI_BENCH_CLI_COMMAND_H_

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "bench/registered.h"
#include "bonsai/status.h"

namespace bonsai::bench {

inline constexpr int kExitFailures = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

struct Command {
  std::string_view name;
  int (*run)(const std::vector<std::string>& words);  // with the words after the name; returns the exit code
  std::string_view use;                               // how to call it and what it does: lines of the help
  std::string_view examples = {};                     // of the command's own help: lines
  std::string_view flags = {};                        // of the command's own help: paragraphs
  std::string_view flag = {};         // one of its flags; all that are defined in the same file are flags of ours
  std::string (*listed)() = nullptr;  // what `bonsai-bench list` prints of it
};

// Prints what is wrong with the command line and returns the exit code for it.
int usage_error(const Status& status);

// From now on the signals by which a person, a shell or a system ends a program set the result to true instead of
// ending it, so that no pool stays. nohup is obeyed.
[[nodiscard]] const std::atomic<bool>& catch_interrupts();

// Runs the command that words[0] names, or prints a help or the version, and returns the exit code. An unknown
// command is a usage error, whose message lists the commands; for a study that this build leaves out it states how to
// build it.
int run_command(const std::vector<std::string>& words);

inline constexpr size_t kHelpColumns = 80;  // no line of a help is longer

// What all commands do; and one command with its examples and flags.
[[nodiscard]] std::string help_text();
[[nodiscard]] std::string help_text(const Command& command);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_COMMAND_H_
