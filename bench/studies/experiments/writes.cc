// SPDX-License-Identifier: Apache-2.0
// NVM writes of an update: against space, by the packing of the log, and for large values (two figures of the BonsaiKV
// paper).
#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/update_study.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kGroup = 32;  // puts that share a log record and a fence
constexpr uint64_t kLogPercent = 18;
constexpr uint64_t kLogBytesMin = uint64_t{1} << 14;

uint64_t bytes_of(Scale scale) {
  return scale == Scale::kPaper ? 160'000'000 : scale == Scale::kSmall ? 6'400'000 : 96'000;
}

UpdateStudy study_of(const ExperimentPlan& plan, size_t value_bytes, uint64_t log_percent) {
  UpdateStudy study;
  study.value_bytes = value_bytes;
  study.records = std::max<uint64_t>(64, bytes_of(plan.scale) / (sizeof(uint64_t) + value_bytes));
  study.depth = kGroup;
  study.options.background_threads = 0;
  study.options.log_bytes = std::max(kLogBytesMin, study.user_bytes() * log_percent / 100);
  return study;
}

std::string size_label(const ExperimentPlan& plan) {
  return "Updates only, 1 thread that also offloads, " + std::to_string(bytes_of(plan.scale) / 1'000'000) +
         " MB of keys and values; counted after as many updates as records, over twice as many." +
         (plan.scale == Scale::kPaper ? "" : " Larger: --scale=paper");
}

// ---- write amplification against space

constexpr const char* kLogSize = "log size";
constexpr const char* kUniform = "uniform, 32 puts at a time";
constexpr const char* kUniformSpace = "NVM bytes per record, uniform";

Status run_amplification(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{kLogSize, "% of keys and values"},
                     {"log in % of the data, uniform", "%"},
                     {kUniform, "media bytes / user bytes", true},
                     {kUniformSpace, "bytes"},
                     {"uniform, single puts", "media bytes / user bytes", true},
                     {"zipf 0.99, 32 puts at a time", "media bytes / user bytes", true},
                     {"NVM bytes per record, zipf", "bytes"},
                     {"100 B values, uniform, 32 puts at a time", "media bytes / user bytes", true},
                     {"NVM bytes per record, 100 B values", "bytes"}};
  for (const uint64_t percent : {5, 10, 18, 30, 60}) {
    UpdateCosts uniform, single, zipf, larger;
    UpdateStudy study = study_of(plan, 8, percent);
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &uniform));
    study.depth = 1;
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &single));
    study.depth = kGroup;
    study.alpha = 0.99;
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &zipf));
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study_of(plan, 100, percent), &larger));
    result->rows.push_back({percent, uniform.log_percent_of_data, uniform.write_amplification,
                            uniform.nvm_bytes_per_record(), single.write_amplification, zipf.write_amplification,
                            zipf.nvm_bytes_per_record(), larger.write_amplification, larger.nvm_bytes_per_record()});
    result->medium = uniform.medium;
  }
  result->labels = {size_label(plan),
                    "Records of 8 + 8 bytes, and of 8 + 100 bytes. Media bytes: 256-byte blocks that a write-combining "
                    "buffer of 64 would write, of log, dnodes, headers, retire marks and compaction.",
                    "NVM bytes per record: the most at any moment, all of the log included. The log in % of the data: "
                    "of what dnodes take.",
                    "Goal: at most 5 at 34 bytes, the log at most 10 % of the "
                    "data."};
  return Status::OK();
}

Reference amplification_reference() {
  return {{kLogSize, kUniform, kUniformSpace}, {{kLogPercent, 5, 34}}, ReferenceKind::kGoals};
}

// ---- log packing

constexpr uint64_t kLogBytesOfPacking = uint64_t{4} << 20;  // so that a segment has room for the largest record
constexpr const char* kPacked = "log byte";
constexpr const char* kRelative = "updates a second, the best = 1";

Status run_packing(const ExperimentPlan& plan, ExperimentResult* result) {
  struct Packing {
    uint64_t bytes;  // approximate bytes of a log record
    unsigned depth;
    bool atomic;
  };
  result->columns = {{kPacked, "bytes"},
                     {kRelative, "share", true},
                     {"Mop/s", "Mop/s"},
                     {"fences per update", "fences"},
                     {"media bytes per update", "bytes"}};
  double best = 0;
  for (const Packing& packing : {Packing{24, 1, false}, {256, 12, false}, {640, kGroup, false}, {4096, 200, true}}) {
    UpdateStudy study = study_of(plan, 8, kLogPercent);
    study.options.test.medium = TestMedium::kEmulator;
    study.options.log_bytes = std::max(study.options.log_bytes, kLogBytesOfPacking);
    study.depth = packing.depth;
    study.atomic = packing.atomic;
    UpdateCosts costs;
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &costs));
    result->rows.push_back({packing.bytes, {}, costs.mops, costs.fences_per_update, costs.media_bytes_per_update});
    best = std::max(best, costs.mops);
    result->medium = costs.medium;
  }
  for (Row& row : result->rows) row[1] = *row[2] / best;
  result->labels = {size_label(plan),
                    "Bytes of a log record, which are written and fenced together: Put; MultiPut of 12 and of 32; a "
                    "write batch of 200, which is atomic besides.",
                    "The paper packs in a DRAM buffer and returns before it is written; here every update is "
                    "durable when it returns, so what is packed is what the caller submits together."};
  return Status::OK();
}

Reference packing_reference() { return published_reference("log-packing"); }

// ---- large values

constexpr const char* kValue = "value byte";

Status run_values(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{kValue, "bytes"},
                     {"in whole media blocks", "Kop/s", true},
                     {"values, MB/s", "MB/s"},
                     {"media bytes / user bytes", "ratio"},
                     {"fences per update", "fences"},
                     {"not staged", "Kop/s", true,
                      "the store has no other way than to copy a value past the cache, in order and in whole blocks"}};
  for (const size_t bytes : {256, 1024, 4088, 4096, 16384}) {
    UpdateStudy study = study_of(plan, bytes, kLogPercent);
    study.options.test.medium = TestMedium::kEmulator;
    study.depth = 1;
    study.options.log_bytes = std::max(study.options.log_bytes, uint64_t{4} << 20);  // large values begin at 4 KiB
    UpdateCosts costs;
    BONSAI_RETURN_IF_ERROR(run_updates(plan, study, &costs));
    result->rows.push_back({static_cast<double>(bytes),
                            costs.mops * 1e3,
                            costs.mops * static_cast<double>(bytes),
                            costs.write_amplification,
                            costs.fences_per_update,
                            {}});
    result->medium = costs.medium;
  }
  result->labels = {size_label(plan),
                    "One put at a time. Values from 4096 bytes on are written once, apart, in place of log and dnode.",
                    "The paper: values of 16 KB, 24 threads, staged 256 bytes at a time in DRAM or not."};
  return Status::OK();
}

Reference values_reference() { return published_reference("value-staging"); }

}  // namespace

const Registered<Experiment> kWritesExperiments("writes", []() -> std::vector<Experiment> {
  return {{"write-amplification", "Write amplification against space", "docs/design.md, section 6",
           "media bytes per user byte, and NVM bytes per record, by the size of the log", run_amplification,
           amplification_reference},
          {"log-packing", "Log packing", "BonsaiKV paper, log packing",
           "updates a second by the bytes that go to the log together", run_packing, packing_reference},
          {"value-staging", "Large values", "BonsaiKV paper, value staging", "puts of values of 256 bytes to 16 KiB",
           run_values, values_reference}};
});

}  // namespace bonsai::bench
