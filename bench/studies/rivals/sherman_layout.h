// SPDX-License-Identifier: Apache-2.0
// The memory of the Sherman-like engine: root word, lock tables and pages, byte by byte.
//
//   node i      root word 8 (node 0's counts), up to 64 | lock table, 8 per lock | on node 0 the first page
//   root word   level 8 bits | memory node 16 | offset 40
//   page        1,024 bytes, in one of three forms:
//
//   verified    CRC-32C 4 | version 4 | sibling 8 | leftmost child 8 | lowest key | highest key | level 1, 0 1,
//               count 2, up to a multiple of 64 | records
//     leaf      {key, value 8, CRC-32C 4 over both, the page's place and its version}: 48 of keys of 8 bytes; the CRC
//               of the page is over its head
//     inner     {key, child 8}, sorted: 60 of keys of 8 bytes; the CRC of the page is over all of it
//   published   0 8 | version 1 | leftmost child 8 | sibling 8 | level 1 | count 2 | lowest key | highest key |
//               records | version 1
//     leaf      {version 1, key, value 8, version 1}: 54 of keys of 8 bytes; the page's last version stands after all
//     inner     {key, child 8}, sorted: 61 of keys of 8 bytes
//   durable     as verified, but a leaf has two heads, of which the whole one of the higher version counts: version
//               v is written to head v % 2. Its records are {key, value 8, CRC-32C 4 as above, CRC-32C 4 over the key
//               and the page's place}: 37 of keys of 8 bytes
//
// A power cut leaves any words of WRITEs in flight. A durable leaf changes only in ways in which such a mixture loses
// no record: a new value is one word; a free record has a key of zeros, whose CRC is not right; a split leaves every
// record in its slot, and a slot free until the leaf is half empty. Whatever a record's CRC says after a power cut, if
// that of its key is right and its value is not 0, the value is one that was written for this key.
//
// The published form relies on READs and WRITEs that go from the first byte to the last, which no fabric of ours
// promises: it is there for its counts. A verified page that mixes two states never passes for one: its version is one
// higher with each WRITE of the page, and free records have a CRC, too.
//
// A highest key of ff bytes means that there is none; no record has such a key. A record whose value is 0 is free.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_LAYOUT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_LAYOUT_H_

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bench/studies/rivals/connection.h"

namespace bonsai::bench::rivals::sherman {

inline constexpr size_t kPageBytes = 1024;
inline constexpr size_t kKeyBytesMax = 24;
inline constexpr size_t kFirstLockAt = 64;

[[nodiscard]] inline uint64_t packed(Address address) { return uint64_t{address.node} << 40 | address.offset; }
[[nodiscard]] inline Address address_in(uint64_t word) {
  return {static_cast<uint16_t>(word >> 40 & 0xffff), word & ((uint64_t{1} << 40) - 1)};
}

struct Root {
  [[nodiscard]] static uint64_t of(uint32_t level, Address page) { return uint64_t{level} << 56 | packed(page); }
  [[nodiscard]] static uint32_t level(uint64_t word) { return static_cast<uint32_t>(word >> 56); }
};

// A key as it is stored, zeros after it. Ordered by bytes.
struct Key {
  std::array<unsigned char, kKeyBytesMax> bytes{};

  static Key of(std::string_view key) {
    Key made;
    std::memcpy(made.bytes.data(), key.data(), key.size());
    return made;
  }
  static Key none(size_t key_bytes) {
    Key made;
    std::memset(made.bytes.data(), 0xff, key_bytes);
    return made;
  }
  bool operator==(const Key&) const = default;
  std::strong_ordering operator<=>(const Key& other) const {
    return std::memcmp(bytes.data(), other.bytes.data(), kKeyBytesMax) <=> 0;
  }
};

struct Record {
  Key key;
  uint64_t word;  // value of a leaf's record, packed address of an inner page's child
};

struct Layout {
  enum class Form : uint8_t { kVerified, kPublished, kDurable } form = Form::kVerified;
  size_t key_bytes = 8;                // keys have exactly 8, or up to as many as this and no zero at their end
  size_t page_records_max = SIZE_MAX;  // of a page, less than what has room: for high trees of few records

