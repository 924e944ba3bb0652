// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/kiwi_study.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::bench {
namespace {

constexpr unsigned kRunsOfPaper = 10;
constexpr const char* kNames[] = {"bonsai as left", "bonsai drained", "bonsai sampled", "kiwi_like",
                                  "snaptree_like",  "ctrie_like",     "kary_tree_like", "skiplist_like"};
static_assert(std::size(kNames) == kRivalsEnd);

uint64_t warm_up_ms(Scale scale) { return scale == Scale::kPaper ? 20'000 : scale == Scale::kSmall ? 100 : 1; }

}  // namespace

std::vector<KiwiSize> kiwi_sizes(Scale scale) {
  if (scale == Scale::kPaper) return {{"1 M", 1'000'000}, {"10 M", 10'000'000}};
  if (scale == Scale::kSmall) return {{"100 K", 100'000, false}, {"1 M", 1'000'000}};
  return {{"1 K", 1'000}, {"4 K", 4'000}};
}

std::vector<Member> team(unsigned threads, Role role, uint32_t scan_records) {
  return std::vector<Member>(threads, Member{role, scan_records});
}

std::vector<Member> halves(unsigned threads, uint32_t scan_records) {
  std::vector<Member> members = team(std::max(1U, threads / 2), Role::kScan, scan_records);
  members.resize(std::max(2U, threads), Member{Role::kPut});
  return members;
}

std::vector<unsigned> team_sizes(const ExperimentPlan& plan) { return thread_counts(plan, {1, 2, 4, 8, 16, 24, 32}); }

std::unique_ptr<Engine> bonsai_for(uint64_t records, BonsaiVariant variant, uint32_t background_threads) {
  variant.change = [=](StoreOptions* options) {
    options->log_bytes = log_bytes_for(records);
    options->background_threads = background_threads;
  };
  return make_bonsai_engine(variant);
}

const Rivals& kiwi_rivals() {
  static const Rivals kRivals = {kLeft, kDrained, kKiwi, kSnapTree, kCtrie, kKaryTree, kSkipList};
  return kRivals;
}

const Rivals& kiwi_rivals_of_scans() {
  static const Rivals kRivals = {kLeft, kDrained, kSampled, kKiwi, kSnapTree, kCtrie, kKaryTree, kSkipList};
  return kRivals;
}

const char* rival_name(Rival rival) { return kNames[rival]; }

std::unique_ptr<Engine> rival_for(Rival rival, uint64_t records) {
  if (is_map(rival)) return find_engine(rival_name(rival))->make();
  return bonsai_for(records, {.sampled_scans = rival == kSampled, .drains = rival != kLeft});
}

Field::Field(const ExperimentPlan& plan, const KiwiSize& size, const Rivals& rivals, ExperimentResult* result)
    : once_(plan),
      size_(size),
      rivals_(rivals),
      result_(result),
      runs_(plan.scale == Scale::kPaper ? std::max(kRunsOfPaper, plan.repeat) : plan.repeat) {
  once_.repeat = 1;
}

Status Field::measure(const TeamPlan& team, Role role, Role other, WorkOfAll* all) {
  BONSAI_RETURN_IF_ERROR(warm_up());
  for (unsigned i = 0; i < runs_; ++i) {
    for (const Rival rival : rivals_) {
      TeamPlan cell = team;
      TeamResult done;
      BONSAI_RETURN_IF_ERROR(run_once(rival, &cell, &done));
      Work& work = (*all)[rival];
      work.records_m_per_s += done.records_m_per_s(cell, role) / runs_;
      work.other_m_per_s += done.records_m_per_s(cell, other) / runs_;
      work.dram_bytes += done.dram_bytes / runs_;
      work.nvm_bytes += done.nvm_bytes / runs_;
      work.dram_bytes_max = std::max(work.dram_bytes_max, done.dram_bytes_max);
      work.dram_growth += done.dram_growth / runs_;
    }
  }
  return Status::OK();
}

Status Field::run_once(Rival rival, TeamPlan* cell, TeamResult* done) {
  Subject subject(once_, size_.records, rival_for(rival, size_.records));
  BONSAI_RETURN_IF_ERROR(subject.load(is_map(rival) ? nullptr : result_));
  return subject.run(cell, done);
}

Status Field::warm_up() {
  for (size_t i = 0; i < rivals_.size() && !is_warm_; ++i) {
    TeamPlan cell;
    cell.members = team(once_.threads_max, Role::kPut);
    cell.ms = warm_up_ms(once_.scale);
    TeamResult ignored;
    BONSAI_RETURN_IF_ERROR(run_once(rivals_[i], &cell, &ignored));
  }
  is_warm_ = true;
  return Status::OK();
}

void add_columns(const std::string& what, const std::string& unit, bool charted, const std::string& of,
                 const Rivals& rivals, ExperimentResult* result) {
  for (const Rival rival : rivals) result->columns.push_back({what + ", " + rival_name(rival) + of, unit, charted});
}

void add_figures(const WorkOfAll& all, const Rivals& rivals, double Work::*figure, double divisor, Row* row) {
  for (const Rival rival : rivals) row->emplace_back(all[rival].*figure / divisor);
}

std::optional<double> ratio(double figure, double by) {
  return by > 0 ? std::optional<double>(figure / by) : std::nullopt;
}

void label(const ExperimentPlan& plan, ExperimentResult* result, const std::string& what) {
  result->labels.push_back(what);
  result->labels.push_back("Durable updates; records of 8 + 8 bytes, the log a tenth of them; " +
                           std::to_string(cell_ms(plan.scale)) + " ms per figure" +
                           (plan.scale == Scale::kPaper ? "." : ", fewer records than the paper has: --scale=paper."));
}

void label_threads(const ExperimentPlan& plan, ExperimentResult* result) {
  if (plan.threads_max < 32) {
    result->labels.push_back("Up to " + std::to_string(plan.threads_max) + " threads: the paper's figures go to 32.");
  }
}

void label_field(const ExperimentPlan& plan, const Rivals& rivals, ExperimentResult* result, const std::string& what) {
  label(plan, result, what);
  const bool scans = std::find(rivals.begin(), rivals.end(), kSampled) != rivals.end();
  result->labels.push_back(
      "bonsai as left: measured as a user leaves the store who never calls Drain, at once after the load; bonsai "
      "drained: drained after the load, outside the clock." +
      std::string(scans ? " Both verify every record that a scan returns; bonsai sampled: drained, and scans verify a "
                          "sample only (verify_checksums off)."
                        : ""));
  result->labels.push_back(
      "The maps (..._like) are volatile, clean-room, in C++ and in the same run; each figure is the mean of " +
      std::string(plan.scale == Scale::kPaper ? "10 runs" : "so many runs as --repeat says") +
      " on fresh fills, after a warm-up.");
  label_threads(plan, result);
}

}  // namespace bonsai::bench
