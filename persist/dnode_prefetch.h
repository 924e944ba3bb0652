// SPDX-License-Identifier: Apache-2.0
// Prefetches dnodes and their runs: fetches what readers are about to read while they do something else, so that cache
// misses overlap. It changes nothing, and reads only what each function states.
//
// Thread-safety: as for the readers that it serves.
#ifndef BONSAI_PERSIST_DNODE_PREFETCH_H_
#define BONSAI_PERSIST_DNODE_PREFETCH_H_

#include <cstddef>
#include <cstdint>

#include "persist/dnode.h"

namespace bonsai::persist {

class DnodePrefetch {
 public:
  // What a get may read of the block at `dnode`, which may be null or gone: for one get that would wait for it.
  static void block(const void* dnode) { lines(dnode, kBlockLines); }
  // What a DnodeSearch will read first.
  static void search(const Dnode& dnode) { lines(&dnode, kSearchLines); }
  // The same, and the metadata that locates a key in the runs.
  static void samples(const Dnode& dnode) { lines(&dnode, kSearchLines + 1); }
  // What lo(), hi(), runs() read. Reads the dnode.
  static void description(const Dnode& dnode) {
    lines(dnode.parts_.get(), (sizeof(Dnode::Parts) + Dnode::kLine - 1) / Dnode::kLine);
  }
  // What a DnodeCursor that goes through all of it reads first, and the beginning of each further page, except of what
  // Dnode::oldest_run() returns. Reads the dnode.
  static void runs(const Dnode& dnode, const scale::Volume& volume);
  // What a DnodeCursor that seeks `key` and goes through so many records reads first. Returns about how many entries
  // there are from the key on. Reads the dnode and its samples. Requires: key is in the range, at which it does not
  // look.
  static uint64_t scan(const Dnode& dnode, const scale::Volume& volume, const base::Key& key, uint64_t records);
  // The part of a run of the dnode, and of what follows as much as is its share of `records`, but not what the
  // processor will fetch by itself.
  static void part(const Dnode& dnode, const RunView& run, const Dnode::Part& part, uint64_t records);

 private:
  static constexpr size_t kBlockLines = 8;
  static constexpr size_t kSearchLines = 2;

  static void lines(const void* begin, size_t count) {
    for (size_t i = 0; i < count; ++i) __builtin_prefetch(static_cast<const char*>(begin) + i * Dnode::kLine);
  }
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_DNODE_PREFETCH_H_
