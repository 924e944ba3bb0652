// SPDX-License-Identifier: Apache-2.0
// The systems that a cluster can run, and how each is set up: Bonsai, and the protocols of other systems
// (bench/studies/rivals), called X-like.
//
// To add one: a class in system.cc or in a file of its own (system_makers.h), and a line in systems().
#ifndef BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_H_
#define BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/studies/cluster/cluster.h"
#include "bench/studies/rivals/client.h"
#include "bench/studies/rivals/seat.h"
#include "rdma/traffic.h"

namespace bonsai::bench {

// The failure that an acknowledged update survives. Results of different classes are not to be compared.
enum class DurabilityClass : uint8_t {
  kVolatile,  // class V: nothing, as these systems are published
  kDurable,   // class D: a power cut
};

// What the memory nodes are to Bonsai.
enum class NodesAre : uint8_t {
  kTargets,        // each one has targets of its own
  kMembers,        // of one target: each one holds all
  kMembersJoining  // the same, and the last one was away and is brought up to date while clients act
};

// The records that a system is to store.
struct StoreSize {
  uint64_t records_max = 1;
  size_t key_bytes_max = 8;
  size_t memory_nodes = 1;
  size_t compute_nodes = 1;
  size_t threads = 1;                      // of a compute node
  std::optional<size_t> cache_bytes = {};  // of a compute node; none: as published, or the system's default
  size_t pools_per_node = 1;               // of a memory node; of Bonsai
  uint64_t stripe_unit_bytes = 0;          // of Bonsai; 0: not striped
  NodesAre nodes_are = NodesAre::kTargets;
  uint64_t fault_ns = 0;  // that a fault of paging takes beside the fabric; 0: as at user level
  size_t runs_max = 1;    // clients are new in each run and leave the rests of their chunks
};

class System {
 public:
  virtual ~System() = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  // Bytes of each memory node: what the system lays out, and all that it may need.
  [[nodiscard]] virtual size_t fixed_bytes() const = 0;
  [[nodiscard]] virtual size_t bytes() const = 0;
  // Lays out an empty system, with its own servers and the state that clients of a compute node share. Requires: no
  // client yet; the cluster outlives the system. Errors: those of the engine, NotSupported (so many compute nodes).
  virtual Status make_empty(Cluster* cluster) = 0;
  // Errors: those of the engine.
  virtual Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) = 0;
  // Sets the number of threads of a compute node from now on. Requires: no client yet.
  virtual void set_threads(size_t) {}
  // Whether the next run is measured: a member joins beside such a run only (NodesAre::kMembersJoining).
  virtual void set_measured(bool) {}
  // Background work of a compute node beside its clients, and the number of its threads (Cluster::Background). Default:
  // none.
  [[nodiscard]] virtual size_t background_threads() const { return 0; }
  virtual Status background(const rivals::Seat& seat, const std::function<bool()>& stop);
  // Virtual time of a switch of coroutines (Cluster::Options); above 0 if clients wait by yielding.
  [[nodiscard]] virtual uint64_t switch_ns() const { return 0; }
  // The traffic of workers that belong to no seat, and the lists that each of these workers has posted for threads of a
  // compute node. Call it inside a run.
  [[nodiscard]] virtual rdma::Traffic traffic() const { return {}; }
  [[nodiscard]] virtual std::vector<uint64_t> shared_lists() const { return {}; }
  // Lists that the seat's thread has posted by such workers since the last call. They cost its processor time.
  [[nodiscard]] virtual uint64_t take_lists(const rivals::Connection*) { return 0; }
  // Time that the busiest thread of the system's own servers spent on calls; 0 if that can be no bottleneck.
  [[nodiscard]] virtual uint64_t server_busy_ns() const { return 0; }
  // Bytes that a member which joins has got so far (NodesAre::kMembersJoining).
  [[nodiscard]] virtual uint64_t copied_bytes() const { return 0; }
  // Bytes that records take on all memory nodes.
  [[nodiscard]] virtual size_t used_bytes(const Cluster& cluster) const { return cluster.used_bytes(); }
  // Bytes of the caches of a client's compute node, private caches of all its clients included.
  [[nodiscard]] virtual size_t cache_bytes(const rivals::Shape& shape) const = 0;

 protected:
  System() = default;
};

struct SystemEntry {
  std::string_view name;  // "RACE-like"
  DurabilityClass durability = DurabilityClass::kVolatile;
  bool scans = false;
  bool narrow = false;           // records of 4 + 4 bytes only
  bool strings = true;           // keys other than integers are allowed
  bool faults = false;           // uses StoreSize::fault_ns
  bool cache_sized = false;      // uses StoreSize::cache_bytes, however small it is
  double list_cpu_ns = 0;        // posting thread's time for a list: fitted to published rates at light load
  double operation_cpu_ns = 0;   // ... and for an operation, whether or not it posts one
  std::string_view remark = {};  // what a reader must know of how it is modelled, beyond what is fitted
  std::unique_ptr<System> (*make)(const StoreSize& size) = nullptr;
};

[[nodiscard]] const std::vector<SystemEntry>& systems();
// Null: no system has that name.
[[nodiscard]] const SystemEntry* find_system(std::string_view name);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_H_
