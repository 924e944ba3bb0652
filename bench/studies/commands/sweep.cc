// SPDX-License-Identifier: Apache-2.0
// `bonsai-bench sweep`.
#include "bench/studies/melt/sweep.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "admin/flag_parser.h"
#include "base/status_macros.h"
#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/flags.h"
#include "bench/cli/session.h"
#include "bench/report/terminal.h"
#include "bench/studies/commands/requests.h"

DEFINE_uint64(rate_first, 1'000'000, "lowest target of a sweep");
DEFINE_uint64(rate_step, 1'000'000, "how far the targets of a sweep are apart");
DEFINE_uint64(rate_max, 0, "highest target of a sweep; 0 = until one is not held");
DEFINE_uint32(samples, 5, "samples of each configuration of a sweep");
DEFINE_uint64(idle_seconds, 5, "seconds of rest before each sample of a sweep");
DECLARE_uint64(seconds);
DECLARE_uint64(interval_ms);
DECLARE_uint64(interval_samples);

namespace bonsai::bench {
namespace {

constexpr uint64_t kSweepSeconds = 30, kSweepIntervalMs = 25;

std::string number(const std::optional<double>& value, double unit = 1) {
  if (!value) return "n/a";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", *value / unit);
  return text;
}

void print_curves(const std::vector<SweepCurve>& curves) {
  std::vector<std::vector<std::string>> rows = {{"engine", "workload", "threads", "held M/s", "most M/s", "processors",
                                                 "p90 ns", "J/op", "raw J/op", "space efficiency"}};
  for (const SweepCurve& curve : curves) {
    if (curve.points.empty()) continue;
    double most = 0;
    for (const MeltPoint& point : curve.points) most = std::max(most, point.ops_per_s);
    const size_t held = curve.held();
    const MeltPoint& point = curve.points[held > 0 ? held - 1 : 0];  // of the last rate that was held
    const Histogram& reads = point.latency[static_cast<size_t>(OpKind::kRead)];
    const bool carries = reads.carries(90);
    rows.push_back({curve.engine, curve.workload, std::to_string(curve.threads),
                    held > 0 ? number(curve.targets[held - 1], 1e6) : "none", number(most, 1e6),
                    number(point.cpu_seconds / point.seconds), carries ? std::to_string(reads.percentile(90)) : "n/a",
                    number(point.joules_per_op), number(point.joules_per_op_raw), number(point.space_efficiency)});
  }
  std::printf("%s", align(rows, 2).c_str());
}

int run_session_of(const SweepRequest& request, const std::atomic<bool>& interrupted) {
  StatusLine line(stderr, isatty(2) == 1);
  const auto note = [&line](const std::string& text) {
    line.clear();
    std::fprintf(stderr, "note: %s\n", text.c_str());
  };
  for (const std::string& text : request.notes) note(text);
  const std::string& directory = request.config.out_dir;
  MeltSamples samples;
  if (Status status = samples.open(directory); !status.ok()) return usage_error(status);
  remove_abandoned_pools(request.config.pool_dir, directory, note);
  if (samples.size() > 0)
    note(directory + " has " + std::to_string(samples.size()) + " samples; those that fit are used");
  std::unique_ptr<EnergyMeter> meter;
  if (Status status = EnergyMeter::open("", &meter); !status.ok())
    note("energy is n/a: " + std::string(status.message()));
  const SweepTools tools{&samples,
                         meter.get(),
                         &interrupted,
                         {.on_phase = [&line](const std::string& engine, const std::string& phase,
                                              uint64_t operations) { line.start(engine, phase, operations); },
                          .on_progress = [&line](const PhaseProgress& progress) { line.show(progress); },
                          .on_result = {},
                          .on_note = note,
                          .on_left_out = {}}};
  std::vector<SweepCurve> curves;
  const Status status = run_sweep(request.plan, request.config, tools, &curves);
  line.clear();
  print_curves(curves);
  std::printf("samples: %s/samples.csv\n", directory.c_str());
  if (status.ok()) return 0;
  std::fprintf(stderr, "bonsai-bench: %s; the same command goes on from here\n", status.ToString().c_str());
  return interrupted ? kExitInterrupted : kExitFailures;
}

int run_words(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  SweepRequest request;
  if (Status status = sweep_of_flags(&request); !status.ok()) return usage_error(status);
  return run_session_of(request, catch_interrupts());
}

constexpr const char* kUse = R"(  bonsai-bench sweep [flags]
      throughput, latency, energy and memory by target rate and threads, as MELT
)";

constexpr const char* kExamples = R"(  bonsai-bench sweep --engines=hopscotch,libcuckoo --workloads=a,c --key=string
      Threads 1 to one per processor, 1 M/s, 2 M/s, ... until a rate is not
      held: five samples of 30 s each. The same command continues where it was
      interrupted.
)";

constexpr const char* kFlags = R"(
The sweep (beside --engines, --workloads, --records, --threads, the highest
number, --interval-ms, here 25, --seconds of a sample, here 30, and --out, all
of bonsai-bench help run)
  --rate-first=N        lowest target, operations per second [1000000]
  --rate-step=N         distance between targets [1000000]
  --rate-max=N          highest target; 0 = until the mean of a target's samples
                        misses it by 2 % [0]
  --samples=N           of each target, each on a fresh store [5]
  --idle-seconds=N      rest before each sample, to know the machine's idle
                        power; not without energy counters [5]
  DIR/samples.csv       a line per sample (docs/results.md)
  DIR/samples.json      the same
)";

const Registered<Command> kCommand("studies/sweep", []() -> std::vector<Command> {
  return {
      {.name = "sweep", .run = run_words, .use = kUse, .examples = kExamples, .flags = kFlags, .flag = "rate_first"}};
});

}  // namespace

Status sweep_of_flags(SweepRequest* request) {
  RunRequest run;
  BONSAI_RETURN_IF_ERROR(work_of_flags(&run));
  SweepPlan& plan = request->plan;
  for (const EngineEntry* engine : run.engines) plan.engines.emplace_back(engine->name);
  for (const Step& step : run.steps) {
    if (step.trace) return Status::InvalidArgument("a sweep draws its requests; give workloads, not traces");
    if (!step.load_only) plan.workloads.push_back(step.workload);
  }
  plan.threads_max = run.config.threads;
  plan.rate_first = static_cast<double>(FLAGS_rate_first);
  plan.rate_step = static_cast<double>(FLAGS_rate_step);
  plan.rate_max = static_cast<double>(FLAGS_rate_max);
  plan.samples = FLAGS_samples;
  plan.each.records = run.config.records;
  plan.each.seconds = static_cast<double>(admin::flag_given("seconds") ? FLAGS_seconds : kSweepSeconds);
  plan.each.idle_seconds = static_cast<double>(FLAGS_idle_seconds);
  plan.each.interval_ms = admin::flag_given("interval_ms") ? FLAGS_interval_ms : kSweepIntervalMs;
  plan.each.latency_per_interval = FLAGS_interval_samples;
  plan.each.map = run.config.map;
  request->config = run.config;
  request->notes = run.notes;
  return check_sweep(plan);
}

}  // namespace bonsai::bench
