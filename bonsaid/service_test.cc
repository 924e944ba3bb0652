// SPDX-License-Identifier: Apache-2.0
// A service starts only on a correct fabric. On one that breaks a guarantee it fails, and names the guarantee.
#include "bonsaid/service.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/testing/temp_folder.h"
#include "rdma/shm/shm.h"
#include "rdma/testing/lossy_fabric.h"
#include "scale/fabrics.h"

namespace bonsai::bonsaid {
namespace {

class ServiceTest : public ::testing::Test {
 protected:
  static constexpr rdma::Verb kNoneIsLost = rdma::Verb::kRead;

  ServiceTest() {
    scale::register_fabric("lossy", [this](std::shared_ptr<rdma::Fabric>* fabric) {
      *fabric = rdma::make_lossy(network_.make_fabric(), lost_);
      return Status::OK();
    });
    config_.folder = scratch_.path();
    config_.domain = rdma::RemoteDomain::kAdr;
    config_.litmus_ms = 5;
  }

  Status start() { return Service::start(config_, {"lossy", "node"}, nullptr, nullptr, &service_); }
  // Connects to the service's address: OK if a worker listens there.
  Status connect() {
    const auto fabric = network_.make_fabric();
    std::unique_ptr<rdma::Worker> worker;
    EXPECT_TRUE(fabric->make_worker(&worker).ok());
    std::unique_ptr<rdma::Peer> peer;
    return worker->connect("node", {}, 20, &peer);
  }
  void expect_refused(rdma::Verb lost, const std::string& reason) {
    lost_ = lost;
    const Status status = start();
    EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
    EXPECT_TRUE(status.message().starts_with("lossy://node: ")) << status.ToString();
    EXPECT_NE(status.message().find(reason), std::string_view::npos) << status.ToString();
    EXPECT_EQ(service_, nullptr);
    EXPECT_TRUE(connect().IsUnavailable()) << "nobody is served";
    EXPECT_TRUE(std::filesystem::is_empty(scratch_.path())) << "nothing was made";
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  rdma::Verb lost_ = kNoneIsLost;
  Config config_;
  std::unique_ptr<Service> service_;
};

TEST_F(ServiceTest, RefusesAFabricThatBreaksAPromise) {
  expect_refused(rdma::Verb::kFaa, "FAA is not atomic");
  expect_refused(rdma::Verb::kCas, "CAS is not atomic");
}

TEST_F(ServiceTest, ServesOverASoundOneWhereItRefusedBefore) {
  expect_refused(rdma::Verb::kFaa, "FAA");
  lost_ = kNoneIsLost;
  ASSERT_EQ("OK", start().ToString());
  EXPECT_NE(service_->text().find("lost additions 0"), std::string::npos) << service_->text();
  EXPECT_TRUE(connect().ok());
  EXPECT_TRUE(start().IsBusy()) << "the address is taken";
}

}  // namespace
}  // namespace bonsai::bonsaid
