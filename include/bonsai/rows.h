// Records side by side in memory: what a long scan gets piece by piece instead of record by record. And
// what scans call with the records that they find.
#ifndef BONSAI_ROWS_H_
#define BONSAI_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace bonsai {

// `count` records with keys of one size and values of one size, in ascending key order, each `stride_bytes` after the
// one before. The bytes belong to whoever made the rows.
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
// A visitor may call every method of the store that it is called from, but Close and the destructor; updates too, which
// its own scan does not see. While it runs, memory and space that others replace are held back, so that on a nearly
// full store an update may wait and get NoSpace that would have succeeded after the scan: then stop, and go on after
// the last key. It must not use a session, and must not throw: the scan would end in the middle.
using ScanVisitor = std::function<bool(std::string_view key, std::string_view value)>;
// The same for as many records at a time as are side by side; at least one.
using RowsVisitor = std::function<bool(const Rows& rows)>;

}  // namespace bonsai

#endif  // BONSAI_ROWS_H_
