// libcuckoo::cuckoohash_map: cuckoo hashing under striped locks. Any number of threads, volatile.
#include <libcuckoo/cuckoohash_map.hh>

#include "bench/engine_hash.h"
#include "bench/engines.h"

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

std::unique_ptr<Engine> make_libcuckoo_engine() { return std::make_unique<HashEngine<CuckooTable, true>>(); }

}  // namespace bonsai::bench
