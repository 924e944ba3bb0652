// SPDX-License-Identifier: Apache-2.0
// The project's goals beside KiWi's figures: how much a scanner and an updater slow each other down, and many more
// threads than processors.
#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "bench/results/statistics.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/kiwi_study.h"

namespace bonsai::bench {
namespace {

constexpr unsigned kCrowd = 12;  // threads per processor of a crowd: 24 on 2
constexpr unsigned kCrowdRoundsMin = 5;
constexpr const char* kGoals = "docs/design.md, section 6";

// ---- what a scanner and a put thread cost each other

// The scanner alone on the store that it had beside updates, for half a pass at its former pace. A longer run would
// change the store, since scans request compaction.
Status scan_what_is_left(Subject* subject, const Member& scan, uint64_t records, double records_m_per_s,
                         std::optional<double>* figure) {
  TeamPlan plan;
  plan.members = {scan};
  plan.ms = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(records) / 2 / (1e3 * records_m_per_s)));
  TeamResult team;
  BONSAI_RETURN_IF_ERROR(subject->run(&plan, &team));
  *figure = team.records_m_per_s(plan, Role::kScan);
  return Status::OK();
}

// Runs for twice the time of a figure and counts the second half: the store is then in the state that such a pair leads
// to.
Status rates_in_the_long_run(Subject* subject, const Member& put, const Member& other, std::optional<double>* updates,
                             std::optional<double>* others) {
  for (int half = 0; half < 2; ++half) {
    BONSAI_RETURN_IF_ERROR(subject->rates({put, other}, Role::kPut, updates, other.role, others));
  }
  return Status::OK();
}

// Two threads in all: the updater offloads, and the scanner compacts the ranges that it requested.
Status run_interference(const ExperimentPlan& plan, ExperimentResult* result) {
  const KiwiSize size = kiwi_sizes(plan.scale)[1];
  ExperimentPlan once = plan;
  once.repeat = 1;
  Subject bonsai(once, size.records, bonsai_for(size.records, {}, 0));
  BONSAI_RETURN_IF_ERROR(bonsai.load(result));
  result->columns = {{"round", "rounds"},
                     {"updates beside a scanner / beside a stream", "", true},
                     {"scanner beside updates / alone on what they left", "", true},
                     {"scanner beside updates / alone, drained", "", true},
                     {"updates beside a scanner", "M/s"},
                     {"updates beside a stream of as many bytes", "M/s"},
                     {"scanned beside updates", "M/s"},
                     {"scanned alone, what they left", "M/s"},
                     {"scanned alone, drained", "M/s"},
                     {"streamed", "M/s"}};
  const Member put{Role::kPut};
  const Member scan{Role::kScan, kLongScan};
  std::vector<double> put_ratios, left_ratios, drained_ratios;
  const unsigned rounds = std::max(plan.scale == Scale::kTrial ? 1U : 5U, plan.repeat);
  for (unsigned round = 1; round <= rounds; ++round) {
    std::optional<double> updates, scanned, unhindered, streamed, left, drained;
    BONSAI_RETURN_IF_ERROR(rates_in_the_long_run(&bonsai, put, scan, &updates, &scanned));
    BONSAI_RETURN_IF_ERROR(scan_what_is_left(&bonsai, scan, size.records, *scanned, &left));
    const Member stream{.role = Role::kStream, .scan_records = kLongScan, .records_per_s_max = 1e6 * *scanned};
    BONSAI_RETURN_IF_ERROR(rates_in_the_long_run(&bonsai, put, stream, &unhindered, &streamed));
    BONSAI_RETURN_IF_ERROR(bonsai.engine().settle());
    BONSAI_RETURN_IF_ERROR(bonsai.rates({scan}, Role::kScan, &drained));
    put_ratios.push_back(*updates / *unhindered);
    left_ratios.push_back(*scanned / *left);
    drained_ratios.push_back(*scanned / *drained);
    result->rows.push_back({round, put_ratios.back(), left_ratios.back(), drained_ratios.back(), updates, unhindered,
                            scanned, left, drained, streamed});
  }
  label(plan, result,
        std::string("One thread updates ") + size.name +
            " records and offloads them, another scans 32 K at a time, or reads as many bytes per second (16 per "
            "record) from an array of its own; there is no background thread.");
  result->labels.push_back("Medians: updates keep " + percent(median(put_ratios)) +
                           " of their pace beside the stream (goal: 95 %); the scanner keeps " +
                           percent(median(left_ratios)) +
                           " of its own pace, alone on the same store with its newest tenth in bnodes and in runs "
                           "(goal: 90 %), and " +
                           percent(median(drained_ratios)) + " of that on the drained store, where all are in order.");
  return Status::OK();
}

