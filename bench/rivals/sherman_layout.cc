#include "bench/rivals/sherman_layout.h"

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

uint32_t Page::page_crc(uint32_t level) const {
  const size_t end = level > 0 ? kPageBytes : layout_.head_bytes();
  const uint64_t place = packed(place_);
  return base::crc32c(image_ + kVersionAt, end - kVersionAt, base::crc32c(&place, sizeof place));
}

uint32_t Page::record_crc(const std::byte* record, uint32_t version) const {
  const std::array<uint64_t, 2> bound{packed(place_), version};
  return base::crc32c(record, layout_.key_bytes + sizeof(uint64_t), base::crc32c(bound.data(), sizeof bound));
}

bool Page::read_head(Head* head) const {
  const size_t key_bytes = layout_.key_bytes;
  if (layout_.verified()) {
    const size_t level_at = kLowestAt + 2 * key_bytes;
    head->level = load<uint8_t>(image_ + level_at);
    if (load<uint32_t>(image_) != page_crc(head->level)) return false;
    head->version = load<uint32_t>(image_ + kVersionAt);
    head->count = load<uint16_t>(image_ + level_at + 2);
    head->sibling = address_in(load<uint64_t>(image_ + kSiblingAt));
    head->leftmost = address_in(load<uint64_t>(image_ + kLeftmostAt));
    head->lowest = load_key(image_ + kLowestAt, key_bytes);
    head->highest = load_key(image_ + kLowestAt + key_bytes, key_bytes);
    return true;
  }
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

bool Page::read_record(const Head& head, size_t slot, Record* record) const {
  const std::byte* at = image_ + record_at(head.level, slot);
  const size_t key_bytes = layout_.key_bytes;
  bool whole = true;
  if (head.level == 0 && layout_.verified()) {
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
  const size_t key_at = layout_.verified() ? 0 : 1;
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
  if (layout_.verified()) {
    const size_t level_at = kLowestAt + 2 * layout_.key_bytes;
    store(image_ + kVersionAt, head.version);
    store(image_ + kSiblingAt, packed(head.sibling));
    store(image_ + kLeftmostAt, packed(head.leftmost));
    store_key(image_ + kLowestAt, head.lowest, layout_.key_bytes);
    store_key(image_ + kLowestAt + layout_.key_bytes, head.highest, layout_.key_bytes);
    store(image_ + level_at, static_cast<uint8_t>(head.level));
    store(image_ + level_at + 2, static_cast<uint16_t>(counted.count));
    store(image_, page_crc(head.level));
  } else {
    write_published_head(counted);
  }
  for (size_t slot = 0; head.level == 0 && slot < layout_.records_max(0); ++slot) {
    write_record(head, slot, slot < records.size() ? records[slot] : Record{});
  }
}

size_t Page::write_record(const Head& head, size_t slot, const Record& record) {
  const size_t offset = record_at(0, slot);
  std::byte* at = image_ + offset;
  if (!layout_.verified()) {
    const auto version = static_cast<uint8_t>((load<uint8_t>(at) + 1) & 0xf);  // four bits, as published
    store(at, version);
    store(at + layout_.record_bytes(0) - 1, version);
    ++at;
  }
  store_key(at, record.key, layout_.key_bytes);
  store(at + layout_.key_bytes, record.word);
  if (layout_.verified()) store(at + layout_.key_bytes + sizeof(uint64_t), record_crc(at, head.version));
  return offset;
}

}  // namespace bonsai::bench::rivals::sherman
