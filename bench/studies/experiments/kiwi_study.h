// SPDX-License-Identifier: Apache-2.0
// The common parts of KiWi's figures: sizes, stores, teams, and measurements of teams beside each other.
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

[[nodiscard]] std::vector<Member> team(unsigned threads, Role role, uint32_t scan_records = 0);
// Half of the threads scan, the others put; at least one each.
[[nodiscard]] std::vector<Member> halves(unsigned threads, uint32_t scan_records);
[[nodiscard]] std::vector<unsigned> team_sizes(const ExperimentPlan& plan);

// An engine whose log is a tenth of the data.
[[nodiscard]] std::unique_ptr<Engine> bonsai_for(uint64_t records, BonsaiVariant variant = {},
                                                 uint32_t background_threads = Options().background_threads);

// Bonsai as three columns, and the paper's maps in DRAM.
enum Rival : size_t { kLeft, kDrained, kSampled, kKiwi, kSnapTree, kCtrie, kKaryTree, kSkipList, kRivalsEnd };
using Rivals = std::vector<Rival>;

// All rivals but kSampled; for figures about scans: all.
[[nodiscard]] const Rivals& kiwi_rivals();
[[nodiscard]] const Rivals& kiwi_rivals_of_scans();
[[nodiscard]] const char* rival_name(Rival rival);
[[nodiscard]] inline bool is_map(Rival rival) { return rival >= kKiwi; }
[[nodiscard]] std::unique_ptr<Engine> rival_for(Rival rival, uint64_t records);

// The work that a team did on a rival.
struct Work {
  double records_m_per_s = 0;  // of the requested role
  double other_m_per_s = 0;    // of the other role
  double dram_bytes = 0, nvm_bytes = 0;
  double dram_bytes_max = 0;
  double dram_growth = 0;  // mean of the second half of the time / mean of the first
};
using WorkOfAll = std::array<Work, kRivalsEnd>;

// Measures as the paper does: the mean of some runs, each on a fresh fill. A warm-up on a fill of its own precedes a
// rival's first run. The rivals take turns.
class Field {
 public:
  // Requires: plan, rivals and result outlive it.
  Field(const ExperimentPlan& plan, const KiwiSize& size, const Rivals& rivals, ExperimentResult* result);

  // *all: the entries of the field's rivals are set, the others are left unchanged.
  Status measure(const TeamPlan& team, Role role, Role other, WorkOfAll* all);

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

// Labels that a reader of any figure of the group needs; of figures by threads; and of the field's figures.
void label(const ExperimentPlan& plan, ExperimentResult* result, const std::string& what);
void label_threads(const ExperimentPlan& plan, ExperimentResult* result);
void label_field(const ExperimentPlan& plan, const Rivals& rivals, ExperimentResult* result, const std::string& what);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_KIWI_STUDY_H_
