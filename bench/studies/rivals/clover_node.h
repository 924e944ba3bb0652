// SPDX-License-Identifier: Apache-2.0
// Shared state of the threads of one compute node of the Clover-like engine: cursors, and the updates that the metadata
// server has not been informed of yet, with the collector that reports them.
//
// Thread-safety: ComputeNode: any thread of the compute node; Collector: one thread.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CLOVER_NODE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CLOVER_NODE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "bench/studies/rivals/clover_calls.h"
#include "bench/studies/rivals/clover_layout.h"
#include "bench/studies/rivals/clover_metadata.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/scratch.h"

namespace bonsai::bench::rivals::clover {

// A version of a key that was in its chain, and not retired, in that epoch or later.
struct Cursor {
  Link link;
  uint64_t shortcut = 0;  // the key's
  uint64_t epoch = 0;
};

// The newest versions that the node has seen, by hash of the key. Beyond `entries_max` the oldest entry goes first.
class CursorCache {
 public:
  // The size of an entry: hash, link, shortcut and epoch.
  static constexpr size_t kEntryBytes = sizeof(uint64_t) + sizeof(Cursor);

  // `epochs` outlives it.
  CursorCache(size_t entries_max, const EpochView* epochs) : entries_max_(entries_max), epochs_(*epochs) {}

  // If the server's epoch is known well enough, and the slab cannot have been parked and freed since.
  [[nodiscard]] bool usable(const Cursor& cursor) const;
  // Whether a usable one is known.
  [[nodiscard]] bool find(uint64_t hash, Cursor* cursor) const;
  // Unless a newer one is known.
  void put(uint64_t hash, const Cursor& cursor);
  void drop(uint64_t hash);

  [[nodiscard]] size_t bytes() const;

 private:
  static constexpr size_t kParts = 64;  // by hash, each with a lock of its own
  struct Part {
    mutable std::mutex mutex;  // never held over a wait
    std::unordered_map<uint64_t, Cursor> cursors;
    std::deque<uint64_t> order;  // as they came; may name some that were dropped
  };
  [[nodiscard]] Part& part_of(uint64_t hash) { return parts_[hash % kParts]; }
  [[nodiscard]] const Part& part_of(uint64_t hash) const { return parts_[hash % kParts]; }

  const size_t entries_max_;
  const EpochView& epochs_;
  std::array<Part, kParts> parts_;
};

class ComputeNode {
 public:
  struct Options {
    StoreOptions store = {};
    size_t cursors_max = SIZE_MAX;  // published: no bound
    uint64_t epoch_ns = kEpochNs;   // the metadata server's
    // Updates that are not reported yet. All nodes' together: less than 2^15, so that places of a chain can be
    // compared.
    size_t reports_max = 4'096;
  };
  explicit ComputeNode(const Options& options)
      : options_(options), store_(options.store), epochs_(options.epoch_ns), cursors_(options.cursors_max, &epochs_) {}

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Store& store() const { return store_; }
  [[nodiscard]] EpochView& epochs() { return epochs_; }
  [[nodiscard]] CursorCache& cursors() { return cursors_; }
  [[nodiscard]] size_t cache_bytes() const { return cursors_.bytes(); }

  // ---- updates to be reported

  // False: there are too many; try again.
  [[nodiscard]] bool may_update() const;
  void add_report(const Report& report);
  // Takes the oldest of them, at most `count_max`.
  [[nodiscard]] std::vector<Report> take_reports(size_t count_max);

 private:
  const Options options_;
  const Store store_;
  EpochView epochs_;
  CursorCache cursors_;
  mutable std::mutex mutex_;
  std::deque<Report> reports_;
};

// Writes the shortcuts of updated keys, then reports the updates. Published: four threads of each compute node. Without
// a collector updates stop when reports_max is reached. Requires: connection and compute node outlive it.
class Collector {
 public:
  static constexpr size_t kRoundMax = 32;  // updates of one round

  static Status make(Connection* connection, ComputeNode* node, std::unique_ptr<Collector>* collector);

  // One round. *collected: how many updates there were. Errors: Unavailable.
  Status collect(size_t* collected);
  // Runs rounds until `stop` is set and no update is left. Errors: those of collect().
  template <class Stop>
  Status run(Stop stop);

  [[nodiscard]] uint64_t shortcuts_written() const { return shortcuts_written_; }

 private:
  Collector(Connection* connection, ComputeNode* node) : node_(node), batch_(connection) {}
  Status write_shortcuts(const std::vector<Report>& reports);
  Status report(const std::vector<Report>& reports);
  static void pause();

  ComputeNode* const node_;
  Batch batch_;
  std::unique_ptr<MetadataCaller> caller_;
  std::unique_ptr<Scratch> scratch_;
  uint64_t shortcuts_written_ = 0;
};

template <class Stop>
Status Collector::run(Stop stop) {
  for (;;) {
    const bool last = stop();
    size_t collected = 0;
    const Status status = collect(&collected);
    if (!status.ok() || (last && collected == 0)) return status;
    if (collected == 0) pause();
  }
}

}  // namespace bonsai::bench::rivals::clover

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CLOVER_NODE_H_
