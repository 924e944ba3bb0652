// SPDX-License-Identifier: Apache-2.0
// Log records: encoding into a buffer, and reading them back from a segment of possibly damaged bytes.
#ifndef BONSAI_PERSIST_RECORD_H_
#define BONSAI_PERSIST_RECORD_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/narrow.h"
#include "persist/format.h"

namespace bonsai::persist {

// Bytes of `n` as LEB128: a seventh of its bits, rounded up. 9/64 is near enough to a seventh for 64 bits. Each put
// calls this four times, so a division would be noticeable.
constexpr uint64_t varint_bytes(uint64_t n) { return (9 * static_cast<uint64_t>(std::bit_width(n | 1)) + 64) / 64; }

// One update, as stored in the log and in dnodes. Views belong to the caller.
struct Update {
  std::string_view key;
  std::string_view value;  // a LargeRef's bytes if `large`; empty if `tombstone`
  uint64_t gen = 0;
  uint32_t token = 0;
  bool tombstone = false;
  bool large = false;

  // Bytes of the update inside a record, and as a record of its own.
  [[nodiscard]] uint64_t part_bytes() const {
    const uint64_t key_length = key.size() == 8 ? 0 : varint_bytes(key.size());
    const uint64_t value_length = tombstone || value.size() == 8 ? 0 : varint_bytes(value.size());
    return 1 + key_length + value_length + varint_bytes(token) + varint_bytes(gen) + key.size() + value.size();
  }
  [[nodiscard]] uint64_t record_bytes() const { return round_up(sizeof(uint32_t) + part_bytes(), 8); }
};

// Upper bounds of the overhead of an update beyond its key and value, and of a batch beyond its updates.
inline constexpr uint64_t kUpdateOverheadBytesMax = 32;
inline constexpr uint64_t kBatchOverheadBytesMax = 32;

// The seed of a record's checksum: a record is valid only in the pool, segment, opening and place that it was written
// for. No two of 2^32 openings give one place the same seed, nor one record the same checksum there: bytes left by an
// earlier opening are never accepted as a record of this one. `segment_seed`: place_seed() of the segment.
inline uint32_t record_seed(uint64_t segment_seed, uint64_t sequence, uint64_t offset) {
  return base::low_bits<uint32_t>(mix64(segment_seed + offset)) + base::low_bits<uint32_t>(sequence);
}

// Bytes that one record of all these updates takes.
uint64_t batch_record_bytes(std::span<const Update> updates);

// Encode one record into `out`, which has room for the record; returns its bytes (a multiple of 8, padding zeroed).
uint64_t encode_update(const Update& update, uint32_t seed, std::byte* out);
uint64_t encode_batch(std::span<const Update> updates, uint32_t seed, std::byte* out);
// One share of a batch that is cut. A share takes no more than a batch of its updates and kBatchOverheadBytesMax.
struct Share {
  uint64_t number = 0, count = 0;
};
uint64_t share_record_bytes(std::span<const Update> updates, Share share);
uint64_t encode_share(std::span<const Update> updates, Share share, uint32_t seed, std::byte* out);
uint64_t encode_epoch(uint64_t epoch, uint32_t seed, std::byte* out);

// A record read back; views point into the segment.
struct RecordView {
  RecordKind kind = RecordKind::kPut;
  uint64_t bytes = 0;
  uint64_t epoch = 0;           // of kEpoch
  Share share;                  // of kShare
  std::vector<Update> updates;  // of the other kinds

  // Reads the record at `at` with `room` bytes to the end. False unless the checksum and all bounds hold;
  // safe on arbitrary bytes. If it is false and `bytes` is above `room`, a record of at least `bytes` may begin there.
  [[nodiscard]] bool parse(const std::byte* at, uint64_t room, uint32_t seed);
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RECORD_H_
