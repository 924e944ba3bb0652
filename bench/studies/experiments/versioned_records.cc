// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/versioned_records.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "bench/ycsb/keys.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

constexpr RecordShape kShape;  // 8-byte keys, hashed, and 8-byte values
constexpr uint32_t kLoadVersion = 1;
constexpr uint64_t kSampled = 1000;

}  // namespace

Status VersionedRecords::put(DB* db, uint64_t count, const std::atomic<bool>& stop) {
  char room[8], value[8];
  ++version_;
  rewritten_ = count;
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 1024 == 0 && stop) return Status::Unavailable("interrupted");
    const uint64_t id = kShape.id(i);
    fill_value(id, version_, value, sizeof value);
    BONSAI_RETURN_IF_ERROR(db->Put(encode_key(kShape, id, room), {value, sizeof value}));
  }
  return Status::OK();
}

Status VersionedRecords::verify(DB* db) const {
  char room[8], wanted[8];
  std::string value;
  for (uint64_t i = 0; i < records_; i += i < rewritten_ ? 1 : std::max<uint64_t>(1, records_ / kSampled)) {
    const uint64_t id = kShape.id(i);
    fill_value(id, i < rewritten_ ? version_ : kLoadVersion, wanted, sizeof wanted);
    BONSAI_RETURN_IF_ERROR(db->Get(encode_key(kShape, id, room), &value));
    if (value != std::string_view(wanted, sizeof wanted)) {
      return Status::Corruption("record " + std::to_string(i) + " has an older value after recovery");
    }
  }
  return Status::OK();
}

}  // namespace bonsai::bench
