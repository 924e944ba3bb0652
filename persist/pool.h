// SPDX-License-Identifier: Apache-2.0
// A pool's fixed facts: geometry and superblocks, made at creation and changed only by growth and by a newer version.
#ifndef BONSAI_PERSIST_POOL_H_
#define BONSAI_PERSIST_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/narrow.h"
#include "bonsai/damage.h"
#include "bonsai/options.h"
#include "bonsai/status.h"
#include "persist/dnode_store.h"
#include "persist/format.h"
#include "persist/log.h"
#include "persist/space.h"
#include "scale/volume.h"

namespace bonsai::persist {

// Sizes that follow from the geometry; every tier uses these instead of constants of its own.
struct Limits {
  uint64_t large_value_bytes_min = 0;  // values of at least this size are stored apart
  uint64_t dnode_bytes_max = 0;        // a dnode that would grow beyond is split
  uint64_t dnode_entries_max = 0;

  // The number of entries that a dnode may have before it is compacted and then split.
  [[nodiscard]] uint64_t entries_appended_max() const { return dnode_entries_max / 3 * 8; }
};

struct Pool {
  std::vector<Superblock> superblocks;        // one per target, in order, as the newest version describes them
  std::vector<uint64_t> versions;             // of the targets, as they were found
  bool partial = false;                       // some are stand-ins (stand_in.h): they agree with nothing
  std::vector<scale::Addr> openings_damaged;  // damaged opening words (opening.h)
  std::vector<Damage> repairs;                // made by settle_superblocks(), note_opening() from redundant bytes

