// Entries of one range that lie in several places, put together: those of each run and the updates, each list sorted.
//
// Without a branch that the processor could guess wrongly: which of two random keys is less is a coin toss, and a wrong
// guess costs more than several comparisons. Keys are represented by eight bytes of theirs. The lists are short (those
// of a dnode), so that all of them stay in the processor's cache.
#ifndef BONSAI_PERSIST_MERGE_H_
#define BONSAI_PERSIST_MERGE_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "persist/run.h"

namespace bonsai::persist {

// An entry of a list: eight bytes of its key, their order being the keys' order, ties undecided; and where it is.
struct Merged {
  uint64_t head;
  uint32_t source, index;
};

// To be filled by clear(), add() of each run, oldest first, add_updates(), put_together(); then read. Not thread-safe;
// keeps its memory for the next time. Requires: what it is given outlives it; all keys are of one size.
class Merge {
 public:
  // Keys differ in nothing before byte `skipped`, where they have eight more, unless they are shorter than that.
  void clear(size_t skipped) {
    skipped_ = skipped;
    sources_.clear();
    oldest_.clear();
    items_.clear();
    ends_.clear();
    updates_ = {};
  }
  // Rows [from, to) of a run.
  void add(const Rows& rows, uint32_t from, uint32_t to) {
    const auto source = static_cast<uint32_t>(sources_.size());
    sources_.push_back(rows);
    for (Merged& item : new_list(to - from, source == 0)) {
      item = {head_of(rows.key(from)), source, from};
      ++from;
    }
  }
  void add_updates(std::span<const Entry> updates) {
    const auto source = static_cast<uint32_t>(sources_.size());
    updates_ = updates;
    uint32_t i = 0;
    for (Merged& item : new_list(updates.size(), false)) {
      item = {head_of(updates[i].key.bytes), source, i};
      ++i;
    }
  }
  // Makes one list of all, which has the newest entry of each key. Neighbouring lists first, so that each entry is
  // moved about log2(lists) times; the oldest, mostly longer than the others together, last.
  void put_together(uint32_t key_bytes) {
    if (key_bytes <= skipped_ + sizeof(uint64_t)) {
      put_together<true>();
    } else {
      put_together<false>();
    }
  }

  [[nodiscard]] std::span<const Merged> items() const { return items_; }
  [[nodiscard]] Entry entry(const Merged& item) const {
    if (item.source == sources_.size()) return updates_[item.index];
    const Rows& rows = sources_[item.source];
    return {base::Key::of(rows.key(item.index)), rows.value(item.index)};
  }
  // The rows that have the item, as row item.index; null if it is an update.
  [[nodiscard]] const Rows* rows_of(const Merged& item) const {
    return item.source == sources_.size() ? nullptr : &sources_[item.source];
  }

 private:
  [[nodiscard]] uint64_t head_of(std::string_view key) const { return base::key_head(key.substr(skipped_)); }
  std::span<Merged> new_list(size_t n, bool oldest) {
    if (oldest) {
      oldest_.resize(n);
      return oldest_;
    }
    const size_t begin = items_.size();
    items_.resize(begin + n);
    ends_.push_back(items_.size());
    return {items_.data() + begin, n};
  }

  template <bool kHeadsDecide>
  void put_together() {
    while (ends_.size() > 1) pass<kHeadsDecide>();
    other_.resize(items_.size() + oldest_.size());
    const Merged* const items = items_.data();
    const Merged* const oldest = oldest_.data();
    const Merged* const end =
        merge<kHeadsDecide>(items, items + items_.size(), oldest, oldest + oldest_.size(), other_.data());
    other_.resize(static_cast<size_t>(end - other_.data()));
    std::swap(items_, other_);
  }

  template <bool kHeadsDecide>
  void pass() {
    other_.resize(items_.size());
    Merged* out = other_.data();
    const Merged* begin = items_.data();
    size_t lists = 0;
    for (size_t i = 0; i < ends_.size(); i += 2) {
      const Merged* const middle = items_.data() + ends_[i];
      const Merged* const end = i + 1 < ends_.size() ? items_.data() + ends_[i + 1] : middle;
      out = merge<kHeadsDecide>(middle, end, begin, middle, out);
      begin = end;
      ends_[lists++] = static_cast<size_t>(out - other_.data());
    }
    ends_.resize(lists);
    other_.resize(static_cast<size_t>(out - other_.data()));
    std::swap(items_, other_);
  }

  // The entries of [a, a_end), the newer ones, and of [b, b_end). Returns the end of what was written at `out`.
  template <bool kHeadsDecide>
  Merged* merge(const Merged* a, const Merged* a_end, const Merged* b, const Merged* b_end, Merged* out) const {
    while (a != a_end && b != b_end) {
      auto a_ahead = static_cast<ptrdiff_t>(a->head <= b->head);
      auto b_ahead = static_cast<ptrdiff_t>(b->head <= a->head);
      if (!kHeadsDecide && a->head == b->head) {
        const auto order = compare(entry(*a).key, entry(*b).key);
        a_ahead = order <= 0 ? 1 : 0;
        b_ahead = order >= 0 ? 1 : 0;
      }
      *out++ = b[(a - b) & -a_ahead];
      a += a_ahead;
      b += b_ahead;
    }
    out = std::copy(a, a_end, out);
    return std::copy(b, b_end, out);
  }

  size_t skipped_ = 0;
  std::vector<Rows> sources_;
  std::span<const Entry> updates_;
  std::vector<Merged> oldest_;         // the list of the first run
  std::vector<Merged> items_, other_;  // the other lists
  std::vector<size_t> ends_;           // of those, oldest first
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_MERGE_H_
