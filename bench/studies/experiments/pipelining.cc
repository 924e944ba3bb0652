// SPDX-License-Identifier: Apache-2.0
// BonsaiKV scheme, index tier, table (b): the gain of having several operations in flight where reads of NVM take time,
// compared with a store that has no NVM.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "bench/results/statistics.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/subject.h"
#include "bench/studies/patched/store.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecordBytes = 16;
constexpr unsigned kDepths[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr unsigned kRoundsMin = 3;

uint64_t records_of(Scale scale) {
  return (scale == Scale::kPaper ? 300'000'000 : scale == Scale::kSmall ? 16'000'000 : 160'000) / kRecordBytes;
}

// All stores are in memory at once: the room for updates is a quarter of what one alone would have.
void share_memory(StoreOptions* options) { options->pool_bytes /= 4; }

void on_nvm(StoreOptions* options) {
  share_memory(options);
  options->test.medium = TestMedium::kEmulator;
}

struct Variant {
  const char* name;
  void (*change)(StoreOptions* options);
};

constexpr Variant kVariants[] = {
    {"DRAM-only",
     [](StoreOptions* options) {
       share_memory(options);
       options->medium = MediumChoice::kDram;
       options->durability = Durability::kVolatile;
     }},
    {"offloading + uploading", on_nvm},
    {"offloading",
     [](StoreOptions* options) {
       on_nvm(options);
       options->metadata_upload = false;
     }},
    {"offloading + uploading, NVM as fast as DRAM", share_memory},
};
constexpr size_t kDram = 0, kFull = 1, kUntimed = 3;

struct Load {
  const char* name;
  Role role;
};
constexpr Load kGets = {"gets", Role::kGet};
constexpr Load kMix = {"gets and updates", Role::kMix};

// The pages that a store gets make a difference of some percent, and so does other load on the machine. So every round
// loads all stores anew, in another order, and at each depth they take turns there and back.
class PipeliningStudy {
 public:
  PipeliningStudy(const ExperimentPlan& plan, const Load& load)
      : plan_(plan),
        turn_(plan),
        role_(load.role),
        rounds_(plan.scale == Scale::kTrial ? 1 : std::max(kRoundsMin, plan.repeat)),
        records_(records_of(plan.scale)) {
    turn_.repeat = 1;
  }

  Status run(ExperimentResult* result) {
    for (unsigned round = 0; round < rounds_; ++round) {
      BONSAI_RETURN_IF_ERROR(load_stores(round, round == 0 ? result : nullptr));
      for (size_t i = 0; i < std::size(kDepths); ++i) BONSAI_RETURN_IF_ERROR(measure(kDepths[i], &cells_[i]));
    }
    return Status::OK();
  }

  void tell(std::string_view name, ExperimentResult* result) const {
    const std::string of = std::string(name) + ", ";
    result->columns = {{"operations in flight", "operations"}};
    for (const Variant& variant : kVariants) result->columns.push_back({of + variant.name, "M/s", true});
    result->columns.push_back({of + "DRAM per record (full)", "bytes"});
    result->columns.push_back({of + "DRAM per record (DRAM-only)", "bytes"});
    for (size_t i = 0; i < std::size(kDepths); ++i) {
      const Cell& cell = cells_[i];
      Row row = {kDepths[i]};
      for (const auto& figures : cell.figures) row.emplace_back(median(figures));
      row.emplace_back(cell.full_dram_bytes / static_cast<double>(records_));
      row.emplace_back(cell.dram_only_bytes / static_cast<double>(records_));
      result->rows.push_back(std::move(row));
    }
    result->labels = {
        "NVM is modelled: preset optane of the emulator. DRAM-only is a store without NVM or log, whose records are in "
        "DRAM as they would on NVM; they count as its DRAM.",
        std::to_string(plan_.threads_max) + " threads, each with a session of so many operations; " +
            std::to_string(records_) + " records of 8 + 8 bytes, YCSB's zipfian. Medians of " +
            std::to_string(rounds_) + " round(s), each with stores loaded anew; a figure is two turns of " +
            std::to_string(turn_ms()) + " ms, stores taking turns.",
        share(name)};
  }

 private:
  // The measurements at one depth.
  struct Cell {
    std::vector<double> figures[std::size(kVariants)];  // of every round
    double full_dram_bytes = 0, dram_only_bytes = 0;
  };

  [[nodiscard]] uint64_t turn_ms() const { return std::max<uint64_t>(1, cell_ms(plan_.scale) / 2); }

  Status load_stores(unsigned round, ExperimentResult* result) {
    for (auto& subject : subjects_) subject.reset();
    for (size_t i = 0; i < std::size(kVariants); ++i) {
      const size_t variant = round % 2 == 0 ? i : std::size(kVariants) - 1 - i;
      subjects_[variant] = std::make_unique<Subject>(
          turn_, records_, make_bonsai_engine({.change = kVariants[variant].change, .sessions = true}));
      BONSAI_RETURN_IF_ERROR(subjects_[variant]->load(variant == kFull ? result : nullptr));
    }
    double ignored = 0;  // whoever comes first to a machine at rest is slow
    for (size_t i = 0; i < std::size(kVariants); ++i) BONSAI_RETURN_IF_ERROR(take_turn(i, kDepths[0], &ignored));
    return Status::OK();
  }

  Status measure(unsigned depth, Cell* cell) {
    double sums[std::size(kVariants)] = {};
    for (const auto& subject : subjects_) BONSAI_RETURN_IF_ERROR(subject->engine().settle());
    for (size_t i = 0; i < std::size(kVariants); ++i) BONSAI_RETURN_IF_ERROR(take_turn(i, depth, &sums[i]));
    for (size_t i = std::size(kVariants); i-- > 0;) BONSAI_RETURN_IF_ERROR(take_turn(i, depth, &sums[i]));
    for (size_t i = 0; i < std::size(kVariants); ++i) cell->figures[i].push_back(sums[i] / 2);
    cell->full_dram_bytes = static_cast<double>(*subjects_[kFull]->engine().memory().dram_bytes);
    const MemoryUse dram_only = subjects_[kDram]->engine().memory();
    cell->dram_only_bytes = static_cast<double>(*dram_only.dram_bytes + *dram_only.nvm_bytes);
    return Status::OK();
  }

  Status take_turn(size_t variant, unsigned depth, double* sum) {
    TeamPlan team;
    team.zipfian = true;
    team.ms = turn_ms();
    team.members.assign(plan_.threads_max, Member{.role = role_, .depth = depth});
    TeamResult done;
    BONSAI_RETURN_IF_ERROR(subjects_[variant]->run(&team, &done));
    *sum += done.records_m_per_s(team, role_);
    return Status::OK();
  }

  // The share of DRAM-only's pace that the full design keeps.
  [[nodiscard]] std::string share(std::string_view name) const {
    const auto figure = [&](size_t i, size_t variant) { return median(cells_[i].figures[variant]); };
    size_t best = 0;
    double most_full = 0, most_dram = 0;
    for (size_t i = 0; i < std::size(kDepths); ++i) {
      if (figure(i, kFull) > figure(best, kFull)) best = i;
      most_full = std::max(most_full, figure(i, kFull));
      most_dram = std::max(most_dram, figure(i, kDram));
    }
    const auto ratio = [&](size_t variant) {
      std::vector<double> of_rounds;
      for (size_t round = 0; round < rounds_; ++round) {
        of_rounds.push_back(cells_[best].figures[variant][round] / cells_[best].figures[kDram][round]);
      }
      const auto [least, most] = std::minmax_element(of_rounds.begin(), of_rounds.end());
      return percent(median(of_rounds)) + " (" + percent(*least) + " to " + percent(*most) + ")";
    };
    return std::string(name) + ": at its best depth, " + std::to_string(kDepths[best]) + ", the full design reaches " +
           ratio(kFull) + " of DRAM-only in the same round (goal: 95 %), and " + ratio(kUntimed) +
           " where NVM takes no time, so that neither waits nor the model cost anything; its best of all depths is " +
           percent(most_full / most_dram) + " of the best of DRAM-only.";
  }

  const ExperimentPlan& plan_;
  ExperimentPlan turn_;
  const Role role_;
  const unsigned rounds_;
  const uint64_t records_;
  std::unique_ptr<Subject> subjects_[std::size(kVariants)];
  Cell cells_[std::size(kDepths)];
};

Status run(const ExperimentPlan& plan, const Load& load, ExperimentResult* result) {
  PipeliningStudy study(plan, load);
  BONSAI_RETURN_IF_ERROR(study.run(result));
  study.tell(load.name, result);
  return Status::OK();
}

// Figures that the paper measured with counters of its NVM modules and of its network card.
void leave_out_devices(ExperimentResult* result) {
  result->columns.push_back({"NVM GB/s", "GB/s", false, "NVM is modelled here, and the model's traffic is not NVM's"});
  result->columns.push_back({"IB Gbps", "Gbit/s", false, "all targets are local: nothing goes over a network"});
  for (Row& row : result->rows) row.resize(result->columns.size());
}

// ---- the rows of the paper: within one get, and between gets, by coroutines or by groups

struct Way {
  const char* name;
  bool metadata, ahead, coroutines;
};
constexpr Way kWays[] = {
    {"with metadata, coroutines", true, true, true},
    {"with metadata, groups", true, true, false},
    {"without metadata, coroutines", false, true, true},
    {"without metadata, groups", false, true, false},
};
constexpr unsigned kInter[] = {2, 4, 8, 16, 32};
constexpr size_t kInterRows = 2 + std::size(kInter);  // first "none" and "intra only"

std::vector<std::string> row_names() {
  std::vector<std::string> names = {"none", "intra only"};
  for (const unsigned depth : kInter) names.push_back("intra + " + std::to_string(depth) + " inter");
  return names;
}

// One store, one row of it.
Status measure_way(const ExperimentPlan& plan, Subject* subject, unsigned depth, double* m_per_s) {
  TeamPlan team;
  team.zipfian = true;
  team.members.assign(plan.threads_max, Member{.role = Role::kGet, .depth = depth});
  TeamResult done;
  BONSAI_RETURN_IF_ERROR(subject->run(&team, &done));
  *m_per_s = done.records_m_per_s(team, Role::kGet);
  return Status::OK();
}

// The rates of a store with these options: rows [first, first + depths.size()).
Status measure_store(const ExperimentPlan& plan, const Way& way, const std::vector<unsigned>& depths, size_t first,
                     std::vector<double>* of_rows, ExperimentResult* result) {
  const auto change = [&way](StoreOptions* options) {
    on_nvm(options);
    options->metadata_upload = way.metadata;
  };
  const patched::Patches patches = {.gets_fetch_ahead = way.ahead, .gets_in_coroutines = way.coroutines};
  const auto open = [&patches](const auto&... how) { return patched::open(patches, how...); };
  Subject subject(plan, records_of(plan.scale), make_bonsai_engine({.change = change, .sessions = true, .open = open}));
  BONSAI_RETURN_IF_ERROR(subject.load(result));
  double ignored = 0;
  BONSAI_RETURN_IF_ERROR(measure_way(plan, &subject, 1, &ignored));
  for (size_t i = 0; i < depths.size(); ++i) {
    double m_per_s = 0;
    BONSAI_RETURN_IF_ERROR(measure_way(plan, &subject, depths[i], &m_per_s));
    of_rows[first + i].push_back(m_per_s);
  }
  return Status::OK();
}

std::string gain_text(const char* name, const std::vector<double>& rows) {
  const size_t best = static_cast<size_t>(std::max_element(rows.begin(), rows.end()) - rows.begin());
  char text[160];
  std::snprintf(text, sizeof text, "%s: %.2f times \"none\" at its best, \"%s\".", name, rows[best] / rows[0],
                row_names()[best].c_str());
  return text;
}

Status run_ways(const ExperimentPlan& plan, ExperimentResult* result) {
  ExperimentPlan once = plan;
  once.repeat = 1;
  const unsigned rounds = plan.scale == Scale::kTrial ? 1 : std::max(kRoundsMin, plan.repeat);
  std::vector<unsigned> depths = {1};
  depths.insert(depths.end(), std::begin(kInter), std::end(kInter));
  std::vector<double> figures[std::size(kWays)][kInterRows];
  for (unsigned round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < std::size(kWays); ++i) {
      const size_t way = round % 2 == 0 ? i : std::size(kWays) - 1 - i;
      Way without = kWays[way];
      without.ahead = false;
      BONSAI_RETURN_IF_ERROR(measure_store(once, without, {1}, 0, figures[way], result));
      BONSAI_RETURN_IF_ERROR(measure_store(once, kWays[way], depths, 1, figures[way], result));
    }
  }
  result->columns = {{"pipelining", "", false, "", row_names()}};
  for (const Way& way : kWays) result->columns.push_back({way.name, "M/s", true});
  for (size_t row = 0; row < kInterRows; ++row) {
    result->rows.push_back({static_cast<double>(row)});
    for (const auto& way : figures) result->rows.back().emplace_back(median(way[row]));
  }
  result->labels.push_back("NVM is modelled: preset optane of the emulator. " + std::to_string(plan.threads_max) +
                           " threads, gets, YCSB's zipfian, " + std::to_string(records_of(plan.scale)) +
                           " records of 8 + 8 bytes; medians of " + std::to_string(rounds) +
                           " round(s), each with stores loaded anew.");
  result->labels.push_back(
      "None: a get fetches nothing ahead. Intra: while it waits for a bnode it fetches what says where in the dnode a "
      "key is. Inter: so many gets of a thread at once, each in a coroutine of Boost.Coroutine2, or as a group that "
      "takes each step together. A group without metadata waits for each probe of each search.");
  for (size_t way = 0; way < std::size(kWays); ++way) {
    std::vector<double> rows;
    for (const auto& row : figures[way]) rows.push_back(median(row));
    result->labels.push_back(gain_text(kWays[way].name, rows));
  }
  leave_out_devices(result);
  return Status::OK();
}

// The first column has the words of ours: none, intra only, intra + 2, 4 and 8 inter.
Reference ways_reference() {
  Reference published = published_reference("pipelining");
  published.columns = {"pipelining", "without metadata, coroutines", "NVM GB/s", "IB Gbps"};
  for (size_t way = 0; way < published.rows.size(); ++way) published.rows[way][0] = static_cast<double>(way);
  return published;
}

Status run_gets(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run(plan, kGets, result));
  leave_out_devices(result);
  result->labels.emplace_back(
      "In the paper: 24 threads, YCSB-C; one operation is its intra-operation pipelining alone (without any: "
      "6.04), more are its coroutines. It does not say which variant; 13.22 is its figure for offloading.");
  return Status::OK();
}

