// Log records: encoding into a buffer, and reading them back from a segment of possibly damaged bytes.
#ifndef BONSAI_PERSIST_RECORD_H_
#define BONSAI_PERSIST_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "persist/format.h"

namespace bonsai::persist {

// One update as the log and the dnodes see it. Views belong to the caller.
struct Update {
  std::string_view key;
  std::string_view value;  // a LargeRef's bytes if `large`; empty if `tombstone`
  uint64_t gen = 0;
  uint32_t token = 0;
  bool tombstone = false;
  bool large = false;

  [[nodiscard]] uint64_t record_bytes() const { return round_up(sizeof(RecordHeader) + key.size() + value.size(), 8); }
};

// The seed of a record's checksum: a record is valid only in the segment, opening and place that it was written for.
inline uint32_t record_seed(uint64_t segment_sequence, uint64_t offset) {
  return static_cast<uint32_t>(mix64(segment_sequence * 0x9e3779b97f4a7c15 + offset));
}

// Bytes that a batch record of these updates takes.
uint64_t batch_record_bytes(const std::vector<Update>& updates);

// Encode one record into `out`, which has room for the record; returns its bytes (a multiple of 8, padding zeroed).
uint64_t encode_update(const Update& update, uint32_t seed, std::byte* out);
uint64_t encode_batch(const std::vector<Update>& updates, uint32_t seed, std::byte* out);
uint64_t encode_epoch(uint64_t epoch, uint32_t seed, std::byte* out);
inline constexpr uint64_t kEpochRecordBytes = sizeof(RecordHeader);

// A record read back; views point into the segment.
struct RecordView {
  RecordHeader header;
  uint64_t bytes = 0;
  std::vector<Update> updates;  // of kPut, kDel, kBatch

  // Reads the record at `at` with `room` bytes behind it. False unless the checksum and all bounds hold;
  // safe on arbitrary bytes.
  [[nodiscard]] bool parse(const std::byte* at, uint64_t room, uint32_t seed);
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RECORD_H_
