// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/command.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

#include "bonsai/c.h"

namespace bonsai::bench {
namespace {

std::atomic<bool> interrupt_came{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) { interrupt_came = true; }

// The commands of bench/studies, which a build may leave out.
constexpr std::array<std::string_view, 3> kStudies = {"experiment", "fabric", "sweep"};
constexpr const char* kHowToGetStudies = "configure the build with -DBONSAI_STUDIES=ON (cmake --preset release does)";

const Command* find_command(std::string_view name) {
  for (const Command& each : Registered<Command>::all()) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

// The names as text: "run, report and list".
template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text.append(i == 0 ? "" : i + 1 < names.size() ? ", " : " and ").append(names[i]);
  }
  return text;
}

std::string known_commands() {
  std::vector<std::string_view> names;
  for (const Command& each : Registered<Command>::all()) names.push_back(each.name);
  return listed(names);
}

std::vector<std::string_view> missing_studies() {
  std::vector<std::string_view> missing;
  std::copy_if(kStudies.begin(), kStudies.end(), std::back_inserter(missing),
               [](std::string_view name) { return find_command(name) == nullptr; });
  return missing;
}

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h" || word == "-help"; }
bool asks_for_version(const std::string& word) { return word == "--version" || word == "-version"; }

constexpr const char* kTitle = "bonsai-bench: runs the YCSB workloads on ordered stores, side by side.\n\n";
constexpr const char* kHelpUse = R"(  bonsai-bench help COMMAND
      its flags, with examples
  bonsai-bench --version
      the version
)";
constexpr const char* kExits = R"(
Reads are verified: each value names its key. Failures are counted, shown and
make the exit code 1. Exit codes: 0 all well, 1 failures or an engine's error,
2 wrong command line or workload file, 130 interrupted.
)";

int say(const std::string& text) {
  std::printf("%s", text.c_str());
  return 0;
}

int refuse(const std::string& text) { return usage_error(Status::InvalidArgument(text)); }

// Of the word where a command should be.
int unknown(const std::string& word) {
  if (std::find(kStudies.begin(), kStudies.end(), word) != kStudies.end()) {
    return refuse("'" + word + "' is a study, and this build has no studies; " + kHowToGetStudies);
  }
  return refuse("unknown command '" + word + "'; the commands are " + known_commands() + " (--help explains)");
}

int help_of(const std::string& word) {
  const Command* command = find_command(word);
  return command != nullptr ? say(help_text(*command)) : unknown(word);
}

}  // namespace

int usage_error(const Status& status) {
  std::fprintf(stderr, "bonsai-bench: %s\n", std::string(status.message()).c_str());
  return kExitUsage;
}

const std::atomic<bool>& catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) std::signal(signal, on_interrupt);
  if (std::signal(SIGHUP, on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  return interrupt_came;
}

int run_command(const std::vector<std::string>& words) {
  if (words.empty()) {
    return refuse("no command; the commands are " + known_commands() + " (bonsai-bench --help explains)");
  }
  const std::string& first = words[0];
  if (first == "help" && words.size() > 1 && !asks_for_help(words[1])) return help_of(words[1]);
  if (first == "help" || asks_for_help(first)) return say(help_text());
  if (first == "version" || std::any_of(words.begin(), words.end(), asks_for_version)) {
    return say("bonsai-bench " BONSAI_VERSION_STRING "\n");
  }
  if (std::any_of(words.begin(), words.end(), asks_for_help)) return help_of(first);
  const Command* command = find_command(first);
  return command != nullptr ? command->run({words.begin() + 1, words.end()}) : unknown(first);
}

std::string help_text() {
  std::string text = kTitle;
  for (const Command& each : Registered<Command>::all()) text += each.use;
  text += kHelpUse;
  if (const auto missing = missing_studies(); !missing.empty()) {
    text += "Not in this build: " + listed(missing) + ";\n" + kHowToGetStudies + ".\n";
  }
  return text + kExits;
}

std::string help_text(const Command& command) {
  std::string text(command.use);
  if (!command.examples.empty()) text.append("\nExamples\n").append(command.examples);
  return text.append(command.flags).append(kExits);
}

}  // namespace bonsai::bench