Status run_mix(const ExperimentPlan& plan, ExperimentResult* result) { return run(plan, kMix, result); }

// Without the row of no pipelining at all, which is no number of operations.
Reference gets_reference() {
  Reference published = published_reference("pipelining");
  published.columns[1] = "gets, offloading";
  published.rows.erase(published.rows.begin());
  return published;
}

Reference mix_reference() { return {}; }

constexpr const char* kGroup = "pipelining";
constexpr const char* kSource = "BonsaiKV scheme, index tier, table (b)";

}  // namespace

const Registered<Experiment> kPipeliningExperiments("pipelining", []() -> std::vector<Experiment> {
  return {{"pipelining-gets", "Index tier, operations in flight at once: gets", kSource,
           "throughput by operations in flight: DRAM-only, offloading, metadata uploading", run_gets, gets_reference,
           kGroup},
          {"pipelining-ways", "Index tier, pipelining within a get and between gets", kSource,
           "none, intra, intra + 2 to 32 inter; by coroutines and by groups, with and without metadata", run_ways,
           ways_reference, kGroup},
          {"pipelining-mix", "Index tier, operations in flight at once: gets and updates", kSource,
           "the same of gets and updates, half and half", run_mix, mix_reference, kGroup}};
});

}  // namespace bonsai::bench
