// SPDX-License-Identifier: Apache-2.0
// Merges sorted lists: the one inner loop of compactions, and of scans over updated ranges. A form (merge_forms.h)
// defines the entries, their order, and the output made of them.
//
// Each step of a merge waits for the one before, some twelve cycles through a load, a comparison and an addition, and
// none of its branches depends on keys: which of two random keys is less is a coin toss, and a wrong prediction costs
// more than several comparisons. So every list is cut at the same three keys, and the four parts are merged side by
// side, in lanes: the steps of one fill the waits of the others. The lists are short (those of a dnode), so all of them
// stay in the processor's cache.
//
// A form has these members; `newer` and `older` are entries that can be read:
//   size_t kItemBytes             from a newer entry to the next; an older list has a stride of its own
//   uint64_t head(older)          eight bytes of its key. Keys with different heads are in the order of their heads
//   Order order(newer, older)     which is next
//   Row row(newer, older, takes_newer)   the one that is next
//   Row newer_row(newer)          the entry, where it is the only one
//   Row older_row(older)
//   size_t made_bytes()           the most that put() makes
//   char* put(row, to)            makes it at `to`, where it may write made_bytes(); returns where the next one goes
#ifndef BONSAI_PERSIST_MERGE_LISTS_H_
#define BONSAI_PERSIST_MERGE_LISTS_H_

#include <algorithm>
#include <array>
#include <boost/container/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace bonsai::persist {

// All bits, or none.
[[nodiscard]] inline uint64_t mask_of(bool condition) { return -static_cast<uint64_t>(condition); }
// `a` where the mask has all bits, `b` where it has none. Unlike a condition, no compiler makes a branch of it.
[[nodiscard]] inline uint64_t select(uint64_t mask, uint64_t a, uint64_t b) { return b ^ ((a ^ b) & mask); }
[[nodiscard]] inline const char* select(uint64_t mask, const char* a, const char* b) {
  return reinterpret_cast<const char*>(select(mask, reinterpret_cast<uintptr_t>(a), reinterpret_cast<uintptr_t>(b)));
}

// Entries in key order, without duplicates, at a distance of `stride_bytes`.
struct SortedList {
  const char* begin = nullptr;
  size_t count = 0, stride_bytes = 0;

  [[nodiscard]] const char* at(size_t i) const { return begin + i * stride_bytes; }
  [[nodiscard]] const char* end() const { return at(count); }
  [[nodiscard]] SortedList part(size_t from, size_t to) const { return {at(from), to - from, stride_bytes}; }
};

// Masks. For equal keys both are set: the newer entry is taken and the older one skipped.
struct Order {
  uint64_t takes_newer, passes_older;
};

// The chosen entry. A form fills in the members that its put() reads.
struct Row {
  const char *entry, *key, *value;
  uint64_t bytes;  // that it makes
};

// One merge of two lists; of equal keys it outputs the newer entry. Requires: room at `to` for a row of each entry.
template <class Form>
class TwoWayMerge {
 public:
  TwoWayMerge() = default;
  TwoWayMerge(const SortedList& newer, const SortedList& older, char* to)
      : newer_(newer.begin),
        newer_end_(newer.end()),
        older_(older.begin),
        older_end_(older.end()),
        older_stride_(older.stride_bytes),
        to_(to) {}

  // Neither has come to its end.
  [[nodiscard]] bool both() const { return (newer_ != newer_end_) & (older_ != older_end_); }
  // Requires: both(). Inlined, so that run() keeps all merges in registers.
  [[gnu::always_inline]] void step(const Form& form) {
    const auto [takes_newer, passes_older] = form.order(newer_, older_);
    to_ = form.put(form.row(newer_, older_, takes_newer), to_);
    newer_ += Form::kItemBytes & takes_newer;
    older_ += older_stride_ & passes_older;
  }
  // Merges the rest, until the output reaches `to_end`; it may end less than one row after that. Returns its end.
  char* finish(const Form& form, const char* to_end) {
    while (both() && to_ < to_end) step(form);
    for (; newer_ != newer_end_ && to_ < to_end; newer_ += Form::kItemBytes) {
      to_ = form.put(form.newer_row(newer_), to_);
    }
    for (; older_ != older_end_ && to_ < to_end; older_ += older_stride_) {
      to_ = form.put(form.older_row(older_), to_);
    }
    return to_;
  }

 private:
  const char *newer_, *newer_end_, *older_, *older_end_;
  size_t older_stride_;
  char* to_;
};

// Items that are written before they are read: resize(count, kUninitialized) keeps those that are there.
template <class Item>
using Items = boost::container::vector<Item>;
inline constexpr boost::container::default_init_t kUninitialized{};

// Merges the lists of one range. Call clear(), add() for each list, oldest first, then merge() once. Not thread-safe;
// keeps its memory for the next merge.
template <class Item>
class ListMerge {
 public:
  void clear() {
    ends_.clear();
    items_.clear();
  }
  // Room for a list of `count` items, newer than all lists before, which the caller fills: sorted, without duplicates.
  // The span is valid until the next call.
  std::span<Item> add(size_t count) {
    const size_t before = items_.size();
    items_.resize(before + count, kUninitialized);
    ends_.push_back(items_.size());
    return {items_.data() + before, count};
  }
  [[nodiscard]] size_t count() const { return items_.size(); }  // of all lists

