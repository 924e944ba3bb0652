// SPDX-License-Identifier: Apache-2.0
// `bonsai-bench sweep`.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/status_macros.h"
#include "bench/cli/session.h"
#include "bench/melt/sweep.h"
#include "bench/report/terminal.h"

namespace bonsai::bench {
namespace {

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

}  // namespace

int run_sweep_session(const SweepRequest& request, const std::atomic<bool>& interrupted) {
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

}  // namespace bonsai::bench
