// Seed 004, index tier (b): what having several operations under way brings where reads of NVM take time, beside a
// store that has no NVM.
#include <algorithm>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "bench/experiments.h"
#include "bench/fabric_plan.h"
#include "bench/subject.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecordBytes = 16;
constexpr unsigned kDepths[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr unsigned kRoundsMin = 3;

struct Variant {
  const char* name;
  void (*change)(Options* options);
};

constexpr Variant kVariants[] = {
    {"DRAM-only", [](Options* options) { options->medium = MediumChoice::kDram; }},
    {"offloading + uploading", [](Options* options) { options->medium = MediumChoice::kEmulator; }},
    {"offloading",
     [](Options* options) {
       options->medium = MediumChoice::kEmulator;
       options->metadata_upload = false;
     }},
    {"offloading + uploading, NVM as fast as DRAM", [](Options* options) { options->medium = MediumChoice::kAuto; }},
};
constexpr size_t kDram = 0, kFull = 1, kUntimed = 3;

struct Load {
  const char* name;
  Part part;
};
constexpr Load kGets = {"gets", Part::kGet};
constexpr Load kMix = {"gets and updates", Part::kMix};

// The loaded stores take turns, so that what else the machine does hits them alike.
class Study {
 public:
  explicit Study(const ExperimentPlan& plan) : plan_(plan), turn_(plan) { turn_.repeat = 1; }

  Status run(const Load& load, ExperimentResult* result) {
    records_ = (plan_.scale == Scale::kSeed    ? 300'000'000
                : plan_.scale == Scale::kSmall ? 16'000'000
                                               : 160'000) /
               kRecordBytes;
    for (const Variant& variant : kVariants) {
      subjects_.push_back(
          std::make_unique<Subject>(turn_, records_, make_bonsai_engine({.change = variant.change, .sessions = true})));
      BONSAI_RETURN_IF_ERROR(subjects_.back()->load(&variant == &kVariants[kFull] ? result : nullptr));
    }
    result->columns = {{"operation under way", "operations"}};
    for (const unsigned depth : kDepths) result->rows.push_back({depth});
    return measure_load(load, result);
  }

  [[nodiscard]] uint64_t records() const { return records_; }

 private:
  Status measure_load(const Load& load, ExperimentResult* result) {
    const size_t first = result->columns.size();
    for (const Variant& variant : kVariants) {
      result->columns.push_back({std::string(load.name) + ", " + variant.name, "M/s", true});
    }
    result->columns.push_back({std::string(load.name) + ", DRAM per record (full)", "bytes"});
    result->columns.push_back({std::string(load.name) + ", DRAM per record (DRAM-only)", "bytes"});
    for (Row& row : result->rows) BONSAI_RETURN_IF_ERROR(measure_row(load, &row));
    const auto best = [&](size_t variant) {
      double most = 0;
      for (const Row& row : result->rows) most = std::max(most, *row[first + variant]);
      return most;
    };
    result->labels.push_back(std::string(load.name) + ": at its best depth the full design reaches " +
                             percent(best(kFull) / best(kDram)) + " of the best of DRAM-only (issue 4: 95 %); " +
                             percent(best(kUntimed) / best(kDram)) +
                             " where NVM takes no time, so that neither waits nor the model cost anything.");
    return Status::OK();
  }

  Status measure_row(const Load& load, Row* row) {
    const auto depth = static_cast<unsigned>(*row->front());
    std::vector<double> figures[std::size(kVariants)];
    const unsigned rounds = plan_.scale == Scale::kTrial ? 1 : std::max(kRoundsMin, plan_.repeat);
    for (unsigned round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < std::size(kVariants); ++i) {
        if (round == 0) BONSAI_RETURN_IF_ERROR(subjects_[i]->engine().settle());
        TeamPlan team;
        team.zipfian = true;
        team.members.assign(plan_.threads_max, Member{.part = load.part, .depth = depth});
        TeamResult done;
        BONSAI_RETURN_IF_ERROR(subjects_[i]->run(&team, &done));
        figures[i].push_back(done.records_m_per_s(team, load.part));
      }
    }
    for (const auto& each : figures) row->emplace_back(median(each));
    const MemoryUse full = subjects_[kFull]->engine().memory();
    const MemoryUse dram = subjects_[kDram]->engine().memory();
    row->emplace_back(static_cast<double>(*full.dram_bytes) / static_cast<double>(records_));
    row->emplace_back(static_cast<double>(*dram.dram_bytes + *dram.nvm_bytes) / static_cast<double>(records_));
    return Status::OK();
  }

  const ExperimentPlan& plan_;
  ExperimentPlan turn_;
  uint64_t records_ = 0;
  std::vector<std::unique_ptr<Subject>> subjects_;
};

Status run(const ExperimentPlan& plan, const Load& load, ExperimentResult* result) {
  Study study(plan);
  BONSAI_RETURN_IF_ERROR(study.run(load, result));
  result->labels.insert(
      result->labels.begin(),
      {"NVM is modelled: preset optane of the emulator. DRAM-only is a store without NVM or log, whose records lie in "
       "DRAM as they would on NVM; they count as its DRAM.",
       std::to_string(plan.threads_max) + " threads, each with a session of so many operations; " +
           std::to_string(study.records()) + " records of 8 + 8 bytes, YCSB's zipfian; " +
           std::to_string(cell_ms(plan.scale)) + " ms per figure, stores taking turns, medians."});
  return Status::OK();
}

Status run_gets(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run(plan, kGets, result));
  result->labels.push_back(
      "In the specification: 24 threads, YCSB-C; one operation is its intra-operation pipelining alone (without any: "
      "6.04), more are its coroutines. It does not say which variant; 13.22 is its figure for offloading.");
  return Status::OK();
}

Status run_mix(const ExperimentPlan& plan, ExperimentResult* result) { return run(plan, kMix, result); }

Reference gets_reference() {
  return {{"operation under way", "gets, offloading", "NVM GB/s", "IB Gbps"},
          {{1, 7.15, 0.42, 1.54}, {2, 10.83, 1.37, 2.02}, {4, 13.22, 2.62, 2.4}, {8, 12.87, 1.94, 2.2}}};
}

Reference mix_reference() { return {}; }

constexpr const char* kGroup = "pipelining";
constexpr const char* kSource = "seed 004, index tier (b)";

}  // namespace

std::vector<Experiment> pipelining() {
  return {{"pipelining-gets", "Index tier, operations under way at once: gets", kSource,
           "throughput by operations under way: DRAM-only, offloading, metadata uploading", run_gets, gets_reference,
           kGroup},
          {"pipelining-mix", "Index tier, operations under way at once: gets and updates", kSource,
           "the same of gets and updates, half and half", run_mix, mix_reference, kGroup}};
}

}  // namespace bonsai::bench
