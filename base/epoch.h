// SPDX-License-Identifier: Apache-2.0
// Epoch-based reclamation: decides when memory that lock-free readers may still access can be freed.
//
// Readers hold a Guard while they follow shared pointers. A writer unlinks an object, so that no new reader can find
// it, and then retires it. The domain reclaims it when every guard that was alive at that moment has ended.
//
//   auto guard = domain.enter();                 Node* old = head.exchange(fresh);
//   Node* node = head.load(acquire); use(node);  domain.retire_delete(old);
//
// Guarantees
//   - An object retired at time t is reclaimed after all guards alive at t have ended, exactly once.
//   - A long guard only delays the reclamation of objects that were retired since it began.
//   - enter() never waits; slots grow in chunks, which is when it may throw std::bad_alloc. Threads need no
//   registration and may exit at any time.
//   - Any number of guards may be alive on one thread, may end in any order, and may end on another thread.
// Without memory an object that is retired, or that is being reclaimed, is lost: its memory stays taken.
// Not promised: a bound on retired memory while a guard stays alive (watch retired_bytes()).
//
// Requires
//   - The object is unreachable for new readers before retire() is called.
//   - Reclaim functions neither wait nor yield to another coroutine, and take no guard that outlives them. They may
//     retire further objects, in this and in other domains.
//   - A domain outlives its guards; its destructor requires that no other call runs.
//
// Thread-safety: everything from any thread, with and without a guard, except the destructor.
// Cost: enter and release together about 10 ns (one uncontended compare-and-swap on a slot that the thread used
// before); retire about 20 ns, plus the amortised reclaiming.
//
// How it works. A global epoch counts up with every collection. A slot holds 0, or the epoch that its guard read when
// it began. retire() stamps the object with the epoch of that moment, r. A collection raises the epoch to m, then takes
// the least of m and all slots, and reclaims objects whose stamp is smaller.
//
// Memory ordering. Let S be the single order of the seq_cst operations.
//   guard:   g = epoch.load(sc);  slot.cas(0 -> g, sc);  [barrier]  reads of shared pointers
//   retirer: unlink;  shard.lock by exchange(sc) [barrier];  r = epoch.load(sc)
//   collect: m = epoch.fetch_add(sc) + 1;  slot.load(sc) for each slot
//   1. A guard that can reach the object has g <= r. It read the pointer before the unlink, so its barrier precedes the
//      retirer's in S, and so its load of the epoch precedes the retirer's.
//   2. A collection that reclaims the object (r < m) sees that guard. r < m puts the retirer's barrier before the
//      fetch_add in S and so before the slot loads. If such a load misses the guard's cas, it precedes the cas in S,
//      so the retirer's barrier precedes the guard's, and the guard finds the object already unlinked.
//   3. What the guard read happens before the reclaiming: the guard ends by slot.store(0, release), and the collector's
//      load reads that store or a later cas, which continues its release sequence.
//   A chunk of slots is linked by cas(sc) before its slots are used, and the list is read by load(sc): rule 2 covers
//   it. [barrier]: on x86-64 a locked instruction is one; elsewhere a seq_cst fence follows it.
#ifndef BONSAI_BASE_EPOCH_H_
#define BONSAI_BASE_EPOCH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "base/step.h"

