// SPDX-License-Identifier: Apache-2.0
// A scan's knowledge of the ranges ahead: their bnodes, runs of them that were read ahead, and the place of the next
// range's records.
#ifndef BONSAI_INDEX_SCAN_AHEAD_H_
#define BONSAI_INDEX_SCAN_AHEAD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/key.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "index/bnode.h"
#include "persist/dnode.h"
#include "persist/run_reader.h"

namespace bonsai::index {

// Bnodes are in the order of their ranges, and valid inside the guard in which they were found. Runs that were read
// stay valid under a later one. Thread-safety: one owner.
class ScanAhead {
 public:
  static constexpr size_t kMax = 8;

  ScanAhead() = default;
  // The scan will begin at `from` and read at most `records_max` records.
  void expect(const base::Key& from, uint64_t records_max) {
    from_ = from;
    records_max_ = records_max;
  }
  [[nodiscard]] const base::Key& from() const { return from_; }
  [[nodiscard]] uint64_t records_max() const { return records_max_; }
  // Where the scan begins, if that was found ahead; used by its first read, in the same guard.
  [[nodiscard]] persist::Dnode::Located& located() { return located_; }

  // ---- bnodes
  // Must be called before the guard changes.
  void forget_bnodes() { next_ = count_ = 0; }
  void clear() {
    forget_bnodes();
    reader_.reset();
  }
  void add(Bnode* bnode) { bnodes_[count_++] = bnode; }
  [[nodiscard]] bool full() const { return count_ == kMax; }
  // The i-th from now on; null if there is none.
  [[nodiscard]] Bnode* peek(size_t i) const { return next_ + i < count_ ? bnodes_[next_ + i] : nullptr; }
  // Replaces the next bnode by another one that has its range.
  void replace_next(Bnode* bnode) { bnodes_[next_] = bnode; }
  // Takes the next bnode if its range has `key`; else null.
  [[nodiscard]] Bnode* take(const base::Key& key) {
    Bnode* bnode = peek(0);
    if (bnode == nullptr || !bnode->covers(key)) return nullptr;
    ++next_;
    return bnode;
  }
  // Sets how many records are likely to be read in the range after the next.
  void set_beyond_max(uint64_t records) { beyond_max_ = records; }
  [[nodiscard]] uint64_t beyond_max() const { return beyond_max_; }

  // ---- runs
  // Runs of at most `bnodes` bnodes are read ahead; initially kMax.
  void set_runs_ahead(size_t bnodes) { runs_ahead_ = alone_ ? 0 : bnodes; }
  [[nodiscard]] size_t runs_ahead() const { return runs_ahead_; }
  // A target did not answer: from now on each range is read alone, so that those on other targets do not wait for it.
  void read_alone() {
    alone_ = true;
    runs_ahead_ = 0;
  }
  [[nodiscard]] persist::RunReader& reader(const scale::Volume& volume) {
    return reader_ ? *reader_ : reader_.emplace(volume);
  }
  [[nodiscard]] persist::RunReader& fresh_reader(const scale::Volume& volume) { return reader_.emplace(volume); }

  // ---- records of the next range, to be fetched while those before them are passed on
  void set_records(std::span<const char> records) { records_ = records; }
  [[nodiscard]] std::span<const char> records() const { return records_; }
  // Prefetches records while `bytes` bytes are passed on; twice as many, as the next range may be larger. Into the
  // second-level cache, which can have more misses in flight than the first.
  void fetch_records(size_t bytes) {
    const size_t fetched = std::min(base::round_up(2 * bytes, base::kLineBytes), records_.size());
    for (size_t i = 0; i < fetched; i += base::kLineBytes) __builtin_prefetch(records_.data() + i, 0, 1);
    records_ = records_.subspan(fetched);
  }

 private:
  base::Key from_;
  uint64_t records_max_ = 0, beyond_max_ = 0;
  persist::Dnode::Located located_;
  std::array<Bnode*, kMax> bnodes_;
  size_t next_ = 0, count_ = 0, runs_ahead_ = kMax;
  bool alone_ = false;
  std::span<const char> records_;
  std::optional<persist::RunReader> reader_;
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_SCAN_AHEAD_H_
