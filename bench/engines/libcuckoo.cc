// libcuckoo::cuckoohash_map: cuckoo hashing under striped locks. Any number of threads, volatile.
// Needs: header libcuckoo/cuckoohash_map.hh
#include <libcuckoo/cuckoohash_map.hh>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {

template <class Kept>
class CuckooTable {
 public:
  Status put(const Kept& key, const Kept& value) {
    map_.insert_or_assign(key, value);
    return Status::OK();
  }
  bool get(const Kept& key, std::string* value) {
    return map_.find_fn(key, [value](const Kept& found) { *value = bytes_of(found); });
  }
  void erase(const Kept& key) { map_.erase(key); }

 private:
  libcuckoo::cuckoohash_map<Kept, Kept, MixingHash<Kept>> map_;
};

}  // namespace

std::vector<EngineEntry> engines_of_libcuckoo() {
  return {{"libcuckoo", "libcuckoo::cuckoohash_map: hash, volatile, any number of threads",
           [] { return std::make_unique<HashEngine<CuckooTable, true>>(); }, EngineGroup::kHash}};
}

}  // namespace bonsai::bench
