// SPDX-License-Identifier: Apache-2.0
// bonsai-bench: see help.cc for what it does.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "admin/log_sink.h"
#include "admin/run_main.h"
#include "bench/cli/flags.h"
#include "bench/cli/session.h"
#include "bench/pages/report.h"
#include "bench/report/terminal.h"
#include "bonsai/c.h"

namespace bonsai::bench {
namespace {

constexpr const char* kCommands = "run, experiment, sweep, fabric, report and list";

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) { interrupted = true; }

// Every signal by which a person, a shell or a system ends a program, so that no pool stays. nohup is obeyed.
void catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) std::signal(signal, on_interrupt);
  if (std::signal(SIGHUP, on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

int list() {
  std::printf("engines\n");
  std::vector<std::vector<std::string>> rows;
  for (const EngineEntry& entry : engine_list())
    rows.push_back({"  " + std::string(entry.name), std::string(entry.what)});
  std::printf("%s\nworkloads\n", align(rows, 2).c_str());
  rows = {{"  load", "inserts the records; takes their form from the workload after it"}};
  for (const auto& row : known_workloads()) rows.push_back({"  " + row[0], row[1]});
  std::printf("%s\nexperiments\n", align(rows, 2).c_str());
  rows.clear();
  for (const Experiment& each : experiment_list()) {
    rows.push_back({"  " + std::string(each.name), std::string(each.what) + " (" + std::string(each.source) + ")"});
  }
  std::printf("%s", align(rows, 2).c_str());
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  RunRequest request;
  if (Status status = request_of_flags(&request); !status.ok()) return usage_error(status);
  catch_interrupts();
  return run_session(std::move(request), interrupted);
}

// The first word is the name; flags follow.
int experiment(std::vector<std::string> words) {
  std::string name;
  if (!words.empty() && words[0].rfind('-', 0) != 0) {
    name = words[0];
    words.erase(words.begin());
  }
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  ExperimentRequest request;
  if (Status status = experiment_of_flags(name, &request); !status.ok()) return usage_error(status);
  catch_interrupts();
  return run_experiment(std::move(request), interrupted);
}

int sweep(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  SweepRequest request;
  if (Status status = sweep_of_flags(&request); !status.ok()) return usage_error(status);
  catch_interrupts();
  return run_sweep_session(request, interrupted);
}

int fabric(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  FabricRequest request;
  if (Status status = fabric_of_flags(&request); !status.ok()) return usage_error(status);
  catch_interrupts();
  return run_fabric(request, interrupted);
}

int report(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  const std::string directory = flag_values().at("out");
  if (Status status = write_report(directory); !status.ok()) return usage_error(status);
  std::printf("report: %s/report.html\n", directory.c_str());
  return 0;
}

int command(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h" || word == "-help" || word == "help") {
      std::printf("%s", help_text());
      return 0;
    }
  }
  if (!words.empty() && (words[0] == "version" || words[0] == "--version")) {
    std::printf("bonsai-bench %s\n", BONSAI_VERSION_STRING);
    return 0;
  }
  if (words.empty()) {
    std::fprintf(stderr, "bonsai-bench: no command; the commands are %s (bonsai-bench --help explains)\n", kCommands);
    return kExitUsage;
  }
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == "run") return run(rest);
  if (words[0] == "experiment") return experiment(rest);
  if (words[0] == "sweep") return sweep(rest);
  if (words[0] == "fabric") return fabric(rest);
  if (words[0] == "report") return report(rest);
  if (words[0] == "list") {
    if (Status status = read_flags(rest); !status.ok()) return usage_error(status);
    return list();
  }
  std::fprintf(stderr, "bonsai-bench: unknown command '%s'; the commands are %s (--help explains)\n", words[0].c_str(),
               kCommands);
  return kExitUsage;
}

}  // namespace
}  // namespace bonsai::bench

int main(int argc, char** argv) {
  return bonsai::admin::run_main("bonsai-bench", [argc, argv] {
    bonsai::admin::start_log(argv[0]);
    return bonsai::bench::command(std::vector<std::string>(argv + 1, argv + argc));
  });
}
