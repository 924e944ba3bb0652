// SPDX-License-Identifier: Apache-2.0
// Requests of one client, one after another, over a network that is slow (modelled latency).
#include "scale/pool_requests.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/clock.h"
#include "base/testing/temp_folder.h"
#include "rdma/shm/shm.h"
#include "scale/testing/serving_node.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kLatencyMs = 300, kHastyMs = 20, kPatientMs = 20'000;

TEST(PoolRequestsTest, ARequestWaitsUntilAnEarlierOneThatWasGivenUpHasLeft) {
  const testing::TempFolder folder = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network({.folder = "", .latency_ns = kLatencyMs * base::kNsPerMs});
  const ServingNode node(&network, folder.path());
  const auto fabric = network.make_fabric();
  std::unique_ptr<rdma::Worker> worker;
  std::unique_ptr<PoolClient> client;
  ASSERT_EQ("OK", fabric->make_worker(&worker).ToString());
  ASSERT_EQ("OK", PoolClient::make(*fabric, named("p"), &client).ToString());
  rdma::Hello own;
  own.node = client->node();
  std::unique_ptr<rdma::Peer> peer;
  ASSERT_EQ("OK", worker->connect("node", own, kPatientMs, &peer).ToString());
  const auto ask = [&](uint64_t limit_ms) {
    return PoolRequests(worker.get(), nullptr, limit_ms, "")
        .ask(client.get(), peer.get(), PoolOp::kStatus, 0, 0, nullptr);
  };
  EXPECT_TRUE(ask(kHastyMs).IsUnavailable());
  const Status hasty = ask(kHastyMs);
  EXPECT_NE(hasty.message().find("an earlier request has not ended yet"), std::string::npos) << hasty.ToString();
  const Status answered = ask(kPatientMs);
  EXPECT_TRUE(answered.IsNotFound()) << answered.ToString();
}

}  // namespace
}  // namespace bonsai::scale