  [[nodiscard]] bool published() const { return form == Form::kPublished; }
  [[nodiscard]] bool durable() const { return form == Form::kDurable; }
  // The size of one head.
  [[nodiscard]] size_t head_bytes() const {
    return published() ? 28 + 2 * key_bytes : (28 + 2 * key_bytes + 63) / 64 * 64;
  }
  [[nodiscard]] size_t records_at() const { return durable() ? 2 * head_bytes() : head_bytes(); }
  [[nodiscard]] size_t record_bytes(uint32_t level) const {
    return key_bytes + 8 + (level > 0 ? 0 : durable() ? 8 : published() ? 2 : 4);
  }
  // The most records of a page.
  [[nodiscard]] size_t records_max(uint32_t level) const {
    return std::min(page_records_max, (kPageBytes - records_at() - (published() ? 1 : 0)) / record_bytes(level));
  }
  // Whether the engine stores such a key.
  [[nodiscard]] bool takes(std::string_view key) const;
  // The key's bytes as they were given.
  [[nodiscard]] std::string text(const Key& key) const;
};

struct Head {
  uint32_t version = 0;
  uint32_t level = 0;     // 0 = leaf
  size_t count = 0;       // records of an inner page
  Address leftmost = {};  // of an inner page: the child of keys below its first record's
  Address sibling = {};   // the page of the keys from `highest` on
  Key lowest = {}, highest = {};
};

// A page's image: a copy of the bytes at `place`.
class Page {
 public:
  Page(const Layout& layout, Address place, std::byte* image) : layout_(layout), place_(place), image_(image) {}

  // False: the image mixes states; for a leaf, the image of its head does.
  [[nodiscard]] bool read_head(Head* head) const;
  // All records, of an inner page in order; of a leaf also the free ones, by slot. False: they mix states.
  [[nodiscard]] bool read_records(const Head& head, std::vector<Record>* records) const;
  // The record at a slot. False: it mixes states.
  [[nodiscard]] bool read_record(const Head& head, size_t slot, Record* record) const;
  // A leaf's value of the key, 0 if it has none. False: it mixes states.
  [[nodiscard]] bool find(const Head& head, const Key& key, uint64_t* value) const;

  // Makes a whole page. Requires: at most records_max records, those of an inner page sorted.
  void write(const Head& head, const std::vector<Record>& records);
  // Gives a durable leaf's image another head, and leaves its records where they are.
  void write_head_over(const Head& before, const Head& after);
  // The record that a power cut left in a slot of a durable leaf whose head was found. False: none.
  [[nodiscard]] bool salvage(const Head& head, size_t slot, Record* record) const;
  // Puts one record into a leaf. Returns where it is in the image, for a WRITE of record_bytes(0).
  size_t write_record(const Head& head, size_t slot, const Record& record);

 private:
  [[nodiscard]] size_t record_at(uint32_t level, size_t slot) const {
    return layout_.records_at() + slot * layout_.record_bytes(level);
  }
  [[nodiscard]] uint32_t page_crc(const std::byte* head, uint32_t level) const;
  [[nodiscard]] bool read_head_at(const std::byte* at, Head* head) const;
  void write_head_at(std::byte* at, const Head& head);
  [[nodiscard]] bool read_published_head(Head* head) const;
  [[nodiscard]] uint32_t key_crc(const std::byte* key) const;
  [[nodiscard]] uint32_t record_crc(const std::byte* record, uint32_t version) const;
  [[nodiscard]] size_t last_version_at(uint32_t level) const { return record_at(level, layout_.records_max(level)); }
  void write_published_head(const Head& head);

  const Layout layout_;
  const Address place_;
  std::byte* const image_;
};

// Whether the page is the one of the key.
[[nodiscard]] inline bool covers(const Head& head, const Key& key) { return key >= head.lowest && key < head.highest; }

}  // namespace bonsai::bench::rivals::sherman

#endif  // BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_LAYOUT_H_
