// SPDX-License-Identifier: Apache-2.0
// oneTBB's concurrent_hash_map: chained hashing under a lock per bucket and per record, growing bucket by bucket. Any
// number of threads, volatile. Needs: package tbb
#include <oneapi/tbb/concurrent_hash_map.h>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {

template <class Key>
struct HashAndEqual {
  ChosenHash<Key> chosen;
  size_t hash(const Key& key) const { return chosen(key); }
  bool equal(const Key& a, const Key& b) const { return a == b; }
};

template <class Key, class Value>
class TbbTable {
 public:
  explicit TbbTable(const TableSetting& setting)
      : map_(setting.records_ahead, HashAndEqual<Key>{{setting.tuning.hash}},
             CountedPairs<Key, Value>(setting.account)) {}

  Status put(const Key& key, const Value& value) {
    typename Map::accessor at;
    map_.insert(at, key);
    at->second = value;
    return Status::OK();
  }
  bool get(const Key& key, std::string* value) {
    typename Map::const_accessor at;
    if (!map_.find(at, key)) return false;
    *value = bytes_of(at->second);
    return true;
  }
  void erase(const Key& key) { map_.erase(key); }

 private:
  using Map = oneapi::tbb::concurrent_hash_map<Key, Value, HashAndEqual<Key>, CountedPairs<Key, Value>>;
  Map map_;
};

}  // namespace

const Registered<EngineEntry> kTbbHashEngines("tbb_hash", []() -> std::vector<EngineEntry> {
  return {{"tbb_hash", "oneTBB's concurrent_hash_map: hash, volatile, any number of threads",
           [] { return std::make_unique<HashEngine<TbbTable, true>>(); }, EngineGroup::kHash}};
});

}  // namespace bonsai::bench
