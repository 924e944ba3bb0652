// SPDX-License-Identifier: Apache-2.0
// The store of a user who never calls Drain: bytes that a load wrote to the media, memory of the process, and the speed
// of reads some seconds after the load and beside an updater, compared with the drained store.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/driver/team.h"
#include "bench/engines/bonsai.h"
#include "bench/results/machine.h"
#include "bench/results/statistics.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/subject.h"

namespace bonsai::bench {
namespace {

constexpr uint32_t kScan = 32'768;
constexpr unsigned kDepth = 32;  // gets of a session in flight
constexpr unsigned kTurns = 5;   // of each measurement, whose median counts
constexpr uint64_t kUserBytes = 16;

constexpr const char* kMoment = "moment";
constexpr const char* kWritten = "media bytes / user bytes";
constexpr const char* kProcess = "process";
constexpr const char* kGets = "gets, of the best";
constexpr const char* kScans = "scanned, of the best";
constexpr const char* kBeside = "scanned, LMDB = 1";

enum Moment : uint8_t { kLoaded, kLeft, kDrained, kInOrder, kBesideAsMany, kBesidePuts };
const std::vector<std::string> kMoments = {
    "loaded", "left alone", "drained", "read and drained", "beside one at LMDB's pace", "beside an updater"};

struct Times {
  uint64_t records, idle_ms, turn_ms;
};

Times times(const ExperimentPlan& plan) {
  Times times = plan.scale == Scale::kPaper   ? Times{10'000'000, 10'000, 1'000}
                : plan.scale == Scale::kSmall ? Times{1'000'000, 3'000, 200}
                                              : Times{5'000, 20, 2};
  times.records = plan.asked.records.value_or(times.records);
  return times;
}

class AsLeftStudy {
 public:
  AsLeftStudy(const ExperimentPlan& plan, ExperimentResult* result)
      : plan_(plan), times_(times(plan)), threads_(std::max(1U, std::min(2U, plan.threads_max))), result_(*result) {}

  Status run() {
    result_.columns = {{kMoment, "", false, {}, kMoments},
                       {kWritten, "", true},
                       {kProcess, "bytes per record"},
                       {"Stats", "bytes per record"},
                       {"gets", "M/s"},
                       {kGets, "", true},
                       {"scanned", "M/s"},
                       {kScans, "", true},
                       {"updates", "M/s"},
                       {"scanned, LMDB", "M/s"},
                       {"updates, LMDB", "M/s"},
                       {kBeside, "", true}};
    process_before_ = process_bytes();
    std::unique_ptr<Engine> bonsai = make_bonsai_engine(
        {.change = [this](StoreOptions* options) { options->log_bytes = log_bytes_for(times_.records); }});
    BONSAI_RETURN_IF_ERROR(load(bonsai.get()));
    bonsai->use_sessions(true);
    result_.medium = bonsai->medium();
    look(*bonsai, kLoaded);
    wait(times_.idle_ms);
    look(*bonsai, kLeft);
    BONSAI_RETURN_IF_ERROR(read(bonsai.get()));
    BONSAI_RETURN_IF_ERROR(bonsai->settle());
    look(*bonsai, kDrained);
    BONSAI_RETURN_IF_ERROR(read(bonsai.get()));
    BONSAI_RETURN_IF_ERROR(bonsai->settle());
    look(*bonsai, kInOrder);
    BONSAI_RETURN_IF_ERROR(read(bonsai.get()));
    compare();
    BONSAI_RETURN_IF_ERROR(beside_puts(bonsai.get()));
    BONSAI_RETURN_IF_ERROR(bonsai->close());
    label();
    return Status::OK();
  }

 private:
  enum Place : uint8_t {
    kAtGets = 4,
    kAtGetsRatio,
    kAtScans,
    kAtScansRatio,
    kAtUpdates,
    kAtLmdb,
    kAtLmdbUpdates,
    kAtLmdbRatio
  };
  // The rates of one turn by role, or the figures of several turns in order.
  struct Rates {
    std::vector<double> reads, updates;
  };

  Status load(Engine* engine) {
    EngineOptions options;
    options.shape = shape_;
    options.records_max = 2 * times_.records;
    options.pool_dir = plan_.config.pool_dir;
    options.out_dir = plan_.config.out_dir;
    BONSAI_RETURN_IF_ERROR(engine->open(options));
    plan_.listener.on_phase("store", "load " + std::to_string(times_.records), times_.records);
    return insert_for_team(engine, shape_, times_.records, threads_, *plan_.stop);
  }

  void wait(uint64_t ms) const {
    plan_.listener.on_phase("store", "left alone for " + std::to_string(ms) + " ms", 0);
    for (base::BoundedWait idle("store left alone", ms); !idle.expired() && !*plan_.stop;) idle.pause();
  }

  void look(const Engine& engine, Moment moment) {
    Row row(result_.columns.size());
    const auto records = static_cast<double>(times_.records);
    row[0] = moment;
    row[1] = static_cast<double>(engine.nvm()->media_bytes) / (records * kUserBytes);
    const std::optional<uint64_t> process = process_bytes();
    if (process && process_before_) {
      row[2] = static_cast<double>(*process - std::min(*process, *process_before_)) / records;
    }
    row[3] = static_cast<double>(*engine.memory().dram_bytes) / records;
    result_.rows.push_back(std::move(row));
  }

  // Measures gets, then scans, in the state that the last row describes.
  Status read(Engine* engine) {
    Row& row = result_.rows.back();
    const std::vector<Member> gets(threads_, {.role = Role::kGet, .depth = kDepth});
    const std::vector<Member> scans = {{Role::kScan, kScan}};
    BONSAI_RETURN_IF_ERROR(turns(engine, gets, Role::kGet, &row[kAtGets]));
    return turns(engine, scans, Role::kScan, &row[kAtScans]);
  }

  Status turns(Engine* engine, const std::vector<Member>& members, Role role, std::optional<double>* figure) {
    Rates rates;
    for (unsigned i = 0; i < kTurns; ++i) BONSAI_RETURN_IF_ERROR(turn(engine, members, role, &rates));
    *figure = median(rates.reads);
    return Status::OK();
  }

  Status turn(Engine* engine, const std::vector<Member>& members, Role role, Rates* rates) {
    TeamPlan team;
    team.shape = shape_;
    team.records = times_.records;
    team.all_loaded = members.back().role != Role::kPut;
    team.ms = times_.turn_ms;
    team.seed = plan_.config.seed + ++turns_;
    team.members = members;
    team.stop = plan_.stop;
    TeamResult result;
    BONSAI_RETURN_IF_ERROR(run_team(engine, team, &result));
    rates->reads.push_back(result.records_m_per_s(team, role));
    rates->updates.push_back(result.records_m_per_s(team, Role::kPut));
    return Status::OK();
  }

  // Compares with the best rates of the drained store.
  void compare() {
    for (const auto& [from, to] : {std::pair(kAtGets, kAtGetsRatio), {kAtScans, kAtScansRatio}}) {
      const double best = std::max(*result_.rows[kDrained][from], *result_.rows[kInOrder][from]);
      for (const Moment moment : {kLeft, kDrained, kInOrder}) {
        result_.rows[moment][to] = *result_.rows[moment][from] / best;
      }
    }
  }

  // The two stores take turns. First Bonsai's updater does as many updates as LMDB's did, on a store that was drained.
  // Then it goes as fast as it can, as LMDB's always does.
  Status beside_puts(Engine* bonsai) {
    const std::vector<Member> members = {{Role::kScan, kScan}, {Role::kPut}};
    const EngineEntry* const lmdb = find_engine("lmdb");
    const std::unique_ptr<Engine> rival = lmdb != nullptr ? lmdb->make() : nullptr;
    if (rival == nullptr) return alone_beside_puts(bonsai, members);
    BONSAI_RETURN_IF_ERROR(load(rival.get()));
    BONSAI_RETURN_IF_ERROR(rival->settle());
    for (const Moment moment : {kBesideAsMany, kBesidePuts}) {
      Rates ours, theirs;
      for (unsigned i = 0; i < kTurns; ++i) {
        BONSAI_RETURN_IF_ERROR(turn(rival.get(), members, Role::kScan, &theirs));
        std::vector<Member> mine = members;
        if (moment == kBesideAsMany) mine.back().records_per_s_max = 1e6 * theirs.updates.back();
        BONSAI_RETURN_IF_ERROR(turn(bonsai, mine, Role::kScan, &ours));
      }
      beside(moment, ours, theirs);
    }
    return rival->close();
  }

  Status alone_beside_puts(Engine* bonsai, const std::vector<Member>& members) {
    for (const Place at : {kAtLmdb, kAtLmdbUpdates, kAtLmdbRatio}) result_.columns[at].absent = "not in this build";
    Rates ours;
    for (unsigned i = 0; i < kTurns; ++i) BONSAI_RETURN_IF_ERROR(turn(bonsai, members, Role::kScan, &ours));
    beside(kBesidePuts, ours, {});
    return Status::OK();
  }

  void beside(Moment moment, const Rates& ours, const Rates& theirs) {
    Row row(result_.columns.size());
    row[0] = moment;
    row[kAtScans] = median(ours.reads);
    row[kAtUpdates] = median(ours.updates);
    if (!theirs.reads.empty()) {
      std::vector<double> ratios;
      for (size_t i = 0; i < ours.reads.size(); ++i) ratios.push_back(ours.reads[i] / theirs.reads[i]);
      row[kAtLmdb] = median(theirs.reads);
      row[kAtLmdbUpdates] = median(theirs.updates);
      row[kAtLmdbRatio] = median(ratios);
    }
    result_.rows.push_back(std::move(row));
  }

  void label() const {
    const auto text = [](uint64_t n) { return std::to_string(n); };
    result_.labels = {
        text(times_.records) + " records of 8 + 8 bytes, loaded in random order by " + text(threads_) +
            " threads, 32 at a time, the log a tenth of the data at most; nobody drains before the row that says so." +
            (plan_.scale == Scale::kPaper ? "" : " The goals are for 10 M: --scale=paper"),
        "Left alone for " + text(times_.idle_ms) + " ms. Gets: uniform, in sessions of 32, " + text(threads_) +
            " threads; scans of 32 K, verified, one thread; medians of " + text(kTurns) + " turns of " +
            text(times_.turn_ms) +
            " ms. The best: of the two drained states. Each row's memory and media bytes are "
            "from before its reads; what those ask for is in the next row.",
        "Beside an updater: one thread scans, one inserts and deletes as fast as it can; the two stores take turns. At "
        "LMDB's pace: the updater does as many updates a second as LMDB's did just before; these turns are the first.",
        "Process: bytes by which the process has grown, mapped files aside; Stats: what the store counts."};
  }

  const ExperimentPlan& plan_;
  const Times times_;
  const unsigned threads_;
  const RecordShape shape_;
  ExperimentResult& result_;
  std::optional<uint64_t> process_before_;
  uint64_t turns_ = 0;
};

Status run(const ExperimentPlan& plan, ExperimentResult* result) { return AsLeftStudy(plan, result).run(); }

Reference reference() {
  return {{kMoment, kWritten, kProcess, kGets, kScans, kBeside},
          {{kLoaded, 5, 12, {}, {}, {}},
           {kLeft, 5, 12, 0.9, 0.8, {}},
           {kDrained, 5, 8, {}, {}, {}},
           {kInOrder, 5, 8, {}, {}, {}},
           {kBesideAsMany, {}, {}, {}, {}, 3},
           {kBesidePuts, {}, {}, {}, {}, 3}},
          ReferenceKind::kGoals};
}

}  // namespace

const Registered<Experiment> kAsLeftExperiments("as_left", []() -> std::vector<Experiment> {
  return {{"as-left", "The store as a user leaves it", "docs/design.md, section 6",
           "a load that nobody drains: media bytes, memory, gets and scans some seconds later, drained, beside updates",
           run, reference}};
});

}  // namespace bonsai::bench
