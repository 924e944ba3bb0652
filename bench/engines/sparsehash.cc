// Google's sparsehash library: dense_hash_map (open addressing in one array, fast) and sparse_hash_map (groups of 48
// that grow by one, small). One thread, volatile. They mark free and deleted places by keys that must not be stored.
// Needs: header sparsehash/dense_hash_map
#include <sparsehash/dense_hash_map>
#include <sparsehash/sparse_hash_map>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {

// Keys that no workload has: all bits set, and one below; the empty string, and one that does not begin with "user".
template <class Kept>
struct Reserved;
template <>
struct Reserved<uint64_t> {
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr uint64_t kDeleted = UINT64_MAX - 1;
};
template <>
struct Reserved<std::string> {
  static constexpr const char* kFree = "";
  static constexpr const char* kDeleted = "\xff";
};

template <class Map>
class ReservingTable : public TableOf<Map> {
 public:
  using Kept = typename Map::key_type;

  Status put(const Kept& key, const Kept& value) {
    if (is_reserved(key)) {
      return Status::InvalidArgument("this engine keeps two keys for itself, and this is one; leave it out");
    }
    return TableOf<Map>::put(key, value);
  }
  bool get(const Kept& key, std::string* value) { return !is_reserved(key) && TableOf<Map>::get(key, value); }
  void erase(const Kept& key) {
    if (!is_reserved(key)) TableOf<Map>::erase(key);
  }

 private:
  static bool is_reserved(const Kept& key) { return key == Reserved<Kept>::kFree || key == Reserved<Kept>::kDeleted; }
};

template <class Kept>
class DenseTable : public ReservingTable<google::dense_hash_map<Kept, Kept, MixingHash<Kept>>> {
 public:
  DenseTable() {
    this->map_.set_empty_key(Reserved<Kept>::kFree);
    this->map_.set_deleted_key(Reserved<Kept>::kDeleted);
  }
};

template <class Kept>
class SparseTable : public ReservingTable<google::sparse_hash_map<Kept, Kept, MixingHash<Kept>>> {
 public:
  SparseTable() { this->map_.set_deleted_key(Reserved<Kept>::kDeleted); }
};

}  // namespace

std::vector<EngineEntry> engines_of_sparsehash() {
  return {{"dense_hash", "google::dense_hash_map: hash, volatile, one thread",
           [] { return std::make_unique<HashEngine<DenseTable>>(); }, EngineGroup::kHash},
          {"sparse_hash", "google::sparse_hash_map: hash for little memory, volatile, one thread",
           [] { return std::make_unique<HashEngine<SparseTable>>(); }, EngineGroup::kHash}};
}

}  // namespace bonsai::bench
