// SPDX-License-Identifier: Apache-2.0
// Indexes and clients of the tests of the PACTree-like index over paging.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_PACTREE_RIG_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_PACTREE_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/studies/rivals/pactree.h"
#include "bench/studies/rivals/testing/rig.h"

namespace bonsai::bench::rivals::pactree {

inline std::string text(const Status& status) { return status.ToString(); }
// In the order of the numbers.
inline std::string key(uint64_t number) {
  const uint64_t big_endian = __builtin_bswap64(number);
  return {reinterpret_cast<const char*>(&big_endian), sizeof big_endian};
}

// Memory nodes, and the one compute node.
class PactreeRig {
 public:
  PactreeRig(bool sim, uint64_t seed, const PageCache::Options& pages)
      : rig_({.sim = sim,
              .seed = seed,
              .memory_nodes = pages.memory_nodes,
              .bytes = pages.node_bytes,
              .fixed_bytes = pages.node_bytes}) {
    rig_.run_one([&](Connection* connection) {
      EXPECT_EQ("OK", text(ComputeNode::make(&connection->fabric(), pages, &node_)));
    });
  }

  [[nodiscard]] ComputeNode* node() { return node_.get(); }
  void run(const Shape& shape, const std::function<void(const Seat&)>& body) { rig_.run(shape, body); }
  void run_one(const std::function<void(Connection*)>& body) { rig_.run_one(body); }

 private:
  Rig rig_;
  std::unique_ptr<ComputeNode> node_;
};

}  // namespace bonsai::bench::rivals::pactree

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_PACTREE_RIG_H_
