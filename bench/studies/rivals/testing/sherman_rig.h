// SPDX-License-Identifier: Apache-2.0
// Keys and clients of the tests of the Sherman-like engine.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_SHERMAN_RIG_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_SHERMAN_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/testing/figures.h"
#include "bench/studies/rivals/sherman.h"
#include "bench/studies/rivals/testing/rig.h"

namespace bonsai::bench::rivals::sherman {

// Keys in the order of their numbers.
inline std::string key(uint64_t number) {
  const uint64_t big_endian = __builtin_bswap64(number);
  return {reinterpret_cast<const char*>(&big_endian), sizeof big_endian};
}

inline std::unique_ptr<ShermanClient> client_of(Connection* connection, ComputeNode* node,
                                                const ClientOptions& options = {}) {
  std::unique_ptr<ShermanClient> client;
  EXPECT_EQ("OK", text(ShermanClient::make(connection, node, options, &client)));
  return client;
}

inline void expect_traffic(uint64_t lists, uint64_t messages, uint64_t bytes, const rdma::Traffic& used) {
  EXPECT_EQ(used.round_trips, lists) << used.text();
  EXPECT_EQ(used.messages(), messages) << used.text();
  EXPECT_EQ(used.bytes(), bytes) << used.text();
  bonsai::testing::add_figure("verb_budgets", 1);
}

// A fabric and a form of the pages.
struct Where {
  bool sim;
  Layout::Form form;
};
inline const auto kEverywhere =
    ::testing::Values(Where{true, Layout::Form::kVerified}, Where{false, Layout::Form::kVerified},
                      Where{true, Layout::Form::kPublished}, Where{false, Layout::Form::kPublished});
inline std::string name_of(const ::testing::TestParamInfo<Where>& where) {
  return name_of_fabric({where.param.sim, where.index}) +
         (where.param.form == Layout::Form::kVerified ? "_verified" : "_published");
}

}  // namespace bonsai::bench::rivals::sherman

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_SHERMAN_RIG_H_
