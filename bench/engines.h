// The makers of the engines, one per engine_*.cc.
#ifndef BONSAI_BENCH_ENGINES_H_
#define BONSAI_BENCH_ENGINES_H_

#include <functional>
#include <memory>

#include "bench/engine.h"

namespace bonsai {
struct Options;
}

namespace bonsai::bench {

// A variant of this project's store, for an experiment.
struct BonsaiVariant {
  std::function<void(Options* options)> change = {};  // unless empty, applied to the store's options
  bool sessions = false;                              // Engine::use_sessions() at first
};
std::unique_ptr<Engine> make_bonsai_engine(const BonsaiVariant& variant);
// The same at the level `buffered`, whatever is asked.
std::unique_ptr<Engine> make_bonsai_buffered_engine();
std::unique_ptr<Engine> make_absl_btree_engine();
std::unique_ptr<Engine> make_rocksdb_engine();      // with BONSAI_BENCH_WITH_ROCKSDB
std::unique_ptr<Engine> make_lmdb_engine();         // with BONSAI_BENCH_WITH_LMDB
std::unique_ptr<Engine> make_hopscotch_engine();    // with BONSAI_BENCH_WITH_HOPSCOTCH
std::unique_ptr<Engine> make_libcuckoo_engine();    // with BONSAI_BENCH_WITH_LIBCUCKOO
std::unique_ptr<Engine> make_dense_hash_engine();   // with BONSAI_BENCH_WITH_SPARSEHASH
std::unique_ptr<Engine> make_sparse_hash_engine();  // with BONSAI_BENCH_WITH_SPARSEHASH
std::unique_ptr<Engine> make_unordered_map_engine();
std::unique_ptr<Engine> make_std_map_engine();
std::unique_ptr<Engine> make_dummy_engine();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_H_
