// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/rcuckoo_search.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_set>

#include "base/random.h"

namespace bonsai::bench::rivals::rcuckoo {

namespace {

constexpr size_t kNoParent = SIZE_MAX;

// A row that the search has reached, by moving an entry of its parent there.
struct Node {
  uint64_t row;
  size_t parent;
  size_t slot;  // of the parent
  size_t moves;
};

class Finder {
 public:
  Finder(const Table& table, const SearchOptions& options, const Look& look)
      : table_(table), options_(options), look_(look) {}

  bool run(const Place& start, Path* path) {
    if (options_.kind == SearchOptions::Kind::kRandom) return walk(start, path);
    if (options_.kind == SearchOptions::Kind::kAStar) find_target(start.first);
    reach(start.first, kNoParent, 0, 0);
    if (options_.from_both_rows) reach(start.second, kNoParent, 0, 0);
    for (size_t looked = 0; looked < options_.entries_max && !open_.empty(); looked += kEntriesPerRow) {
      const size_t node = open_.top().node;
      open_.pop();
      const Sight sight = look_(nodes_[node].row);
      if (sight.kind == Sight::Kind::kClosed) continue;
      const size_t free = sight.kind == Sight::Kind::kKnown ? entry_of(*sight.entries, 0) : 0;
      if (free < kEntriesPerRow) {
        trace(node, free, path);
        return true;
      }
      if (nodes_[node].moves == options_.moves_max) continue;
      const uint64_t row = nodes_[node].row;
      for (size_t slot = 0; slot < kEntriesPerRow; ++slot) {
        const uint64_t next = table_.place(Entry::key((*sight.entries)[slot])).other(row);
        reach(next, node, slot, nodes_[node].moves + 1);
      }
    }
    return false;
  }

 private:
  struct Open {
    // kAStar: in moves; equal ones come as a binary heap leaves them, as in the draft's simulation. Else their order.
    uint64_t cost;
    size_t node;
    bool operator<(const Open& other) const { return cost > other.cost; }
  };

  bool walk(const Place& start, Path* path) {
    base::Random dice(base::splitmix64(start.first << 32 ^ start.second));
    for (size_t looked = 0; looked < options_.entries_max; looked += kEntriesPerRow) {
      nodes_ = {{start.first, kNoParent, 0, 0}};
      reached_ = {start.first};
      for (; looked < options_.entries_max; looked += kEntriesPerRow) {
        const size_t last = nodes_.size() - 1;
        const Sight sight = look_(nodes_[last].row);
        if (sight.kind == Sight::Kind::kClosed) break;
        const size_t free = sight.kind == Sight::Kind::kKnown ? entry_of(*sight.entries, 0) : 0;
        if (free < kEntriesPerRow) {
          trace(last, free, path);
          return true;
        }
        const size_t slot = dice.below(kEntriesPerRow);
        const uint64_t next = table_.place(Entry::key((*sight.entries)[slot])).other(nodes_[last].row);
        if (nodes_[last].moves == options_.moves_max || !reached_.insert(next).second) break;
        nodes_.push_back({next, last, slot, nodes_[last].moves + 1});
      }
    }
    return false;
  }

  void reach(uint64_t row, size_t parent, size_t slot, size_t moves) {
    if (!reached_.insert(row).second) return;
    nodes_.push_back({row, parent, slot, moves});
    const size_t node = nodes_.size() - 1;
    open_.push({target_ ? moves + (row % 2 != *target_ % 2 ? 1 : 0) : node, node});
  }

  void find_target(uint64_t around) {
    const auto has_free = [&](uint64_t row) {
      const Sight sight = look_(row);
      return sight.kind == Sight::Kind::kGuessedFree ||
             (sight.kind == Sight::Kind::kKnown && entry_of(*sight.entries, 0) < kEntriesPerRow);
    };
    for (uint64_t step = 0; step <= options_.scanned_max && !target_; ++step) {
      if (around + step < table_.rows() && has_free(around + step)) {
        target_ = around + step;
      } else if (step <= around && has_free(around - step)) {
        target_ = around - step;
      }
    }
  }

  void trace(size_t node, size_t free, Path* path) const {
    path->clear();
    for (size_t slot = free; node != kNoParent; slot = nodes_[node].slot, node = nodes_[node].parent) {
      path->push_back({nodes_[node].row, slot});
    }
    std::reverse(path->begin(), path->end());
  }

  const Table& table_;
  const SearchOptions& options_;
  const Look& look_;
  std::optional<uint64_t> target_;  // kAStar; each move leads from an even row to an odd one, or back
  std::vector<Node> nodes_;
  std::unordered_set<uint64_t> reached_;
  std::priority_queue<Open> open_;
};

}  // namespace

bool find_path(const Table& table, const SearchOptions& options, const Place& start, const Look& look, Path* path) {
  return Finder(table, options, look).run(start, path);
}

}  // namespace bonsai::bench::rivals::rcuckoo
