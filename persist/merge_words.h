// SPDX-License-Identifier: Apache-2.0
// Merges rows of two eight-byte words, key and value, with newer entries of the same form: the inner loop of a scan
// over updated ranges.
//
// Each step of a merge waits for the one before, some twelve cycles through a load, a comparison and an addition, and
// none of its branches depends on keys, whose order is a coin toss. So a range is cut into four parts by keys of its
// rows, every list is cut there, and the four parts are merged side by side: the steps of one fill the waits of the
// others.
#ifndef BONSAI_PERSIST_MERGE_WORDS_H_
#define BONSAI_PERSIST_MERGE_WORDS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace bonsai::persist {

inline constexpr size_t kWordRowBytes = 2 * sizeof(uint64_t);

// What is newer than the rows: a row, its key and value as they are in memory.
struct NewerWord {
  std::array<uint64_t, 2> row;
  uint64_t bytes;  // of the row that is made of it: kWordRowBytes, or 0 of a tombstone
};

// Rows in order, one each `stride_bytes`: a key, then its value.
struct WordRows {
  const char* begin = nullptr;
  size_t count = 0, stride_bytes = 0;

  [[nodiscard]] const char* at(size_t i) const { return begin + i * stride_bytes; }
  [[nodiscard]] const char* end() const { return at(count); }
  [[nodiscard]] WordRows part(size_t from, size_t to) const { return {at(from), to - from, stride_bytes}; }
};

// The key of a row, as base::key_head() has it.
[[nodiscard]] inline uint64_t word_head(const char* row) {
  uint64_t word;
  std::memcpy(&word, row, sizeof word);
  return __builtin_bswap64(word);
}

// All bits, or none.
[[nodiscard]] inline uint64_t mask_of(bool condition) { return -static_cast<uint64_t>(condition); }
// `a` where the mask has all bits, `b` where it has none. Unlike a condition, no compiler makes a branch of it.
[[nodiscard]] inline const char* select(uint64_t mask, const char* a, const char* b) {
  const auto a_bits = reinterpret_cast<uintptr_t>(a), b_bits = reinterpret_cast<uintptr_t>(b);
  return reinterpret_cast<const char*>(b_bits ^ ((a_bits ^ b_bits) & mask));
}

// One merge of two lists, no key twice in either: `newer`, of NewerWord, and `older`, of which the same key is left
// out. kMade: kWordRowBytes makes rows, without tombstones; sizeof(NewerWord) makes one list of two of these, with
// them. Requires: room at `to` for one of each.
template <size_t kMade>
class WordMerge {
 public:
  WordMerge() = default;
  WordMerge(const WordRows& newer, const WordRows& older, char* to)
      : a_(newer.begin),
        a_end_(newer.end()),
        b_(older.begin),
        b_end_(older.end()),
        to_(to),
        stride_(older.stride_bytes) {}

  // Neither has come to its end.
  [[nodiscard]] bool both() const { return (a_ != a_end_) & (b_ != b_end_); }
  // Requires: both().
  void step() {
    const uint64_t a_head = word_head(a_), b_head = word_head(b_);
    const uint64_t takes_a = mask_of(a_head <= b_head), passes_b = mask_of(b_head <= a_head);
    std::memcpy(to_, select(takes_a, a_, b_), kMade);
    if constexpr (kMade == kWordRowBytes) {
      to_ += kWordRowBytes ^ ((kWordRowBytes ^ bytes_of(a_)) & takes_a);
    } else {
      to_ += kMade;
    }
    a_ += sizeof(NewerWord) & takes_a;
    b_ += stride_ & passes_b;
  }
  // The rest, while less than so many bytes are made; there need be room for one more only. Returns where it ends.
  char* finish(const char* to_end) {
    while (both() && to_ < to_end) step();
    for (; a_ != a_end_ && to_ < to_end; a_ += sizeof(NewerWord)) {
      std::memcpy(to_, a_, kMade);
      to_ += kMade == kWordRowBytes ? bytes_of(a_) : kMade;
    }
    for (; b_ != b_end_ && to_ < to_end; b_ += stride_, to_ += kMade) std::memcpy(to_, b_, kMade);
    return to_;
  }

 private:
  [[nodiscard]] static uint64_t bytes_of(const char* newer) {
    uint64_t bytes;
    std::memcpy(&bytes, newer + offsetof(NewerWord, bytes), sizeof bytes);
    return bytes;
  }

  const char *a_, *a_end_, *b_, *b_end_;
  char* to_;
  size_t stride_;
};

// Of one range: to be filled by clear() and add() of each list, oldest first; then merge(), once. Not thread-safe;
// keeps its memory for the next time.
class WordsMerge {
 public:
  void clear() {
    ends_.clear();
    count_ = 0;
  }
  // Room for a list of so many, newer than those before, which the caller fills: sorted, no key twice. It stays where
  // it is until the next call.
  std::span<NewerWord> add(size_t count) {
    count_ += count;
    if (items_.size() < count_) items_.resize(std::max(count_, 2 * items_.size()));
    ends_.push_back(count_);
    return std::span(items_).subspan(count_ - count, count);
  }

