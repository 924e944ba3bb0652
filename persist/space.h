// Space of the data area: who owns which blocks. DRAM only; rebuilt on open from dnodes and log.
//
// Invariants
//  - free intervals are disjoint, maximal (never adjacent to each other) and multiples of kBlockBytes;
//  - used_bytes + free bytes + those set aside = capacity, per target.
// Not promised: contiguity for requests larger than the largest free interval, even when the sum would do.
//
// Thread-safety: all methods; one mutex per target, held for a few map operations. Allocation happens per offloaded
// dnode, per segment roll and per large value, never per put.
#ifndef BONSAI_PERSIST_SPACE_H_
#define BONSAI_PERSIST_SPACE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "scale/volume.h"

namespace bonsai::persist {

class Space {
 public:
  // Who asks: ordinary data leaves the reserve alone, offloading and compaction may use it (it is what frees space).
  enum class Use { kOrdinary, kReserve };

  Space() = default;

  // Adds the next target: its data area [begin, end), all free. `reserve_bytes` of it are for Use::kReserve.
  // Requires: multiples of kBlockBytes; called before any other thread uses the object.
  void add_target(uint64_t begin, uint64_t end, uint64_t reserve_bytes);

  // Returns a range of at least `bytes`, rounded up to blocks, aligned to `align`; nil when there is none.
  // Targets are tried from the fullest-free one on.
  [[nodiscard]] scale::Addr allocate(uint64_t bytes, Use use, uint64_t align = 0);

  // Gives a range back. Requires: it was allocated (or reserved) and is not used any more.
  void free(scale::Addr addr, uint64_t bytes);

  // Recovery: marks a range as used. False when part of it is not free: two owners claim it, or it is out of bounds.
  [[nodiscard]] bool reserve(scale::Addr addr, uint64_t bytes);

  // Withholds `bytes` in one piece for as long as the object lives, from the emptiest target that has them, so that
  // they are free when the pool is next opened. They count as neither used nor free. False: there is no such piece.
  bool set_aside(uint64_t bytes);

  [[nodiscard]] uint64_t capacity_bytes() const { return capacity_bytes_; }
  [[nodiscard]] uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t reserve_bytes() const { return reserve_bytes_; }
  // Free bytes that ordinary data may take; 0 when only the reserve is left.
  [[nodiscard]] uint64_t ordinary_free_bytes() const;

 private:
  struct Target {
    std::mutex mutex;
    std::map<uint64_t, uint64_t> by_offset;           // offset -> bytes
    std::set<std::pair<uint64_t, uint64_t>> by_size;  // (bytes, offset)
    std::atomic<uint64_t> free_bytes{0};
    uint64_t reserve_bytes = 0;

    void insert(uint64_t offset, uint64_t bytes);
    void erase(std::map<uint64_t, uint64_t>::iterator it);
    uint64_t take(uint64_t bytes, uint64_t align);
  };

  scale::Addr take(uint64_t bytes, uint64_t align, Use use);

  std::vector<std::unique_ptr<Target>> targets_;
  uint64_t capacity_bytes_ = 0;
  uint64_t reserve_bytes_ = 0;
  std::atomic<uint64_t> used_bytes_{0};
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_SPACE_H_
