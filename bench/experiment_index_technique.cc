// Seed 004, index tier (a): what each technique of the index tier gives to a read-only workload, by number of threads.
#include <string>

#include "base/status_macros.h"
#include "bench/engines.h"
#include "bench/experiments.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecordBytes = 16;  // 8-byte keys, 8-byte values
constexpr uint64_t kSeedBytes = 300'000'000;
constexpr uint64_t kSmallBytes = 16'000'000;
constexpr uint64_t kTrialBytes = 160'000;
constexpr unsigned kPipelineDepth = 32;  // keys that multi-get waits for at once; the specification: 4 coroutines

struct Variant {
  const char* column;
  const char* absent;  // why it cannot be measured, else null
  unsigned depth = 1;
  void (*change)(Options* options) = nullptr;
};

void without_upload(Options* options) { options->metadata_upload = false; }

// A line each; in the order of the specification, then ours.
constexpr Variant kVariants[] = {
    {"DRAM-only, pipelining", "the store has no option to keep everything in DRAM today"},
    {"data offloading + metadata uploading + pipelining", nullptr, kPipelineDepth},
    {"data offloading + pipelining", nullptr, kPipelineDepth, without_upload},
    {"data offloading only", nullptr, 1, without_upload},
    {"data offloading + metadata uploading", nullptr, 1},
};

Status measure_row(const ExperimentPlan& plan, RunConfig config, ExperimentResult* result) {
  Workload read_only;
  read_only.name = "c";
  read_only.shares = {1};
  read_only.requests = Distribution::kZipfian;
  Row row = {config.threads};
  std::vector<std::optional<double>> memory;
  for (const Variant& variant : kVariants) {
    row.emplace_back();
    memory.emplace_back();
    if (variant.absent != nullptr) continue;
    config.depth = variant.depth;
    const EngineEntry entry{"bonsai", variant.column, [&variant] { return make_bonsai_engine(variant.change); }};
    RunResult run;
    BONSAI_RETURN_IF_ERROR(measure(plan, entry, config, read_only, &run));
    row.back() = run.throughput_ops_per_s / 1e6;
    if (run.memory.dram_bytes) memory.back() = static_cast<double>(*run.memory.dram_bytes) / config.records;
    result->medium = run.medium;
  }
  row.insert(row.end(), memory.begin(), memory.end());
  result->rows.push_back(std::move(row));
  return Status::OK();
}

Status run(const ExperimentPlan& plan, ExperimentResult* result) {
  const uint64_t bytes = plan.scale == Scale::kSeed    ? kSeedBytes
                         : plan.scale == Scale::kSmall ? kSmallBytes
                                                       : kTrialBytes;
  RunConfig config = plan.config;
  config.records = bytes / kRecordBytes;
  config.key_form = KeyForm::kFixed8;
  config.value_bytes = 8;
  result->columns = {{"thread", "threads"}};
  for (const Variant& variant : kVariants) {
    result->columns.push_back({variant.column, "Mop/s", true, variant.absent == nullptr ? "" : variant.absent});
  }
  for (const Variant& variant : kVariants) {
    result->columns.push_back({"DRAM bytes per record, " + std::string(variant.column), "bytes", false,
                               variant.absent == nullptr ? "" : "as its throughput"});
  }
  result->labels = {"YCSB-C, zipfian, " + std::to_string(config.records) + " records of 8 + 8 bytes" +
                    (plan.scale == Scale::kSeed ? " (the 0.3 GB of the specification)"
                                                : ", less than the 0.3 GB of the specification: --scale=seed")};
  if (plan.threads_max < 24) {
    result->labels.push_back("Up to " + std::to_string(plan.threads_max) +
                             " threads: the specification's rows for more are not measured here.");
  }
  for (const unsigned threads : thread_counts(plan, {1, 6, 12, 18, 24})) {
    config.threads = threads;
    config.operations = plan.scale == Scale::kTrial ? config.records : config.records * threads;
    BONSAI_RETURN_IF_ERROR(measure_row(plan, config, result));
  }
  return Status::OK();
}

Reference reference() {
  return {{"thread", kVariants[0].column, kVariants[1].column, kVariants[2].column, kVariants[3].column},
          {{1, 2.81, 2.98, 1.67, 0.84},
           {6, 8.27, 7.49, 6.82, 2.41},
           {12, 14.53, 13.25, 8.40, 3.69},
           {18, 16.84, 15.03, 10.05, 4.65},
           {24, 20.22, 19.17, 13.22, 6.04}}};
}

}  // namespace

Experiment index_technique() {
  return {"index-technique",
          "Index tier, technique by technique, read-only",
          "seed 004, index tier (a)",
          "throughput by threads: DRAM-only, offloading, metadata uploading, pipelining",
          run,
          reference};
}

}  // namespace bonsai::bench
