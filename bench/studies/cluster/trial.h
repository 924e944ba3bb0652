// SPDX-License-Identifier: Apache-2.0
// YCSB on one system of a cluster, in virtual time: what its operations cost, and their number per second of virtual
// time.
//
// Clients begin operations until the requested number have begun. The first tenth is not counted, since caches fill and
// all clients start at once. Every read is verified.
#ifndef BONSAI_BENCH_STUDIES_CLUSTER_TRIAL_H_
#define BONSAI_BENCH_STUDIES_CLUSTER_TRIAL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "bench/results/histogram.h"
#include "bench/studies/cluster/cluster.h"
#include "bench/studies/cluster/system.h"
#include "bench/ycsb/keys.h"
#include "bench/ycsb/workload.h"
#include "rdma/traffic.h"

namespace bonsai::bench {

// The counts of a trial, and the model's times.
struct TrialResult {
  uint64_t operations = 0;
  uint64_t seconds_ns = 0;      // of virtual time
  rdma::Traffic traffic;        // of all clients' threads and of the background
  uint64_t shared_lists = 0;    // part of the traffic: lists of one worker for all threads of a compute node
  uint64_t server_busy_ns = 0;  // System::server_busy_ns()
  uint64_t copied_bytes = 0;    // System::copied_bytes()
  Histogram latency;            // of operations, ns of virtual time
  uint64_t cache_bytes = 0;     // of a compute node, at the end
  double memory_bytes_per_record = 0;
  // Half of the 95 % confidence interval of the rate, relative to it, from kParts parts of equally many operations; 0:
  // too few operations.
  double spread = 0;
  static constexpr uint64_t kParts = 10;

  [[nodiscard]] double per_operation(uint64_t n) const {
    return static_cast<double>(n) / static_cast<double>(operations);
  }
  [[nodiscard]] double lists() const { return per_operation(traffic.round_trips); }
  [[nodiscard]] double messages() const { return per_operation(traffic.messages()); }
  [[nodiscard]] double bytes() const { return per_operation(traffic.bytes()); }
  // Millions of operations per second of virtual time.
  [[nodiscard]] double mops() const { return static_cast<double>(operations) * 1e3 / static_cast<double>(seconds_ns); }
};

// The closed-form bounds on a rate; the lowest one binds.
struct Ceiling {
  double mops = 0;
  std::string_view binds;  // "round trips", "processors of threads", "device of a memory node", ...
};
// Bounds for operations that cost what `result` has. Queues and locks come on top. `operation_cpu_ns`: as in
// SystemEntry.
[[nodiscard]] Ceiling ceiling_of(const TrialResult& result, const rdma::SimDevice& device, const rivals::Shape& shape,
                                 size_t memory_nodes, double operation_cpu_ns = 0);

struct TrialOptions {
  rdma::SimDevice device = rdma::SimDevice::cx5();  // list_cpu_ns is the system's unless one is given
  double list_cpu_ns = 0;                           // 0: SystemEntry::list_cpu_ns
  std::optional<double> operation_cpu_ns = {};      // absent: SystemEntry::operation_cpu_ns
  uint64_t seed = 1;
  size_t memory_nodes = 1;
  size_t pools_per_node = 1;       // StoreSize
  uint64_t stripe_unit_bytes = 0;  // StoreSize
  NodesAre nodes_are = NodesAre::kTargets;
  KeyForm key_form = KeyForm::kFixed8;
  uint64_t records = 1'000;
  uint64_t inserts_max = 0;    // beyond the load, by all workloads together
  size_t runs_max = 7;         // loads and workloads, if there are more
  uint64_t backoff_ns = 0;     // Cluster::Options::backoff_ns
  bool opens_at_once = false;  // setup and shutdown of a system take no time and are not modelled
  rivals::Shape shape;
  std::optional<size_t> cache_bytes = {};  // StoreSize::cache_bytes
  uint64_t fault_ns = 0;                   // StoreSize::fault_ns
};

// Thread-safety: one thread. Trials may run beside each other.
class Trial {
 public:
  // Errors: those of Cluster::make().
  static Status make(const SystemEntry& entry, const TrialOptions& options, std::unique_ptr<Trial>* trial);

  // Inserts records up to number `end`, with a few clients, by the system's own code on a network that takes no time.
  // Measures nothing. Requires: the engine waits for remote locks under local ones; otherwise two clients may request
  // one for ever. Errors: Unavailable, naming the first operation that failed.
  Status fill(uint64_t end);
  // Inserts the missing records, or the next `count` of them. Errors: as fill().
  Status load(TrialResult* result) { return load(options_.records - stored_, result); }
  Status load(uint64_t count, TrialResult* result);
  // Sets other clients and times from now on; list_cpu_ns and operation_cpu_ns as in TrialOptions. Requires: the same
  // number of compute nodes.
  void change(const rivals::Shape& shape, const rdma::SimDevice& device, double list_cpu_ns,
              std::optional<double> operation_cpu_ns = {});
  // Requires: loaded; no more inserts than inserts_max. Errors: NotSupported (scans, if the system has none), others as
  // load().
  Status run(const Workload& workload, uint64_t operations, TrialResult* result);

  [[nodiscard]] const rdma::SimDevice& device() const { return device_; }
  [[nodiscard]] double operation_cpu_ns() const { return options_.operation_cpu_ns.value_or(entry_.operation_cpu_ns); }

 private:
  class Client;
  class Run;

  Trial(const SystemEntry& entry, const TrialOptions& options);
  // The clients begin `operations` in all. Without `result` nothing is measured or modelled.
  Status act(const Workload* workload, uint64_t operations, TrialResult* result);

  const SystemEntry& entry_;
  TrialOptions options_;
  rdma::SimDevice device_;
  const RecordShape shape_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<System> system_;
  uint64_t runs_ = 0;
  uint64_t stored_ = 0;  // all records below this number are stored
};

// YCSB's workloads; 'a' to 'e'.
[[nodiscard]] Workload ycsb_workload(char letter);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_TRIAL_H_
