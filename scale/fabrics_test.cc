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

TEST(Fabrics, ANetworkMayBeModelledAndSaysSo) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  ASSERT_EQ(::setenv("BONSAI_SHM_FOLDER", scratch.file("meeting").c_str(), 1), 0);
  std::shared_ptr<rdma::Fabric> fabric;
  const auto opened_with = [&](const char* latency) {
    ::setenv("BONSAI_SHM_LATENCY_NS", latency, 1);
    const Status status = open_fabric("shm", &fabric);
    ::unsetenv("BONSAI_SHM_LATENCY_NS");
    return status;
  };
  ASSERT_EQ("OK", opened_with("5000").ToString());
  EXPECT_NE(fabric->capabilities().text.find("modelled latency 5000 ns"), std::string::npos);
  ASSERT_EQ("OK", opened_with("").ToString());
  EXPECT_EQ(fabric->capabilities().text.find("modelled"), std::string::npos);
  for (const char* wrong : {"5 us", "-1", "5000000000"}) {
    const Status status = opened_with(wrong);
    EXPECT_TRUE(status.IsInvalidArgument()) << wrong;
    EXPECT_NE(status.message().find("BONSAI_SHM_LATENCY_NS"), std::string::npos) << status.ToString();
  }
  ::unsetenv("BONSAI_SHM_FOLDER");
}

}  // namespace
}  // namespace bonsai::scale
