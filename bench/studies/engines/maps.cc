// SPDX-License-Identifier: Apache-2.0
// The ordered concurrent maps of bench/studies/maps, KiWi's rivals, as engines. Volatile; records of 8 + 8 bytes, as in
// KiWi's paper.
#include <cstring>
#include <memory>
#include <vector>

#include "bench/engines/engine.h"
#include "bench/studies/maps/ctrie.h"
#include "bench/studies/maps/kary_tree.h"
#include "bench/studies/maps/kiwi.h"
#include "bench/studies/maps/skip_list.h"
#include "bench/studies/maps/snap_tree.h"

namespace bonsai::bench {
namespace {

// The key as an integer of the same order.
uint64_t number_of(std::string_view key) {
  uint64_t big_endian;
  std::memcpy(&big_endian, key.data(), sizeof big_endian);
  return __builtin_bswap64(big_endian);
}

uint64_t word_of(std::string_view value) {
  uint64_t word;
  std::memcpy(&word, value.data(), sizeof word);
  return word;
}

template <class MapOfThis>
class MapEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override {
    return {.threads = true, .scan = true, .words_only = true};
  }
  Status open(const EngineOptions& options) override {
    if (options.shape.key_form != KeyForm::kFixed8 || options.shape.value_bytes != 8) {
      return Status::NotSupported("this map takes keys and values of 8 bytes only; leave out --key and --value-bytes");
    }
    map_ = std::make_unique<MapOfThis>();
    return Status::OK();
  }
  Status close() override {
    map_.reset();
    return Status::OK();
  }
  Status insert(std::string_view key, std::string_view value) override {
    map_->put(number_of(key), word_of(value));
    return Status::OK();
  }
  Status read(std::string_view key, std::string* value) override {
    uint64_t word;
    if (!map_->get(number_of(key), &word)) return Status::NotFound();
    value->assign(reinterpret_cast<const char*>(&word), sizeof word);
    return Status::OK();
  }
  Status remove(std::string_view key) override {
    map_->remove(number_of(key));
    return Status::OK();
  }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    bool goes_on = true;
    return scan_rows(from, limit, [&](const Rows& rows) {
      for (size_t i = 0; i < rows.count && goes_on; ++i) goes_on = visit(rows.key(i), rows.value(i));
      return goes_on;
    });
  }
  Status scan_rows(std::string_view from, uint32_t limit, const RowsVisit& visit) override {
    static thread_local std::vector<maps::Record> records;
    map_->scan(number_of(from), UINT64_MAX, limit, &records);
    if (records.empty()) return Status::OK();
    for (maps::Record& record : records) record.key = __builtin_bswap64(record.key);
    Rows rows;
    rows.keys = reinterpret_cast<const char*>(&records[0].key);
    rows.values = reinterpret_cast<const char*>(&records[0].value);
    rows.count = records.size();
    rows.stride_bytes = sizeof(maps::Record);
    rows.key_bytes = sizeof(maps::Record::key);
    rows.value_bytes = sizeof(maps::Record::value);
    static_cast<void>(visit(rows));
    return Status::OK();
  }
  [[nodiscard]] MemoryUse memory() const override {
    return {.dram_bytes = map_ ? map_->bytes() : 0, .nvm_bytes = std::nullopt};
  }

 private:
  std::unique_ptr<MapOfThis> map_;  // set while open
};

template <class MapOfThis>
EngineEntry entry(std::string_view name, std::string_view what) {
  return {name, what, [] { return std::make_unique<MapEngine<MapOfThis>>(); }, EngineGroup::kOrdered};
}

}  // namespace

const Registered<EngineEntry> kMapsEngines("maps", []() -> std::vector<EngineEntry> {
  return {entry<maps::Kiwi>("kiwi_like", "KiWi's algorithm in C++: volatile, atomic scans, records of 8 + 8 bytes"),
          entry<maps::KaryTree>("kary_tree_like",
                                "lock-free k-ary tree, k = 64: volatile, scans restart, records of 8 + 8 bytes"),
          entry<maps::SkipListMap>("skiplist_like",
                                   "lock-free skip list as Java's: volatile, scans not atomic, records of 8 + 8 bytes"),
          entry<maps::SnapTree>("snaptree_like",
                                "AVL tree cloned by copying on write: volatile, atomic scans, records of 8 + 8 bytes"),
          entry<maps::Ctrie>("ctrie_like",
                             "hash trie with snapshots: volatile, each scan visits all of it, records of 8 + 8 bytes")};
});

}  // namespace bonsai::bench
