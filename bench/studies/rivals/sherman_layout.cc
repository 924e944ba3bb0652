// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/sherman_layout.h"

#include "base/check.h"
#include "base/crc.h"

namespace bonsai::bench::rivals::sherman {

namespace {

// Where the parts of a verified page are.
constexpr size_t kVersionAt = 4, kSiblingAt = 8, kLeftmostAt = 16, kLowestAt = 24;
// ... and those of a published one.
constexpr size_t kFirstVersionAt = 8, kPublishedLeftmostAt = 9, kPublishedSiblingAt = 17, kPublishedLevelAt = 25,
                 kPublishedCountAt = 26, kPublishedLowestAt = 28;

template <class Value>
Value load(const std::byte* from) {
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class Value>
void store(std::byte* to, Value value) {
  std::memcpy(to, &value, sizeof value);
}

Key load_key(const std::byte* from, size_t key_bytes) {
  Key key;
  std::memcpy(key.bytes.data(), from, key_bytes);
  return key;
}
void store_key(std::byte* to, const Key& key, size_t key_bytes) { std::memcpy(to, key.bytes.data(), key_bytes); }

}  // namespace

bool Layout::takes(std::string_view key) const {
  if (key.empty() || key.size() > key_bytes || (key.size() < key_bytes && key_bytes == 8)) return false;
  return (key_bytes == 8 || key.back() != 0) && Key::of(key) != Key::none(key_bytes);
}

std::string Layout::text(const Key& key) const {
  size_t bytes = key_bytes;
  while (key_bytes > 8 && bytes > 1 && key.bytes[bytes - 1] == 0) --bytes;
  return {reinterpret_cast<const char*>(key.bytes.data()), bytes};
}

// Covers the head of a leaf, or all of an inner page.
uint32_t Page::page_crc(const std::byte* head, uint32_t level) const {
  const size_t end = level > 0 ? kPageBytes : layout_.head_bytes();
  const uint64_t place = packed(place_);
  return base::crc32c(head + kVersionAt, end - kVersionAt, base::crc32c(&place, sizeof place));
}

uint32_t Page::record_crc(const std::byte* record, uint32_t version) const {
  const std::array<uint64_t, 2> bound{packed(place_), version};
  return base::crc32c(record, layout_.key_bytes + sizeof(uint64_t), base::crc32c(bound.data(), sizeof bound));
}

uint32_t Page::key_crc(const std::byte* key) const {
  const uint64_t place = ~packed(place_);
  return base::crc32c(key, layout_.key_bytes, base::crc32c(&place, sizeof place));
}

bool Page::read_head_at(const std::byte* at, Head* head) const {
  const size_t key_bytes = layout_.key_bytes, level_at = kLowestAt + 2 * key_bytes;
  head->level = load<uint8_t>(at + level_at);
  if ((head->level > 0 && at != image_) || load<uint32_t>(at) != page_crc(at, head->level)) return false;
  head->version = load<uint32_t>(at + kVersionAt);
  head->count = load<uint16_t>(at + level_at + 2);
  head->sibling = address_in(load<uint64_t>(at + kSiblingAt));
  head->leftmost = address_in(load<uint64_t>(at + kLeftmostAt));
  head->lowest = load_key(at + kLowestAt, key_bytes);
  head->highest = load_key(at + kLowestAt + key_bytes, key_bytes);
  return true;
}

bool Page::read_published_head(Head* head) const {
  const size_t key_bytes = layout_.key_bytes;
  head->level = load<uint8_t>(image_ + kPublishedLevelAt);
  head->version = load<uint8_t>(image_ + kFirstVersionAt);
  if (load<uint8_t>(image_ + last_version_at(head->level)) != head->version) return false;
  head->count = load<uint16_t>(image_ + kPublishedCountAt);
  head->leftmost = address_in(load<uint64_t>(image_ + kPublishedLeftmostAt));
  head->sibling = address_in(load<uint64_t>(image_ + kPublishedSiblingAt));
  head->lowest = load_key(image_ + kPublishedLowestAt, key_bytes);
  head->highest = load_key(image_ + kPublishedLowestAt + key_bytes, key_bytes);
  return head->count <= layout_.records_max(head->level);
}

bool Page::read_head(Head* head) const {
  if (layout_.published()) return read_published_head(head);
  const bool first = read_head_at(image_, head);
  Head other;
  if (!layout_.durable() || (first && head->level > 0)) return first;
  const bool second = read_head_at(image_ + layout_.head_bytes(), &other);
  if (second && (!first || other.version > head->version)) *head = other;
  return first || second;
}

bool Page::read_record(const Head& head, size_t slot, Record* record) const {
  const std::byte* at = image_ + record_at(head.level, slot);
  const size_t key_bytes = layout_.key_bytes;
  bool whole = true;
  if (head.level == 0 && !layout_.published()) {
    whole = load<uint32_t>(at + key_bytes + sizeof(uint64_t)) == record_crc(at, head.version);
  } else if (head.level == 0) {
    whole = *at == at[key_bytes + sizeof(uint64_t) + 1];
    ++at;
  }
  record->key = load_key(at, key_bytes);
  record->word = load<uint64_t>(at + key_bytes);
  return whole;
}

bool Page::read_records(const Head& head, std::vector<Record>* records) const {
  records->resize(head.level == 0 ? layout_.records_max(0) : head.count);
  for (size_t slot = 0; slot < records->size(); ++slot) {
    if (!read_record(head, slot, &(*records)[slot])) return false;
  }
  return true;
}

// A record of the key is enough to answer; that there is none is known only when no record is torn.
bool Page::find(const Head& head, const Key& key, uint64_t* value) const {
  *value = 0;
  bool whole = true;
  const size_t key_at = layout_.published() ? 1 : 0;
  for (size_t slot = 0; slot < layout_.records_max(0); ++slot) {
    Record record{};
    const std::byte* const at = image_ + record_at(0, slot);
    if (std::memcmp(at + key_at, key.bytes.data(), layout_.key_bytes) != 0) continue;
    if (!read_record(head, slot, &record)) return false;
    if (record.word == 0) continue;
    *value = record.word;
    return true;
  }
  Record record{};
  for (size_t slot = 0; slot < layout_.records_max(0); ++slot) whole = read_record(head, slot, &record) && whole;
  return whole;
}

void Page::write_published_head(const Head& head) {
  store(image_ + kFirstVersionAt, static_cast<uint8_t>(head.version));
  store(image_ + last_version_at(head.level), static_cast<uint8_t>(head.version));
  store(image_ + kPublishedLeftmostAt, packed(head.leftmost));
  store(image_ + kPublishedSiblingAt, packed(head.sibling));
  store(image_ + kPublishedLevelAt, static_cast<uint8_t>(head.level));
  store(image_ + kPublishedCountAt, static_cast<uint16_t>(head.count));
  store_key(image_ + kPublishedLowestAt, head.lowest, layout_.key_bytes);
  store_key(image_ + kPublishedLowestAt + layout_.key_bytes, head.highest, layout_.key_bytes);
}

void Page::write_head_at(std::byte* at, const Head& head) {
  const size_t key_bytes = layout_.key_bytes, level_at = kLowestAt + 2 * key_bytes;
  store(at + kVersionAt, head.version);
  store(at + kSiblingAt, packed(head.sibling));
  store(at + kLeftmostAt, packed(head.leftmost));
  store_key(at + kLowestAt, head.lowest, key_bytes);
  store_key(at + kLowestAt + key_bytes, head.highest, key_bytes);
  store(at + level_at, static_cast<uint8_t>(head.level));
  store(at + level_at + 2, static_cast<uint16_t>(head.count));
  store(at, page_crc(at, head.level));
}

void Page::write(const Head& head, const std::vector<Record>& records) {
  BONSAI_CHECK(records.size() <= layout_.records_max(head.level));
  std::memset(image_, 0, kPageBytes);
  Head counted = head;
  counted.count = head.level == 0 ? 0 : records.size();
  for (size_t slot = 0; head.level > 0 && slot < records.size(); ++slot) {
    std::byte* const at = image_ + record_at(head.level, slot);
    store_key(at, records[slot].key, layout_.key_bytes);
    store(at + layout_.key_bytes, records[slot].word);
  }
  if (layout_.published()) {
    write_published_head(counted);
  } else {
    const bool second = layout_.durable() && head.level == 0 && head.version % 2 == 1;
    write_head_at(image_ + (second ? layout_.head_bytes() : 0), counted);
  }
  for (size_t slot = 0; head.level == 0 && slot < layout_.records_max(0); ++slot) {
    write_record(head, slot, slot < records.size() ? records[slot] : Record{});
  }
}

void Page::write_head_over(const Head& before, const Head& after) {
  BONSAI_CHECK(layout_.durable() && after.level == 0 && after.version == before.version + 1);
  Record record{};
  write_head_at(image_ + (after.version % 2 == 1 ? layout_.head_bytes() : 0), after);
  for (size_t slot = 0; slot < layout_.records_max(0); ++slot) {
    BONSAI_CHECK(read_record(before, slot, &record));
    write_record(after, slot, record);
  }
}

bool Page::salvage(const Head& head, size_t slot, Record* record) const {
  const std::byte* const at = image_ + record_at(0, slot);
  static_cast<void>(read_record(head, slot, record));
  const auto check = load<uint32_t>(at + layout_.key_bytes + sizeof(uint64_t) + sizeof(uint32_t));
  return record->word != 0 && check == key_crc(at);
}

size_t Page::write_record(const Head& head, size_t slot, const Record& record) {
  const size_t offset = record_at(0, slot);
  std::byte* at = image_ + offset;
  if (layout_.published()) {
    const auto version = static_cast<uint8_t>((load<uint8_t>(at) + 1) & 0xf);  // four bits, as published
    store(at, version);
    store(at + layout_.record_bytes(0) - 1, version);
    ++at;
  }
  const bool free = layout_.durable() && record.word == 0;
  store_key(at, free ? Key{} : record.key, layout_.key_bytes);
  store(at + layout_.key_bytes, record.word);
  std::byte* const checks = at + layout_.key_bytes + sizeof(uint64_t);
  if (!layout_.published()) store(checks, record_crc(at, head.version));
  if (layout_.durable()) store(checks + sizeof(uint32_t), free ? ~key_crc(at) : key_crc(at));
  return offset;
}

}  // namespace bonsai::bench::rivals::sherman
