// This project's store as an engine, for experiments that change its options.
#ifndef BONSAI_BENCH_ENGINES_BONSAI_H_
#define BONSAI_BENCH_ENGINES_BONSAI_H_

#include <functional>
#include <memory>

#include "bench/engines/engine.h"

namespace bonsai {
struct Options;
}

namespace bonsai::bench {

struct BonsaiVariant {
  std::function<void(Options* options)> change = {};  // unless empty, applied to the store's options
  bool sessions = false;                              // Engine::use_sessions() at first
  bool sampled_scans = false;                         // ScanOptions::verify_checksums is off
};
std::unique_ptr<Engine> make_bonsai_engine(const BonsaiVariant& variant);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_BONSAI_H_
