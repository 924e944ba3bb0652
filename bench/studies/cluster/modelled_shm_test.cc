// SPDX-License-Identifier: Apache-2.0
// Tests of the network of `shm` that the environment models, in programs with the studies.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "base/testing/temp_folder.h"
#include "scale/fabrics.h"

namespace bonsai::bench {
namespace {

TEST(ModelledShm, SaysWhatItModelsAndRefusesWhatIsNoNumber) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  ASSERT_EQ(::setenv("BONSAI_SHM_FOLDER", scratch.file("meeting").c_str(), 1), 0);
  std::shared_ptr<rdma::Fabric> fabric;
  const auto opened_with = [&](const char* variable, const char* value) {
    ::setenv(variable, value, 1);
    const Status status = scale::open_fabric("shm", &fabric);
    ::unsetenv(variable);
    return status;
  };
  ASSERT_EQ("OK", opened_with("BONSAI_SHM_LATENCY_NS", "5000").ToString());
  EXPECT_NE(fabric->capabilities().text.find("modelled latency 5000 ns"), std::string::npos);
  ASSERT_EQ("OK", opened_with("BONSAI_SHM_LATENCY_NS", "").ToString());
  EXPECT_EQ(fabric->capabilities().text.find("modelled"), std::string::npos);
  EXPECT_EQ(scale::fabric_reach("shm"), scale::FabricReach::kMachine);
  for (const char* variable : {"BONSAI_SHM_LATENCY_NS", "BONSAI_SHM_BYTES_PER_SECOND"}) {
    for (const char* wrong : {"5 us", "-1", "99999999999999999999"}) {
      const Status status = opened_with(variable, wrong);
      EXPECT_TRUE(status.IsInvalidArgument()) << wrong;
      EXPECT_NE(status.message().find(variable), std::string::npos) << status.ToString();
    }
  }
  EXPECT_TRUE(opened_with("BONSAI_SHM_LATENCY_NS", "5000000000").IsInvalidArgument());
  ::unsetenv("BONSAI_SHM_FOLDER");
}

}  // namespace
}  // namespace bonsai::bench
