// SPDX-License-Identifier: Apache-2.0
// Verifies a scan: it must begin with its start record, rise, and carry its records' values. Paid inside the
// measurement, so only one scan in kScanChecksEvery is verified record by record (for all it would cost
// absl::btree_map a quarter of its speed); of the others the first record, the number of records and the sum of the
// value sizes are checked.
#ifndef BONSAI_BENCH_ENGINES_SCAN_CHECK_H_
#define BONSAI_BENCH_ENGINES_SCAN_CHECK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "bench/ycsb/keys.h"
#include "bench/ycsb/values.h"
#include "bonsai/rows.h"

namespace bonsai::bench {

inline constexpr uint64_t kScanChecksEvery = 64;

class ScanCheck {
 public:
  // `room` keeps the last string key.
  ScanCheck(const RecordShape& shape, std::string_view from, bool start_may_miss, std::string* room)
      : shape_(shape),
        from_(from),
        start_may_miss_(start_may_miss),
        integer_keys_(shape.key_form == KeyForm::kFixed8),
        room_(room) {}

  bool visit_lightly(std::string_view key, std::string_view value) {
    if (count_ == 0) [[unlikely]]
      check_start(key);
    keep_last(key);
    value_bytes_ += value.size();
    ++count_;
    return true;
  }

  bool visit_thoroughly(std::string_view key, std::string_view value) {
    const bool is_first = count_ == 0;
    const uint64_t before = last_;
    if (!integer_keys_ && !is_first) wrong_ |= key <= last_key();
    visit_lightly(key, value);
    if (!integer_keys_) return true;
    const uint64_t id = __builtin_bswap64(last_);  // whose order is that of the bytes
    wrong_ |= !is_first && id <= __builtin_bswap64(before);
    wrong_ |= !value_is_of(id, value, shape_.value_bytes);
    return true;
  }

  // If records are side by side, the values to compare stay in registers.
  void visit_thoroughly(const Rows& rows) {
    const bool in_registers = integer_keys_ && rows.key_bytes == 8;
    const size_t apart = in_registers ? std::min<size_t>(1, rows.count) : rows.count;
    for (size_t i = 0; i < apart; ++i) visit_thoroughly(rows.key(i), rows.value(i));
    if (apart == rows.count) return;
    uint64_t before = __builtin_bswap64(last_);
    bool wrong = false;
    const size_t value_bytes = shape_.value_bytes;
    for (size_t i = apart; i < rows.count; ++i) {
      uint64_t word;
      std::memcpy(&word, rows.key(i).data(), 8);
      const uint64_t id = __builtin_bswap64(word);
      wrong |= id <= before || !value_is_of(id, rows.value(i), value_bytes);
      before = id;
    }
    last_ = __builtin_bswap64(before);
    wrong_ |= wrong;
    value_bytes_ += (rows.count - apart) * rows.value_bytes;
    count_ += rows.count - apart;
  }

  [[nodiscard]] bool wrong() const { return wrong_ || value_bytes_ != count_ * shape_.value_bytes; }
  [[nodiscard]] uint64_t count() const { return count_; }
  // Requires count() > 0.
  [[nodiscard]] std::string_view last_key() const {
    return integer_keys_ ? std::string_view(reinterpret_cast<const char*>(&last_), 8) : std::string_view(*room_);
  }

 private:
  void check_start(std::string_view key) { wrong_ |= start_may_miss_ ? key < from_ : key != from_; }

  void keep_last(std::string_view key) {
    if (integer_keys_ && key.size() == 8) [[likely]] {
      std::memcpy(&last_, key.data(), 8);
    } else {
      wrong_ |= integer_keys_;
      room_->assign(key);
    }
  }

  const RecordShape& shape_;
  std::string_view from_;
  const bool start_may_miss_;
  const bool integer_keys_;
  std::string* room_;
  uint64_t last_ = 0;  // the bytes of the last integer key
  uint64_t value_bytes_ = 0;
  uint64_t count_ = 0;
  bool wrong_ = false;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_SCAN_CHECK_H_
