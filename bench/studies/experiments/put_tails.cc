// SPDX-License-Identifier: Apache-2.0
// How even the latency of puts is beside full offloading: one thread puts, one background thread offloads.
#include <string>

#include "base/status_macros.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/update_study.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kLogPercent = 16;  // of the keys and values: a tenth of what the records take on NVM
constexpr const char* kAlpha = "alpha";
constexpr const char* kRatio = "p99.9 / p50";

uint64_t records_of(Scale scale) {
  return scale == Scale::kPaper ? 10'000'000 : scale == Scale::kSmall ? 1'000'000 : 6'000;
}

Status run_tails(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{kAlpha, "exponent"},
                     {kRatio, "ratio", true},
                     {"p50", "us"},
                     {"p99", "us"},
                     {"p99.9", "us"},
                     {"p99.99", "us"},
                     {"longest", "us"},
                     {"Mop/s", "Mop/s"},
                     {"stalls", "per million"},
                     {"pauses", "per million"},
                     {"wake-ups", "per million"},
                     {"replacements", "per million"}};
  for (const double alpha : {0.0, 0.90, 0.99}) {
    UpdateStudy study;
    study.records = records_of(plan.scale);
    study.alpha = alpha;
    study.timed = true;
    study.options.background_threads = 1;
    study.options.log_bytes = study.user_bytes() * kLogPercent / 100;
    UpdateCosts costs;
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &costs));
    const Histogram& times = costs.latency;
    const auto us = [&](double percent) { return static_cast<double>(times.percentile(percent)) / 1e3; };
    const auto share = [&](uint64_t count) {
      return static_cast<double>(count) * 1e6 / static_cast<double>(times.count());
    };
    result->rows.push_back({alpha, us(99.9) / us(50), us(50), us(99), us(99.9), us(99.99), us(100), costs.mops,
                            share(costs.stalls), share(costs.pauses), share(costs.wake_ups),
                            share(costs.replacements)});
    result->medium = costs.medium;
  }
  result->labels = {
      "Updates only, " + std::to_string(records_of(plan.scale)) +
          " records of 8 + 8 bytes, one put at a time, each timed; as many updates as records go before, twice as many "
          "are counted." +
          (plan.scale == Scale::kPaper ? "" : " Larger: --scale=paper"),
      "alpha: of a Zipf over the records; 0 = uniform. The goal is an upper bound.",
      "The store's own counters say what puts waited for: stalls (log, space or bnode full), throttling (the log fills "
      "faster than it empties), wake-ups of the background thread, replacements of full bnodes. The rest is the "
      "machine's."};
  return Status::OK();
}

Reference tails_reference() { return {{kAlpha, kRatio}, {{0, 20}, {0.90, 20}, {0.99, 20}}, ReferenceKind::kGoals}; }

}  // namespace

const Registered<Experiment> kPutTailsExperiments("put_tails", []() -> std::vector<Experiment> {
  return {{"put-tails", "Put latency beside offloading", "docs/design.md, section 6",
           "percentiles of single puts, one thread beside one background thread, and what made puts wait", run_tails,
           tails_reference}};
});

}  // namespace bonsai::bench
