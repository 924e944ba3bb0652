// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/melt/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"

namespace bonsai::bench {
namespace {

constexpr double kIdleDriftMax = 0.1;
constexpr double kRatesMax = 10'000;  // of one curve

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// Estimates the time left, on the assumption that the curves to come take as long as those before.
class TimeLeft {
 public:
  explicit TimeLeft(size_t curves) : curves_(curves), start_s_(base::now_seconds()) {}

  void end_curve() { ++done_; }
  [[nodiscard]] std::string text() const {
    if (done_ == 0) return "curve 1 of " + std::to_string(curves_);
    const double minutes =
        (base::now_seconds() - start_s_) / static_cast<double>(done_) * static_cast<double>(curves_ - done_) / 60;
    return "curve " + std::to_string(done_ + 1) + " of " + std::to_string(curves_) + ", about " +
           std::to_string(static_cast<int>(std::ceil(minutes))) + " min left";
  }

 private:
  size_t curves_;
  size_t done_ = 0;
  double start_s_;
};

// Watches the idle power, which ought not to change; if it does, energies are not comparable.
class IdleWatch {
 public:
  void see(const MeltPoint& point, const RunListener& listener) {
    if (!point.idle_watts) return;
    if (first_ == 0) first_ = *point.idle_watts;
    if (warned_ || std::abs(*point.idle_watts - first_) <= kIdleDriftMax * first_) return;
    warned_ = true;
    listener.on_note("idle power went from " + number(first_) + " W to " + number(*point.idle_watts) +
                     " W: something else runs, or the machine warms up; energies before and after do not compare");
  }

