// SPDX-License-Identifier: Apache-2.0
// Without an RDMA device the verbs provider reports that, and what to do.
#include "rdma/verbs.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include <cerrno>
#include <vector>

#include "rdma/verbs/link.h"
#include "rdma/verbs/region.h"

namespace bonsai::rdma::verbs {
namespace {

TEST(VerbsTest, WithoutDeviceItSaysWhatToDo) {
  VerbsOptions options;
  options.device = "no-such-device";
  std::unique_ptr<VerbsFabric> fabric;
  const Status status = VerbsFabric::open(options, &fabric);
  EXPECT_TRUE(status.IsNotSupported());
  EXPECT_EQ(fabric, nullptr);
  EXPECT_NE(status.message().find("no RDMA device"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find("scripts/rxe.sh up"), std::string::npos);
  EXPECT_NE(status.message().find("scripts/testbed.sh"), std::string::npos);
}

TEST(VerbsTest, AnMtuThatRdmaHasNotIsRefused) {
  VerbsOptions options;
  options.mtu_bytes = 1500;
  std::unique_ptr<VerbsFabric> fabric;
  EXPECT_TRUE(VerbsFabric::open(options, &fabric).IsInvalidArgument());
  EXPECT_EQ(mtu_code(1024), IBV_MTU_1024);
  EXPECT_EQ(mtu_code(4096), IBV_MTU_4096);
  EXPECT_EQ(mtu_code(8192), 0);
}

TEST(VerbsTest, AddressesAreHostAndPort) {
  sockaddr_storage address = {};
  ASSERT_TRUE(parse_address("10.0.0.7:7001", &address).ok());
  EXPECT_EQ(reinterpret_cast<sockaddr_in*>(&address)->sin_port, htons(7001));
  EXPECT_TRUE(parse_address("fe80::1:7001", &address).ok()) << "the last colon divides";
  EXPECT_EQ(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port, htons(7001));
  for (const char* wrong : {"", "nowhere", ":7001"}) {
    EXPECT_TRUE(parse_address(wrong, &address).IsInvalidArgument()) << wrong;
  }
}

TEST(VerbsTest, ARefusedRegistrationIsExplained) {
  std::vector<std::byte> bytes(64);
  const Status locked = explain_refusal("rxe0", bytes, ENOMEM);
  EXPECT_TRUE(locked.IsNoSpace());
  EXPECT_NE(locked.message().find("ulimit -l"), std::string::npos);
  EXPECT_NE(locked.message().find("anonymous"), std::string::npos) << locked.ToString();

  void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Status read_only = explain_refusal("rxe0", {static_cast<std::byte*>(page), 4096}, EFAULT);
  EXPECT_TRUE(read_only.IsNotSupported());
  EXPECT_NE(read_only.message().find("read-only"), std::string::npos) << read_only.ToString();
  ::munmap(page, 4096);

  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  ::close(file);
  const Status of_file = explain_refusal("rxe0", {static_cast<std::byte*>(mapped), 4096}, EOPNOTSUPP);
  EXPECT_TRUE(of_file.IsNotSupported());
  EXPECT_NE(of_file.message().find("rdma_verbs_test"), std::string::npos) << "the file: " << of_file.ToString();
  EXPECT_NE(of_file.message().find("devdax"), std::string::npos) << "what to use: " << of_file.ToString();
  ::munmap(mapped, 4096);
}

}  // namespace
}  // namespace bonsai::rdma::verbs
