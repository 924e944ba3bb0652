// SPDX-License-Identifier: Apache-2.0
#include "persist/record.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/narrow.h"
#include "base/small_copy.h"
#include "bonsai/options.h"

namespace bonsai::persist {
namespace {

inline constexpr uint64_t kCrcBytes = sizeof(uint32_t);

// Requires: room for the bytes.
class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  void byte(uint8_t value) { *at_++ = static_cast<std::byte>(value); }
  void number(uint64_t n) {
    for (; n >= 0x80; n >>= 7) byte(base::low_bits<uint8_t>(n | 0x80));
    byte(base::low_bits<uint8_t>(n));
  }
  void bytes(std::string_view bytes) {
    at_ = reinterpret_cast<std::byte*>(base::copy_small(reinterpret_cast<char*>(at_), bytes));
  }
  void part(const Update& update) {
    const bool key_of_8 = update.key.size() == 8;
    const bool value_of_8 = !update.tombstone && update.value.size() == 8;
    const auto kind = base::checked_narrow<unsigned>(update.tombstone ? RecordKind::kDel : RecordKind::kPut);
    byte(base::low_bits<uint8_t>(kind | (update.large ? kTagLarge : 0U) | (key_of_8 ? kTagKeyOf8 : 0U) |
                                 (value_of_8 ? kTagValueOf8 : 0U)));
    if (!key_of_8) number(update.key.size());
    if (!value_of_8 && !update.tombstone) number(update.value.size());
    number(update.token);
    number(update.gen);
    bytes(update.key);
    bytes(update.value);
  }

 private:
  std::byte* at_;
};

// False from the first step outside on.
class Reader {
 public:
  Reader(const std::byte* begin, uint64_t room) : begin_(begin), at_(begin), end_(begin + room) {}
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] uint64_t done() const { return static_cast<uint64_t>(at_ - begin_); }
  // The bytes that it went outside for; 0: it has not gone.
  [[nodiscard]] uint64_t missed() const { return missed_; }
  bool bytes(uint64_t n, std::string_view* out) {
    if (good_ && n > static_cast<uint64_t>(end_ - at_)) missed_ = base::add_sizes(done(), n), good_ = false;
    if (!good_) return false;
    *out = {reinterpret_cast<const char*>(at_), n};
    at_ += n;
    return true;
  }
  uint8_t byte() {
    std::string_view one;
    return bytes(1, &one) ? base::low_bits<uint8_t>(one[0]) : uint8_t{0};
  }
  uint64_t number() {
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t next = byte();
      n |= uint64_t{next & 0x7fU} << shift;
      if (next >= 0x80) continue;
      if (next == 0 && shift > 0) good_ = false;  // nobody writes a number so
      return n;
    }
    good_ = false;
    return 0;
  }
  // Whether the bytes that are left are the padding of a record.
  [[nodiscard]] bool rest_is_zero(uint64_t n) const {
    return std::all_of(at_, at_ + n, [](std::byte b) { return b == std::byte{0}; });
  }
  // Lengths and all else of a put or delete whose tag was read.
  bool part(uint8_t tag, Update* update) {
    update->tombstone = (tag & kTagKindMask) == base::checked_narrow<uint8_t>(RecordKind::kDel);
    update->large = (tag & kTagLarge) != 0;
    const uint64_t key_bytes = (tag & kTagKeyOf8) != 0 ? 8 : number();
    const uint64_t value_bytes = update->tombstone ? 0 : (tag & kTagValueOf8) != 0 ? 8 : number();
    const uint64_t token = number();
    update->gen = number();
    if (key_bytes < kKeyBytesMin || key_bytes > kKeyBytesMax || token > UINT32_MAX) good_ = false;
    if (update->large && value_bytes != sizeof(LargeRef)) good_ = false;
    update->token = base::low_bits<uint32_t>(token);
    return bytes(key_bytes, &update->key) && bytes(value_bytes, &update->value);
  }

 private:
  const std::byte* begin_;
  const std::byte* at_;
  const std::byte* end_;
  uint64_t missed_ = 0;
  bool good_ = true;
};

bool update_tag(uint8_t tag) {
  const uint8_t kind = tag & kTagKindMask;
  const bool known = (tag & ~(kTagKindMask | kTagLarge | kTagKeyOf8 | kTagValueOf8)) == 0;
  if (kind == base::checked_narrow<uint8_t>(RecordKind::kDel)) return known && (tag & (kTagLarge | kTagValueOf8)) == 0;
  return known && kind == base::checked_narrow<uint8_t>(RecordKind::kPut);
}

bool tag_is(uint8_t tag, RecordKind kind) { return tag == base::checked_narrow<uint8_t>(kind); }

uint64_t batch_payload_bytes(std::span<const Update> updates) {
  uint64_t bytes = 0;
  for (const Update& update : updates) bytes += update.part_bytes();
  return bytes;
}

uint64_t batch_bytes(uint64_t payload_bytes, uint64_t count) {
  return round_up(kCrcBytes + 1 + varint_bytes(payload_bytes) + varint_bytes(count) + payload_bytes, 8);
}

