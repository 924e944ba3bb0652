// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/rcuckoo_search.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "base/random.h"

namespace bonsai::bench::rivals::rcuckoo {

namespace {

constexpr size_t kNoParent = SIZE_MAX;
constexpr uint64_t kMedianHopRows = 4;

// A row that the search has reached, by moving an entry of its parent there.
struct Node {
  uint64_t row;
  size_t parent;
  size_t slot;  // of the parent
  size_t moves;
};

uint64_t apart(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

class Finder {
 public:
  Finder(const Table& table, const SearchOptions& options, const Look& look)
      : table_(table), options_(options), look_(look) {}

  bool run(const Place& start, Path* path) {
    if (options_.kind == SearchOptions::Kind::kRandom) return walk(start, path);
    if (options_.kind == SearchOptions::Kind::kAStar) find_targets(start.first);
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
    uint64_t cost;  // in quarters of a move
    size_t node;
    bool operator<(const Open& other) const { return cost != other.cost ? cost > other.cost : node > other.node; }
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
    open_.push({moves * kMedianHopRows + remaining(row), nodes_.size() - 1});
  }

  // An estimate of the moves to the nearest free entry, in quarters. None for breadth first.
  [[nodiscard]] uint64_t remaining(uint64_t row) const {
    uint64_t least = targets_.empty() ? 0 : UINT64_MAX;
    for (const uint64_t target : targets_) {
      least = std::min(least, (row % 2 != target % 2 ? kMedianHopRows : 0) + apart(row, target));
    }
    return least;
  }

  void find_targets(uint64_t around) {
    const auto add = [&](uint64_t row) {
      const Sight sight = look_(row);
      if (sight.kind == Sight::Kind::kGuessedFree ||
          (sight.kind == Sight::Kind::kKnown && entry_of(*sight.entries, 0) < kEntriesPerRow)) {
        targets_.push_back(row);
      }
    };
    for (uint64_t step = 0; step <= options_.scanned_max && targets_.size() < options_.targets_max; ++step) {
      if (around + step < table_.rows()) add(around + step);
      if (step > 0 && step <= around) add(around - step);
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
  std::vector<uint64_t> targets_;
  std::vector<Node> nodes_;
  std::unordered_set<uint64_t> reached_;
  std::priority_queue<Open> open_;
};

}  // namespace

bool find_path(const Table& table, const SearchOptions& options, const Place& start, const Look& look, Path* path) {
  return Finder(table, options, look).run(start, path);
}

}  // namespace bonsai::bench::rivals::rcuckoo
