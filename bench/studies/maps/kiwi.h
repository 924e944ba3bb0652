// SPDX-License-Identifier: Apache-2.0
// KiWi-like: an ordered map with lock-free puts, wait-free gets and atomic scans, after the pseudo-code of "KiWi: A
// Key-Value Map for Scalable Real-Time Analytics" (PPoPP 2017).
//
// Records are in chunks, which form a list in key order; an index (a skip list) finds a chunk near a key. A chunk's
// prefix is sorted, later puts are linked in between. A scan takes a version by incrementing a global one; puts have
// the version that they read, so that a key has several versions only where a scan needs them. A put enters its cell in
// the chunk's pending put array before it takes its version, and gets and scans that meet it give it one. A rebalance
// replaces chunks by new ones: it agrees on which, freezes them, copies the needed versions, links the copy, updates
// the index and only then lets puts into the new chunks. Every thread that meets a rebalance completes it.
//
// The published pseudo-code leaves gaps, which are closed here:
//   - A late helper could claim a chunk for a rebalance that had agreed to end before it. Here the helpers first agree
//     that a chunk is to be claimed (Rebalance::next), and a claim that nobody waits for fails.
//   - Helpers built chunks each for themselves, but the index needs to know whose are linked. Here they agree on one
//     section (Rebalance::section) before it is linked.
//   - A new chunk could be claimed by another rebalance while the index still named the old one, from which a get would
//     then read old values. Here only chunks that take puts are claimed.
//   - Index entries are inserted before old ones are deleted, so that the way to a key is never long.
//   - A removal was dropped even where a pending scan needs an older value of the key; and all versions since the
//     oldest pending scan were kept, which may be more than fit into a chunk. Here the newest is kept and one for each
//     pending scan, and removals that then have nothing older are dropped.
//   - A thread that copies a chunk reads the pending put array before the list, as gets and scans do.
// As in the authors' program, a put is not carried out by a rebalance, but begins again after it; and the index has a
// lock for updates, which are part of rebalances. So a put waits where a preempted rebalance holds that lock.
// Differences: values have one size, so that a cell and its value have the same number. There is a bound on operations
// at a time; a put beyond it waits for a slot.
#ifndef BONSAI_BENCH_STUDIES_MAPS_KIWI_H_
#define BONSAI_BENCH_STUDIES_MAPS_KIWI_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread.h"
#include "bench/studies/maps/kiwi_chunk.h"
#include "bench/studies/maps/map.h"
#include "bench/studies/maps/memory.h"
#include "bench/studies/maps/skip_list.h"
#include "bench/studies/maps/slots.h"

namespace bonsai::bench::maps {

struct KiwiOptions {
  uint32_t chunk_cells = 1024;
  uint32_t updates_max = 64;  // and scans, in flight at once. Requires: below a quarter of chunk_cells
};

class Kiwi final : public Map {
 public:
  explicit Kiwi(const KiwiOptions& options = {});
  ~Kiwi() override;

  [[nodiscard]] bool get(uint64_t key, uint64_t* value) override;
  void put(uint64_t key, uint64_t value) override { update(key, value, false); }
  void remove(uint64_t key) override { update(key, 0, true); }
  void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) override;
  [[nodiscard]] bool scans_are_atomic() const override { return true; }
  [[nodiscard]] uint64_t bytes() const override { return memory_.bytes(); }
  [[nodiscard]] Counters counters() const override { return {.rebalances = rebalances_.load()}; }

  // Chunks in the list. Requires: no update runs.
  [[nodiscard]] size_t chunks() const;

 private:
  using Chunk = kiwi::Chunk;
  using Rebalance = kiwi::Rebalance;

  // An entry of the pending scan array. The word is 0 (no scan), odd while the scan has no version yet, and twice its
  // version then. All odd ones of a slot differ, as the global version rises with each scan.
  struct alignas(64) PendingScan {
    std::atomic<uint64_t> word{0};
    std::atomic<uint64_t> from{0}, to{0};
  };

  void update(uint64_t key, uint64_t value, bool removes);
  bool try_update(Chunk* chunk, uint32_t slot, uint64_t key, uint64_t value, bool removes);
  Chunk* locate(uint64_t key);
  bool is_settled(Chunk* chunk, uint64_t key);
  kiwi::Pending help(std::atomic<uint64_t>* entry, kiwi::Pending put);
  void pending_in(Chunk* chunk, uint64_t from, uint64_t to, uint64_t version, std::vector<kiwi::Item>* puts);
  uint64_t begin_scan(uint32_t slot, uint64_t from, uint64_t to);
  static bool scan_chunk(Chunk* chunk, const std::vector<kiwi::Item>& puts, uint64_t from, uint64_t to,
                         uint64_t version, size_t limit, std::vector<Record>* records);

  // kiwi_rebalance.cc
  void rebalance(Chunk* chunk);
  void engage(Rebalance* rebalance) const;
  [[nodiscard]] bool is_worth_engaging(const Rebalance& rebalance, const Chunk* next) const;
  void freeze(const std::vector<Chunk*>& chunks) const;
  std::vector<uint64_t> needed_versions(uint64_t min_key, const Chunk* end);
  void build(Rebalance* rebalance);
  std::vector<Chunk*> make_chunks(const std::vector<kiwi::Item>& items, Rebalance* rebalance);
  bool link(Rebalance* rebalance);
  std::atomic<uintptr_t>* link_before(uint64_t min_key, Chunk** owner);
  void normalize(Rebalance* rebalance);
  void retire(const std::vector<Chunk*>& chunks);
  static void let_go(Memory* memory, Rebalance* rebalance);

  const KiwiOptions options_;
  Memory memory_;
  SkipList index_{&memory_};
  base::YieldingMutex index_lock_{"kiwi.index"};
  Slots slots_;
  std::unique_ptr<PendingScan[]> scans_;
  std::atomic<uintptr_t> head_{0};
  alignas(64) std::atomic<uint64_t> version_{1};
  alignas(64) std::atomic<uint64_t> rebalances_{0};
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_KIWI_H_