  // Makes the first `rows_max` rows at `to`, and calls take(bytes) for each stretch of them, in order. Of a key that is
  // in several lists the newest entry counts; `rows` are the oldest, sorted, no key twice. Requires: room for a row of
  // each entry and of each of `rows`, or for rows_max + 1.
  template <class Take>
  void merge(const WordRows& rows, uint64_t rows_max, char* to, Take take) {
    cut(rows);
    while (lists_.size() > 1) pass();
    const Parts newer = lists_.empty() ? Parts{} : lists_[0];
    const bool all = rows_max >= count_ + rows.count;
    std::array<char*, kParts> begins;
    std::array<WordMerge<kWordRowBytes>, kParts> merges;
    char* room = to;
    for (size_t i = 0; i < kParts; ++i) {
      begins[i] = room;
      merges[i] = {newer[i], rows_[i], room};
      if (all) room += (newer[i].count + rows_[i].count) * kWordRowBytes;
    }
    if (all) run(&merges);
    for (size_t i = 0; i < kParts && rows_max > 0; ++i) {
      if (!all && i > 0) merges[i] = {newer[i], rows_[i], begins[i] = to};
      to = merges[i].finish(all ? room : begins[i] + rows_max * kWordRowBytes);
      rows_max -= static_cast<size_t>(to - begins[i]) / kWordRowBytes;
      take(std::span<const char>(begins[i], to));
    }
  }

 private:
  static constexpr size_t kParts = 4;
  using Parts = std::array<WordRows, kParts>;  // of one list

  [[nodiscard]] static WordRows rows_of(std::span<const NewerWord> list) {
    return {reinterpret_cast<const char*>(list.data()), list.size(), sizeof(NewerWord)};
  }

  // Cuts every list by keys of the rows.
  void cut(const WordRows& rows) {
    lists_.assign(ends_.size(), {});
    std::array<size_t, kParts + 1> at;
    for (size_t i = 0; i <= kParts; ++i) at[i] = rows.count * i / kParts;
    for (size_t i = 0; i < kParts; ++i) rows_[i] = rows.part(at[i], at[i + 1]);
    size_t begin = 0;
    for (size_t list = 0; list < ends_.size(); ++list) {
      for (size_t i = 0; i < kParts; ++i) {
        size_t end = ends_[list];
        if (i + 1 < kParts && at[i + 1] < rows.count) end = first_from(word_head(rows.at(at[i + 1])), begin, end);
        lists_[list][i] = rows_of({items_.data() + begin, end - begin});
        begin = end;
      }
    }
  }
  // Of items [begin, end), which are sorted.
  [[nodiscard]] size_t first_from(uint64_t head, size_t begin, size_t end) const {
    const auto is_below = [head](const NewerWord& each) { return __builtin_bswap64(each.row[0]) < head; };
    const auto first = items_.begin();
    return static_cast<size_t>(
        std::partition_point(first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end), is_below) -
        first);
  }

  // Merges neighbouring lists, so that each entry is moved about log2(lists) times.
  void pass() {
    if (other_.size() < count_) other_.resize(items_.size());
    char* to = reinterpret_cast<char*>(other_.data());
    size_t lists = 0;
    for (size_t i = 0; i < lists_.size(); i += 2) {
      const Parts& older = lists_[i];
      const Parts newer = i + 1 < lists_.size() ? lists_[i + 1] : Parts{};
      std::array<char*, kParts> begins;
      std::array<WordMerge<sizeof(NewerWord)>, kParts> merges;
      for (size_t part = 0; part < kParts; ++part) {
        begins[part] = to;
        merges[part] = {newer[part], older[part], to};
        to += (newer[part].count + older[part].count) * sizeof(NewerWord);
      }
      run(&merges);
      for (size_t part = 0; part < kParts; ++part) {
        const auto bytes = static_cast<size_t>(merges[part].finish(to) - begins[part]);
        lists_[lists][part] = {begins[part], bytes / sizeof(NewerWord), sizeof(NewerWord)};
      }
      ++lists;
    }
    lists_.resize(lists);
    std::swap(items_, other_);
  }

  // Until one of them comes to an end.
  template <size_t kMade>
  static void run(std::array<WordMerge<kMade>, kParts>* merges) {
    auto [a, b, c, d] = *merges;  // in registers
    while (a.both() && b.both() && c.both() && d.both()) {
      a.step();
      b.step();
      c.step();
      d.step();
    }
    *merges = {a, b, c, d};
  }

  std::vector<NewerWord> items_, other_;
  size_t count_ = 0;          // of items
  std::vector<size_t> ends_;  // of the lists, oldest first
  std::vector<Parts> lists_;  // what is left of them to be merged
  Parts rows_;
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_MERGE_WORDS_H_
