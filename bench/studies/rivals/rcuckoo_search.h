// SPDX-License-Identifier: Apache-2.0
// The entries that must move to give a new key a free one: a cuckoo path, searched in rows that the client has seen.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_SEARCH_H_
#define BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_SEARCH_H_

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "bench/studies/rivals/rcuckoo_layout.h"

namespace bonsai::bench::rivals::rcuckoo {

// The entry at `slot` of a row. The new key goes to the first step of a path, the entry there moves to the second one,
// and so on; the last one is free.
struct Step {
  uint64_t row;
  size_t slot;
};
using Path = std::vector<Step>;

struct SearchOptions {
  enum class Kind : uint8_t { kBreadthFirst, kAStar, kRandom } kind = Kind::kBreadthFirst;
  // Published: a new key goes to its first row, and what must leave it moves on. So half of the rows fill first.
  bool from_both_rows = false;
  size_t moves_max = 4;        // so paths of five rows; 50 is usual with the other kinds
  size_t entries_max = 5'000;  // looked at
  // kAStar: searches the nearest row with a free entry, among this many rows on either side of the first one. The
  // draft's simulation uses only the parity of its estimate, and not the distance; so does this.
  size_t scanned_max = 512;
  // kRandom: depth first, an entry of each row by chance; a walk that ends in vain begins anew. Same key, same walks.
};

// The knowledge about a row.
struct Sight {
  enum class Kind : uint8_t { kKnown, kGuessedFree, kClosed } kind = Kind::kClosed;
  const Entries* entries = nullptr;  // kKnown only
};
using Look = std::function<Sight(uint64_t row)>;

// False: none within the bounds. No row is on the path twice.
bool find_path(const Table& table, const SearchOptions& options, const Place& start, const Look& look, Path* path);

// Rows that a client has met, so that it can search: direct-mapped, and as old as they are.
// Thread-safety: one thread.
class RowCache {
 public:
  explicit RowCache(size_t rows_max) : kept_(std::max<size_t>(rows_max, 1)) {}
  // Null: not known.
  [[nodiscard]] const Entries* find(uint64_t row) const {
    const Kept& kept = kept_[row % kept_.size()];
    return kept.row == row ? &kept.entries : nullptr;
  }
  void put(uint64_t row, const Entries& entries) { kept_[row % kept_.size()] = {row, entries}; }
  [[nodiscard]] size_t bytes() const { return kept_.size() * kRowBytes; }

 private:
  struct Kept {
    uint64_t row = UINT64_MAX;
    Entries entries{};
  };
  static_assert(sizeof(Kept) == kRowBytes);
  std::vector<Kept> kept_;
};

}  // namespace bonsai::bench::rivals::rcuckoo

#endif  // BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_SEARCH_H_
