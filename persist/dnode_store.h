// SPDX-License-Identifier: Apache-2.0
// Writes dnodes: new ones out of place; old ones are retired by a mark, the only change ever made in place.
//
// Invariants
//  - a header becomes durable only after its runs (two fences per DnodeWriter::commit, however many dnodes it holds);
//  - a retire mark becomes durable only after newer dnodes that cover the whole range (the caller commits first);
//  - header slots and runs are reused only after the retire mark is durable and no reader can see them.
#ifndef BONSAI_PERSIST_DNODE_STORE_H_
#define BONSAI_PERSIST_DNODE_STORE_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "persist/dnode.h"
#include "persist/space.h"
#include "scale/volume.h"

namespace bonsai::persist {

// The places of extent tables and data areas; from the superblocks.
struct ExtentGeometry {
  uint64_t extent_bytes = 0;
  uint64_t table_offset = 0;
  uint64_t data_offset = 0;
  uint64_t extents = 0;
};

class DnodeStore {
 public:
  // One geometry per target. Requires: volume and space outlive the store.
  DnodeStore(scale::Volume& volume, Space& space, std::vector<ExtentGeometry> geometry);

  // Recovery: adds a header slot that is free to be written.
  void add_free_slot(scale::Addr slot) { free_slots_.push_back(slot); }
  // Recovery: sets how often the slots of a header extent have been written, all slots together.
  void adopt_extent(scale::Addr extent, uint64_t writes) { *writes_in(extent) = writes; }

  // Takes a header slot. Claims new header extents ahead of need, because a nearly full pool may have room for dnodes
  // in small pieces but not for an extent. Errors: NoSpace, IoError (the volume has failed), Unavailable.
  Status take_slot(scale::Addr* slot);
  void give_slot(scale::Addr slot);
  // Number of header slots to keep free while ordinary space lasts; initially 0.
  void set_slots_ahead(size_t slots) { slots_ahead_ = slots; }
  // Whether new dnodes get metadata (dnode.h); initially true.
  void set_metadata(bool on) { metadata_ = on; }
  [[nodiscard]] bool metadata() const { return metadata_; }

  // Marks dnodes as covered by newer ones, and notes how often header slots have been written, so that from now on a
  // slot's earlier state is distinguished from the present one. Requires: those are committed. One fence for all.
  // Errors: IoError (the volume has failed); then log records and space must stay as they are.
  [[nodiscard]] Status retire(const std::vector<const Dnode*>& dnodes);

  // Frees the space of a retired dnode, except the runs and the long fence keys that its successor has taken over.
  // Requires: retired, and no reader is left.
  void free(const Dnode& dnode, const Runs& kept_runs, scale::Addr kept_fences = {});

  [[nodiscard]] scale::Volume& volume() { return volume_; }
  [[nodiscard]] Space& space() { return space_; }

 private:
  friend class DnodeWriter;

  Status claim_extent(Space::Use use);
  void write_free_slots(scale::Addr extent);
  [[nodiscard]] scale::Addr table_entry(scale::Addr extent) const;
  // The extent in which a header slot is.
  [[nodiscard]] scale::Addr extent_of(scale::Addr slot) const;
  [[nodiscard]] uint64_t* writes_in(scale::Addr extent);
  // Counts writes of header slots that are durable by now.
  void count_writes(const std::vector<scale::Addr>& slots);
  [[nodiscard]] std::vector<std::pair<scale::Addr, uint64_t>> note_writes();

  scale::Volume& volume_;
  Space& space_;
  std::vector<ExtentGeometry> geometry_;
  base::YieldingMutex slots_mutex_{"header slots"};  // held over the fences of a new extent
  std::vector<scale::Addr> free_slots_;
  // Under the mutex: the number of writes to the slots of each extent, by target and number; and the extents whose
  // number on NVM is older.
  base::YieldingMutex writes_mutex_{"header writes"};
  std::vector<std::vector<uint64_t>> writes_;
  std::vector<std::pair<scale::Addr, uint64_t>> not_noted_;  // extent, its writes
  std::atomic<uint32_t> births_;                             // of runs
  size_t slots_ahead_ = 0;
  bool metadata_ = true;
};

// Builds dnodes and makes them durable together. Not thread-safe. Without a call of commit() a writer frees its
// allocations.
class DnodeWriter {
 public:
  explicit DnodeWriter(DnodeStore& store) : store_(store) {}
  ~DnodeWriter();
  DnodeWriter(const DnodeWriter&) = delete;
  DnodeWriter& operator=(const DnodeWriter&) = delete;

