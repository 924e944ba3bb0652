// SPDX-License-Identifier: Apache-2.0
// A hash table that many clients fill together, as the evaluations of RCuckoo do it: what operations cost by how full
// it is. Each client inserts keys that nobody else does, and reads its own.
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
  uint64_t paths_in_vain = 0;      // RCuckoo-like: locked, and did not hold
  std::vector<uint32_t> by_lists;  // how many took so many lists as the draft counts
  Histogram latency;               // ns of virtual time

  // Requires: cost.round_trips >= paths_in_vain.
  void note(const rdma::Traffic& cost, uint64_t paths_in_vain, uint64_t ns);
  void merge(const FillCosts& other);
  [[nodiscard]] double lists() const { return each(traffic.round_trips); }
  // The draft counts what gives back the locks of a path that did not hold, and the request for the next path's, as
  // one.
  [[nodiscard]] double lists_as_draft() const { return each(traffic.round_trips - paths_in_vain); }
  [[nodiscard]] double messages() const { return each(traffic.messages()); }
  // As the draft's simulation counts them.
  [[nodiscard]] double wire_bytes() const { return each(rivals::draft_wire_bytes(traffic)); }
  // As the draft counts them. Requires: operations > 0.
  [[nodiscard]] uint64_t lists_percentile(double percent) const;

 private:
  [[nodiscard]] double each(uint64_t n) const { return static_cast<double>(n) / static_cast<double>(operations); }
};

// Between `percent` and the next window's percent, at most five further.
struct FillWindow {
  double percent = 0;
  uint64_t first_ns = 0, last_ns = 0;
  FillCosts inserts, reads;

  [[nodiscard]] FillCosts all() const;
  // Millions of operations a second of the model.
  [[nodiscard]] double mops() const;
};

struct FillOptions {
  enum class Table : uint8_t { kCuckoo, kRace } table = Table::kCuckoo;
  uint64_t entries = 8 * 1'680;  // of the table; RCuckoo-like: of 8 a row
  // RCuckoo-like; rows and caches are set from the rest.
  rivals::rcuckoo::ClientOptions cuckoo = {};
  // What clients remember of rows, RCuckoo-like: all share one picture of the whole table that is always right; or
  // those of a compute node share one, as old as what they have met; or each has its own, of cuckoo.cache_bytes, as in
  // the draft's simulation.
  enum class Memory : uint8_t { kOracle, kComputeNode, kOwn } memory = Memory::kOracle;
  double insert_share = 1;      // the rest reads
  double full_percent = 95;     // ends there,
  uint64_t failures_max = 100;  // or with so many inserts that find no place
  uint64_t reads_at_end = 0;    // when it is full, a window of reads only
  uint64_t answers_max = 0;     // of the beginning of a window
  rivals::Shape shape = {};     // Requires: one coroutine a thread
  rdma::SimDevice device = rdma::SimDevice::cx5();
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;
};

struct Filling {
  std::vector<FillWindow> windows;     // at 0, 5, ... 95 percent
  std::vector<FillWindow> beginnings;  // of these, until clients have had FillOptions::answers_max answers; not timed
  FillWindow reads_at_end;
  double ended_at_percent = 0;
  uint64_t failed = 0;  // inserts that found no place
  uint64_t lock_messages = 0, lock_messages_in_vain = 0;
  uint64_t suspicions = 0, releases_lost = 0;  // of locks that somebody held for too long
  uint64_t paths_outdated = 0, entries_moved = 0;
  uint64_t cache_bytes = 0;  // of a client, or what clients share
  double memory_bytes_per_record = 0;

  // All of it up to `percent`.
  [[nodiscard]] FillWindow until(double percent) const;
  // The window from `percent` on, and its beginning.
  [[nodiscard]] const FillWindow& at(double percent) const { return windows.at(static_cast<size_t>(percent / 5)); }
  [[nodiscard]] const FillWindow& beginning(double percent) const {
    return beginnings.at(static_cast<size_t>(percent / 5));
  }
};

// Errors: InvalidArgument (too small a table), Unavailable (stopped, or an operation failed), those of Cluster.
Status fill(const FillOptions& options, Filling* filling);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_FILLING_H_
