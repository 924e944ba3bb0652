// SPDX-License-Identifier: Apache-2.0
// `bonsai-bench experiment NAME`.
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "admin/flag_parser.h"
#include "admin/run_main.h"
#include "base/status_macros.h"
#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/flags.h"
#include "bench/cli/session.h"
#include "bench/driver/apart.h"
#include "bench/pages/report.h"
#include "bench/report/terminal.h"
#include "bench/results/machine.h"
#include "bench/studies/claims/claims.h"
#include "bench/studies/commands/requests.h"

DEFINE_string(scale, "small", "data of an experiment: trial, small or paper");
DECLARE_uint64(records);
DECLARE_uint64(operations);
DECLARE_uint32(threads);
DECLARE_uint32(depth);

namespace bonsai::bench {
namespace {

constexpr std::string_view kClaims = "claims";

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

// Measures one experiment, then writes and prints its result.
Status measure_one(const Experiment& experiment, const ExperimentPlan& plan, Manifest manifest, StatusLine* line) {
  ExperimentResult result;
  const MachineCounters before = machine_counters();
  const Status measured = experiment.run(plan, &result);
  line->clear();
  BONSAI_RETURN_IF_ERROR(measured);
  manifest.noise = noise_between(before, machine_counters());
  // A trial is over too soon to tell, and nobody judges by it.
  settle_verdicts(plan.is_trial() ? "" : manifest.noise->verdict(), &result);
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

// Runs measure_one() in a child process: a library that ends its process ends only this experiment.
Status run_one(const Experiment& experiment, const ExperimentPlan& plan, const Manifest& manifest, StatusLine* line) {
  const auto work = [&](const Send&) {
    BONSAI_RETURN_IF_ERROR(measure_one(experiment, plan, manifest, line));
    const bool arrived = admin::end_output("bonsai-bench", 0, kExitFailures) == 0;
    return arrived ? Status::OK() : Status::IoError("its tables are in " + plan.config.out_dir + " only");
  };
  return run_apart(
      work, [](std::string_view) { return Status::OK(); }, *plan.stop);
}

// True if the directory has the result of the same commit with the same flags.
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

// Judges the claims by the results in the directory, and prints those that do not hold before the others.
Status judge_directory(const std::string& directory) {
  std::vector<Judged> judged;
  BONSAI_RETURN_IF_ERROR(judge_claims(directory, &judged));
  BONSAI_RETURN_IF_ERROR(write_report(directory));
  std::vector<std::vector<std::string>> lines = {{"outcome", "expected", "measured", "claim", "command"}};
  for (const Judged& each : judged) {
    const Column figure;
    lines.push_back({std::string(outcome_name(each.outcome)), expectation_text(*each.claim),
                     cell_text(figure, each.measured), each.claim->says, each.claim->command});
  }
  std::stable_sort(lines.begin() + 1, lines.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  std::printf("%s\n%s\nclaims: %s/claims.json\nreport: %s/report.html\n", align(lines, 5).c_str(),
              tally(judged).c_str(), directory.c_str(), directory.c_str());
  return Status::OK();
}

int run_session_of(ExperimentRequest request, const std::atomic<bool>& interrupted) {
  StatusLine line(stderr, isatty(2) == 1);
  const auto note = [&line](const std::string& text) {
    line.clear();
    std::fprintf(stderr, "note: %s\n", text.c_str());
  };
  request.plan.stop = &interrupted;
  const auto show_phase = [&line](const std::string& engine, const std::string& phase, uint64_t operations) {
    if (operations > 0) return line.start(engine, phase, operations);
    line.show_text(engine + ", " + phase);  // nothing is reported while it lasts
  };
  request.plan.listener = {.on_phase = show_phase,
                           .on_progress = [&line](const PhaseProgress& progress) { line.show(progress); },
                           .on_result = {},
                           .on_note = note,
                           .on_left_out = {}};
  const auto remove_abandoned = [&] {
    remove_abandoned_pools(request.plan.config.pool_dir, request.plan.config.out_dir, note);
    remove_abandoned_pools("", "/tmp", note);  // where a cluster has its pools
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
  if (request.judges) {
    line.clear();
    if (Status status = judge_directory(request.plan.config.out_dir); !status.ok()) {
      std::fprintf(stderr, "bonsai-bench: %s\n", status.ToString().c_str());
      return kExitFailures;
    }
  }
  if (failed > 0) note(std::to_string(failed) + " experiments failed; the same command measures them alone");
  return failed > 0 ? kExitFailures : 0;
}

// The first word is the name; flags follow.
int run_words(const std::vector<std::string>& words) {
  const bool is_named = !words.empty() && words[0].rfind('-', 0) != 0;
  if (Status status = read_flags({words.begin() + (is_named ? 1 : 0), words.end()}); !status.ok()) {
    return usage_error(status);
  }
  ExperimentRequest request;
  if (Status status = experiment_of_flags(is_named ? words[0] : "", &request); !status.ok()) return usage_error(status);
  return run_session_of(std::move(request), catch_interrupts());
}

// The text for `bonsai-bench list`.
std::string listed() {
  std::vector<std::vector<std::string>> rows;
  for (const Experiment& each : experiment_list()) {
    rows.push_back({"  " + std::string(each.name), std::string(each.what) + " (" + std::string(each.source) + ")"});
  }
  rows.push_back(
      {"  " + std::string(kClaims), "what the results in --out say about each claim of the docs and the papers"});
  return "experiments\n" + align(rows, 2);
}

constexpr const char* kUse = R"(  bonsai-bench experiment NAME [flags]
      measure a figure of a paper, a goal of the project, or a group of them
)";

constexpr const char* kExamples = R"(  bonsai-bench experiment speed --repeat=5
      Every line of the goals (docs/design.md, section 6) against
      absl::btree_map: 10 M records of 8 + 8 bytes, 2 threads, sessions of 32
      operations, five rounds in which the stores take turns. Prints ratios with
      their floors and goals, memory and writes. Obeys --records, --operations,
      --threads and --depth. speed-strings: the same with 24-byte keys and
      100-byte values.
  bonsai-bench experiment index-technique --scale=paper --out=results/paper
      A figure of a paper with as much data as there; writes its table, its
      picture and a section of results/paper/report.html.
  bonsai-bench experiment pipelining-gets --scale=paper
      Throughput by operations in flight, 1 to 1,024, on modelled NVM beside a
      store in DRAM; a quarter of an hour. pipelining-mix: the same with
      updates. pipelining-ways: none, within a get, and between gets by
      coroutines or by groups, with and without metadata.
  bonsai-bench experiment kiwi --repeat=3
      KiWi's evaluation, all figures, Bonsai beside the maps of the paper: gets,
      updates and scans alone and side by side, lengths of scans, memory,
      ordered inserts; then what scanner and updater cost each other, 12 threads
      per processor. One figure alone: experiment kiwi-order.
  bonsai-bench experiment offloading
      Updates merged in bnodes and written out of place, against updates in
      place, on modelled NVM; the write reduction by skew and by the size of the
      log.
  bonsai-bench experiment put-tails
      Percentiles of single puts beside full offloading, and what they waited
      for by the store's counters.
  bonsai-bench experiment write-amplification
      Media bytes per user byte against NVM bytes per record, by the size of the
      log. Also log-packing, value-staging.
  bonsai-bench experiment synthesis
      Other systems' protocols (RACE-, RCuckoo-, Sherman-like) under YCSB with
      up to 36 threads, in virtual time on modelled devices: rates, costs of an
      operation, and which orders of them no parameter of the model changes.
      Obeys --records, --operations, --threads and --depth (coroutines a
      thread). With --scale=paper 0.3 GB, 18.75 M records: each system is filled
      once for each form of keys, without a model of time, and of each cell
      50,000 operations are measured (20,000 over the model's parameters; of E a
      tenth), loads as the last inserts of the fill.
  bonsai-bench experiment rcuckoo
      RCuckoo against RACE as their draft has it: round trips, messages and
      bytes by how full the table is, and more.
  bonsai-bench experiment melt
      MELT's figures 9-1 to 9-24 by name (melt-9-2), serial or concurrent,
      memory, pacing, parameters of hash maps.
  bonsai-bench experiment all --scale=small --out=results/all
      Everything, into one report. Results of the same commit and flags that
      exist already are not measured again. Ends with the claims.
  bonsai-bench experiment claims --out=results/all
      Each sentence of the README, the docs and the papers that has a figure:
      the command that measures it, what is expected, what the results in that
      directory say, and whether it holds. Measures nothing.
)";

constexpr const char* kFlags = R"(
The experiment (beside --records, --operations, --threads, --depth,
--repeat and --out of bonsai-bench help run)
  --scale=SIZE          data of an experiment: trial (a moment, only to see that
                        it works), small (seconds) or paper (as much as the
                        paper or the goal has) [small]
)";

const Registered<Command> kCommand("studies/experiment", []() -> std::vector<Command> {
  return {{.name = "experiment",
           .run = run_words,
           .use = kUse,
           .examples = kExamples,
           .flags = kFlags,
           .flag = "scale",
           .listed = listed}};
});

}  // namespace

Status experiment_of_flags(const std::string& name, ExperimentRequest* request) {
  request->experiments = find_experiments(name);
  request->judges = name == kClaims || name == kAllExperiments;
  if (request->experiments.empty() && !request->judges) {
    std::string known;
    for (const Experiment& each : experiment_list()) {
      const std::string_view word = each.group.empty() ? each.name : each.group;
      if (!known.ends_with(word)) known.append(" ").append(word);
    }
    return Status::InvalidArgument((name.empty() ? "no experiment is named" : "unknown experiment '" + name + "'") +
                                   "; write bonsai-bench experiment NAME [flags]; the experiments are" + known +
                                   ", claims, or all");
  }
  if (FLAGS_scale != "trial" && FLAGS_scale != "small" && FLAGS_scale != "paper") {
    return Status::InvalidArgument("--scale=" + FLAGS_scale + " is unknown; give trial, small or paper");
  }
  BONSAI_RETURN_IF_ERROR(repeat_of_flags(&request->plan.repeat));
  BONSAI_RETURN_IF_ERROR(config_of_flags(Properties(), &request->plan.config));
  BONSAI_RETURN_IF_ERROR(fabric_of_flags(&request->plan.fabric));
  request->plan.scale = FLAGS_scale == "paper" ? Scale::kPaper : FLAGS_scale == "small" ? Scale::kSmall : Scale::kTrial;
  request->resumes = name == kAllExperiments;
  request->plan.threads_max = request->plan.config.threads;
  AskedFor& asked = request->plan.asked;
  if (admin::flag_given("records")) asked.records = FLAGS_records;
  if (admin::flag_given("operations")) asked.operations = FLAGS_operations;
  if (admin::flag_given("threads") && FLAGS_threads > 0) asked.threads = FLAGS_threads;
  if (admin::flag_given("depth")) asked.depth = FLAGS_depth;
  return Status::OK();
}

}  // namespace bonsai::bench