  [[nodiscard]] KeyFormat key_format() const { return static_cast<KeyFormat>(superblocks[0].key_format); }
  [[nodiscard]] std::vector<ExtentGeometry> geometry() const;
  // Where the bytes of data areas are.
  [[nodiscard]] LayoutChoice layout_choice() const { return static_cast<LayoutChoice>(superblocks[0].layout); }
  [[nodiscard]] scale::Layout layout() const;
  // The first target with a log: run state and closed epochs are there.
  [[nodiscard]] size_t log_home() const;
  [[nodiscard]] scale::Addr state(uint64_t offset) const { return {log_home(), offset}; }
  [[nodiscard]] std::vector<scale::Addr> segments() const;  // targets with a log take turns
  [[nodiscard]] std::vector<scale::Addr> entries() const;   // of the log table, one for each
  [[nodiscard]] scale::Addr epoch_copy() const { return state(superblocks[log_home()].log_table_offset); }
  [[nodiscard]] Log::Config log_config(bool buffered) const;
  [[nodiscard]] uint64_t segment_bytes() const { return superblocks[0].segment_bytes; }
  // Each thread appends to a segment of its own, so that writes to segments and their entries may go over several
  // connections. Requires: no writer of the log yet.
  void spread_log(scale::Volume* volume) const;
  [[nodiscard]] uint64_t log_bytes() const;
  [[nodiscard]] Limits limits() const;
  // Room that recovery may need to rewrite a dnode of which a part is live; kept free for it
  // (Space::hold_relocation_reserve).
  [[nodiscard]] uint64_t recovery_bytes() const;
  // Adds every target's data area to `space`, all free.
  void add_targets(Space* space) const;
};

// Writes a new, empty pool over all targets of the volume. Requires: nothing of worth on it. `pool_id` is random;
// `roles` has one word for each target (kRole...), or none: all are for all. Errors: InvalidArgument (too small, log
// too large, no target for one of the two, too few to stripe), those of Volume::lay_out(), IoError (the volume has
// failed), Unavailable.
Status format_pool(scale::Volume& volume, const Options& options, const uint64_t pool_id[2],
                   std::vector<uint64_t> roles = {});

// Writes everything of a new target that is not data, except for the superblocks: unused structures are marked as such.
// Requires: the volume is bound to the pool; the superblock describes a sound layout.
void fill_target(scale::Volume& volume, const Superblock& sb);
// Writes one of the two copies of a target's superblock; a fence makes it durable. Requires: it is sealed.
void write_superblock(scale::Volume& volume, const Superblock& sb, uint64_t copy);

// The bytes of a target that read_pool() reads: superblocks and state page.
inline constexpr uint64_t kIdentityBytes = kExtentTableOffset;

// Whether a target's first bytes show a creation that did not finish, so that it holds no pool.
inline constexpr uint64_t kFirstBytes = kSuperblockCopies * kPageBytes;
bool is_unfinished(std::span<const std::byte> first_bytes);
// holds_no_pool() for a target whose first kFirstBytes, or all bytes, are resident.
bool holds_no_pool(const scale::Volume& volume, size_t target);

// Reads and verifies the superblocks, and binds the volume to the pool and its layout. `paths` name the targets in
// messages. Afterwards all bytes before the log segments are resident: superblocks, state and tables. A pool of an
// older version is read as it is, and described as one of the newest. Errors: NotSupported (foreign file, newer
// version), Corruption (damaged, truncated), InvalidArgument (targets of different pools, or of different times of one:
// opening.h), Unavailable, those of Volume::lay_out().
Status read_pool(scale::Volume& volume, const std::vector<std::string>& paths, Pool* pool);

// Reads the superblock of one target from the newer sound copy. `path` names it in messages. Requires: the first
// kFirstBytes, or all that the target has, are resident. Errors: NotSupported (foreign file, newer version),
// Corruption.
Status read_superblock(const scale::Volume& volume, size_t target, const std::string& path, Superblock* sb);

// Plans a growth: each data area extends to the end of its target, which was enlarged before; the log keeps its size.
// Changes nothing. Errors: InvalidArgument (larger than the extent table has room for: eight times the size at
// creation).
Status plan_growth(const scale::Volume& volume, const Pool& pool, Pool* grown);

// Grows `pool` to its plan. A crash may interrupt it anywhere: each target then has its old or its new size, and the
// next growth completes it. Requires: no other user of the pool yet. Errors: IoError (the volume has failed); the
// targets must keep their new size then, since a superblock may state it.
Status grow_pool(scale::Volume& volume, const Pool& grown, Pool* pool);

// Rewrites both copies of each superblock as in `pool`, one copy after the other, where they differ: after damage to
// one, after an interrupted growth, or if the pool was of an older version. Errors: IoError (the volume has failed).
Status settle_superblocks(scale::Volume& volume, Pool* pool);

// Writes the state of a pool in use durably. Errors: IoError (the volume has failed).
Status write_run_state(scale::Volume& volume, const Pool& pool, RunState state);
// The closed epoch of a pool: the later of the word and its copy, since a crash can leave one older. `damaged`, if not
// null, is called for each of the two that fails its check.
uint64_t closed_epoch(const scale::Volume& volume, const Pool& pool,
                      const std::function<void(scale::Addr)>& damaged = nullptr);

// A word of a state page (format.h).
struct StateWord {
  scale::Addr at;
  uint64_t value = 0;
  uint64_t tie = 0;  // as for store_word()
};
// Starts to write one back. The caller fences.
void flush_state_word(scale::Volume& volume, scale::Addr at);
// Makes them durable, in any order. Errors: IoError (the volume has failed).
Status write_state_words(scale::Volume& volume, std::span<const StateWord> words);

// Notes durably that the pool is closed, with the summary of what recovery will find in it. Requires: no other write is
// in flight. Errors: IoError (the volume has failed).
Status write_clean_state(scale::Volume& volume, const Pool& pool);

// A checksum of everything that recovery depends on: the valid, unretired dnodes, the contents of each log segment, the
// closed epoch. While a pool is closed none of it may change, not even to an earlier state of the same place, which
// passes all other checks. Digests are added up, in any order.
struct Summary {
  uint64_t sum = 0;

  void add_segment(const scale::Volume& volume, scale::Addr segment, uint64_t sequence, uint64_t end, bool sealed);
  [[nodiscard]] uint32_t value(uint64_t closed_epoch) const {
    return base::low_bits<uint32_t>(mix64(sum + closed_epoch) >> 32);
  }
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_POOL_H_
