// SPDX-License-Identifier: Apache-2.0
// The memory of the Clover-like engine: shortcuts and slabs, byte by byte.
//
//   memory node  shortcuts, 8 bytes each, of the keys whose number modulo the nodes it is | slabs
//   link         a version of a key: slab handle 32 bits | its place in the key's chain 16 | its slab's version 8 | 0
//   header       the link to the next version, 0 if there is none, and in its lowest 8 bits the slab's own version
//   slab         header 8 | key bytes 2 | value bytes 2 | CRC-32C 4 | key | value | unused
//   handle       memory node 6 bits | 1 + number of the slab 26 bits
//
// A slab's version changes when the slab is reused, so that old links are noticed. All but the header of
// a slab is written before the slab is linked and never again until then; the CRC is of slab version, sizes, key and
// value.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CLOVER_LAYOUT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CLOVER_LAYOUT_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/crc.h"
#include "bench/studies/rivals/connection.h"
#include "bonsai/status.h"

namespace bonsai::bench::rivals::clover {

inline constexpr size_t kSlabBytesMin = 128, kSlabBytesMax = 32'768;
inline constexpr size_t kMemoryNodesMax = 64, kMetadataWorkersMax = 64;

// A slab as the metadata server gives it out: its handle, and the version that its next content has.
struct Buffer {
  uint32_t handle = 0;
  uint32_t version = 0;
};

class Link {
 public:
  constexpr Link() = default;
  constexpr explicit Link(uint64_t word) : word_(word & ~uint64_t{0xff}) {}
  constexpr Link(Buffer buffer, uint16_t place)
      : word_(uint64_t{buffer.handle} << 32 | uint64_t{place} << 16 | uint64_t{buffer.version & 0xff} << 8) {}

  [[nodiscard]] constexpr uint64_t word() const { return word_; }
  [[nodiscard]] constexpr bool null() const { return handle() == 0; }
  [[nodiscard]] constexpr uint32_t handle() const { return static_cast<uint32_t>(word_ >> 32); }
  [[nodiscard]] constexpr uint16_t place() const { return static_cast<uint16_t>(word_ >> 16); }
  [[nodiscard]] constexpr uint8_t version() const { return static_cast<uint8_t>(word_ >> 8); }
  // Whether it is further down the chain. Requires: less than 2^15 places from it.
  [[nodiscard]] constexpr bool newer_than(Link other) const {
    return static_cast<int16_t>(static_cast<uint16_t>(place() - other.place())) > 0;
  }
  constexpr bool operator==(const Link&) const = default;

 private:
  uint64_t word_ = 0;
};

class Header {
 public:
  constexpr explicit Header(uint64_t word) : word_(word) {}
  constexpr Header(uint8_t version, Link next) : word_(next.word() | version) {}

  [[nodiscard]] constexpr uint64_t word() const { return word_; }
  [[nodiscard]] constexpr uint8_t version() const { return static_cast<uint8_t>(word_); }
  [[nodiscard]] constexpr Link next() const { return Link(word_); }

 private:
  uint64_t word_;
};

struct RecordHead {
  uint16_t key_bytes;
  uint16_t value_bytes;
  uint32_t crc;
};
static_assert(sizeof(RecordHead) == 8);
inline constexpr size_t kRecordAt = sizeof(Header) + sizeof(RecordHead);

// Options that are equal on all nodes of a store.
struct StoreOptions {
  size_t slab_bytes = kSlabBytesMin;  // 128, 256, 512, ... 32,768
  uint64_t keys_max = 1'000;
  size_t memory_nodes = 1;
  size_t node_bytes = size_t{1} << 20;  // of each of them
  size_t metadata_workers = 1;          // threads of the metadata server
};

class Store {
 public:
  explicit Store(const StoreOptions& options) : options_(options) {}

