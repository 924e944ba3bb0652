// SPDX-License-Identifier: Apache-2.0
// The systems that a cluster can run: Bonsai, and other systems' protocols of bench/studies/rivals, X-like, with how
// each is set up.
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
enum class Durability : uint8_t {
  kVolatile,  // class V: nothing, as these systems are published
  kDurable,   // class D: a power cut
};

// The records that a system is to store.
struct StoreSize {
  uint64_t records_max = 1;
  size_t key_bytes_max = 8;
  size_t memory_nodes = 1;
  size_t compute_nodes = 1;
  size_t threads = 1;                      // of a compute node
  std::optional<size_t> cache_bytes = {};  // of a compute node; none: as published, or as the system's class says
  size_t pools_per_node = 1;               // of a memory node; of Bonsai
  uint64_t read_unit_bytes = 0;            // TestOptions::read_unit_bytes; of Bonsai
  size_t runs_max = 1;                     // each makes clients anew, which leave the rests of their chunks
};

class System {
 public:
  virtual ~System() = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  // Bytes of each memory node: those that the system lays out, and all that it may need.
  [[nodiscard]] virtual size_t fixed_bytes() const = 0;
  [[nodiscard]] virtual size_t bytes() const = 0;
  // Lays it out, empty, with servers of its own and what clients of a compute node share. Requires: no client yet; the
  // cluster outlives the system. Errors: those of the engine, NotSupported (so many compute nodes).
  virtual Status make_empty(Cluster* cluster) = 0;
  // Errors: those of the engine.
  virtual Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) = 0;
  // From now on compute nodes have so many threads. Requires: no client yet.
  virtual void set_threads(size_t) {}
  // Reads at most `records_max` records from `from` on; *found: how many. Requires: SystemEntry::scans, and a client of
  // make_client(). Errors: those of the engine.
  virtual Status scan(rivals::Client* client, std::string_view from, size_t records_max, size_t* found);
  // What goes on beside the clients of a compute node, and on how many threads (Cluster::Background); nothing by
  // default.
  [[nodiscard]] virtual size_t background_threads() const { return 0; }
  virtual Status background(const rivals::Seat& seat, const std::function<bool()>& stop);
  // The time of a switch of coroutines (Cluster::Options); more than 0 if clients wait by yielding.
  [[nodiscard]] virtual uint64_t switch_ns() const { return 0; }
  // What was asked for by other workers than those of seats, and how many lists each of these has posted, for
  // whichever threads of a compute node. Inside a run.
  [[nodiscard]] virtual rdma::Traffic traffic() const { return {}; }
  [[nodiscard]] virtual std::vector<uint64_t> shared_lists() const { return {}; }
  // How many lists the seats' thread has posted by such workers since this was last asked: its processor's time.
  [[nodiscard]] virtual uint64_t take_lists(const rivals::Connection*) { return 0; }
  // For how long the busiest of its own servers' threads was busy with calls, if that can bind.
  [[nodiscard]] virtual uint64_t server_busy_ns() const { return 0; }
  // Bytes that records take on all memory nodes.
  [[nodiscard]] virtual size_t used_bytes(const Cluster& cluster) const { return cluster.used_bytes(); }
  // Bytes of the caches of one client's compute node, client-private ones of the whole node included.
  [[nodiscard]] virtual size_t cache_bytes(const rivals::Shape& shape) const = 0;

 protected:
  System() = default;
};

struct SystemEntry {
  std::string_view name;  // "RACE-like"
  Durability durability = Durability::kVolatile;
  bool scans = false;
  bool narrow = false;                // records of 4 + 4 bytes only
  bool strings = true;                // keys other than integers
  bool cache_sized = false;           // heeds StoreSize::cache_bytes, however few they are
  double list_cpu_ns = 0;             // of the posting thread for a list: fitted to what was published at light load
  double operation_cpu_ns = 0;        // ... and for an operation, whether or not it posts one
  std::string_view model_error = {};  // what the model makes of published rates, by model_test.cc
  std::unique_ptr<System> (*make)(const StoreSize& size) = nullptr;
};

[[nodiscard]] const std::vector<SystemEntry>& systems();
// Null: there is none of that name.
[[nodiscard]] const SystemEntry* find_system(std::string_view name);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_H_
