// SPDX-License-Identifier: Apache-2.0
// Which fabric a scheme names, and where processes of one machine meet.
#include "scale/fabrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/testing/temp_folder.h"
#include "rdma/shm/shm.h"

namespace bonsai::scale {
namespace {

TEST(Fabrics, SchemesAreRegistered) {
  std::shared_ptr<rdma::Fabric> fabric;
  const Status unknown = open_fabric("carrier", &fabric);
  EXPECT_TRUE(unknown.IsNotSupported());
  EXPECT_NE(unknown.message().find("shm://"), std::string::npos) << unknown.ToString();
  rdma::ShmNetwork network;
  register_fabric("carrier", [&](std::shared_ptr<rdma::Fabric>* made) {
    *made = network.make_fabric();
    return Status::OK();
  });
  EXPECT_TRUE(open_fabric("carrier", &fabric).ok());
  EXPECT_NE(fabric, nullptr);
}

TEST(Fabrics, ProcessesOfAUserMeetInAFolderOfHis) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  const std::string chosen = scratch.file("meeting");
  ASSERT_EQ(::setenv("BONSAI_SHM_FOLDER", chosen.c_str(), 1), 0);
  std::string folder;
  ASSERT_EQ("OK", shm_folder(&folder).ToString());
  EXPECT_EQ(folder, chosen);
  EXPECT_EQ(std::filesystem::status(chosen).permissions(), std::filesystem::perms::owner_all);
  std::shared_ptr<rdma::Fabric> fabric;
  EXPECT_EQ("OK", open_fabric("shm", &fabric).ToString());
  std::filesystem::permissions(chosen, std::filesystem::perms::all);
  const Status open_to_all = shm_folder(&folder);
  EXPECT_TRUE(open_to_all.IsIoError()) << open_to_all.ToString();
  EXPECT_NE(open_to_all.message().find("chmod 700"), std::string::npos) << open_to_all.ToString();
  ::unsetenv("BONSAI_SHM_FOLDER");
}

TEST(Fabrics, AProviderSaysWhoCanReachIt) {
  EXPECT_EQ(fabric_reach("shm"), FabricReach::kMachine);
  EXPECT_EQ(fabric_reach("no-such-scheme"), FabricReach::kNetwork) << "the careful answer";
  const auto none = [](std::shared_ptr<rdma::Fabric>*) { return Status::Unavailable("none"); };
  register_fabric("reach-of-test", none);
  EXPECT_EQ(fabric_reach("reach-of-test"), FabricReach::kNetwork);
  register_fabric("reach-of-test", none, FabricReach::kMachine);
  EXPECT_EQ(fabric_reach("reach-of-test"), FabricReach::kMachine);
}

TEST(Fabrics, ShmTakesAModelOnlyFromItsCaller) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  ASSERT_EQ(::setenv("BONSAI_SHM_FOLDER", scratch.file("meeting").c_str(), 1), 0);
  ASSERT_EQ(::setenv("BONSAI_SHM_LATENCY_NS", "5000", 1), 0);
  std::shared_ptr<rdma::Fabric> fabric;
  EXPECT_EQ("OK", open_fabric("shm", &fabric).ToString());
  EXPECT_EQ(fabric->capabilities().text.find("modelled"), std::string::npos) << "an experiment's variable";
  rdma::ShmOptions modelled;
  modelled.latency_ns = 5000;
  EXPECT_EQ("OK", open_shm(modelled, &fabric).ToString());
  EXPECT_NE(fabric->capabilities().text.find("modelled latency 5000 ns"), std::string::npos);
  ::unsetenv("BONSAI_SHM_LATENCY_NS");
  ::unsetenv("BONSAI_SHM_FOLDER");
}

}  // namespace
}  // namespace bonsai::scale
