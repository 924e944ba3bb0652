// SPDX-License-Identifier: Apache-2.0
// absl::btree_map: the yardstick that runs next to every measurement. One thread, volatile.
//
// 8-byte keys and values are integers in the nodes, which is the map at its best; all others are strings.
#include <absl/container/btree_map.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "bench/engines/counting_allocator.h"
#include "bench/engines/engine.h"

namespace bonsai::bench {
namespace {

// Records of 8 + 8 bytes.
struct IntegerRecords {
  using Key = uint64_t;
  using Value = uint64_t;
  using Less = std::less<>;
  static Key key(std::string_view bytes, MemoryAccount*) {
    uint64_t big_endian;
    std::memcpy(&big_endian, bytes.data(), 8);
    return __builtin_bswap64(big_endian);
  }
  static Key look_up(std::string_view bytes) { return key(bytes, nullptr); }
  static Value value(std::string_view bytes, MemoryAccount*) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    return word;
  }
  static std::string_view value_bytes(const Value& value) { return {reinterpret_cast<const char*>(&value), 8}; }
  static std::string_view key_bytes(const Key& key, char* room) {
    const uint64_t big_endian = __builtin_bswap64(key);
    std::memcpy(room, &big_endian, 8);
    return {room, 8};
  }
};

// Records of any bytes.
struct StringRecords {
  using Key = CountedString;
  using Value = Key;
  struct Less {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const { return a < b; }
  };
  static Key key(std::string_view bytes, MemoryAccount* account) {
    return Key(bytes, CountingAllocator<char>(account));
  }
  static std::string_view look_up(std::string_view bytes) { return bytes; }
  static Value value(std::string_view bytes, MemoryAccount* account) { return key(bytes, account); }
  static std::string_view value_bytes(const Value& value) { return value; }
  static std::string_view key_bytes(const Key& key, char*) { return key; }
};

template <class Records>
class BtreeOf final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {.scan = true}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override {
    map_.clear();
    return Status::OK();
  }
  Status insert(std::string_view key, std::string_view value) override {
    map_.insert_or_assign(Records::key(key, &account_), Records::value(value, &account_));
    return Status::OK();
  }
  Status update(std::string_view key, std::string_view value) override {
    const auto at = map_.find(Records::look_up(key));
    if (at == map_.end()) return Status::NotFound();
    assign(value, &at->second);
    return Status::OK();
  }
  Status read(std::string_view key, std::string* value) override {
    const auto at = map_.find(Records::look_up(key));
    if (at == map_.end()) return Status::NotFound();
    *value = Records::value_bytes(at->second);
    return Status::OK();
  }
  Status read_modify_write(std::string_view key, std::string_view value, std::string* old) override {
    const auto at = map_.find(Records::look_up(key));
    if (at == map_.end()) return Status::NotFound();
    *old = Records::value_bytes(at->second);
    assign(value, &at->second);
    return Status::OK();
  }
  Status remove(std::string_view key) override {
    const auto at = map_.find(Records::look_up(key));
    if (at != map_.end()) map_.erase(at);
    return Status::OK();
  }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    char room[8];
    auto at = map_.lower_bound(Records::look_up(from));
    for (uint32_t n = 0; n < limit && at != map_.end(); ++n, ++at) {
      if (!visit(Records::key_bytes(at->first, room), Records::value_bytes(at->second))) break;
    }
    return Status::OK();
  }
  [[nodiscard]] MemoryUse memory() const override {
    return {.dram_bytes = account_.bytes(), .nvm_bytes = std::nullopt};
  }

 private:
  using Pair = std::pair<const typename Records::Key, typename Records::Value>;

  void assign(std::string_view bytes, typename Records::Value* value) {
    if constexpr (std::is_same_v<Records, IntegerRecords>) {
      *value = Records::value(bytes, &account_);
    } else {
      value->assign(bytes);
    }
  }

  MemoryAccount account_;
  absl::btree_map<typename Records::Key, typename Records::Value, typename Records::Less, CountingAllocator<Pair>> map_{
      typename Records::Less(), CountingAllocator<Pair>(&account_)};
};

// Picks the map by the shape of the records.
class AbslBtreeEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {.scan = true}; }
  Status open(const EngineOptions& options) override {
    if (options.shape.key_form == KeyForm::kFixed8 && options.shape.value_bytes == 8) {
      map_ = std::make_unique<BtreeOf<IntegerRecords>>();
    } else {
      map_ = std::make_unique<BtreeOf<StringRecords>>();
    }
    return map_->open(options);
  }
  Status close() override {
    map_.reset();
    return Status::OK();
  }
  Status insert(std::string_view key, std::string_view value) override { return map_->insert(key, value); }
  Status update(std::string_view key, std::string_view value) override { return map_->update(key, value); }
  Status read(std::string_view key, std::string* value) override { return map_->read(key, value); }
  Status read_modify_write(std::string_view key, std::string_view value, std::string* old) override {
    return map_->read_modify_write(key, value, old);
  }
  Status remove(std::string_view key) override { return map_->remove(key); }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    return map_->scan(from, limit, visit);
  }
  [[nodiscard]] MemoryUse memory() const override { return map_->memory(); }

 private:
  std::unique_ptr<Engine> map_;  // set while open
};

}  // namespace

const Registered<EngineEntry> kAbslBtreeEngines("absl_btree", []() -> std::vector<EngineEntry> {
  return {{"absl_btree", "absl::btree_map: ordered, volatile, one thread; the yardstick",
           [] { return std::make_unique<AbslBtreeEngine>(); }, EngineGroup::kYardstick}};
});

}  // namespace bonsai::bench
