// SPDX-License-Identifier: Apache-2.0
// The visitors of scans, and Rows: adjacent records in memory, which a long scan passes many at a time.
#ifndef BONSAI_ROWS_H_
#define BONSAI_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "bonsai/cxx20.h"

namespace bonsai {

// `count` records with keys of one size and values of one size, in ascending key order, each `stride_bytes` after the
// one before. The rows do not own the bytes.
struct Rows {
  const char* keys = nullptr;
  const char* values = nullptr;
  size_t count = 0;
  size_t stride_bytes = 0;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;

  // Requires: i < count.
  [[nodiscard]] std::string_view key(size_t i) const { return {keys + i * stride_bytes, key_bytes}; }
  [[nodiscard]] std::string_view value(size_t i) const { return {values + i * stride_bytes, value_bytes}; }
};

// Called with each record of a scan, ascending; returns false to stop. The views are valid during the call.
//
// A visitor may call every method of the store that is scanned, except Close and the destructor. It may also update the
// store; its own scan does not see those updates. While a visitor runs, replaced memory and space cannot be reclaimed.
// So on a nearly full store an update may wait and return NoSpace that would have succeeded after the scan: then stop
// the scan, and start another after the last key. A visitor must not use a session. It should not throw: the
// exception leaves Scan, or Session::Wait, and the scan ends there; in C it is forbidden.
using ScanVisitor = std::function<bool(std::string_view key, std::string_view value)>;
// As ScanVisitor, for a group of adjacent records (at least one).
using RowsVisitor = std::function<bool(const Rows& rows)>;

}  // namespace bonsai

#endif  // BONSAI_ROWS_H_
