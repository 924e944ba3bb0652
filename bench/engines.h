// The makers of the engines, one per engine_*.cc.
#ifndef BONSAI_BENCH_ENGINES_H_
#define BONSAI_BENCH_ENGINES_H_

#include <memory>

#include "bench/engine.h"

namespace bonsai::bench {

std::unique_ptr<Engine> make_bonsai_engine();
std::unique_ptr<Engine> make_absl_btree_engine();
std::unique_ptr<Engine> make_dummy_engine();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_H_