 private:
  double first_ = 0;
  bool warned_ = false;
};

unsigned threads_of(const SweepPlan& plan, const std::string& engine) {
  const EngineEntry* entry = find_engine(engine);
  return entry != nullptr && entry->make()->capabilities().threads ? plan.threads_max : 1;
}

Status run_curve(const SweepPlan& plan, const RunConfig& base, const SweepTools& tools, const TimeLeft& left,
                 IdleWatch* idle, MeltConfiguration configuration, SweepCurve* curve) {
  for (double rate = plan.rate_first; plan.rate_max == 0 || rate <= plan.rate_max; rate += plan.rate_step) {
    configuration.target_ops_per_s = rate;
    MeltPoint point;
    BONSAI_RETURN_IF_ERROR(measure_melt(configuration, base, plan.samples, left.text(), tools, &point));
    idle->see(point, tools.listener);
    curve->targets.push_back(rate);
    curve->points.push_back(std::move(point));
    if (curve->points.back().ops_per_s < kHeldShare * rate) break;
  }
  return Status::OK();
}

}  // namespace

size_t SweepCurve::held() const {
  size_t count = 0;
  while (count < points.size() && points[count].ops_per_s >= kHeldShare * targets[count]) ++count;
  return count;
}

Status check_sweep(const SweepPlan& plan) {
  const auto impossible = [](const std::string& what) {
    return Status::InvalidArgument("this sweep cannot be run: " + what);
  };
  if (plan.engines.empty()) return impossible("no engine is named; give --engines");
  if (plan.workloads.empty()) return impossible("no workload is named; give --workloads");
  if (plan.threads_max == 0) return impossible("no thread may run; give --threads=1 or more");
  if (plan.samples == 0) return impossible("there are no samples to take; give --samples=1 or more");
  if (!(plan.each.seconds > 0)) return impossible("a sample of no time measures nothing; give --seconds=1 or more");
  if (!(plan.each.idle_seconds > 0)) return impossible("energy needs an idle phase; give --idle-seconds=1 or more");
  if (plan.each.interval_ms == 0) return impossible("intervals of no time; give --interval-ms=25");
  if (plan.each.seconds * 1000 < static_cast<double>(plan.each.interval_ms)) {
    return impossible("an interval of " + std::to_string(plan.each.interval_ms) + " ms is longer than a sample of " +
                      number(plan.each.seconds) + " s; give more --seconds or a shorter --interval-ms");
  }
  if (!(plan.rate_first > 0)) return impossible("the first rate is 0; give --rate-first=1000000");
  if (!(plan.rate_step > 0)) return impossible("the rate never rises; give --rate-step=1000000");
  if (plan.rate_max > 0 && plan.rate_max < plan.rate_first) {
    return impossible("the last rate, " + number(plan.rate_max) + "/s, is below the first, " + number(plan.rate_first) +
                      "/s; give a greater --rate-max");
  }
  if (plan.rate_max > 0 && (plan.rate_max - plan.rate_first) / plan.rate_step > kRatesMax) {
    return impossible("more than " + number(kRatesMax) + " rates; give a greater --rate-step");
  }
  for (const std::string& engine : plan.engines) {
    if (find_engine(engine) == nullptr)
      return impossible("this build has no engine " + engine + "; see the list command");
  }
  return Status::OK();
}

Status measure_melt(const MeltConfiguration& configuration, const RunConfig& base, unsigned samples,
                    const std::string& left, const SweepTools& tools, MeltPoint* point) {
  const MeltSample key = melt_key(configuration, base);
  std::vector<MeltSample> found = tools.samples->of(key);
  while (found.size() < samples) {
    if (*tools.stop) return Status::Unavailable("interrupted");
    const auto turn = static_cast<unsigned>(found.size()) + 1;
    RunListener listener = tools.listener;
    listener.on_phase = [&](const std::string& engine, const std::string& phase, uint64_t operations) {
      tools.listener.on_phase(engine,
                              phase + " at " + number(configuration.target_ops_per_s / 1e6) + " M/s on " +
                                  std::to_string(configuration.threads) + ", sample " + std::to_string(turn) + " of " +
                                  std::to_string(samples) + (left.empty() ? "" : "; " + left),
                              operations);
    };
    MeltSample sample;
    BONSAI_RETURN_IF_ERROR(take_melt_sample(configuration, base, turn, tools.meter, *tools.stop, listener, &sample));
    found.push_back(sample);
    BONSAI_RETURN_IF_ERROR(tools.samples->add(std::move(sample)));
  }
  found.resize(samples);
  *point = melt_point(found);
  return Status::OK();
}

Status run_sweep(const SweepPlan& plan, const RunConfig& base, const SweepTools& tools,
                 std::vector<SweepCurve>* curves) {
  BONSAI_RETURN_IF_ERROR(check_sweep(plan));
  curves->clear();
  size_t count = 0;
  for (const std::string& engine : plan.engines) count += plan.workloads.size() * threads_of(plan, engine);
  TimeLeft left(count);
  IdleWatch idle;
  Status failed;  // the first engine that did
  for (const Workload& workload : plan.workloads) {
    for (const std::string& engine : plan.engines) {
      for (unsigned threads = 1; threads <= threads_of(plan, engine); ++threads) {
        MeltConfiguration configuration = plan.each;
        configuration.engine = engine;
        configuration.workload = workload;
        configuration.threads = threads;
        curves->push_back({engine, workload.name, threads, {}, {}});
        const Status status = run_curve(plan, base, tools, left, &idle, configuration, &curves->back());
        left.end_curve();
        if (status.IsNotSupported()) {
          tools.listener.on_note(std::string(status.message()) + ", so workload " + workload.name + " is left out");
          curves->pop_back();
          break;
        }
        if (status.IsUnavailable() && !*tools.stop) {  // of this engine; the others go on
          tools.listener.on_note(engine + ", workload " + workload.name + ": " + std::string(status.message()));
          if (failed.ok()) failed = status;
          break;
        }
        BONSAI_RETURN_IF_ERROR(status);
      }
    }
  }
  return failed;
}

}  // namespace bonsai::bench
