// SPDX-License-Identifier: Apache-2.0
// The DRAM representation of a dnode: its range, generation, runs, and, if uploaded, fingerprints and key samples of
// each run. dnode_search.h finds a key in it, dnode_cursor.h walks through it.
//
// One block of memory, laid out for a get: the first line has the places of the first three runs, the samples of a
// dnode of usual size fill the second, then a group of fingerprints is half a line. So a get reads three lines of DRAM,
// the first two at once, and the entry's own line of NVM:
//
//   [head | places of runs 0, 1, ... | their births] [samples of run 0, 1, ...] [fingerprints of run 0, 1, ...]
//   [offsets of variable runs]
//
// Invariants
//  - immutable: metadata is set at construction, or in a copy (uploaded_copy);
//  - a newer run's entry of a key hides an older run's;
//  - every entry returned was verified by its check; a damaged one gives kDamaged and is never skipped;
//  - bytes that a far target did not deliver give kUnavailable, never an older entry.
// Thread-safety: all const methods from any thread. Readers must be inside an epoch guard, under which the owner
// retires dnodes and, where the volume has far targets, the bytes that reads fetched (scale/read_batch.h).
#ifndef BONSAI_PERSIST_DNODE_H_
#define BONSAI_PERSIST_DNODE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/memory.h"
#include "base/narrow.h"
#include "persist/run.h"
#include "persist/run_reader.h"
#include "persist/samples.h"
#include "scale/volume.h"

namespace bonsai::persist {

inline uint8_t fingerprint(uint64_t hash) { return base::low_bits<uint8_t>(hash >> 56); }

using Runs = boost::container::static_vector<RunDesc, kRunsMax>;

class Dnode {
 public:
  // The parts of a dnode; filled in by its writer, or read from its header.
  struct Parts {
    base::Fence lo, hi;
    uint64_t gen = 0;
    Runs runs;  // oldest first
    bool has_large = false;
    scale::Addr header;       // where its header is
    scale::Addr long_fences;  // nil if the fences fit into the header
    uint64_t long_fence_bytes = 0;
    // The least and the greatest key of the runs, for a range without beginning or without end, whose fences do not
    // bound its keys. Filled in by make_uploaded().
    std::string least, greatest;

    [[nodiscard]] bool open() const { return lo == base::Fence() || hi.is_infinite(); }
  };
  // The entries of runs that the writer still has in DRAM, in the order of the runs; empty for a run that it does not
  // have, and the list may end early. Before a fence they are required: copied bytes may not have arrived.
  using Fresh = std::span<const std::span<const Entry>>;

  static std::unique_ptr<Dnode> make(Parts parts);
  // Makes a dnode with metadata. It is copied from `kept` (may be null) for runs that `kept` has too, computed from
  // `fresh` where that has entries, and else from the runs themselves. Null if an entry is damaged or cannot be read;
  // *trouble, if not null, is the reason.
  static std::unique_ptr<Dnode> make_uploaded(Parts parts, RunReader* reader, const Dnode* kept, Fresh fresh,
                                              Trouble* trouble = nullptr);
  // A copy of this dnode with metadata, likewise.
  [[nodiscard]] std::unique_ptr<Dnode> uploaded_copy(RunReader* reader, Trouble* trouble = nullptr) const {
    return make_uploaded(*parts_, reader, nullptr, {}, trouble);
  }
  ~Dnode() = default;
  Dnode(const Dnode&) = delete;
  Dnode& operator=(const Dnode&) = delete;
  static void operator delete(void* block) { base::free_block<kLine>(block); }

  [[nodiscard]] const base::Fence& lo() const { return parts_->lo; }
  [[nodiscard]] const base::Fence& hi() const { return parts_->hi; }
  [[nodiscard]] uint64_t gen() const { return parts_->gen; }
  [[nodiscard]] bool has_large() const { return parts_->has_large; }
  [[nodiscard]] scale::Addr header() const { return parts_->header; }
  [[nodiscard]] scale::Addr long_fences() const { return parts_->long_fences; }
  [[nodiscard]] uint64_t long_fence_bytes() const { return parts_->long_fence_bytes; }
  [[nodiscard]] const Runs& runs() const { return parts_->runs; }
  [[nodiscard]] uint64_t entries() const {  // hidden ones and tombstones included
    uint64_t sum = 0;
    for (const Run& run : places()) sum += run.count;
    return sum;
  }
  [[nodiscard]] uint64_t run_bytes() const;
  [[nodiscard]] bool uploaded() const { return head_.uploaded != 0; }
  [[nodiscard]] uint64_t dram_bytes() const;

