// SPDX-License-Identifier: Apache-2.0
// BonsaiKV scheme, index tier, table (a): the gain of each technique of the index tier for a read-only workload, by
// number of threads.
#include <string>

#include "base/status_macros.h"
#include "bench/engines/bonsai.h"
#include "bench/studies/experiments/experiment.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecordBytes = 16;  // 8-byte keys, 8-byte values
constexpr uint64_t kPaperBytes = 300'000'000;
constexpr uint64_t kSmallBytes = 16'000'000;
constexpr uint64_t kTrialBytes = 160'000;
constexpr unsigned kPipelineDepth = 4;  // operations of a session in flight, as many as the paper's coroutines
constexpr unsigned kBestDepth = 64;     // of ours

struct Variant {
  const char* column;
  void (*change)(StoreOptions* options);
  unsigned depth = 1;
  bool all_in_dram = false;
};

void in_dram(StoreOptions* options) {
  options->medium = MediumChoice::kDram;
  options->durability = Durability::kVolatile;
}
void on_nvm(StoreOptions* options) { options->test.medium = TestMedium::kEmulator; }
void without_upload(StoreOptions* options) {
  on_nvm(options);
  options->metadata_upload = false;
}

// One line each, in the order of the paper; then ours.
constexpr Variant kVariants[] = {
    {"DRAM-only, pipelining", in_dram, kPipelineDepth, true},
    {"data offloading + metadata uploading + pipelining", on_nvm, kPipelineDepth},
    {"data offloading + pipelining", without_upload, kPipelineDepth},
    {"data offloading only", without_upload},
    {"data offloading + metadata uploading", on_nvm},
    {"DRAM-only, 64 in flight", in_dram, kBestDepth, true},
    {"data offloading + metadata uploading, 64 in flight", on_nvm, kBestDepth},
    {"data offloading, 64 in flight", without_upload, kBestDepth},
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
    config.depth = variant.depth;
    const EngineEntry entry{"bonsai", variant.column, [&variant] {
                              return make_bonsai_engine({.change = variant.change, .sessions = variant.depth > 1});
                            }};
    RunResult run;
    BONSAI_RETURN_IF_ERROR(measure(plan, entry, config, read_only, &run));
    row.back() = run.throughput_ops_per_s / 1e6;
    const uint64_t dram_bytes =
        run.memory.dram_bytes.value_or(0) + (variant.all_in_dram ? run.memory.nvm_bytes.value_or(0) : 0);
    memory.back() = static_cast<double>(dram_bytes) / static_cast<double>(config.records);
    if (!variant.all_in_dram) result->medium = run.medium;
  }
  row.insert(row.end(), memory.begin(), memory.end());
  result->rows.push_back(std::move(row));
  return Status::OK();
}

Status run(const ExperimentPlan& plan, ExperimentResult* result) {
  const uint64_t bytes = plan.scale == Scale::kPaper   ? kPaperBytes
                         : plan.scale == Scale::kSmall ? kSmallBytes
                                                       : kTrialBytes;
  RunConfig config = plan.config;
  config.records = bytes / kRecordBytes;
  config.key_form = KeyForm::kFixed8;
  config.value_bytes = 8;
  result->columns = {{"thread", "threads"}};
  for (const Variant& variant : kVariants) {
    result->columns.push_back({variant.column, "Mop/s", true});
  }
  for (const Variant& variant : kVariants) {
    result->columns.push_back({"DRAM bytes per record, " + std::string(variant.column), "bytes"});
  }
  result->labels = {"YCSB-C, zipfian, " + std::to_string(config.records) + " records of 8 + 8 bytes" +
                    (plan.scale == Scale::kPaper ? " (the 0.3 GB of the paper)"
                                                 : ", less than the 0.3 GB of the paper: --scale=paper")};
  result->labels.emplace_back(
      "NVM is modelled: preset optane of the emulator. DRAM-only is a store without NVM or log, whose records are in "
      "DRAM as they would on NVM; they count as its DRAM. Pipelining: sessions of " +
      std::to_string(kPipelineDepth) + " operations, as many as the paper's coroutines; " + std::to_string(kBestDepth) +
      " in flight: what is best here.");
  if (plan.threads_max < 24) {
    result->labels.push_back("Up to " + std::to_string(plan.threads_max) +
                             " threads: the paper's rows for more are not measured here.");
  }
  for (const unsigned threads : thread_counts(plan, {1, 6, 12, 18, 24})) {
    config.threads = threads;
    config.operations = plan.scale == Scale::kTrial ? config.records : config.records * threads;
    BONSAI_RETURN_IF_ERROR(measure_row(plan, config, result));
  }
  return Status::OK();
}

Reference reference() { return published_reference("index-technique"); }

}  // namespace

const Registered<Experiment> kIndexTechniqueExperiments("index_technique", []() -> std::vector<Experiment> {
  return {{"index-technique", "Index tier, technique by technique, read-only", "BonsaiKV scheme, index tier, table (a)",
           "throughput by threads: DRAM-only, offloading, metadata uploading, pipelining", run, reference}};
});

}  // namespace bonsai::bench
