// SPDX-License-Identifier: Apache-2.0
// Many clients fill a hash table together, as in the evaluations of RCuckoo: the cost of operations by how full the
// table is. Each client inserts keys that no other client inserts, and reads its own.
#ifndef BONSAI_BENCH_STUDIES_CLUSTER_FILLING_H_
#define BONSAI_BENCH_STUDIES_CLUSTER_FILLING_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "bench/results/histogram.h"
#include "bench/studies/rivals/rcuckoo.h"
#include "bench/studies/rivals/seat.h"
#include "bench/studies/rivals/wire_bytes.h"
#include "rdma/sim/sim.h"
#include "rdma/traffic.h"

namespace bonsai::bench {

// The costs of operations of one kind.
struct FillCosts {
  uint64_t operations = 0;
  rdma::Traffic traffic;
  uint64_t paths_in_vain = 0;      // RCuckoo-like: locked, but no longer valid
  std::vector<uint32_t> by_lists;  // operations by their number of lists, as the draft counts lists
  Histogram latency;               // ns of virtual time

  // Requires: cost.round_trips >= paths_in_vain.
  void note(const rdma::Traffic& cost, uint64_t paths_in_vain, uint64_t ns);
  void merge(const FillCosts& other);
  [[nodiscard]] double lists() const { return each(traffic.round_trips); }
  // Lists by the draft's count: releasing the locks of a path that was no longer valid and requesting those of the next
  // path are one list.
  [[nodiscard]] double lists_as_draft() const { return each(traffic.round_trips - paths_in_vain); }
  [[nodiscard]] double messages() const { return each(traffic.messages()); }
  // Bytes by the count of the draft's simulation.
  [[nodiscard]] double wire_bytes() const { return each(rivals::draft_wire_bytes(traffic)); }
  // Lists by the draft's count. Requires: operations > 0.
  [[nodiscard]] uint64_t lists_percentile(double percent) const;

 private:
  [[nodiscard]] double each(uint64_t n) const { return static_cast<double>(n) / static_cast<double>(operations); }
};

// The operations between `percent` and the next window's percent, which is at most five higher.
struct FillWindow {
  double percent = 0;
  uint64_t first_ns = 0, last_ns = 0;
  FillCosts inserts, reads;

  [[nodiscard]] FillCosts all() const;
  // Millions of operations per second of virtual time.
  [[nodiscard]] double mops() const;
};

struct FillOptions {
  enum class Table : uint8_t { kCuckoo, kRace } table = Table::kCuckoo;
  uint64_t entries = 8 * 1'680;  // of the table; RCuckoo-like: of 8 a row
  // For RCuckoo-like; rows and caches follow from the other options.
  rivals::rcuckoo::ClientOptions cuckoo = {};
  // The caches of RCuckoo-like clients. kOracle: all share one picture of the whole table, which is always right.
  // kComputeNode: the clients of a node share a picture, as old as their last reads. kOwn: each client has a cache of
  // cuckoo.cache_bytes, as in the draft's simulation.
  enum class Memory : uint8_t { kOracle, kComputeNode, kOwn } memory = Memory::kOracle;
  double insert_share = 1;      // the rest reads
  double full_percent = 95;     // filling ends there,
  uint64_t failures_max = 100;  // or after this many inserts that found no place
  uint64_t reads_at_end = 0;    // operations of one more window, reads only, of the full table
  uint64_t answers_max = 0;     // of the beginning of each window
  rivals::Shape shape = {};     // Requires: one coroutine a thread
  rdma::SimDevice device = rdma::SimDevice::cx5();
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;
};

struct Filling {
  std::vector<FillWindow> windows;     // from 0, 5, ... 95 percent
  std::vector<FillWindow> beginnings;  // the first FillOptions::answers_max answers of each window; not timed
  FillWindow reads_at_end;
  double ended_at_percent = 0;
  uint64_t failed = 0;  // inserts that found no place
  uint64_t lock_messages = 0, lock_messages_in_vain = 0;
  uint64_t suspicions = 0, releases_lost = 0;  // of locks that were held for too long
  uint64_t paths_outdated = 0, entries_moved = 0;
  uint64_t cache_bytes = 0;  // of a client, or what clients share
  double memory_bytes_per_record = 0;

  // All windows up to `percent`, as one.
  [[nodiscard]] FillWindow until(double percent) const;
  // The window that begins at `percent`, and the beginning of that window.
  [[nodiscard]] const FillWindow& at(double percent) const { return windows.at(static_cast<size_t>(percent / 5)); }
  [[nodiscard]] const FillWindow& beginning(double percent) const {
    return beginnings.at(static_cast<size_t>(percent / 5));
  }
};

// Errors: InvalidArgument (too small a table), Unavailable (stopped, or an operation failed), those of Cluster.
Status fill(const FillOptions& options, Filling* filling);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_FILLING_H_
