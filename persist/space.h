// SPDX-License-Identifier: Apache-2.0
// Space of the data area: who owns which blocks. DRAM only; rebuilt on open from dnodes and log.
//
// Invariants
//  - free intervals are disjoint, maximal (never adjacent to each other) and multiples of kBlockBytes;
//  - used bytes + free bytes + relocation reserve = capacity, per target. Not promised: space for a request larger than
//    the largest free interval, even if the sum of all intervals suffices. The relocation reserve prevents this: as
//    long as it is not shorter than a run, that run can move from one of its sides to the other, and the free blocks
//    beyond the run then adjoin the reserve.
//
// Thread-safety: all methods; one mutex per target, held for a few map operations. Allocation happens per offloaded
// dnode, per segment roll and per large value, never per put.
#ifndef BONSAI_PERSIST_SPACE_H_
#define BONSAI_PERSIST_SPACE_H_

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "scale/volume.h"

namespace bonsai::persist {

class Space {
 public:
  // The purpose of an allocation: ordinary data leaves the reserve alone; offloading and compaction, which free space,
  // may use it.
  enum class Use { kOrdinary, kReserve };
  // Data that never moves goes to high addresses, so that it does not separate runs, which move.
  enum class Where { kLow, kHigh };

  Space() = default;

  // Adds the next target: its data area [begin, end), all free. `reserve_bytes` of it are for Use::kReserve.
  // Requires: multiples of kBlockBytes; called before any other thread uses the object.
  void add_target(uint64_t begin, uint64_t end, uint64_t reserve_bytes);

  // Returns a range of at least `bytes`, rounded up to blocks, aligned to `align`; nil when there is none.
  // Tries the target with the most free space first. If it throws bad_alloc, nothing has changed.
  [[nodiscard]] scale::Addr allocate(uint64_t bytes, Use use, uint64_t align = 0, Where where = Where::kLow);

  // Frees a range. Requires: it was allocated (or reserved) and is no longer used. If it throws bad_alloc, the range
  // stays allocated.
  void free(scale::Addr addr, uint64_t bytes);

  // Recovery: marks a range as used. False if part of it is not free: two owners claim it, or it is out of bounds.
  [[nodiscard]] bool reserve(scale::Addr addr, uint64_t bytes);

  // Takes the relocation reserve: `bytes` in one piece, from the emptiest target that has them, or else the longest
  // free piece. It is never allocated while the object lives, so it is free when the pool is next opened. It counts as
  // neither used nor free. Requires: called once.
  void hold_relocation_reserve(uint64_t bytes);

  struct Piece {
    scale::Addr addr;
    uint64_t bytes = 0;
    [[nodiscard]] scale::Addr end() const { return addr + bytes; }
    [[nodiscard]] bool holds(const Piece& other) const {
      return bytes != 0 && addr.bits() <= other.addr.bits() && other.end().bits() <= end().bits();
    }
  };
  // ---- moving the relocation reserve ("the piece"): one mover at a time
  // The piece; of 0 bytes if there is none, or a slide or an exchange has not ended.
  [[nodiscard]] Piece relocation_reserve() const;
  [[nodiscard]] uint64_t relocation_bytes_wanted() const { return relocation_bytes_wanted_; }
  // Extends the piece by the free blocks at both ends. Requires: relocation_reserve() has bytes.
  void widen_relocation_reserve();
  // Begins to move `used`, a range that adjoins the piece and is not longer, to the piece's other end. Returns the
  // address to copy it to.
  [[nodiscard]] scale::Addr begin_slide(Piece used);
  // Ends the slide. `copied`: the copy is in use, nobody reads the old place any more, and it now belongs to the piece.
  // Otherwise the slide was given up. May be called by any thread.
  void end_slide(bool copied);
  // Begins to make `window`, a range of any target, the new piece. The free space in the window is withheld at once,
  // and so is space there that free() returns later. When all of it is withheld, the exchange ends and the old piece is
  // freed. Meanwhile the caller moves the runs in the window, by cut_relocation_reserve(). False, with nothing changed,
  // if the bytes in use there are not `used_bytes`. Requires: relocation_reserve() has bytes.
  [[nodiscard]] bool begin_exchange(Piece window, uint64_t used_bytes);
  // Ends the exchange because something in the window cannot be moved. The piece keeps its place and present length.
  void give_up_exchange();
  // Takes the lower end of the piece for a run from elsewhere; it is used from now on. Requires: the piece is longer.
  [[nodiscard]] scale::Addr cut_relocation_reserve(uint64_t bytes);
  // While the piece is lent and not being moved, allocations for Use::kReserve that find no room elsewhere take from
  // it. It grows again when it is next moved; until then ordinary data leaves that much more space free.
  void lend_relocation_reserve(bool lent);
  // The free pieces of a target, in order.
  [[nodiscard]] std::vector<Piece> free_pieces(size_t target) const;
  // Length of the longest free piece of all targets.
  [[nodiscard]] uint64_t longest_free_bytes() const;
  // Frees the part of the piece that exceeds its initial length. Requires: relocation_reserve() has bytes.
  void restore_relocation_reserve(bool keep_upper_end);

  [[nodiscard]] size_t targets() const { return targets_.size(); }
  [[nodiscard]] uint64_t capacity_bytes() const { return capacity_bytes_; }
  [[nodiscard]] uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t reserve_bytes() const { return reserve_bytes_; }
  // Free bytes that ordinary data may take; 0 when only the reserve is left.
  [[nodiscard]] uint64_t ordinary_free_bytes() const;

 private:
  struct Target {
    using ByOffset = absl::btree_map<uint64_t, uint64_t>;  // offset -> bytes; a change moves other elements
    std::mutex mutex;
    ByOffset by_offset;
    absl::btree_set<std::pair<uint64_t, uint64_t>> by_size;  // (bytes, offset)
    std::atomic<uint64_t> free_bytes{0};
    uint64_t reserve_bytes = 0;
    Piece window;                 // the next piece; of 0 bytes if there is no exchange
    std::vector<Piece> withheld;  // of it
    uint64_t withheld_bytes = 0;

    void insert(uint64_t offset, uint64_t bytes);
    void erase(ByOffset::iterator it);
    void resize(ByOffset::iterator it, uint64_t offset, uint64_t bytes);
    void give(uint64_t begin, uint64_t bytes);
    uint64_t take(uint64_t bytes, uint64_t align, Where where);
    uint64_t take_high(uint64_t bytes, uint64_t align);
    uint64_t cut(ByOffset::iterator it, uint64_t start, uint64_t bytes);
    [[nodiscard]] std::vector<Piece> free_in(Piece piece) const;
    bool withhold(Piece piece);
    void forget_window();
  };

  scale::Addr take(uint64_t bytes, uint64_t align, Use use, Where where);
  scale::Addr take_lent(uint64_t bytes);
  void end_exchange(Piece window);
  std::vector<std::unique_ptr<Target>> targets_;
  uint64_t capacity_bytes_ = 0;
  uint64_t reserve_bytes_ = 0;
  std::atomic<uint64_t> used_bytes_{0};
  mutable std::mutex relocation_mutex_;  // taken before a target's
  Piece piece_, sliding_;                // under it; sliding_ of 0 bytes: no slide
  bool exchanging_ = false, lent_ = false;
  uint64_t relocation_bytes_wanted_ = 0;
  std::atomic<uint64_t> relocation_bytes_spent_{0};  // lent and not regained by the piece
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_SPACE_H_
