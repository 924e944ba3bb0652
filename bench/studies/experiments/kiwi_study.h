// SPDX-License-Identifier: Apache-2.0
// What the figures of KiWi's evaluation have in common: sizes, stores, teams, and how they are measured beside each
// other.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_KIWI_STUDY_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_KIWI_STUDY_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/subject.h"
#include "bonsai/options.h"

namespace bonsai::bench {

inline constexpr const char* kKiwiGroup = "kiwi";
inline constexpr uint32_t kLongScan = 32'768;

struct KiwiSize {
  const char* name;
  uint64_t records;
  bool charted = true;
};

// The two sizes of the paper, or smaller ones.
[[nodiscard]] std::vector<KiwiSize> kiwi_sizes(Scale scale);

[[nodiscard]] std::vector<Member> team(unsigned threads, Part part, uint32_t scan_records = 0);
// Half of the threads scan, the others put; at least one each.
[[nodiscard]] std::vector<Member> halves(unsigned threads, uint32_t scan_records);
[[nodiscard]] std::vector<unsigned> team_sizes(const ExperimentPlan& plan);

// With a log of a tenth of the data.
[[nodiscard]] std::unique_ptr<Engine> bonsai_for(uint64_t records, BonsaiVariant variant = {},
                                                 uint32_t background_threads = Options().background_threads);

// Bonsai as three columns, and, in DRAM, the maps of the paper.
enum Rival : size_t { kLeft, kDrained, kSampled, kKiwi, kSnapTree, kCtrie, kKaryTree, kSkipList, kRivalsEnd };
using Rivals = std::vector<Rival>;

// All but kSampled; and with it, for figures that are about scans.
[[nodiscard]] const Rivals& kiwi_rivals();
[[nodiscard]] const Rivals& kiwi_rivals_of_scans();
[[nodiscard]] const char* rival_name(Rival rival);
[[nodiscard]] inline bool is_map(Rival rival) { return rival >= kKiwi; }
[[nodiscard]] std::unique_ptr<Engine> rival_for(Rival rival, uint64_t records);

// The work that a team did on a rival.
struct Work {
  double records_m_per_s = 0;  // of the part that was asked for
  double other_m_per_s = 0;    // of the other one
  double dram_bytes = 0, nvm_bytes = 0;
  double dram_bytes_max = 0;
  double dram_growth = 0;  // mean of the second half of the time / of the first
};
using WorkOfAll = std::array<Work, kRivalsEnd>;

// Measures as the paper does: the mean of some runs, each on a fresh fill; before a rival's first one a warm-up, on a
// fill of its own. The rivals take turns.
class Field {
 public:
  // Requires: plan, rivals and result outlive it.
  Field(const ExperimentPlan& plan, const KiwiSize& size, const Rivals& rivals, ExperimentResult* result);

  // *all: of the field's rivals; the others' are as they were.
  Status measure(const TeamPlan& team, Part part, Part other, WorkOfAll* all);

 private:
  Status run_once(Rival rival, TeamPlan* cell, TeamResult* done);
  Status warm_up();

  ExperimentPlan once_;
  const KiwiSize size_;
  const Rivals& rivals_;
  ExperimentResult* const result_;
  const unsigned runs_;
  bool is_warm_ = false;
};

// A column for each rival: "WHAT, RIVAL, SIZE".
void add_columns(const std::string& what, const std::string& unit, bool charted, const std::string& of,
                 const Rivals& rivals, ExperimentResult* result);
void add_figures(const WorkOfAll& all, const Rivals& rivals, double Work::*figure, double divisor, Row* row);

[[nodiscard]] std::optional<double> ratio(double figure, double by);

// What a reader must know of every figure of the group; of those by threads; and of those of the field.
void label(const ExperimentPlan& plan, ExperimentResult* result, const std::string& what);
void label_threads(const ExperimentPlan& plan, ExperimentResult* result);
void label_field(const ExperimentPlan& plan, const Rivals& rivals, ExperimentResult* result, const std::string& what);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_KIWI_STUDY_H_
