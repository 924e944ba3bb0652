// SPDX-License-Identifier: Apache-2.0
// The volatile hash maps as engines: no scans. Keys and values are kept in one of three forms: integers of 8 bytes;
// keys of up to 24 bytes with values of 100, in arrays of fixed size as MELT keeps them; all else as strings. All maps
// use the same hash, and what they allocate is counted (counting_allocator.h).
#ifndef BONSAI_BENCH_ENGINES_HASH_H_
#define BONSAI_BENCH_ENGINES_HASH_H_

#include <absl/hash/internal/city.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "bench/engines/counting_allocator.h"
#include "bench/engines/engine.h"

namespace bonsai::bench {

inline constexpr size_t kFixedKeyBytes = 24;  // "user" and twenty digits; shorter keys end in zeros
inline constexpr size_t kFixedValueBytes = 100;

template <size_t kBytes>
struct FixedBytes {
  std::array<char, kBytes> bytes{};
  bool operator==(const FixedBytes&) const = default;
};
using FixedKey = FixedBytes<kFixedKeyBytes>;
using FixedValue = FixedBytes<kFixedValueBytes>;

[[nodiscard]] inline bool has_integer_records(const EngineOptions& options) {
  return options.shape.key_form == KeyForm::kFixed8 && options.shape.value_bytes == 8;
}
[[nodiscard]] inline bool has_fixed_records(const EngineOptions& options) {
  return options.shape.key_bytes_max() <= kFixedKeyBytes && options.shape.value_bytes == kFixedValueBytes;
}

// Converts bytes to the type that a map stores, and back. Strings are counted in the account, if there is one.
template <class Kept>
Kept kept_of(std::string_view bytes, MemoryAccount* account = nullptr) {
  if constexpr (std::is_same_v<Kept, CountedString>) {
    return Kept(bytes, CountingAllocator<char>(account));
  } else {
    Kept kept{};
    std::memcpy(static_cast<void*>(&kept), bytes.data(), std::min(bytes.size(), sizeof kept));
    return kept;
  }
}
inline std::string_view bytes_of(const uint64_t& word) { return {reinterpret_cast<const char*>(&word), 8}; }
inline std::string_view bytes_of(const CountedString& text) { return text; }
template <size_t kBytes>
std::string_view bytes_of(const FixedBytes<kBytes>& fixed) {
  return {fixed.bytes.data(), kBytes};
}

// The hash that was chosen. kDefault is a multiplication for integers, which must be mixed, else std::hash; kCity is
// the copy of CityHash64 in Abseil's package.
template <class Kept>
struct ChosenHash {
  HashKind kind = HashKind::kDefault;

  size_t operator()(const Kept& key) const {
    const std::string_view bytes = bytes_of(key);
    if (kind == HashKind::kCity) return absl::hash_internal::CityHash64(bytes.data(), bytes.size());
    if constexpr (std::is_same_v<Kept, uint64_t>) {
      return (key ^ key >> 32) * 0x9E3779B97F4A7C15u;
    } else {
      return std::hash<std::string_view>()(bytes);
    }
  }
};

// The options with which a table is made.
struct TableSetting {
  MapTuning tuning;
  size_t records_ahead = 0;  // for so many there is to be room; 0 = as the map likes
  MemoryAccount* account = nullptr;
};

// A map in the shape of std::unordered_map as a table for HashEngine.
template <class Map>
class TableOf {
 public:
  using Key = typename Map::key_type;
  using Value = typename Map::mapped_type;

  explicit TableOf(const TableSetting& setting)
      : map_(setting.records_ahead, ChosenHash<Key>{setting.tuning.hash}, std::equal_to<Key>(),
             typename Map::allocator_type(setting.account)) {}

  Status put(const Key& key, const Value& value) {
    map_[key] = value;
    return Status::OK();
  }
  // Whether the key is there; *value is then its value.
  bool get(const Key& key, std::string* value) {
    const auto at = map_.find(key);
    if (at == map_.end()) return false;
    *value = bytes_of(at->second);
    return true;
  }
  void erase(const Key& key) { map_.erase(key); }

 protected:
  Map map_;
};

// Requires of Table<Key, Value>: made of a TableSetting; put, get and erase, as TableOf has them; of any number of
// threads at once if kThreads.
template <template <class, class> class Table, bool kThreads = false>
class HashEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {.threads = kThreads}; }
  Status open(const EngineOptions& options) override {
    account_.use_system_memory(options.map.system_memory);
    const TableSetting setting{options.map, options.map.room_ahead ? options.records_max : 0, &account_};
    if (has_integer_records(options)) {
      numbers_ = std::make_unique<Numbers>(setting);
    } else if (has_fixed_records(options)) {
      fixed_ = std::make_unique<Fixed>(setting);
    } else {
      strings_ = std::make_unique<Strings>(setting);
    }
    return Status::OK();
  }
  Status close() override {
    numbers_.reset();
    fixed_.reset();
    strings_.reset();
    return Status::OK();
  }
  Status insert(std::string_view key, std::string_view value) override {
    if (numbers_) return numbers_->put(kept_of<uint64_t>(key), kept_of<uint64_t>(value));
    if (fixed_) return fixed_->put(kept_of<FixedKey>(key), kept_of<FixedValue>(value));
    return strings_->put(kept_of<CountedString>(key, &account_), kept_of<CountedString>(value, &account_));
  }
  Status read(std::string_view key, std::string* value) override {
    const bool found = numbers_ ? numbers_->get(kept_of<uint64_t>(key), value)
                       : fixed_ ? fixed_->get(kept_of<FixedKey>(key), value)
                                : strings_->get(kept_of<CountedString>(key), value);
    return found ? Status::OK() : Status::NotFound();
  }
  Status remove(std::string_view key) override {
    if (numbers_) {
      numbers_->erase(kept_of<uint64_t>(key));
    } else if (fixed_) {
      fixed_->erase(kept_of<FixedKey>(key));
    } else {
      strings_->erase(kept_of<CountedString>(key));
    }
    return Status::OK();
  }
  [[nodiscard]] MemoryUse memory() const override { return {.dram_bytes = account_.bytes()}; }

 private:
  using Numbers = Table<uint64_t, uint64_t>;
  using Fixed = Table<FixedKey, FixedValue>;
  using Strings = Table<CountedString, CountedString>;

  MemoryAccount account_;  // lives longer than the tables
  // One of them is set while open.
  std::unique_ptr<Numbers> numbers_;
  std::unique_ptr<Fixed> fixed_;
  std::unique_ptr<Strings> strings_;
};

template <class Key, class Value>
using CountedPairs = CountingAllocator<std::pair<const Key, Value>>;

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_HASH_H_
