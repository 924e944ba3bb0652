// SPDX-License-Identifier: Apache-2.0
// Remote persistence through every provider whose nodes may have threads: the agent serves on its own thread
// (rdma/testing/suite.h). remote_persist_test.cc checks on sim which bytes survive a power cut.
#include <gtest/gtest.h>

#include <string>

#include "base/testing/figures.h"
#include "rdma/remote_persist.h"
#include "rdma/testing/strategy_fabric.h"
#include "rdma/testing/suite.h"

namespace bonsai::rdma {
namespace {

class FabricPersistTest : public FabricSuite {};

TEST_P(FabricPersistTest, OneRoundTripByAgentAndByRead) {
  std::string address;
  there_.read_ok("agent", "", &address);
  StrategyFabric fabric(*here_.fabric, /*remote_flush=*/false);
  uint64_t asked = 0;
  for (const RemoteDomain domain : {RemoteDomain::kAdr, RemoteDomain::kAdrDirect}) {
    std::unique_ptr<RemotePersist> persist;
    ASSERT_EQ("OK",
              status_text(RemotePersist::make(&fabric, here_.worker.get(), here_.connect(address), domain, &persist)));
    const bool by_agent = persist->strategy() == PersistStrategy::kFlushAgent;
    EXPECT_EQ(by_agent, domain == RemoteDomain::kAdr);
    for (int round = 0; round < 40; ++round) {  // more rounds than slots, buffers and answers in flight
      const std::string text = "record " + std::to_string(round) + (by_agent ? " by agent" : " by read ");
      const RemotePersist::Write writes[] = {{here_.put(0, text), there_.region.at(128)},
                                             {here_.put(64, text), there_.region.at(1024)}};
      {
        const Budget budget(
            *here_.worker,
            {.round_trips = 1, .doorbells = 1, .messages = 3, .bytes = 2 * text.size() + (by_agent ? 64 : 1)});
        ASSERT_EQ("OK", status_text(persist->persist(writes, kTestLimitMs))) << round;
      }
      asked += by_agent ? 2 * text.size() : 0;
      if (round % 13 == 0) {
        EXPECT_EQ(there_.text(128, text.size()), text);
      }
    }
    testing::add_figure("verb_budgets", 1);
    uint64_t flushed = 0;
    there_.read_ok("flushed", "", &flushed);
    EXPECT_EQ(flushed, asked);
  }
}

TEST_P(FabricPersistTest, AnUndeclaredDomainStartsNothing) {
  const auto before = here_.worker->traffic();
  std::unique_ptr<RemotePersist> persist;
  EXPECT_TRUE(RemotePersist::make(here_.fabric.get(), here_.worker.get(), here_.connect(there_.address),
                                  RemoteDomain::kUnknown, &persist)
                  .IsInvalidArgument());
  EXPECT_EQ(persist, nullptr);
  EXPECT_EQ(here_.worker->traffic(), before);
}

INSTANTIATE_TEST_SUITE_P(, FabricPersistTest, ::testing::ValuesIn(threaded_settings()), setting_name);

}  // namespace
}  // namespace bonsai::rdma
