// SPDX-License-Identifier: Apache-2.0
// The memory of the RACE-like engine: directory, sub-tables and blocks, byte by byte.
//
//   node 0     directory 2,064 bytes: global depth 8 | 256 entries of 8 | global lock 8
//              entry: lock 8 bits | local depth 8 bits | sub-table 48 bits
//   sub-table  groups of 192 bytes: main bucket | overflow bucket | main bucket. A main bucket and the overflow bucket
//              beside it are one combined bucket of 128 contiguous bytes, read in one go
//   bucket     64 bytes: header {local depth 4, suffix 4} | 7 slots
//   slot       8 bytes: fingerprint 8 bits | length in units of 64 bytes 8 bits | block 48 bits; 0 = free
//   block      key bytes 4 | value bytes 4 | key | value | CRC-32C 4, up to a multiple of 64 bytes
//   48 bits    memory node 8 | offset 40
#ifndef BONSAI_BENCH_STUDIES_RIVALS_RACE_LAYOUT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_RACE_LAYOUT_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/crc.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/hash.h"

namespace bonsai::bench::rivals::race {

inline constexpr size_t kUnitBytes = 64;
inline constexpr size_t kSubTablesMax = 256;
inline constexpr size_t kBucketBytes = 64;
inline constexpr size_t kSlotsPerBucket = 7;
inline constexpr size_t kGroupBytes = 3 * kBucketBytes;
inline constexpr size_t kSlotsPerGroup = 3 * kSlotsPerBucket;
inline constexpr size_t kCombinedBytes = 2 * kBucketBytes;

struct Bucket {
  uint32_t local_depth;
  uint32_t suffix;
  std::array<uint64_t, kSlotsPerBucket> slots;
};
static_assert(sizeof(Bucket) == kBucketBytes);
using Combined = std::array<Bucket, 2>;

struct Directory {
  uint64_t global_depth;
  std::array<uint64_t, kSubTablesMax> entries;
  uint64_t global_lock;
};
static_assert(sizeof(Directory) == 2064);

[[nodiscard]] inline uint64_t packed(Address address) { return uint64_t{address.node} << 40 | address.offset; }
[[nodiscard]] inline Address address_in(uint64_t word) {
  return {static_cast<uint16_t>(word >> 40 & 0xff), word & ((uint64_t{1} << 40) - 1)};
}

struct Entry {
  [[nodiscard]] static uint64_t of(uint8_t local_depth, Address sub_table) {
    return uint64_t{local_depth} << 48 | packed(sub_table);
  }
  [[nodiscard]] static uint32_t local_depth(uint64_t entry) { return static_cast<uint32_t>(entry >> 48 & 0xff); }
};

struct Slot {
  [[nodiscard]] static uint64_t of(uint8_t fingerprint, size_t units, Address block) {
    return uint64_t{fingerprint} << 56 | uint64_t{units} << 48 | packed(block);
  }
  [[nodiscard]] static uint8_t fingerprint(uint64_t slot) { return static_cast<uint8_t>(slot >> 56); }
  [[nodiscard]] static size_t units(uint64_t slot) { return slot >> 48 & 0xff; }
};

struct BlockHead {
  uint32_t key_bytes;
  uint32_t value_bytes;
};
static_assert(sizeof(BlockHead) == 8);

[[nodiscard]] inline size_t units_of(std::string_view key, std::string_view value) {
  return (sizeof(BlockHead) + key.size() + value.size() + sizeof(uint32_t) + kUnitBytes - 1) / kUnitBytes;
}

// Requires: room for units_of(key, value) units.
inline void encode_block(std::byte* to, std::string_view key, std::string_view value) {
  const BlockHead head{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
  std::memcpy(to, &head, sizeof head);
  std::memcpy(to + sizeof head, key.data(), key.size());
  std::memcpy(to + sizeof head + key.size(), value.data(), value.size());
  const size_t bytes = sizeof head + key.size() + value.size();
  const uint32_t crc = base::crc32c(to, bytes);
  std::memcpy(to + bytes, &crc, sizeof crc);
  std::memset(to + bytes + sizeof crc, 0, units_of(key, value) * kUnitBytes - bytes - sizeof crc);
}

// The content of the `units` units at `block`. False: they are torn or of no block.
[[nodiscard]] inline bool decode_block(const std::byte* block, size_t units, bool verify, std::string_view* key,
                                       std::string_view* value) {
  BlockHead head;
  std::memcpy(&head, block, sizeof head);
  const uint64_t bytes = sizeof head + uint64_t{head.key_bytes} + head.value_bytes;
  if (bytes + sizeof(uint32_t) > units * kUnitBytes) return false;
  uint32_t crc = 0;
  std::memcpy(&crc, block + bytes, sizeof crc);
  if (verify && crc != base::crc32c(block, bytes)) return false;
  *key = {reinterpret_cast<const char*>(block) + sizeof head, head.key_bytes};
  *value = {key->data() + head.key_bytes, head.value_bytes};
  return true;
}

// Where a key may be.
struct Place {
  explicit Place(std::string_view key) : first(hash_of(key, 1)), second(hash_of(key, 2)) {}

  [[nodiscard]] uint32_t suffix(uint32_t depth) const {
    return static_cast<uint32_t>(first & ((uint64_t{1} << depth) - 1));
  }
  [[nodiscard]] uint8_t fingerprint() const { return static_cast<uint8_t>(first >> 56); }
  // The combined bucket `which` (0 or 1), as an offset in a sub-table of `groups` groups.
  [[nodiscard]] uint64_t combined_offset(size_t which, uint64_t groups) const {
    const uint64_t main = which == 0 ? (first << 8 >> 16) % (2 * groups) : second % (2 * groups);
    return main / 2 * kGroupBytes + (main % 2) * kBucketBytes;
  }
  // Which half of that combined bucket is the main one.
  [[nodiscard]] size_t main_half(size_t which, uint64_t groups) const {
    return combined_offset(which, groups) % kGroupBytes == 0 ? 0 : 1;
  }

  uint64_t first, second;
};

}  // namespace bonsai::bench::rivals::race

#endif  // BONSAI_BENCH_STUDIES_RIVALS_RACE_LAYOUT_H_
