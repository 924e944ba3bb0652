// SPDX-License-Identifier: Apache-2.0
// Merges rows of two eight-byte words, key and value, with newer entries of the same form: the inner loop of a scan
// over updated ranges.
//
// Each step of a merge waits for the one before, some twelve cycles through a load, a comparison and an addition, and
// none of its branches depends on keys, whose order is a coin toss. So both halves of a range are merged side by side,
// and the steps of one fill the waits of the other.
#ifndef BONSAI_PERSIST_MERGE_WORDS_H_
#define BONSAI_PERSIST_MERGE_WORDS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace bonsai::persist {

// What is newer than the rows.
struct NewerWord {
  uint64_t head;   // the key, as base::key_head() has it
  uint64_t value;  // as it is in memory
  uint64_t bytes;  // of the row that is made of it: kWordRowBytes, or 0 of a tombstone
};

inline constexpr size_t kWordRowBytes = 2 * sizeof(uint64_t);

// Rows in order, one each `stride_bytes`: a key, then its value.
struct WordRows {
  const char* begin;
  size_t count, stride_bytes;

  [[nodiscard]] const char* at(size_t i) const { return begin + i * stride_bytes; }
  [[nodiscard]] uint64_t head(size_t i) const {
    uint64_t word;
    std::memcpy(&word, at(i), sizeof word);
    return __builtin_bswap64(word);
  }
};

// One merge, of a part of both. Requires: room at `to` for one row of each.
class WordMerge {
 public:
  WordMerge(std::span<const NewerWord> newer, const WordRows& rows, char* to)
      : a_(newer.data()),
        a_end_(a_ + newer.size()),
        b_(rows.begin),
        b_end_(rows.at(rows.count)),
        stride_bytes_(rows.stride_bytes),
        begin_(to),
        to_(to) {}

  // Neither has come to its end.
  [[nodiscard]] bool both() const { return (a_ != a_end_) & (b_ != b_end_); }
  // Requires: both().
  void step() {
    uint64_t row[2];
    std::memcpy(row, b_, sizeof row);
    const uint64_t a_head = a_->head, b_head = __builtin_bswap64(row[0]);
    const uint64_t takes_a = -static_cast<uint64_t>(a_head <= b_head);  // all bits, or none
    const uint64_t passes_b = -static_cast<uint64_t>(b_head <= a_head);
    row[0] ^= (row[0] ^ __builtin_bswap64(a_head)) & takes_a;
    row[1] ^= (row[1] ^ a_->value) & takes_a;
    std::memcpy(to_, row, sizeof row);
    to_ += (a_->bytes & takes_a) | (kWordRowBytes & ~takes_a);
    a_ -= static_cast<int64_t>(takes_a);
    b_ += stride_bytes_ & passes_b;
  }
  // The rest, up to so many rows in all; there need be room for one more only.
  void finish(uint64_t rows_max) {
    const char* const end = begin_ + rows_max * kWordRowBytes;
    while (both() && to_ < end) step();
    for (; a_ != a_end_ && to_ < end; ++a_) put({__builtin_bswap64(a_->head), a_->value}, a_->bytes);
    for (; b_ != b_end_ && to_ < end; b_ += stride_bytes_, to_ += kWordRowBytes) std::memcpy(to_, b_, kWordRowBytes);
  }
  [[nodiscard]] std::span<const char> made() const { return {begin_, to_}; }

 private:
  void put(const std::array<uint64_t, 2>& row, uint64_t bytes) {
    std::memcpy(to_, row.data(), kWordRowBytes);
    to_ += bytes;
  }

  const NewerWord* a_;
  const NewerWord* const a_end_;
  const char* b_;
  const char* const b_end_;
  const size_t stride_bytes_;
  char* const begin_;
  char* to_;
};

// Makes the first `rows_max` rows at `to`, and calls take(bytes) for each stretch of them, in order: at most two. Of a
// key in both, the newer one is taken. Requires: both are sorted, no key twice; room for a row of each of `newer` and
// `rows`, or for rows_max + 1.
template <class Take>
void merge_words(std::span<const NewerWord> newer, const WordRows& rows, uint64_t rows_max, char* to, Take take) {
  const uint64_t most = newer.size() + rows.count;
  if (rows.count < 2 || rows_max < most) {
    WordMerge all(newer, rows, to);
    all.finish(std::min(rows_max, most));
    return take(all.made());
  }
  const size_t b_middle = rows.count / 2;
  const uint64_t middle = rows.head(b_middle);
  const auto is_below = [middle](const NewerWord& each) { return each.head < middle; };
  const auto a_middle = static_cast<size_t>(std::partition_point(newer.begin(), newer.end(), is_below) - newer.begin());
  WordMerge lower(newer.first(a_middle), {rows.begin, b_middle, rows.stride_bytes}, to);
  WordMerge upper(newer.subspan(a_middle), {rows.at(b_middle), rows.count - b_middle, rows.stride_bytes},
                  to + (a_middle + b_middle) * kWordRowBytes);
  while (lower.both() && upper.both()) {
    lower.step();
    upper.step();
  }
  lower.finish(most);
  upper.finish(most);
  take(lower.made());
  take(upper.made());
}

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_MERGE_WORDS_H_
