// SPDX-License-Identifier: Apache-2.0
// Expectations that the tests of several engines share.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_EXPECTATIONS_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_EXPECTATIONS_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/testing/figures.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/testing/rig.h"
#include "rdma/testing/budget.h"

namespace bonsai::bench::rivals {

// The operation ends with this status, and posts exactly these requests, with one doorbell a round trip.
inline void expect_cost(Connection* connection, const rdma::Cost& cost, const std::function<Status()>& operation,
                        const char* outcome) {
  rdma::Cost whole = cost;
  whole.doorbells = cost.round_trips;
  const rdma::Budget budget(connection->worker(), whole);
  ASSERT_EQ(outcome, text(operation()));
  bonsai::testing::add_figure("verb_budgets", 1);
}

// Checks the records of a scan from key_of(first) on, of up to `limit` records: they are in order, and none of the
// records key_of(first) to key_of(last), which stay while others come and go, is missing unless the scan was full.
template <class Found, class KeyOf>
void expect_those_that_stay(const std::vector<Found>& found, uint64_t first, uint64_t last, size_t limit,
                            const KeyOf& key_of) {
  uint64_t next = first;
  for (size_t at = 0; at < found.size(); ++at) {
    ASSERT_TRUE(at == 0 || found[at - 1].key < found[at].key);
    const bool stays = found[at].value == "stays..!";
    ASSERT_TRUE(!stays || found[at].key == key_of(next));
    next += stays ? 1 : 0;
  }
  ASSERT_TRUE(found.size() == limit || next == last + 1);
}

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_EXPECTATIONS_H_