namespace bonsai::base {

#ifdef BONSAI_STEPPED
inline namespace stepped {  // a program may have both variants, as of base/step.h: inline functions have steps
#endif

class EpochDomain {
  struct Slot;

 public:
  // Frees `object`; `context` is what retire() was given.
  using Reclaim = void (*)(void* object, void* context);

  // Keeps every reachable object alive from enter() until its destruction. Move-only; an empty one does nothing.
  class [[nodiscard]] Guard {
   public:
    Guard() = default;
    Guard(Guard&& other) noexcept
        : domain_(std::exchange(other.domain_, nullptr)), slot_(std::exchange(other.slot_, nullptr)) {}
    Guard& operator=(Guard&& other) noexcept {
      if (this != &other) {
        release();
        domain_ = std::exchange(other.domain_, nullptr);
        slot_ = std::exchange(other.slot_, nullptr);
      }
      return *this;
    }
    ~Guard() { release(); }

    // Ends the guard early. Idempotent.
    void release() {
      if (Slot* slot = std::exchange(slot_, nullptr)) domain_->leave(slot);
    }
    explicit operator bool() const { return slot_ != nullptr; }

   private:
    friend class EpochDomain;
    Guard(EpochDomain* domain, Slot* slot) : domain_(domain), slot_(slot) {}

    EpochDomain* domain_ = nullptr;
    Slot* slot_ = nullptr;
  };

  // Room for `slots_initial` guards at once without growing (rounded up to whole chunks).
  explicit EpochDomain(size_t slots_initial = 64);
  // Requires: no guard is alive, no other call runs. Reclaims everything.
  ~EpochDomain();
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;

  [[nodiscard]] Guard enter() {
    SlotCache& cache = slot_cache[id_ % kSlotCaches];
    if (cache.domain_id == id_ && cache.count != 0) [[likely]] {
      auto* slot = static_cast<Slot*>(cache.slots[--cache.count]);
      if (try_pin(*slot)) [[likely]]
        return Guard(this, slot);
    }
    return Guard(this, pin_any_slot());
  }

  // Submits an unlinked object: reclaim(object, context) runs later, on any thread, outside all locks of the domain.
  // `bytes` counts in retired_bytes() only. Now and then this also reclaims a bounded number of earlier objects.
  void retire(void* object, Reclaim reclaim, void* context = nullptr, size_t bytes = 0);

  template <class T>
  void retire_delete(T* object) {
    retire(
        object, [](void* dead, void*) { delete static_cast<T*>(dead); }, nullptr, sizeof(T));
  }

  // Reclaims everything that no guard holds back, unless another thread is just doing so. Never waits.
  // Called inside a reclaim function it does nothing.
  void collect();

  // Collects until everything that was retired before the call has been reclaimed; false after `limit_ms`.
  // Requires: the caller (thread and coroutine) holds no guard, else it times out.
  [[nodiscard]] bool drain(uint64_t limit_ms);

  // Retired and not yet reclaimed. Exact when nothing else runs.
  [[nodiscard]] size_t retired_objects() const;
  [[nodiscard]] size_t retired_bytes() const;

  // Slots made so far; grows only.
  [[nodiscard]] size_t slot_count() const;

 private:
  static constexpr size_t kLine = 64;
  static constexpr size_t kSlotsPerChunk = 64;
  static constexpr size_t kShards = 16;  // limbo lists; a thread prefers the one of its ordinal
  static constexpr size_t kRetiresPerCollect = 64;
  static constexpr size_t kReclaimsPerRetire = 256;  // bound of the work that one retire() does for earlier ones
  static constexpr size_t kBatch = 32;
  static constexpr size_t kSlotCaches = 4;
  static constexpr size_t kCachedSlots = 30;

  struct alignas(kLine) Slot {
    std::atomic<uint64_t> epoch{0};  // 0 = free
  };

  struct Chunk {
    std::array<Slot, kSlotsPerChunk> slots;
    std::atomic<Chunk*> next{nullptr};
  };

  struct Retired {
    void* object;
    void* context;
    Reclaim reclaim;
    uint64_t epoch;
    size_t bytes;
  };

  // A limbo list, oldest first: stamps rise along it because they are read under the lock. Totals only rise.
  struct alignas(2 * kLine) Shard {
    std::atomic<bool> locked{false};
    bool collecting = false;  // under the lock: one collector at a time, so that reclaiming ends in list order
    uint32_t retires_to_collect = kRetiresPerCollect;
    std::deque<Retired> limbo;
    std::atomic<uint64_t> objects_retired{0}, bytes_retired{0};      // written under the lock
    std::atomic<uint64_t> objects_reclaimed{0}, bytes_reclaimed{0};  // written by the collector

    bool try_lock() { return !locked.load(std::memory_order_relaxed) && !locked.exchange(true); }
    void unlock() { locked.store(false, std::memory_order_release); }
  };

  // Slots that this thread used last, as hints: nothing is owned, so that threads and domains may end in any order.
  // Domain ids are never reused, so a dead domain's slots are never touched.
  struct SlotCache {
    uint64_t domain_id = 0;
    size_t count = 0;
    std::array<void*, kCachedSlots> slots{};
  };
  static thread_local constinit std::array<SlotCache, kSlotCaches> slot_cache;

  static void barrier() {
#if !defined(__x86_64__)
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }

  bool try_pin(Slot& slot) {
    uint64_t free = 0;
    const uint64_t now = epoch_.load();
    step("epoch.pin");
    const bool pinned = slot.epoch.compare_exchange_strong(free, now);
    barrier();
    return pinned;
  }

  void leave(Slot* slot) {
    slot->epoch.store(0, std::memory_order_release);
    SlotCache& cache = slot_cache[id_ % kSlotCaches];
    if (cache.domain_id != id_) {
      cache.domain_id = id_;
      cache.count = 0;
    }
    if (cache.count < kCachedSlots) cache.slots[cache.count++] = slot;
  }

  Slot* pin_any_slot();
  Slot* pin_slot_in(Chunk& chunk, size_t first);
  Chunk* next_chunk(Chunk& chunk);
  uint64_t advance_and_find_oldest();
  Shard& lock_any_shard();
  void collect_some(Shard& own);
  void collect_shard(Shard& shard, uint64_t oldest, size_t objects_max);
  void reclaim_all();
  [[nodiscard]] uint64_t reclaimed_objects() const;

  const uint64_t id_;
  alignas(kLine) std::atomic<uint64_t> epoch_{1};
  alignas(kLine) std::unique_ptr<Chunk> first_chunk_;
  std::unique_ptr<std::array<Shard, kShards>> shards_;
  std::atomic<uint32_t> next_shard_{0};  // the next shard that a thread of another shard helps to reclaim
};

inline thread_local constinit std::array<EpochDomain::SlotCache, EpochDomain::kSlotCaches> EpochDomain::slot_cache{};

#ifdef BONSAI_STEPPED
}  // namespace stepped
#endif

}  // namespace bonsai::base

#endif  // BONSAI_BASE_EPOCH_H_