Reference interference_reference() {
  return {{"round", "updates beside a scanner / beside a stream", "scanner beside updates / alone on what they left"},
          {{1, 0.95, 0.9}},
          ReferenceKind::kGoals};
}

// ---- many more threads than processors

struct Crowd {
  std::vector<double> shares;              // throughput relative to few threads, a round each
  std::vector<double> slowest;             // the slowest thread's share of the mean, a round each
  std::vector<std::vector<double>> ranks;  // operations per second of each thread, slowest first, a round each
};

// One round: few threads, then many. Both start from the state in which such a team leaves the store.
Status run_crowd_round(Subject* subject, Role role, unsigned few, unsigned many, Crowd* crowd) {
  double throughput[2];
  TeamResult done;
  for (const unsigned threads : {few, many}) {
    TeamPlan cell;
    cell.members = team(threads, role, kLongScan);
    if (role == Role::kPut) BONSAI_RETURN_IF_ERROR(subject->run(&cell, &done));
    BONSAI_RETURN_IF_ERROR(subject->run(&cell, &done));
    throughput[threads == many] = done.records_m_per_s(cell, role);
  }
  std::sort(done.operations.begin(), done.operations.end());
  std::vector<double> each;
  double sum = 0;
  for (const uint64_t operations : done.operations) {
    each.push_back(static_cast<double>(operations) / done.seconds);
    sum += each.back();
  }
  crowd->shares.push_back(throughput[1] / throughput[0]);
  crowd->slowest.push_back(each.front() * many / sum);
  crowd->ranks.push_back(std::move(each));
  return Status::OK();
}

Status run_crowd(const ExperimentPlan& plan, ExperimentResult* result) {
  const KiwiSize size = kiwi_sizes(plan.scale)[1];
  const unsigned few = plan.threads_max;
  const unsigned many = kCrowd * few;
  const unsigned rounds = plan.scale == Scale::kTrial ? 1 : std::max(kCrowdRoundsMin, plan.repeat);
  Subject bonsai(plan, size.records, bonsai_for(size.records));
  BONSAI_RETURN_IF_ERROR(bonsai.load(result));
  result->columns = {{"thread, slowest first", "threads"}};
  for (unsigned i = 1; i <= many; ++i) result->rows.push_back({i});
  label(plan, result,
        std::to_string(many) + " threads of the same kind at once, each with what it did in " +
            std::to_string(cell_ms(plan.scale)) + " ms, in thousands per second, medians of " + std::to_string(rounds) +
            " rounds; " + size.name + " records.");
  std::vector<std::pair<std::string, double>> goals;
  for (const auto& [name, role] :
       {std::pair("gets", Role::kGet), {"scans of 32 K", Role::kScan}, {"updates", Role::kPut}}) {
    Crowd crowd;
    for (unsigned round = 0; round < rounds; ++round) {
      BONSAI_RETURN_IF_ERROR(run_crowd_round(&bonsai, role, few, many, &crowd));
    }
    result->columns.push_back({name, "K/s", role != Role::kScan});
    for (unsigned i = 0; i < many; ++i) {
      std::vector<double> rank;
      for (const std::vector<double>& each : crowd.ranks) rank.push_back(each[i] / 1e3);
      result->rows[i].emplace_back(median(rank));
    }
    result->labels.push_back(std::string(name) + ": " + std::to_string(many) + " threads reach " +
                             percent(median(crowd.shares)) + " of " + std::to_string(few) +
                             " threads (goal: 80 %), the slowest " + percent(median(crowd.slowest)) +
                             " of the mean (goal: 50 %).");
    goals.push_back({std::string(name) + ", 12 a processor / one each", median(crowd.shares)});
    goals.push_back({std::string(name) + ", slowest / mean", median(crowd.slowest)});
  }
  for (const auto& [name, share] : goals) {  // one figure each, in the first row
    result->columns.push_back({name, "share"});
    for (Row& row : result->rows) row.emplace_back();
    result->rows.front().back() = share;
  }
  return Status::OK();
}

}  // namespace

const Registered<Experiment> kKiwiGoalsExperiments("kiwi_goals", []() -> std::vector<Experiment> {
  return {{"kiwi-interference", "What a scanner and an updater cost each other", kGoals,
           "an updater beside a scanner and beside a stream of as many bytes", run_interference, interference_reference,
           kKiwiGroup},
          {"kiwi-crowd", "Many more threads than processors", kGoals, "what each of 12 threads per processor gets done",
           run_crowd, no_reference, kKiwiGroup}};
});

}  // namespace bonsai::bench
