#include "bench/engines.h"

namespace bonsai::bench {

const std::vector<EngineEntry>& engine_list() {
  static const std::vector<EngineEntry> kEngines = {
#ifdef BONSAI_BENCH_WITH_STORE
      {"bonsai", "this project's store: ordered, durable, any number of threads",
       [] { return make_bonsai_engine({}); }},
      {"bonsai_buffered", "the same at the level buffered, to stand beside it", make_bonsai_buffered_engine},
#endif
      {"absl_btree", "absl::btree_map: ordered, volatile, one thread; the yardstick", make_absl_btree_engine},
#ifdef BONSAI_BENCH_WITH_ROCKSDB
      {"rocksdb", "RocksDB: ordered, durable by sync, any number of threads", make_rocksdb_engine},
#endif
#ifdef BONSAI_BENCH_WITH_LMDB
      {"lmdb", "LMDB: ordered, durable by sync, one thread", make_lmdb_engine},
#endif
#ifdef BONSAI_BENCH_WITH_LIBCUCKOO
      {"libcuckoo", "libcuckoo::cuckoohash_map: hash, volatile, any number of threads", make_libcuckoo_engine},
#endif
#ifdef BONSAI_BENCH_WITH_SPARSEHASH
      {"dense_hash", "google::dense_hash_map: hash, volatile, one thread", make_dense_hash_engine},
      {"sparse_hash", "google::sparse_hash_map: hash for little memory, volatile, one thread", make_sparse_hash_engine},
#endif
#ifdef BONSAI_BENCH_WITH_HOPSCOTCH
      {"hopscotch", "tsl::hopscotch_map: hash, volatile, one thread", make_hopscotch_engine},
#endif
      {"unordered_map", "std::unordered_map: hash, volatile, one thread", make_unordered_map_engine},
      {"std_map", "std::map under one lock: ordered, volatile, any number of threads; the example",
       make_std_map_engine},
      {"dummy", "stores nothing; shows what the harness itself costs", make_dummy_engine},
  };
  return kEngines;
}

const EngineEntry* find_engine(std::string_view name) {
  for (const EngineEntry& entry : engine_list()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace bonsai::bench
