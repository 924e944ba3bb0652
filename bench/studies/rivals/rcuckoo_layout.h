// SPDX-License-Identifier: Apache-2.0
// The memory of the RCuckoo-like engine: locks, leases and rows, byte by byte, and where a key may be.
//
//   locks    a bit for each block of rows_per_lock rows, in words of 8 bytes; past lock_bits they begin anew
//   leases   a word for each word of locks: taken 1 bit | client 55 bits | counter 8 bits
//   row      72 bytes: 8 entries | seal 8: version 8 bits, check of the entries, version and row 56 bits
//   entry    8 bytes: key 4 | value 4; 0 = free
// A word arrives whole, so an entry is never torn, only what its row's seal says of it.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_LAYOUT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_LAYOUT_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/random.h"
#include "bench/studies/rivals/connection.h"

namespace bonsai::bench::rivals::rcuckoo {

inline constexpr size_t kEntriesPerRow = 8;
inline constexpr size_t kLocksPerWord = 64;
using Entries = std::array<uint64_t, kEntriesPerRow>;

struct Row {
  Entries entries;
  uint64_t seal;
  bool operator==(const Row&) const = default;

  [[nodiscard]] uint8_t version() const { return static_cast<uint8_t>(seal >> 56); }
  [[nodiscard]] bool sealed(uint64_t number) const { return seal == seal_of(number, entries, version()); }
  // After a change.
  void renew(uint64_t number) { seal = seal_of(number, entries, static_cast<uint8_t>(version() + 1)); }

  [[nodiscard]] static uint64_t seal_of(uint64_t number, const Entries& entries, uint8_t version) {
    uint64_t hash = base::splitmix64(number << 8 | version);
    for (const uint64_t entry : entries) hash = base::splitmix64(hash ^ entry);
    return uint64_t{version} << 56 | hash >> 8;
  }
};
inline constexpr size_t kRowBytes = 72;
static_assert(sizeof(Row) == kRowBytes);

struct Entry {
  [[nodiscard]] static uint64_t of(uint32_t key, uint32_t value) { return uint64_t{key} << 32 | value; }
  [[nodiscard]] static uint32_t key(uint64_t entry) { return static_cast<uint32_t>(entry >> 32); }
  [[nodiscard]] static uint32_t value(uint64_t entry) { return static_cast<uint32_t>(entry); }
};

// The entry of `key`; kEntriesPerRow: none. Key 0 finds a free one.
[[nodiscard]] inline size_t entry_of(const Entries& entries, uint32_t key) {
  size_t slot = 0;
  while (slot < kEntriesPerRow && Entry::key(entries[slot]) != key) ++slot;
  return slot;
}

// Options that are equal for all clients of a table.
struct TableOptions {
  uint64_t rows = 1024;  // even
  uint64_t rows_per_lock = 16;
  uint64_t lock_bits_max = uint64_t{256} << 13;  // 256 KiB of them; a multiple of 64
  double factor = 2.3;                           // f: how far apart a key's two rows are
  bool dependent = true;                         // false: they are independent of each other
};

// The two rows of a key. The first is even, the second odd.
struct Place {
  uint64_t first, second;
  [[nodiscard]] uint64_t distance() const { return first < second ? second - first : first - second; }
  [[nodiscard]] uint64_t other(uint64_t row) const { return row == first ? second : first; }
};

class Table {
 public:
  explicit Table(const TableOptions& options) : options_(options) {
    BONSAI_CHECK(options.rows >= 2 && options.rows % 2 == 0 && options.lock_bits_max % kLocksPerWord == 0);
    for (size_t zeros = 0; zeros < spans_.size(); ++zeros) {
      const double span = std::pow(options.factor, options.factor + static_cast<double>(zeros));
      spans_[zeros] = static_cast<uint64_t>(std::clamp(span, 1.0, static_cast<double>(options.rows)));
    }
  }

  [[nodiscard]] const TableOptions& options() const { return options_; }
  [[nodiscard]] uint64_t rows() const { return options_.rows; }

  [[nodiscard]] Place place(uint32_t key) const {
    const uint64_t h1 = base::splitmix64(key), h2 = base::splitmix64(h1), h3 = base::splitmix64(h2);
    const uint64_t first = h1 % (options_.rows / 2) * 2;
    if (!options_.dependent) return {first, h2 % (options_.rows / 2) * 2 + 1};
    const auto zeros = static_cast<size_t>(std::countr_zero(h3 | uint64_t{1} << (spans_.size() - 1)));
    return {first, (first + (h2 % spans_[zeros] | 1)) % options_.rows};
  }

  [[nodiscard]] uint64_t block(uint64_t row) const { return row / options_.rows_per_lock; }
  [[nodiscard]] uint64_t blocks() const { return block(options_.rows - 1) + 1; }
  [[nodiscard]] uint64_t first_row(uint64_t block) const { return block * options_.rows_per_lock; }
  [[nodiscard]] uint64_t rows_of(uint64_t block) const {
    return std::min(options_.rows_per_lock, options_.rows - first_row(block));
  }
  [[nodiscard]] uint64_t lock_bits() const {
    return std::min(options_.lock_bits_max, (blocks() + kLocksPerWord - 1) / kLocksPerWord * kLocksPerWord);
  }
  [[nodiscard]] uint64_t lock(uint64_t block) const { return block % lock_bits(); }

  [[nodiscard]] static Address lock_word_at(uint64_t word) { return {0, word * sizeof(uint64_t)}; }
  [[nodiscard]] Address lease_at(uint64_t word) const { return {0, lock_bits() / 8 + word * sizeof(uint64_t)}; }
  [[nodiscard]] Address row_at(uint64_t row) const { return {0, 2 * lock_bits() / 8 + row * kRowBytes}; }
  [[nodiscard]] size_t bytes() const { return row_at(options_.rows).offset; }

 private:
  const TableOptions options_;
  std::array<uint64_t, 32> spans_{};  // f^(f + zeros)
};

}  // namespace bonsai::bench::rivals::rcuckoo

#endif  // BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_LAYOUT_H_