  // The runs of its predecessor that a dnode takes over: none (null), all, or the oldest ones.
  struct Kept {
    Kept(const Dnode* whole) : dnode(whole), runs(whole == nullptr ? 0 : whole->runs().size()) {}
    Kept(const Dnode& of, size_t oldest) : dnode(&of), runs(oldest) {}
    const Dnode* dnode;
    size_t runs;
  };
  // Writes a dnode with the runs `kept` and, if `entries` is not empty, one run more. Long fence keys are taken over
  // from there if they are the same. Requires: entries sorted, without duplicates, inside [lo, hi); room for the runs.
  // Errors: NoSpace.
  Status add(const base::Fence& lo, const base::Fence& hi, uint64_t gen, Kept kept, const std::vector<Entry>& entries,
             Dnode** dnode);

  // Writes `dnode` again with one of its runs at another place. The place is the caller's, also after rollback.
  // Requires: `to` has room for the run. Errors: NoSpace, Corruption (the run is damaged), Unavailable.
  Status add_moved(const Dnode& dnode, size_t run, scale::Addr to, Dnode** moved);

  // A point to return to: rollback frees everything that was added after mark().
  struct Mark {
    size_t dnodes, taken;
  };
  [[nodiscard]] Mark mark() const { return {dnodes_.size(), taken_.size()}; }
  void rollback(Mark mark);
  // Bytes that commit() writes to the media, before or after the call: whole blocks.
  [[nodiscard]] uint64_t media_bytes() const;

  // Makes all of them durable and returns them, in the order of add(). Errors: IoError (the volume has failed):
  // recovery may find some of their headers, so none of their space is freed.
  [[nodiscard]] Status commit(std::vector<std::unique_ptr<Dnode>>* dnodes);

 private:
  Status write_runs(std::span<const Entry> entries, size_t runs_max, Dnode::Parts* parts);
  RunDesc write_run(std::span<const Entry> entries, scale::Addr addr);
  Status place_fences(Dnode::Parts* parts);
  Status finish(Dnode::Parts parts, const Dnode* kept, Dnode** dnode);
  std::unique_ptr<Dnode> put_together(Dnode::Parts parts, const Dnode* kept) const;
  void write_header(const Dnode& dnode);

  struct Piece {
    scale::Addr addr;
    uint64_t bytes;
  };
  DnodeStore& store_;
  std::vector<std::unique_ptr<Dnode>> dnodes_;
  std::vector<Piece> taken_;                   // runs and long fences, to be given back unless committed
  std::vector<std::span<const Entry>> fresh_;  // of the runs of the dnode that is being added, as Dnode::Fresh
  std::vector<std::byte> scratch_;
};

// The content of a header slot.
struct SlotRead {
  enum class State {
    kLive,
    kRetired,
    kFree,
    kTorn,         // not valid: torn by a crash, or damaged
    kUnavailable,  // live, but what it refers to cannot be read now
  };
  State state = State::kTorn;
  uint32_t writes = 0;           // how often it has been written; 0 if torn
  std::unique_ptr<Dnode> dnode;  // of a live one
  uint64_t digest = 0;           // of a live one: of place and content
};
// `version`: the format of the slot's target (Pool::versions). Requires: the slot is resident.
SlotRead read_slot(const scale::Volume& volume, scale::Addr slot, uint64_t version);

// Makes a slot a free one; the caller flushes it and fences. A crash before that leaves it torn or free.
void clear_slot(scale::Volume& volume, scale::Addr slot, uint32_t writes);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_DNODE_STORE_H_