  // Counts a scan that went through this dnode and `updates` newer ones in DRAM. Sometimes true: reads have searched
  // several runs, or as many updates as cost a scan no less than a run, so often that one run of all pays.
  [[nodiscard]] bool note_scan(uint32_t updates) const {
    return (head_.runs_count > 1 || updates >= kUpdatesLikeRun) &&
           (head_.merges.fetch_add(1, std::memory_order_relaxed) + 1) % kMergesMax == 0;
  }
  // Counts a get that came to this dnode; gets of a few keys stand for all. Requires: hash is the key's.
  [[nodiscard]] bool note_get(uint64_t hash) const { return (hash >> 32) % kKeysPerNoted == 0 && note_scan(0); }

  // Prefetching: each function fetches what a reader is about to read, so that cache misses overlap, and reads only
  // what it states. prefetch_block() fetches what one get may read of the block at `dnode`, which may be null or gone.
  static void prefetch_block(const void* dnode) { prefetch_lines(dnode, 8); }
  // Fetches the lines that a DnodeSearch reads first.
  void prefetch_search() const { prefetch_lines(this, 2); }
  // Fetches these lines and the metadata that locates a key in the runs.
  void prefetch_samples() const { prefetch_lines(this, 3); }
  // Fetches the parts, for lo(), hi(), runs(). Reads the dnode.
  void prefetch_parts() const { prefetch_lines(parts_.get(), (sizeof(Parts) + kLine - 1) / kLine); }
  // Fetches the bytes that a DnodeCursor over all entries reads first, and the beginning of each further page, without
  // oldest_run(). Reads the dnode.
  void prefetch_runs(const scale::Volume& volume) const;
  struct EntryRange {
    uint32_t lo, hi;  // entries
  };
  // The part of each run in which the first entry at or after a key is, for a DnodeCursor that seeks this key in this
  // dnode. Null: not located. Valid as long as the dnode.
  struct Located {
    const Dnode* dnode = nullptr;
    std::array<EntryRange, kRunsMax> parts;
  };
  // Fetches the bytes that a DnodeCursor reads first when it seeks `key` and reads `records` records. Returns the
  // approximate number of entries from the key on; UINT64_MAX: unknown, and *located is not set. Reads the dnode and
  // its samples. Requires: key is in the range.
  uint64_t prefetch_scan(const scale::Volume& volume, const base::Key& key, uint64_t records, Located* located) const;
  // The place of the oldest run, to be fetched and not read; empty if there is none, or if it is a variable one.
  [[nodiscard]] std::span<const char> oldest_run(const scale::Volume& volume) const {
    const std::span<const Run> runs = places();
    if (runs.empty() || runs[0].variable()) return {};
    const std::byte* bytes = volume.hint(scale::Addr::of_bits(runs[0].addr));
    return {reinterpret_cast<const char*>(bytes), size_t{runs[0].count} * runs[0].entry_bytes() + kRunTrailerBytes};
  }

 private:
  friend class DnodeSearch;
  friend class DnodeCursor;
  static constexpr uint8_t kMergesMax = 4;
  // Each may be a line of its own. With 16, short scans that insert had twice the compactions for a tenth fewer cycles.
  static constexpr uint32_t kUpdatesLikeRun = 32;
  static constexpr uint64_t kKeysPerNoted = 32;
  static constexpr uint32_t kGroup = 32;  // entries per sample
  static constexpr size_t kAlign = 16;    // of every array, for SSE
  static constexpr size_t kLine = base::kLineBytes;

  using Sample = uint16_t;
  static constexpr uint32_t kSampleBits = 16;

  struct Head {
    uint16_t prefix_bits;  // common to all keys of the range; if that is open, of its runs
    uint8_t runs_count;
    uint8_t uploaded;
    mutable std::atomic<uint8_t> merges;  // reads that had to look at several runs
    uint8_t open;                         // Parts::open()
    uint16_t fingerprints;                // the group of this block in which they begin
  };
  // The data of a run that a get needs.
  struct Run {
    uint64_t addr;
    uint16_t count, key_bytes, value_bytes;
    uint16_t reserved;

    [[nodiscard]] bool variable() const { return key_bytes == kVariableRun; }
    // Requires: not variable.
    [[nodiscard]] uint32_t entry_bytes() const { return kUniformHeadBytes + key_bytes + value_bytes; }
    [[nodiscard]] uint32_t groups() const { return (count + kGroup - 1) / kGroup; }
    [[nodiscard]] uint32_t samples_bytes() const {
      return base::checked_narrow<uint32_t>(round_up(sizeof(Sample) * groups(), kAlign));
    }
    [[nodiscard]] uint32_t fingerprints_bytes() const {
      return base::checked_narrow<uint32_t>(round_up(count, kGroup));
    }
  };
  static_assert(sizeof(Run) == 16);
  // The place of a run's metadata in the block.
  struct Place {
    uint32_t samples, fingerprints, offsets;
  };
  struct Layout {
    std::array<Place, kRunsMax> places;
    size_t end = 0;
  };

