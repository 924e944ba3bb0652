// SPDX-License-Identifier: Apache-2.0
// libcuckoo::cuckoohash_map: cuckoo hashing under striped locks. Any number of threads, volatile. There are as many
// stripes as buckets, up to 65,536, a constant of the library. Needs: header libcuckoo/cuckoohash_map.hh
#include <libcuckoo/cuckoohash_map.hh>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {

// The number of records per bucket is part of the map's type.
template <class Key, class Value>
class CuckooTable {
 public:
  explicit CuckooTable(const TableSetting& setting) {
    switch (setting.tuning.bucket_records) {
      case 2:
        make(setting, &of_two_);
        break;
      case 8:
        make(setting, &of_eight_);
        break;
      default:
        make(setting, &of_four_);
    }
  }
  Status put(const Key& key, const Value& value) {
    with_map([&](auto& map) { return map.insert_or_assign(key, value); });
    return Status::OK();
  }
  bool get(const Key& key, std::string* value) {
    return with_map(
        [&](auto& map) { return map.find_fn(key, [value](const Value& found) { *value = bytes_of(found); }); });
  }
  void erase(const Key& key) {
    with_map([&](auto& map) { return map.erase(key); });
  }

 private:
  template <size_t kBucketRecords>
  using Map = libcuckoo::cuckoohash_map<Key, Value, ChosenHash<Key>, std::equal_to<Key>, CountedPairs<Key, Value>,
                                        kBucketRecords>;

  template <class MapOfThis>
  static void make(const TableSetting& setting, std::unique_ptr<MapOfThis>* map) {
    const size_t records = setting.records_ahead != 0 ? setting.records_ahead : libcuckoo::DEFAULT_SIZE;
    *map = std::make_unique<MapOfThis>(records, ChosenHash<Key>{setting.tuning.hash}, std::equal_to<Key>(),
                                       CountedPairs<Key, Value>(setting.account));
  }

  template <class Action>
  auto with_map(const Action& action) {
    if (of_four_) [[likely]]
      return action(*of_four_);
    return of_two_ ? action(*of_two_) : action(*of_eight_);
  }

  // One of them is set.
  std::unique_ptr<Map<2>> of_two_;
  std::unique_ptr<Map<4>> of_four_;
  std::unique_ptr<Map<8>> of_eight_;
};

}  // namespace

const Registered<EngineEntry> kLibcuckooEngines("libcuckoo", []() -> std::vector<EngineEntry> {
  return {{"libcuckoo", "libcuckoo::cuckoohash_map: hash, volatile, any number of threads",
           [] { return std::make_unique<HashEngine<CuckooTable, true>>(); }, EngineGroup::kHash}};
});

}  // namespace bonsai::bench