  // Merges the lists with `oldest`, which is older than all of them, and writes the first `rows_max` rows to `to`.
  // Calls take(bytes) for each stretch of the output, in order. `item_form` makes Items of Items, `form` rows of Items
  // and of what `oldest` has. Requires: room for a row of each entry, or for rows_max + 1.
  template <class ItemForm, class Form, class Take>
  void merge(const SortedList& oldest, const ItemForm& item_form, const Form& form, uint64_t rows_max, char* to,
             Take take) {
    cut(oldest, item_form, form);
    while (lists_.size() > 1) pass(item_form);
    merge_lanes(form, lists_.empty() ? Lanes{} : lists_[0], oldest_, rows_max, to, take);
  }

 private:
  static constexpr size_t kLanes = 4;
  using Lanes = std::array<SortedList, kLanes>;  // the parts of one list

  // Cuts every list by heads of the oldest.
  template <class ItemForm, class Form>
  void cut(const SortedList& oldest, const ItemForm& item_form, const Form& form) {
    std::array<size_t, kLanes + 1> at;
    for (size_t i = 0; i <= kLanes; ++i) {
      at[i] = oldest.count * i / kLanes;
      while (0 < at[i] && at[i] < oldest.count && form.head(oldest.at(at[i] - 1)) == form.head(oldest.at(at[i])))
        --at[i];
    }
    for (size_t i = 0; i < kLanes; ++i) oldest_[i] = oldest.part(at[i], at[i + 1]);
    lists_.assign(ends_.size(), {});
    size_t begin = 0;
    for (size_t list = 0; list < ends_.size(); ++list) {
      for (size_t i = 0; i < kLanes; ++i) {
        size_t end = ends_[list];
        if (i + 1 < kLanes && at[i + 1] < oldest.count) {
          end = first_from(form.head(oldest.at(at[i + 1])), item_form, begin, end);
        }
        lists_[list][i] = {bytes_of(items_) + begin * sizeof(Item), end - begin, sizeof(Item)};
        begin = end;
      }
    }
  }
  // The first of the sorted items [begin, end) whose head is not below `head`; `end` if there is none.
  template <class ItemForm>
  [[nodiscard]] size_t first_from(uint64_t head, const ItemForm& form, size_t begin, size_t end) const {
    const Item* const first = items_.data();
    const auto is_below = [&](const Item& each) { return form.head(reinterpret_cast<const char*>(&each)) < head; };
    return static_cast<size_t>(std::partition_point(first + begin, first + end, is_below) - first);
  }

  // Merges neighbouring lists, so that each entry is moved about log2(lists) times.
  template <class ItemForm>
  void pass(const ItemForm& form) {
    other_.resize(items_.size(), kUninitialized);
    char* to = bytes_of(other_);
    size_t lists = 0;
    for (size_t i = 0; i < lists_.size(); i += 2) {
      Lanes merged;
      size_t lane = 0;
      const auto take = [&](std::span<const char> items) {
        merged[lane++] = {items.data(), items.size() / sizeof(Item), sizeof(Item)};
      };
      to = merge_lanes(form, i + 1 < lists_.size() ? lists_[i + 1] : Lanes{}, lists_[i], UINT64_MAX, to, take);
      lists_[lists++] = merged;
    }
    lists_.resize(lists);
    std::swap(items_, other_);
  }

  // Merges two lists as merge() says, one lane after the other in the output. Returns the end of the output.
  template <class Form, class Take>
  static char* merge_lanes(const Form& form, const Lanes& newer, const Lanes& older, uint64_t rows_max, char* to,
                           const Take& take) {
    const size_t row_bytes = form.made_bytes();
    size_t rows = 0;
    for (size_t i = 0; i < kLanes; ++i) rows += newer[i].count + older[i].count;
    const bool all = rows_max >= rows;
    std::array<char*, kLanes> begins;
    std::array<TwoWayMerge<Form>, kLanes> merges;
    char* room = to;
    for (size_t i = 0; i < kLanes; ++i) {
      begins[i] = room;
      merges[i] = {newer[i], older[i], room};
      if (all) room += (newer[i].count + older[i].count) * row_bytes;
    }
    if (all) run(form, &merges);
    for (size_t i = 0; i < kLanes && rows_max > 0; ++i) {
      if (!all && i > 0) merges[i] = {newer[i], older[i], begins[i] = to};
      to = merges[i].finish(form, all ? room : begins[i] + rows_max * row_bytes);
      rows_max -= static_cast<size_t>(to - begins[i]) / row_bytes;
      take(std::span<const char>(begins[i], to));
    }
    return to;
  }

  // Steps all merges until one list of any of them ends.
  template <class Form>
  static void run(const Form& form, std::array<TwoWayMerge<Form>, kLanes>* merges) {
    auto [a, b, c, d] = *merges;  // in registers
    while (a.both() && b.both() && c.both() && d.both()) {
      a.step(form);
      b.step(form);
      c.step(form);
      d.step(form);
    }
    *merges = {a, b, c, d};
  }

  [[nodiscard]] static char* bytes_of(Items<Item>& items) { return reinterpret_cast<char*>(items.data()); }

  Items<Item> items_, other_;
  std::vector<size_t> ends_;  // of the lists, oldest first
  std::vector<Lanes> lists_;  // the lists still to be merged
  Lanes oldest_;
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_MERGE_LISTS_H_
