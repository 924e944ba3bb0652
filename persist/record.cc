#include "persist/record.h"

#include <cstring>

#include "bonsai/options.h"

namespace bonsai::persist {
namespace {

RecordHeader header_of(const Update& update) {
  RecordHeader header{};
  header.value_bytes = static_cast<uint32_t>(update.value.size());
  header.key_bytes = static_cast<uint16_t>(update.key.size());
  header.kind = static_cast<uint8_t>(update.tombstone ? RecordKind::kDel : RecordKind::kPut);
  header.flags = update.large ? kRecordLarge : 0;
  header.token = update.token;
  header.gen = update.gen;
  return header;
}

// Header, key, value, zero padding; without the checksum.
uint64_t put_body(const Update& update, std::byte* out) {
  const RecordHeader header = header_of(update);
  const uint64_t bytes = update.record_bytes();
  std::memset(out + bytes - 8, 0, 8);
  std::memcpy(out, &header, sizeof header);
  std::memcpy(out + sizeof header, update.key.data(), update.key.size());
  if (!update.value.empty()) {
    std::memcpy(out + sizeof header + update.key.size(), update.value.data(), update.value.size());
  }
  return bytes;
}

void seal_crc(std::byte* record, uint64_t bytes, uint32_t seed) {
  const uint32_t crc = base::crc32c(record + sizeof(uint32_t), bytes - sizeof(uint32_t), seed);
  std::memcpy(record, &crc, sizeof crc);
}

bool update_kind(uint8_t kind) {
  return kind == static_cast<uint8_t>(RecordKind::kPut) || kind == static_cast<uint8_t>(RecordKind::kDel);
}

bool known_kind(uint8_t kind) {
  return kind >= static_cast<uint8_t>(RecordKind::kPut) && kind <= static_cast<uint8_t>(RecordKind::kEpoch);
}

// Bounds of one put or delete, header and body within `room`.
bool parse_update(const std::byte* at, uint64_t room, RecordHeader* header, Update* update) {
  if (room < sizeof *header) return false;
  std::memcpy(header, at, sizeof *header);
  if (!update_kind(header->kind) || header->record_bytes() > room) return false;
  if (header->key_bytes < kKeyBytesMin || header->key_bytes > kKeyBytesMax) return false;
  update->tombstone = header->kind == static_cast<uint8_t>(RecordKind::kDel);
  update->large = (header->flags & kRecordLarge) != 0;
  if (update->tombstone && header->value_bytes != 0) return false;
  if (update->large && header->value_bytes != sizeof(LargeRef)) return false;
  const char* body = reinterpret_cast<const char*>(at) + sizeof *header;
  update->key = {body, header->key_bytes};
  update->value = {body + header->key_bytes, header->value_bytes};
  update->gen = header->gen;
  update->token = header->token;
  return true;
}

}  // namespace

uint64_t batch_record_bytes(const std::vector<Update>& updates) {
  uint64_t bytes = sizeof(RecordHeader);
  for (const Update& update : updates) bytes += update.record_bytes();
  return bytes;
}

uint64_t encode_update(const Update& update, uint32_t seed, std::byte* out) {
  const uint64_t bytes = put_body(update, out);
  seal_crc(out, bytes, seed);
  return bytes;
}

uint64_t encode_batch(const std::vector<Update>& updates, uint32_t seed, std::byte* out) {
  uint64_t bytes = sizeof(RecordHeader);
  for (const Update& update : updates) bytes += put_body(update, out + bytes);
  RecordHeader header{};
  header.value_bytes = static_cast<uint32_t>(bytes - sizeof header);
  header.kind = static_cast<uint8_t>(RecordKind::kBatch);
  header.token = static_cast<uint32_t>(updates.size());
  std::memcpy(out, &header, sizeof header);
  seal_crc(out, bytes, seed);
  return bytes;
}

uint64_t encode_epoch(uint64_t epoch, uint32_t seed, std::byte* out) {
  RecordHeader header{};
  header.kind = static_cast<uint8_t>(RecordKind::kEpoch);
  header.gen = epoch;
  std::memcpy(out, &header, sizeof header);
  seal_crc(out, sizeof header, seed);
  return sizeof header;
}

bool RecordView::parse(const std::byte* at, uint64_t room, uint32_t seed) {
  updates.clear();
  if (room < sizeof header) return false;
  std::memcpy(&header, at, sizeof header);
  bytes = header.record_bytes();
  if (bytes > room || !known_kind(header.kind)) return false;
  if (base::crc32c(at + sizeof(uint32_t), bytes - sizeof(uint32_t), seed) != header.crc) return false;
  if (header.kind == static_cast<uint8_t>(RecordKind::kEpoch)) return header.key_bytes == 0 && header.value_bytes == 0;
  if (header.kind != static_cast<uint8_t>(RecordKind::kBatch)) {
    updates.emplace_back();
    return parse_update(at, room, &header, &updates.back());
  }
  if (header.key_bytes != 0) return false;
  for (uint64_t offset = sizeof header; offset < bytes;) {
    RecordHeader part;
    updates.emplace_back();
    if (!parse_update(at + offset, bytes - offset, &part, &updates.back())) return false;
    offset += part.record_bytes();
  }
  return updates.size() == header.token;
}

}  // namespace bonsai::persist
