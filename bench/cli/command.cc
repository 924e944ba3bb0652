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

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "-help" || word == "help";
}

constexpr const char* kTitle = "bonsai-bench: runs the YCSB workloads on ordered stores, side by side.\n\n";
constexpr const char* kHelpUse =
    "  bonsai-bench --help          this text\n"
    "  bonsai-bench --version       the version\n";
constexpr const char* kExits = R"(
Reads are verified: each value names its key. Failures are counted, shown and make the exit code 1. Exit codes: 0 all
well, 1 failures or an engine's error, 2 wrong command line or workload file, 130 interrupted.
)";

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
  if (std::any_of(words.begin(), words.end(), asks_for_help)) {
    std::printf("%s", help_text().c_str());
    return 0;
  }
  if (!words.empty() && (words[0] == "version" || words[0] == "--version")) {
    std::printf("bonsai-bench %s\n", BONSAI_VERSION_STRING);
    return 0;
  }
  if (words.empty()) {
    std::fprintf(stderr, "bonsai-bench: no command; the commands are %s (bonsai-bench --help explains)\n",
                 known_commands().c_str());
    return kExitUsage;
  }
  if (const Command* command = find_command(words[0])) return command->run({words.begin() + 1, words.end()});
  if (std::find(kStudies.begin(), kStudies.end(), words[0]) != kStudies.end()) {
    std::fprintf(stderr, "bonsai-bench: '%s' is a study, and this build has no studies; %s\n", words[0].c_str(),
                 kHowToGetStudies);
    return kExitUsage;
  }
  std::fprintf(stderr, "bonsai-bench: unknown command '%s'; the commands are %s (--help explains)\n", words[0].c_str(),
               known_commands().c_str());
  return kExitUsage;
}

const std::string& help_text() {
  static const std::string kText = [] {
    std::string use = kTitle, examples = "\nExamples\n", flags;
    for (const Command& each : Registered<Command>::all()) {
      use += each.use;
      examples += each.examples;
      flags += each.flags;
    }
    use += kHelpUse;
    if (const auto missing = missing_studies(); !missing.empty()) {
      use += "Not in this build: " + listed(missing) + "; " + kHowToGetStudies + ".\n";
    }
    return use + examples + flags + kExits;
  }();
  return kText;
}

}  // namespace bonsai::bench
