// SPDX-License-Identifier: Apache-2.0
// Finds one key in a dnode. Invariants: dnode.h.
//
// Thread-safety: one owner, inside an epoch guard that keeps the dnode.
#ifndef BONSAI_PERSIST_DNODE_SEARCH_H_
#define BONSAI_PERSIST_DNODE_SEARCH_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/key.h"
#include "persist/dnode.h"
#include "persist/run_reader.h"

namespace bonsai::persist {

// A search for one key, in steps, so that the cache misses of many can overlap.
//
//   DnodeSearch search;
//   search.start(volume, dnode, key, hash);                          reads the samples, prefetches fingerprints
//   search.issue(&reader);                                           reads fingerprints, prefetches and issues entries
//   if (!reader.wait().ok()) return Find::kUnavailable;
//   Find found = search.finish(&entry, &reader);                     reads the entries, and further ones if need be
//
// For runs on far targets one list reads every place that may have the key; no later step waits.
//
// Requires: the dnode and the key's bytes outlive it.
class DnodeSearch {
 public:
  // Does all of the steps.
  Find run(RunReader* reader, const Dnode& dnode, const base::Key& key, uint64_t hash, Entry* entry);
  // Begins. Must be called before the functions below.
  void start(const scale::Volume& volume, const Dnode& dnode, const base::Key& key, uint64_t hash);
  // Goes to the first entries that may have the key, fetches them, issues the reads for look(). Once after start().
  void issue(RunReader* reader) {
    if (reader->reads().waits()) [[unlikely]]
      carry(reader);
    next(&reader->reads());
  }
  // Looks at the current entries. False: none has the key, and the next reads were issued. Requires: all were waited
  // for.
  [[nodiscard]] bool look(Find* found, Entry* entry, RunReader* reader) {
    *found = here() ? check(entry) : Find::kAbsent;
    if (*found == Find::kFound) [[likely]]
      return true;
    return !here() || ends_elsewhere(found, entry, reader);
  }
  // Compares the current entries and all later candidates, and waits for the latter.
  [[nodiscard]] Find finish(Entry* entry, RunReader* reader);
  // Whether the last wait may have missed bytes that this search needs.
  [[nodiscard]] bool lost(const RunReader& reader) const;

  [[nodiscard]] const base::Key& key() const { return key_; }
  [[nodiscard]] const Dnode& dnode() const { return *dnode_; }

 private:
  // False: no place is left, so the key is absent.
  [[nodiscard]] bool here() const { return run_ != 0; }

  struct Groups {
    uint32_t next, end;     // to be searched
    uint32_t fingerprints;  // where the run's are in the block
  };

  static constexpr uint32_t kPrefetchBytesMax = 64;

  // Goes to the next entries that the key may be in, newest run first, fetches them, and issues what is mapped.
  void next(scale::ReadBatch* reads);
  // Requests the entries that may have the key in runs that are to be carried.
  void carry(RunReader* reader);
  [[nodiscard]] const std::byte* carry_hits(size_t run, const RunDesc& desc, RunReader* reader) const;
  // Fetches `fetched_bytes` of each current entry, and issues the reads for look().
  template <class OffsetOf>
  void fetch(scale::Addr run, uint32_t fetched_bytes, uint64_t issued_bytes, OffsetOf offset_of,
             scale::ReadBatch* reads) const;
  // Looks at the current entries. kAbsent: none has the key.
  [[nodiscard]] Find check(Entry* entry) const;
  // The rest of look() where the current entries do not have the key, or are damaged: then another member's are read.
  [[nodiscard]] bool ends_elsewhere(Find* found, Entry* entry, RunReader* reader);
  [[nodiscard]] RunView current_run() const;
  // The entry of the first of the hits.
  static uint32_t index_of(uint32_t first, uint32_t hits) {
    return first + base::low_bits<uint32_t>(__builtin_ctz(hits));
  }

  const scale::Volume* volume_;
  const Dnode* dnode_;
  base::Key key_;
  uint8_t print_;
  uint32_t run_ = 0;        // index of the searched run, plus 1; 0: none is left
  uint32_t first_;          // entry of the group that is searched
  uint32_t hits_;           // entries of that group that have the fingerprint
  const std::byte* bytes_;  // of the run; in a far one, only candidate entries are readable
  std::array<Groups, kRunsMax> groups_;
  std::array<const std::byte*, kRunsMax> carried_;  // where carried runs begin
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_DNODE_SEARCH_H_
