// SPDX-License-Identifier: Apache-2.0
// Helpers of tests: assertions on the cost of an operation on the fabric.
#ifndef BONSAI_RDMA_TESTING_BUDGET_H_
#define BONSAI_RDMA_TESTING_BUDGET_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "rdma/fabric.h"

namespace bonsai::rdma {

// The expected cost of an operation.
struct Cost {
  uint64_t round_trips = 0;
  uint64_t doorbells = 0;
  uint64_t messages = 0;
  uint64_t bytes = 0;
};

// Expects that the operations of a worker during this object's life cost exactly `expected`. Fails the test otherwise.
//   { const Budget budget(worker, {.round_trips = 1, .doorbells = 1, .messages = 3, .bytes = 192}); read_stripes(); }
class Budget {
 public:
  Budget(const Worker& worker, Cost cost) : worker_(worker), cost_(cost), before_(worker.traffic()) {}
  ~Budget() {
    const Traffic used = worker_.traffic() - before_;
    EXPECT_EQ(used.round_trips, cost_.round_trips) << used.text();
    EXPECT_EQ(used.doorbells, cost_.doorbells) << used.text();
    EXPECT_EQ(used.messages(), cost_.messages) << used.text();
    EXPECT_EQ(used.bytes(), cost_.bytes) << used.text();
  }
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

 private:
  const Worker& worker_;
  const Cost cost_;
  const Traffic before_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_BUDGET_H_
