// SPDX-License-Identifier: Apache-2.0
// This project's store as an engine, for experiments that change its options.
#ifndef BONSAI_BENCH_ENGINES_BONSAI_H_
#define BONSAI_BENCH_ENGINES_BONSAI_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/engines/engine.h"
#include "bonsai/db.h"
#include "bonsai/testing.h"

namespace bonsai::bench {

// The options with which a store is opened, including the medium of an experiment.
struct StoreOptions : Options {
  TestOptions test;
};

// Opens a store: a study may have a library of its own.
using OpenStore = std::function<Status(const Options& options, const TestOptions& test, const std::string& path,
                                       std::unique_ptr<DB>* db)>;

struct BonsaiVariant {
  std::function<void(StoreOptions* options)> change = {};  // unless empty, applied to the store's options
  bool sessions = false;                                   // Engine::use_sessions() at first
  bool sampled_scans = false;                              // ScanOptions::verify_checksums is off
  bool drains = true;  // settle() drains; off: the store is as a user leaves it who never calls Drain
  OpenStore open = OpenForTest;
};
std::unique_ptr<Engine> make_bonsai_engine(const BonsaiVariant& variant);

// A pool of a run on the nodes of an EngineOptions::pool_dir.
struct PoolOnNodes {
  std::string path;   // as `bonsai --pool` takes it
  std::string owner;  // PoolInfo::owner
};
// Those that are there: of runs that were killed, and of runs that go on. A node that does not answer has none.
[[nodiscard]] std::vector<PoolOnNodes> pools_on_nodes(const std::string& pool_dir);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_BONSAI_H_
