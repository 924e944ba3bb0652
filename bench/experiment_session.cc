// `bonsai-bench experiment NAME`.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "bench/machine.h"
#include "bench/session.h"
#include "bench/terminal.h"

namespace bonsai::bench {
namespace {

void print_table(const ExperimentResult& result) {
  std::vector<std::vector<std::string>> rows = {{}};
  for (size_t i = 0; i < result.columns.size(); ++i) {
    if (i > 0 && !result.columns[i].charted) continue;
    rows[0].push_back(result.columns[i].name);
    for (size_t j = 0; j < result.rows.size(); ++j) {
      if (rows.size() <= j + 1) rows.emplace_back();
      const auto& figure = result.rows[j][i];
      char text[32] = "-";
      if (figure) std::snprintf(text, sizeof text, "%.4g", *figure);
      rows[j + 1].emplace_back(text);
    }
  }
  std::printf("%s", align(rows, 0).c_str());
  for (const Column& column : result.columns) {
    if (column.charted && !column.absent.empty()) std::printf("- %s: %s\n", column.name.c_str(), column.absent.c_str());
  }
  for (const std::string& label : result.labels) std::printf("%s\n", label.c_str());
}

}  // namespace

int run_experiment(ExperimentRequest request, const std::atomic<bool>& interrupted) {
  StatusLine line(stderr, isatty(2) == 1);
  const auto note = [&line](const std::string& text) {
    line.clear();
    std::fprintf(stderr, "note: %s\n", text.c_str());
  };
  request.plan.stop = &interrupted;
  request.plan.listener = {.on_phase = [&line](const std::string& engine, const std::string& phase,
                                               uint64_t operations) { line.start(engine, phase, operations); },
                           .on_progress = [&line](const PhaseProgress& progress) { line.show(progress); },
                           .on_result = {},
                           .on_note = note,
                           .on_left_out = {}};
  Manifest manifest;
  describe_machine(&manifest);
  manifest.flags = flag_values();
  manifest.seed = request.plan.config.seed;
  ExperimentResult result;
  Status status = request.experiment->run(request.plan, &result);
  line.clear();
  if (status.ok() && result.medium) tell_medium("bonsai", *result.medium, &manifest);
  if (status.ok() && result.medium && result.medium->emulated) {
    result.labels.insert(result.labels.begin(),
                         "EMULATED " + result.medium->text + "; no statement about a real device");
  }
  const std::string& directory = request.plan.config.out_dir;
  if (status.ok()) {
    status = write_experiment(directory, experiment_json(*request.experiment, result, manifest));
  }
  if (!status.ok()) {
    std::fprintf(stderr, "bonsai-bench: experiment %s: %s\n", std::string(request.experiment->name).c_str(),
                 status.ToString().c_str());
    return interrupted ? kExitInterrupted : kExitFailures;
  }
  print_table(result);
  std::printf("results: %s/%s.json\nreport: %s/report.html\n", directory.c_str(),
              std::string(request.experiment->name).c_str(), directory.c_str());
  return 0;
}

}  // namespace bonsai::bench
