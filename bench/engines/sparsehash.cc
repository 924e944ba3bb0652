// SPDX-License-Identifier: Apache-2.0
// Google's sparsehash library: dense_hash_map (open addressing in one array, fast) and sparse_hash_map (groups of 48
// that grow by one, small). One thread, volatile. They mark free and deleted places by keys that must not be stored.
// Needs: header sparsehash/dense_hash_map
#include <sparsehash/dense_hash_map>
#include <sparsehash/sparse_hash_map>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {

// Keys that no workload has: all bits set, and one below; no bytes, and some that do not begin with "user".
template <class Key>
Key free_key() {
  if constexpr (std::is_same_v<Key, uint64_t>) return UINT64_MAX;
  return Key();
}
template <class Key>
Key deleted_key() {
  if constexpr (std::is_same_v<Key, uint64_t>) return UINT64_MAX - 1;
  return kept_of<Key>("\xff");
}

template <class Map>
class ReservingTable : public TableOf<Map> {
 public:
  using typename TableOf<Map>::Key;
  using typename TableOf<Map>::Value;

  explicit ReservingTable(const TableSetting& setting) : TableOf<Map>(setting) { this->map_.set_deleted_key(deleted_); }
  Status put(const Key& key, const Value& value) {
    if (is_reserved(key)) {
      return Status::InvalidArgument("this engine keeps two keys for itself, and this is one; leave it out");
    }
    return TableOf<Map>::put(key, value);
  }
  bool get(const Key& key, std::string* value) { return !is_reserved(key) && TableOf<Map>::get(key, value); }
  void erase(const Key& key) {
    if (!is_reserved(key)) TableOf<Map>::erase(key);
  }

 protected:
  const Key free_ = free_key<Key>();

 private:
  bool is_reserved(const Key& key) const { return key == free_ || key == deleted_; }

  const Key deleted_ = deleted_key<Key>();
};

template <template <class...> class Map, class Key, class Value>
using Reserving = ReservingTable<Map<Key, Value, ChosenHash<Key>, std::equal_to<Key>, CountedPairs<Key, Value>>>;

template <class Key, class Value>
class DenseTable : public Reserving<google::dense_hash_map, Key, Value> {
 public:
  explicit DenseTable(const TableSetting& setting) : Reserving<google::dense_hash_map, Key, Value>(setting) {
    this->map_.set_empty_key(this->free_);
  }
};

template <class Key, class Value>
class SparseTable : public Reserving<google::sparse_hash_map, Key, Value> {
 public:
  using Reserving<google::sparse_hash_map, Key, Value>::Reserving;
};

}  // namespace

const Registered<EngineEntry> kSparsehashEngines("sparsehash", []() -> std::vector<EngineEntry> {
  return {{"dense_hash", "google::dense_hash_map: hash, volatile, one thread",
           [] { return std::make_unique<HashEngine<DenseTable>>(); }, EngineGroup::kHash},
          {"sparse_hash", "google::sparse_hash_map: hash for little memory, volatile, one thread",
           [] { return std::make_unique<HashEngine<SparseTable>>(); }, EngineGroup::kHash}};
});

}  // namespace bonsai::bench