  explicit Dnode(Parts parts);
  static std::unique_ptr<Dnode> make_block(Parts parts, size_t bytes);
  static Run run_of(const RunDesc& desc) {
    return {desc.addr, base::checked_narrow<uint16_t>(desc.count), desc.key_bytes, desc.value_bytes, 0};
  }
  static size_t births_offset(size_t runs) { return sizeof(Dnode) + runs * sizeof(Run); }
  static size_t metadata_offset(size_t runs) { return round_up(births_offset(runs) + runs * sizeof(uint32_t), kAlign); }
  static Layout layout(const Runs& runs);
  [[nodiscard]] std::span<const Run> places() const { return {at<Run>(sizeof(Dnode)), head_.runs_count}; }
  // Bits of the entries in a run's group that have the fingerprint. `fingerprints`: offset of the run's in the block.
  [[nodiscard]] uint32_t hits_of(const Run& run, uint32_t fingerprints, uint32_t first, uint8_t print) const {
    const uint32_t hits = matches(at<char>(fingerprints + first), print);
    const uint32_t left = run.count - first;  // the padding after them may match, too
    return left < kGroup ? hits & ((uint32_t{1} << left) - 1) : hits;
  }
  // Entries [first, end) of a part of run i that have the fingerprint; nothing: none has it. Requires: metadata; the
  // part begins with a group.
  [[nodiscard]] std::optional<EntryRange> hits_in(size_t i, const EntryRange& part, uint8_t print) const;
  [[nodiscard]] std::array<EntryRange, kRunsMax> parts_with(const base::Key& key, bool inside) const;
  static void prefetch_lines(const void* begin, size_t count) {
    for (size_t i = 0; i < count; ++i) __builtin_prefetch(static_cast<const char*>(begin) + i * kLine);
  }
  // Fetches the part of a run and, after it, the run's share of `records`, except lines that the processor prefetches.
  // `entries`: the number in all runs.
  static void prefetch_part(const RunView& run, const EntryRange& part, uint64_t records, uint64_t entries);
  [[nodiscard]] uint32_t birth(size_t run) const { return at<uint32_t>(births_offset(head_.runs_count))[run]; }
  // The descriptor of run i.
  [[nodiscard]] RunDesc desc(size_t i) const { return places()[i].variable() ? runs()[i] : uniform_desc(i); }
  [[nodiscard]] RunDesc uniform_desc(size_t i) const {
    const Run& run = places()[i];
    const uint32_t bytes = run.count * run.entry_bytes() + kRunTrailerBytes;
    return {run.addr, bytes, run.count, birth(i), run.key_bytes, run.value_bytes};
  }
  // Run i at `bytes`; if metadata is uploaded, the view has the offsets of its entries.
  [[nodiscard]] RunView run_view(size_t i, const std::byte* bytes, uint64_t identity) const {
    return places()[i].variable() ? variable_view(i, bytes, identity) : RunView(bytes, uniform_desc(i), identity);
  }
  [[nodiscard]] RunView variable_view(size_t i, const std::byte* bytes, uint64_t identity) const;

  template <class T>
  [[nodiscard]] const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(this) + offset);
  }
  // Bits that all keys of the range share, whether runs have them or not.
  [[nodiscard]] uint32_t range_prefix_bits() const { return head_.open != 0 ? 0 : head_.prefix_bits; }
  // Two bytes of a key after the common prefix. Their order is the keys' order, ties undecided. They are mostly in the
  // key's head.
  [[nodiscard]] Sample sample(const base::Key& key) const {
    if (head_.open != 0) [[unlikely]] {  // two ranges of all
      if (key.bytes < parts_->least) return 0;
      if (key.bytes > parts_->greatest) return std::numeric_limits<Sample>::max();
    }
    const uint32_t prefix_bits = head_.prefix_bits;
    if (prefix_bits <= 64 - kSampleBits) [[likely]]
      return base::low_bits<Sample>(key.head << prefix_bits >> (64 - kSampleBits));
    const uint64_t head = base::key_head(key.bytes.substr(std::min<size_t>(prefix_bits / 8, key.bytes.size())));
    return base::low_bits<Sample>(head << prefix_bits % 8 >> (64 - kSampleBits));
  }
  template <class T>
  [[nodiscard]] T* at(size_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(this) + offset);
  }
  [[nodiscard]] static bool note_ends(const RunView& view, std::span<const Entry> entries, Parts* parts);
  [[nodiscard]] bool note_run(const RunView& view, const Place& place, std::span<const Entry> entries);
  void take_over(const Dnode& kept, const Run& run, const Place& from, const Place& to);

  Head head_;
  const std::unique_ptr<const Parts> parts_;
};

// The error that a reader of the keys [lo, hi) reports. Requires: trouble is not kNone.
Status unreadable(const scale::Volume& volume, Trouble trouble, const base::Fence& lo, const base::Fence& hi);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_DNODE_H_