  // Errors: InvalidArgument.
  [[nodiscard]] static Status check(const StoreOptions& options) {
    if (!std::has_single_bit(options.slab_bytes) || options.slab_bytes < kSlabBytesMin ||
        options.slab_bytes > kSlabBytesMax) {
      return Status::InvalidArgument("slabs of " + std::to_string(options.slab_bytes) +
                                     " bytes; a Clover-like store has slabs of 128, 256, 512, ... or 32,768");
    }
    if (options.memory_nodes < 1 || options.memory_nodes > kMemoryNodesMax) {
      return Status::InvalidArgument("a Clover-like store has 1 to 64 memory nodes");
    }
    if (options.metadata_workers < 1 || options.metadata_workers > kMetadataWorkersMax) {
      return Status::InvalidArgument("the metadata server of a Clover-like store has 1 to 64 workers");
    }
    if (options.keys_max == 0 || Store(options).slabs() < options.keys_max) {
      return Status::InvalidArgument("the memory nodes have no room for " + std::to_string(options.keys_max) +
                                     " keys; give them more memory, or choose fewer keys or smaller slabs");
    }
    return Status::OK();
  }

  [[nodiscard]] const StoreOptions& options() const { return options_; }
  [[nodiscard]] uint64_t slabs() const { return options_.memory_nodes * slabs_per_node(); }
  // Slabs are numbered across the memory nodes.
  [[nodiscard]] uint32_t handle_of(uint64_t slab) const {
    return static_cast<uint32_t>(slab % options_.memory_nodes << kNumberBits | (1 + slab / options_.memory_nodes));
  }
  [[nodiscard]] Address slab_at(uint32_t handle) const {
    const uint64_t number = (handle & ((1u << kNumberBits) - 1)) - 1;
    return {static_cast<uint16_t>(handle >> kNumberBits), slabs_at() + number * options_.slab_bytes};
  }
  [[nodiscard]] Address shortcut_at(uint64_t number) const {
    return {static_cast<uint16_t>(number % options_.memory_nodes), number / options_.memory_nodes * sizeof(uint64_t)};
  }

 private:
  static constexpr unsigned kNumberBits = 26;

  [[nodiscard]] size_t slabs_at() const {
    const size_t shortcuts = (options_.keys_max + options_.memory_nodes - 1) / options_.memory_nodes;
    return (shortcuts * sizeof(uint64_t) + kSlabBytesMin - 1) / kSlabBytesMin * kSlabBytesMin;
  }
  [[nodiscard]] uint64_t slabs_per_node() const {
    const uint64_t slabs =
        options_.node_bytes < slabs_at() ? 0 : (options_.node_bytes - slabs_at()) / options_.slab_bytes;
    return std::min<uint64_t>(slabs, (1u << kNumberBits) - 1);
  }

  StoreOptions options_;
};

[[nodiscard]] inline uint32_t record_crc(uint8_t version, RecordHead head, const std::byte* record) {
  head.crc = version;
  return base::crc32c(record, size_t{head.key_bytes} + head.value_bytes, base::crc32c(&head, sizeof head));
}

// Requires: slab_bytes at `slab`, and room in them.
inline void encode_slab(std::byte* slab, size_t slab_bytes, uint8_t version, std::string_view key,
                        std::string_view value) {
  const Header header(version, Link());
  RecordHead head{static_cast<uint16_t>(key.size()), static_cast<uint16_t>(value.size()), 0};
  std::byte* const record = slab + kRecordAt;
  std::memcpy(record, key.data(), key.size());
  std::memcpy(record + key.size(), value.data(), value.size());
  std::memset(record + key.size() + value.size(), 0, slab_bytes - kRecordAt - key.size() - value.size());
  head.crc = record_crc(version, head, record);
  std::memcpy(slab, &header, sizeof header);
  std::memcpy(slab + sizeof header, &head, sizeof head);
}

// The slab's content in that version. False: the bytes are torn, or of another version.
[[nodiscard]] inline bool decode_slab(const std::byte* slab, size_t slab_bytes, uint8_t version, std::string_view* key,
                                      std::string_view* value) {
  RecordHead head;
  std::memcpy(&head, slab + sizeof(Header), sizeof head);
  const std::byte* const record = slab + kRecordAt;
  if (kRecordAt + head.key_bytes + head.value_bytes > slab_bytes) return false;
  if (head.crc != record_crc(version, head, record)) return false;
  *key = {reinterpret_cast<const char*>(record), head.key_bytes};
  *value = {key->data() + head.key_bytes, head.value_bytes};
  return true;
}

}  // namespace bonsai::bench::rivals::clover

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CLOVER_LAYOUT_H_
