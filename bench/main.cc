// bonsai-bench: see help.cc for what it does.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "bench/machine.h"
#include "bench/results.h"
#include "bench/runner.h"
#include "bench/terminal.h"

namespace bonsai::bench {
namespace {

constexpr int kExitFailures = 1;
constexpr int kExitUsage = 2;
constexpr int kExitInterrupted = 130;

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) { interrupted = true; }

int usage_error(const Status& status) {
  std::fprintf(stderr, "bonsai-bench: %.*s\n", static_cast<int>(status.message().size()), status.message().data());
  return kExitUsage;
}

int list() {
  std::printf("engines\n");
  std::vector<std::vector<std::string>> rows;
  for (const EngineEntry& entry : engine_list())
    rows.push_back({"  " + std::string(entry.name), std::string(entry.what)});
  std::printf("%s\nworkloads\n", align(rows, 2).c_str());
  rows = {{"  load", "inserts the records; takes their form from the workload after it"}};
  for (const auto& row : known_workloads()) rows.push_back({"  " + row[0], row[1]});
  std::printf("%s", align(rows, 2).c_str());
  return 0;
}

// One execution of `run`: gathers results and keeps results.json up to date.
class Session {
 public:
  explicit Session(RunRequest request)
      : request_(std::move(request)), path_(request_.config.out_dir + "/results.json"), line_(stderr, isatty(2) == 1) {
    describe_machine(&manifest_);
    manifest_.flags = flag_values();
    manifest_.seed = request_.config.seed;
  }

  int run() {
    for (const std::string& text : request_.notes) note(text);
    std::error_code error;
    std::filesystem::create_directories(request_.config.out_dir, error);
    if (error) {
      return usage_error(
          Status::IoError("cannot make " + request_.config.out_dir + ": " + error.message() + "; give another --out"));
    }
    if (Status status = write(); !status.ok()) return usage_error(status);
    bool failed = false;
    for (const EngineEntry* engine : request_.engines) {
      const Status status = run_engine(*engine, request_.config, request_.steps, interrupted, listener());
      line_.clear();
      if (status.ok()) continue;
      failed = true;
      std::fprintf(stderr, "bonsai-bench: engine %s: %s\n", std::string(engine->name).c_str(),
                   status.ToString().c_str());
    }
    return finish(failed);
  }

 private:
  RunListener listener() {
    return {.on_phase = [this](const std::string& engine, const std::string& phase,
                               uint64_t operations) { line_.start(engine, phase, operations); },
            .on_progress = [this](const PhaseProgress& progress) { show(progress); },
            .on_result = [this](const RunResult& result) { keep(result); },
            .on_note = [this](const std::string& text) { note(text); },
            .on_medium = [this](const MediumUse& medium) { keep(medium); }};
  }

  void show(const PhaseProgress& progress) {
    line_.show(progress);
    if (progress.seconds_idle < kIdleSecondsMax) return;
    line_.clear();
    std::fprintf(stderr,
                 "bonsai-bench: no operation has ended for %.0f s, so the engine hangs; giving up. What it stored is "
                 "left behind for inspection; results so far are in %s\n",
                 progress.seconds_idle, path_.c_str());
    std::_Exit(kExitFailures);
  }

  void keep(const RunResult& result) {
    results_.push_back(result);
    failures_ += result.failures;
    if (Status status = write(); !status.ok()) note(std::string(status.message()));
  }

  void keep(const MediumUse& medium) {
    if (manifest_.medium) return;
    manifest_.medium = medium.text;
    const size_t domain = medium.text.rfind("domain ");
    if (domain != std::string::npos) manifest_.domain = medium.text.substr(domain + 7);
    if (medium.emulated) manifest_.emulated.push_back("NVM: " + medium.text);
  }

  void note(const std::string& text) {
    line_.clear();
    std::fprintf(stderr, "note: %s\n", text.c_str());
  }

  [[nodiscard]] Status write() const { return write_file(path_, results_json(manifest_, results_)); }

  int finish(bool failed) {
    std::printf("%s", results_table(results_).c_str());
    std::printf("\n%s | %s | seed %llu | medium %s\n", manifest_.cpu.value_or("unknown processor").c_str(),
                manifest_.kernel.value_or("unknown kernel").c_str(), static_cast<unsigned long long>(manifest_.seed),
                manifest_.medium.value_or("none").c_str());
    for (const std::string& what : manifest_.emulated)
      std::printf("EMULATED %s: no statement about real NVM\n", what.c_str());
    std::printf("results: %s\n", path_.c_str());
    if (interrupted) return kExitInterrupted;
    return failed || failures_ > 0 ? kExitFailures : 0;
  }

  const RunRequest request_;
  const std::string path_;
  StatusLine line_;
  Manifest manifest_;
  std::vector<RunResult> results_;
  uint64_t failures_ = 0;
};

int run(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  RunRequest request;
  if (Status status = request_of_flags(&request); !status.ok()) return usage_error(status);
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  return Session(std::move(request)).run();
}

int command(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h" || word == "-help" || word == "help") {
      std::printf("%s", help_text());
      return 0;
    }
  }
  if (words.empty()) {
    std::fprintf(stderr, "bonsai-bench: no command; the commands are run and list (bonsai-bench --help explains)\n");
    return kExitUsage;
  }
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == "run") return run(rest);
  if (words[0] == "list") {
    if (Status status = read_flags(rest); !status.ok()) return usage_error(status);
    return list();
  }
  std::fprintf(stderr, "bonsai-bench: unknown command '%s'; the commands are run and list (--help explains)\n",
               words[0].c_str());
  return kExitUsage;
}

}  // namespace
}  // namespace bonsai::bench

int main(int argc, char** argv) { return bonsai::bench::command(std::vector<std::string>(argv + 1, argv + argc)); }
