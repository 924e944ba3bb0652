// SPDX-License-Identifier: Apache-2.0
// Versions of a sample of the records, so that a read that returns a value older than it may is a failure. Versions of
// all records would cost each read another cache miss.
//
// A sampled record's writes are numbered, and a value carries its write's number as its stamp (ycsb/values.h). A write
// that overlapped no other of its record is newer than all numbered lower: once it has ended, reads that begin may not
// return those.
//
// Lives as long as the store is loaded, whatever phases run on it. Thread-safety: everything from any thread.
#ifndef BONSAI_BENCH_DRIVER_VERSIONS_H_
#define BONSAI_BENCH_DRIVER_VERSIONS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "bench/ycsb/values.h"

namespace bonsai::bench {

class Versions {
  struct Cell;

 public:
  // A write in flight.
  struct Write {
    uint32_t stamp = 0;  // that the value is to carry
    Cell* cell = nullptr;
    bool alone = false;
  };

  // Must be called before a write. For a record that is not sampled the stamp is `otherwise`.
  [[nodiscard]] Write begin(uint64_t id, uint32_t otherwise) {
    Cell* const cell = cell_of(id, true);
    if (cell == nullptr) return {otherwise, nullptr, false};
    const uint64_t before = cell->begun.fetch_add(kRunning | 1);
    return {static_cast<uint32_t>(before) + 1, cell, before < kRunning};
  }
  // Must be called after the write. If the write failed, the record's value is unknown.
  void end(const Write& write, bool ok) {
    if (write.cell == nullptr) return;
    if (ok && write.alone && static_cast<uint32_t>(write.cell->begun.load()) == write.stamp)
      write.cell->least.store(write.stamp);
    write.cell->begun.fetch_sub(kRunning);
  }
  // The least stamp that a read of the record that begins now may return.
  [[nodiscard]] uint32_t least(uint64_t id) {
    const Cell* const cell = cell_of(id, false);
    return cell == nullptr ? 0 : cell->least.load();
  }

 private:
  static constexpr uint32_t kSampledOneIn = 64;
  static constexpr uint32_t kCells = 256;
  static constexpr uint64_t kRunning = uint64_t{1} << 32;

  struct Cell {
    std::atomic<uint64_t> record{0};  // its id plus 1
    std::atomic<uint64_t> begun{0};   // number of writes so far, plus kRunning for each that has not ended
    std::atomic<uint32_t> least{0};
  };

  // The record's cell; null if it is not sampled. If records share a cell, the first one gets it.
  Cell* cell_of(uint64_t id, bool claims) {
    const uint32_t tag = value_tag(id);
    if (tag % kSampledOneIn != 0) return nullptr;
    Cell* const cell = &cells_[tag / kSampledOneIn % kCells];
    uint64_t owner = cell->record.load(std::memory_order_acquire);
    if (owner == 0 && claims && cell->record.compare_exchange_strong(owner, id + 1)) return cell;
    return owner == id + 1 ? cell : nullptr;
  }

  std::array<Cell, kCells> cells_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_VERSIONS_H_
