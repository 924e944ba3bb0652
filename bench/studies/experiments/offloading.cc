// SPDX-License-Identifier: Apache-2.0
// BonsaiKV scheme, index tier, table (c): the savings of offloading. One thread does all the work, updates only.
//
// Data offloading throughput divides the updates by the time in which data is written to dnodes. It leaves out the work
// of a put before that (log, tree, its merge in the bnode), as the paper's figure must, too: there one thread offloads
// 12 to 26 million updates a second and reads 3 million records. "With the puts" counts all time.
//
// A is the product: updates are merged in place in bnodes and reach dnodes out of place. B is the naive rival: each
// update is written to its place in its dnode and flushed there, without a log and therefore not safe in a crash
// (patched::Patches::updates_in_place). Both search records in groups and share one fence per group; B's writes find
// the same write-combining buffer.
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/status_macros.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/update_study.h"
#include "bench/studies/patched/store.h"

namespace bonsai::bench {
namespace {

constexpr const char* kGroup = "offloading";
constexpr const char* kSource = "BonsaiKV scheme, index tier, table (c)";
constexpr uint64_t kRecordBytes = 16;  // 8-byte keys, 8-byte values
constexpr uint64_t kPaperBytes = 300'000'000;
constexpr uint64_t kSmallBytes = 4'800'000;
constexpr uint64_t kTrialBytes = 48'000;
constexpr double kAlphas[] = {0, 0.90, 0.99, 1.20, 1.50};
constexpr uint64_t kLogPercent = 16;        // of the keys and values: a tenth of what the records take on NVM
constexpr double kDeviceBytesPerS = 2.3e9;  // what the preset's media take
constexpr uint64_t kBufferPercents[] = {2, 5, 10, 20, 50, 100, 200};

// A study of a store on the emulator, without background threads.
UpdateStudy study_of(const ExperimentPlan& plan, double alpha, unsigned depth, uint64_t log_percent) {
  UpdateStudy study;
  study.records = (plan.scale == Scale::kPaper   ? kPaperBytes
                   : plan.scale == Scale::kSmall ? kSmallBytes
                                                 : kTrialBytes) /
                  kRecordBytes;
  study.alpha = alpha;
  study.depth = depth;
  study.options.test.medium = TestMedium::kEmulator;
  study.options.test.emulator_preset = "optane";
  study.options.background_threads = 0;
  study.options.log_bytes = study.user_bytes() * log_percent / 100;
  return study;
}

void label(const ExperimentPlan& plan, const std::string& how, ExperimentResult* result) {
  result->labels = {"YCSB, updates only, 1 thread that also offloads, " +
                        std::to_string(study_of(plan, 0, 1, 1).records) + " records of 8 + 8 bytes" +
                        (plan.scale == Scale::kPaper ? " (the 0.3 GB of the paper)"
                                                     : ", less than the 0.3 GB of the paper: --scale=paper"),
                    "alpha: of a Zipf over the records; 0 = uniform", how};
}

Status run_variants(const ExperimentPlan& plan, unsigned depth, ExperimentResult* result) {
  result->columns = {{"alpha", "exponent"},
                     {"A: Mop/s", "Mop/s", true},
                     {"A: WRR %", "%"},
                     {"B: Mop/s", "Mop/s", true},
                     {"B: WRR %", "%"},
                     {"A / B", "ratio"},
                     {"A with the puts", "Mop/s", true},
                     {"B with the puts", "Mop/s", true},
                     {"A: media bytes per update", "bytes"},
                     {"B: media bytes per update", "bytes"},
                     {"A: the device alone", "Mop/s", true},
                     {"B: the device alone", "Mop/s", true}};
  for (const double alpha : kAlphas) {
    UpdateStudy study = study_of(plan, alpha, depth, kLogPercent);
    UpdateCosts a, b;
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &a));
    study.open = [](const auto&... how) { return patched::open({.updates_in_place = true}, how...); };
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &b));
    const auto device = [](const UpdateCosts& costs) { return kDeviceBytesPerS / costs.media_bytes_per_update / 1e6; };
    result->rows.push_back({alpha, a.offload_mops, a.wrr_percent, b.offload_mops, b.wrr_percent,
                            a.offload_mops / b.offload_mops, a.mops, b.mops, a.media_bytes_per_update,
                            b.media_bytes_per_update, device(a), device(b)});
    result->medium = a.medium;
  }
  constexpr size_t kRatioAt = 5;
  char ratios[128];
  std::snprintf(ratios, sizeof ratios, "A / B at uniform %.1f (goal 3), at alpha 0.99 %.1f (goal 5).",
                *result->rows[0][kRatioAt], *result->rows[2][kRatioAt]);
  label(plan,
        "A: bnode in-place merge, dnode out of place. B: each update in place in its dnode, flushed, without a log: a "
        "crash damages records. Both: " +
            std::to_string(depth) + " update(s) at a time, which share a fence.",
        result);
  result->labels.emplace_back(ratios);
  result->labels.emplace_back(
      "Mop/s: updates per second of the time in which data is brought to dnodes, for A the replacement of ranges, for "
      "B "
      "all of an update but its checks. With the puts: per second of all time, A's log included, which B has not.");
  result->labels.emplace_back(
      "The device alone: how many updates a second the write bandwidth of the model (2.3 GB/s) has room for, by the "
      "media bytes that were counted; the processor is left out.");
  return Status::OK();
}

Status run_groups(const ExperimentPlan& plan, ExperimentResult* result) { return run_variants(plan, 32, result); }
Status run_single(const ExperimentPlan& plan, ExperimentResult* result) { return run_variants(plan, 1, result); }

Reference variants_reference() { return published_reference("offloading"); }

std::string wrr_column(double alpha) {
  if (alpha == 0) return "WRR %, uniform";
  char text[32];
  std::snprintf(text, sizeof text, "WRR %%, alpha %.2f", alpha);
  return text;
}

// The share of updates that the buffer absorbs, by its size: the paper does not state its own.
Status run_buffers(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"log size", "%"}};
  for (const double alpha : kAlphas) result->columns.push_back({wrr_column(alpha), "%", true});
  for (const uint64_t percent : kBufferPercents) {
    Row row = {percent};
    for (const double alpha : kAlphas) {
      UpdateCosts costs;
      BONSAI_RETURN_IF_ERROR(run_updates(plan, study_of(plan, alpha, 32, percent), &costs));
      row.emplace_back(costs.wrr_percent);
      result->medium = costs.medium;
    }
    result->rows.push_back(std::move(row));
  }
  label(plan, "The log is what bounds the updates that wait in bnodes; 16 % is what offloading-groups runs with.",
        result);
  result->labels.emplace_back("The paper's WRR, buffer size unknown: 0, 43, 64, 82, 93 %.");
  return Status::OK();
}

}  // namespace

const Registered<Experiment> kOffloadingExperiments("offloading", []() -> std::vector<Experiment> {
  return {{"offloading-groups", "Data offloading against updates in place, 32 updates at a time", kSource,
           "updates a second, WRR and media writes by skew: merged and out of place, or in place", run_groups,
           variants_reference, kGroup},
          {"offloading-single", "Data offloading against updates in place, one update at a time", kSource,
           "the same with a fence for each update", run_single, variants_reference, kGroup},
          {"offloading-buffers", "Write reduction by buffer size", kSource, "WRR by skew and size of the log",
           run_buffers, no_reference, kGroup}};
});

}  // namespace bonsai::bench