Writer begin(std::byte* record, uint64_t bytes) {
  std::memset(record + bytes - 8, 0, 8);
  return Writer(record + kCrcBytes);
}

uint64_t seal(std::byte* record, uint64_t bytes, uint32_t seed) {
  BONSAI_INVARIANT(bytes >= kRecordBytesMin && bytes % 8 == 0);
  const uint32_t crc = base::crc32c(record + kCrcBytes, bytes - kCrcBytes, seed);
  std::memcpy(record, &crc, sizeof crc);
  return bytes;
}

}  // namespace

uint64_t batch_record_bytes(std::span<const Update> updates) {
  return batch_bytes(batch_payload_bytes(updates), updates.size());
}

uint64_t encode_update(const Update& update, uint32_t seed, std::byte* out) {
  const uint64_t bytes = update.record_bytes();
  begin(out, bytes).part(update);
  return seal(out, bytes, seed);
}

uint64_t encode_batch(std::span<const Update> updates, uint32_t seed, std::byte* out) {
  const uint64_t payload_bytes = batch_payload_bytes(updates);
  const uint64_t bytes = batch_bytes(payload_bytes, updates.size());
  Writer writer = begin(out, bytes);
  writer.byte(base::checked_narrow<uint8_t>(RecordKind::kBatch));
  writer.number(payload_bytes);
  writer.number(updates.size());
  for (const Update& update : updates) writer.part(update);
  return seal(out, bytes, seed);
}

uint64_t share_record_bytes(std::span<const Update> updates, Share share) {
  const uint64_t payload_bytes = batch_payload_bytes(updates);
  return round_up(kCrcBytes + 1 + varint_bytes(payload_bytes) + varint_bytes(updates.size()) +
                      varint_bytes(share.number) + varint_bytes(share.count) + payload_bytes,
                  8);
}

uint64_t encode_share(std::span<const Update> updates, Share share, uint32_t seed, std::byte* out) {
  BONSAI_INVARIANT(share.number < share.count);
  const uint64_t bytes = share_record_bytes(updates, share);
  Writer writer = begin(out, bytes);
  writer.byte(base::checked_narrow<uint8_t>(RecordKind::kShare));
  writer.number(batch_payload_bytes(updates));
  writer.number(updates.size());
  writer.number(share.number);
  writer.number(share.count);
  for (const Update& update : updates) writer.part(update);
  return seal(out, bytes, seed);
}

uint64_t encode_epoch(uint64_t epoch, uint32_t seed, std::byte* out) {
  Writer writer = begin(out, kEpochRecordBytes);
  writer.byte(base::checked_narrow<uint8_t>(RecordKind::kEpoch));
  writer.bytes({reinterpret_cast<const char*>(&epoch), sizeof epoch});
  return seal(out, kEpochRecordBytes, seed);
}

bool RecordView::parse(const std::byte* at, uint64_t room, uint32_t seed) {
  updates.clear();
  bytes = kRecordBytesMin;
  if (room < kRecordBytesMin) return false;
  uint32_t crc;
  std::memcpy(&crc, at, sizeof crc);
  Reader reader(at + kCrcBytes, room - kCrcBytes);
  const uint8_t tag = reader.byte();
  kind = static_cast<RecordKind>(tag & kTagKindMask);
  uint64_t count = 0;
  std::string_view payload;
  const auto fails = [&] {
    if (reader.missed() != 0) bytes = round_up(base::add_sizes(kCrcBytes, reader.missed()), 8);
    return false;
  };
  if (update_tag(tag)) {
    updates.emplace_back();
    if (!reader.part(tag, &updates.back())) return fails();
  } else if (tag_is(tag, RecordKind::kBatch) || tag_is(tag, RecordKind::kShare)) {
    const uint64_t payload_bytes = reader.number();
    count = reader.number();
    if (kind == RecordKind::kShare) share = {reader.number(), reader.number()};
    if (!reader.bytes(payload_bytes, &payload)) return fails();
  } else if (tag_is(tag, RecordKind::kEpoch)) {
    if (!reader.bytes(sizeof epoch, &payload)) return fails();
    std::memcpy(&epoch, payload.data(), sizeof epoch);
  } else {
    return false;
  }
  bytes = round_up(kCrcBytes + reader.done(), 8);
  if (!reader.good() || bytes > room || !reader.rest_is_zero(bytes - kCrcBytes - reader.done()) ||
      base::crc32c(at + kCrcBytes, bytes - kCrcBytes, seed) != crc)
    return false;
  if (kind != RecordKind::kBatch && kind != RecordKind::kShare) return true;
  for (Reader parts(reinterpret_cast<const std::byte*>(payload.data()), payload.size());
       parts.done() < payload.size();) {
    const uint8_t part = parts.byte();
    updates.emplace_back();
    if (!update_tag(part) || !parts.part(part, &updates.back())) return false;
  }
  return updates.size() == count && (kind != RecordKind::kShare || share.number < share.count);
}

}  // namespace bonsai::persist
