// SPDX-License-Identifier: Apache-2.0
// `bonsai-bench experiment NAME`.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "admin/run_main.h"
#include "base/status_macros.h"
#include "bench/cli/session.h"
#include "bench/driver/apart.h"
#include "bench/pages/report.h"
#include "bench/report/terminal.h"
#include "bench/results/machine.h"

namespace bonsai::bench {
namespace {

void print_rows(const std::vector<Column>& columns, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns) lines.back().push_back(column.name);
  for (const Row& row : rows) {
    lines.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) lines.back().push_back(cell_text(columns[i], row[i]));
  }
  std::printf("%s", align(lines, columns.front().words.empty() ? 0 : 1).c_str());
}

void print_tables(const Experiment& experiment, const ExperimentResult& result, const std::string& heading) {
  std::printf("%s\n\n", std::string(experiment.title).c_str());
  print_rows(result.columns, result.rows);
  for (const Column& column : result.columns) {
    if (!column.absent.empty()) std::printf("- %s: %s\n", column.name.c_str(), column.absent.c_str());
  }
  const Reference reference = experiment.reference();
  if (!reference.rows.empty()) {
    std::printf("\n%s\n", heading.c_str());
    print_rows(reference_columns(reference, result), reference.rows);
  }
  std::printf("\n");
  for (const std::string& label : result.labels) std::printf("%s\n", label.c_str());
}

// Measures one experiment, writes and prints what came out.
Status measure_one(const Experiment& experiment, const ExperimentPlan& plan, Manifest manifest, StatusLine* line) {
  ExperimentResult result;
  const Status measured = experiment.run(plan, &result);
  line->clear();
  BONSAI_RETURN_IF_ERROR(measured);
  if (result.medium) tell_medium("bonsai", *result.medium, &manifest);
  if (result.medium && result.medium->emulated) {
    result.labels.insert(result.labels.begin(),
                         "EMULATED " + result.medium->text + "; no statement about a real device");
  }
  const std::string& directory = plan.config.out_dir;
  const nlohmann::ordered_json json = experiment_json(experiment, result, manifest);
  BONSAI_RETURN_IF_ERROR(write_experiment(directory, json));
  BONSAI_RETURN_IF_ERROR(write_report(directory));
  print_tables(experiment, result, reference_heading(json));
  std::printf("results: %s/%s.json\nreport: %s/report.html\n", directory.c_str(), std::string(experiment.name).c_str(),
              directory.c_str());
  return Status::OK();
}

// The same in a child process: a library that ends it takes this experiment only.
Status run_one(const Experiment& experiment, const ExperimentPlan& plan, const Manifest& manifest, StatusLine* line) {
  const auto work = [&](const Send&) {
    BONSAI_RETURN_IF_ERROR(measure_one(experiment, plan, manifest, line));
    const bool arrived = admin::end_output("bonsai-bench", 0, kExitFailures) == 0;
    return arrived ? Status::OK() : Status::IoError("its tables are in " + plan.config.out_dir + " only");
  };
  return run_apart(
      work, [](std::string_view) { return Status::OK(); }, *plan.stop);
}

// Whether the directory has it, measured by the same commit with the same flags.
bool is_done(const std::string& directory, const std::string& name, const Manifest& manifest) {
  std::ifstream in(directory + "/" + name + ".json");
  const auto json = nlohmann::ordered_json::parse(in, nullptr, false);
  if (!is_experiment(json)) return false;
  const nlohmann::ordered_json now = manifest_json(manifest);
  const auto& then = json.at("manifest");
  for (const char* part : {"commit", "flags", "cpu"}) {
    if (!then.contains(part) || then.at(part) != now.at(part)) return false;
  }
  return true;
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
  const auto remove_abandoned = [&] {
    remove_abandoned_pools(request.plan.config.pool_dir, request.plan.config.out_dir, note);
    remove_abandoned_pools("", "/tmp", note);  // where a cluster's are
  };
  remove_abandoned();
  Manifest manifest;
  describe_machine(&manifest);
  manifest.flags = flag_values();
  manifest.seed = request.plan.config.seed;
  size_t turn = 0, failed = 0;
  for (const Experiment* experiment : request.experiments) {
    const std::string name(experiment->name);
    const std::string place = std::to_string(++turn) + " of " + std::to_string(request.experiments.size());
    if (request.resumes && is_done(request.plan.config.out_dir, name, manifest)) {
      note("experiment " + place + ", " + name + ", is done already");
      continue;
    }
    if (request.resumes) note("experiment " + place + ": " + name);
    if (turn > 1) std::printf("\n");
    if (Status status = run_one(*experiment, request.plan, manifest, &line); !status.ok()) {
      std::fprintf(stderr, "bonsai-bench: experiment %s: %s\n", name.c_str(), status.ToString().c_str());
      remove_abandoned();
      if (interrupted) return kExitInterrupted;
      if (!request.resumes) return kExitFailures;
      ++failed;
    }
  }
  if (failed > 0) note(std::to_string(failed) + " experiments failed; the same command measures them alone");
  return failed > 0 ? kExitFailures : 0;
}

}  // namespace bonsai::bench
