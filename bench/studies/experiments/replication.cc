// SPDX-License-Identifier: Apache-2.0
// What each further member of a target costs: one, two and three memory nodes that hold the same. The store, its
// requests and their bytes are the product's; devices are a model in virtual time.
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "bench/studies/cluster/trial.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/published/published.h"

namespace bonsai::bench {
namespace {

constexpr size_t kMembersMax = 3;
constexpr rivals::Shape kAlone{.threads = 1, .coroutines = 1};
constexpr size_t kCoroutines = 4;  // of each of many threads
constexpr unsigned kThreads = 6;

uint64_t records_of(const ExperimentPlan& plan) {
  return plan.asked.records.value_or(plan.is_trial() ? 2'000 : plan.scale == Scale::kSmall ? 200'000 : 2'000'000);
}
// So few that a member that joins needs longer.
uint64_t operations_of(const ExperimentPlan& plan) {
  return plan.asked.operations.value_or(plan.is_trial() ? 500 : 10'000);
}
rivals::Shape together(const ExperimentPlan& plan) {
  return {.threads = plan.asked.threads.value_or(plan.is_trial() ? 2 : kThreads), .coroutines = kCoroutines};
}

Workload only(OpKind kind) {
  Workload workload = ycsb_workload('c');
  workload.shares = {kind == OpKind::kRead ? 1.0 : 0.0, kind == OpKind::kUpdate ? 1.0 : 0.0};
  return workload;
}

struct Case {
  size_t members;
  bool last_joins;
  rivals::Shape shape;
};

Status measure(const ExperimentPlan& plan, Trial* trial, const Case& of, OpKind kind, TrialResult* result) {
  if (*plan.stop) return Status::Unavailable("interrupted");
  const std::string what = kind == OpKind::kRead ? "gets" : "puts";
  plan.listener.on_phase(std::to_string(of.members) + " members", of.last_joins ? what + " beside a copy" : what,
                         operations_of(plan));
  trial->change(of.shape, rdma::SimDevice::cx6(), 0);
  return trial->run(only(kind), operations_of(plan), result);
}

Status filled(const ExperimentPlan& plan, const Case& of, std::unique_ptr<Trial>* trial) {
  const SystemEntry* const bonsai = find_system("Bonsai");
  BONSAI_CHECK(bonsai != nullptr);
  const NodesAre nodes_are = of.last_joins ? NodesAre::kMembersJoining : NodesAre::kMembers;
  plan.listener.on_phase(std::to_string(of.members) + " members", "fill", records_of(plan));
  BONSAI_RETURN_IF_ERROR(Trial::make(*bonsai,
                                     {.device = rdma::SimDevice::cx6(),
                                      .seed = plan.config.seed,
                                      .memory_nodes = of.members,
                                      .nodes_are = of.members == 1 ? NodesAre::kTargets : nodes_are,
                                      .records = records_of(plan),
                                      .opens_at_once = !of.last_joins,
                                      .shape = of.shape},
                                     trial));
  return (*trial)->fill(records_of(plan));
}

Status run_members(const ExperimentPlan& plan, size_t members, ExperimentResult* result) {
  Row row = {static_cast<double>(members)};
  std::unique_ptr<Trial> trial;
  const Case alone{members, false, kAlone}, beside{members, false, together(plan)};
  BONSAI_RETURN_IF_ERROR(filled(plan, beside, &trial));
  TrialResult put;
  BONSAI_RETURN_IF_ERROR(measure(plan, trial.get(), alone, OpKind::kUpdate, &put));
  row.insert(row.end(), {put.lists() / static_cast<double>(members), put.messages(), put.bytes()});
  for (const double percent : {50.0, 99.0, 99.9}) {
    row.emplace_back(static_cast<double>(put.latency.percentile(percent)) / 1e3);
  }
  TrialResult puts, gets;
  BONSAI_RETURN_IF_ERROR(measure(plan, trial.get(), beside, OpKind::kUpdate, &puts));
  BONSAI_RETURN_IF_ERROR(measure(plan, trial.get(), beside, OpKind::kRead, &gets));
  row.insert(row.end(), {puts.mops(), {}, {}, gets.messages(), gets.mops()});
  if (members > 1) {
    const Case joining{members, true, together(plan)};
    BONSAI_RETURN_IF_ERROR(filled(plan, joining, &trial));
    TrialResult joined;
    BONSAI_RETURN_IF_ERROR(measure(plan, trial.get(), joining, OpKind::kUpdate, &joined));
    row[8] = joined.mops();
    row[9] = static_cast<double>(joined.copied_bytes) * 1e3 / static_cast<double>(joined.seconds_ns);
  }
  result->rows.push_back(row);
  return Status::OK();
}

Status run(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"members", "members"},
                     {"put, round trips", "per put"},
                     {"put, messages", "per put"},
                     {"put, bytes", "per put"},
                     {"put, 50th percentile", "us"},
                     {"put, 99th percentile", "us"},
                     {"put, 99.9th percentile", "us"},
                     {"puts", "Mop/s", true},
                     {"puts while the last member is brought up to date", "Mop/s", true},
                     {"copied meanwhile", "MB/s"},
                     {"get, messages", "per get"},
                     {"gets", "Mop/s", true}};
  for (size_t members = 1; members <= kMembersMax; ++members) {
    BONSAI_RETURN_IF_ERROR(run_members(plan, members, result));
  }
  const rivals::Shape shape = together(plan);
  result->labels = {
      "MODELLED: CX-6 in virtual time: no statement about a real device. Messages and bytes are the product's own, "
      "and need no model.",
      std::to_string(records_of(plan)) +
          " records of 8 + 8 bytes, Zipfian keys. Messages, bytes and percentiles: one "
          "client, whose put is durable on every member in sync when it returns. Rates: " +
          std::to_string(shape.threads) + " threads of " + std::to_string(shape.coroutines) + " coroutines.",
      "A list for each member is posted at once, and all are waited for together: they count as one round trip. "
      "Offloading, which goes to all members, is in round trips, messages and bytes.",
      "SWARM (SOSP 2024) states one round trip for a replicated update, too, by quorums and without order of keys; its "
      "messages are not published as counts.",
      "The last member was away and is copied to during the whole run of that column. Nothing is scrubbed meanwhile."};
  return Status::OK();
}

// Round trips, messages and bytes of an update that hits FUSEE's cache, of an index and values that are replicated.
Reference theirs() { return published_reference("replication"); }

}  // namespace

const Registered<Experiment> kReplicationExperiments("replication", []() -> std::vector<Experiment> {
  return {{"replication", "What a further member of a target costs", "FUSEE, FAST 2023; groups of docs/nodes.md",
           "puts and gets by the number of members, alone and while a member is brought up to date", run, theirs}};
});

}  // namespace bonsai::bench
