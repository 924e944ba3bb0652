// SPDX-License-Identifier: Apache-2.0
#include "scale/target_name.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::scale {
namespace {

TEST(TargetNameTest, TakesPathsAndRemoteTargetsApart) {
  TargetName name;
  ASSERT_TRUE(parse_target_name("/mnt/pmem/my.pool", &name).ok());
  EXPECT_FALSE(name.is_remote());
  EXPECT_EQ(name.text, "/mnt/pmem/my.pool");
  ASSERT_TRUE(parse_target_name("rdma://10.0.0.2:7471/a-1.pool", &name).ok());
  EXPECT_EQ(name.scheme, "rdma");
  EXPECT_EQ(name.node, "10.0.0.2:7471");
  EXPECT_EQ(name.pool, "a-1.pool");
  ASSERT_TRUE(parse_target_name("./odd://name", &name).ok());
  EXPECT_FALSE(name.is_remote()) << "no scheme";
  for (const char* wrong : {"shm://", "shm://node", "shm://node/", "shm:///pool", "shm://node/a/b", "shm://node/..",
                            "shm://node/.hidden", "shm://node/a b"}) {
    const Status status = parse_target_name(wrong, &name);
    EXPECT_TRUE(status.IsInvalidArgument()) << wrong;
    EXPECT_NE(status.message().find("shm://NODE/POOL"), std::string::npos) << "it shows the form";
  }
  EXPECT_EQ(name.role, TargetRole::kUnsaid);
  for (const TargetRole role : {TargetRole::kLog, TargetRole::kDnodes, TargetRole::kBoth}) {
    for (const std::string where : {"/mnt/pmem/a", "shm://node/a"}) {
      ASSERT_TRUE(parse_target_name(where + "?role=" + std::string(role_text(role)), &name).ok());
      EXPECT_EQ(name.text, where);
      EXPECT_EQ(name.role, role);
    }
  }
  EXPECT_FALSE(name.checks_lease);
  for (const char* query : {"?lease=checked", "?role=log&lease=checked", "?lease=checked&role=log"}) {
    ASSERT_TRUE(parse_target_name("shm://node/a" + std::string(query), &name).ok()) << query;
    EXPECT_EQ(name.text, "shm://node/a");
    EXPECT_TRUE(name.checks_lease);
    EXPECT_EQ(name.role, std::string(query).find("role") == std::string::npos ? TargetRole::kUnsaid : TargetRole::kLog);
  }
  EXPECT_NE(parse_target_name("a?lease=checked", &name).message().find("leave ?lease=checked out"), std::string::npos);
  for (const char* wrong : {"a?role=", "a?role=Log", "a?role=log?role=log", "shm://node/a?role=data", "a?rol=log",
                            "a?Role=log", "a?role", "shm://node/a?rol=log", "a?rol=log?role=log", "shm://node/a?lease",
                            "shm://node/a?lease=", "shm://node/a?lease=checked&", "shm://node/a?&lease=checked",
                            "shm://node/a?lease=checked&lease=checked", "shm://node/a?role=log&role=log"}) {
    EXPECT_NE(parse_target_name(wrong, &name).message().find("?role=dnodes"), std::string::npos) << wrong;
  }
  EXPECT_TRUE(parse_target_name("?role=log", &name).IsInvalidArgument());
  ASSERT_TRUE(parse_target_name("odd?name", &name).ok());
  EXPECT_EQ(name.text, "odd?name");
  EXPECT_FALSE(is_pool_name(std::string(kPoolNameBytesMax + 1, 'a')));
  EXPECT_TRUE(is_pool_name(std::string(kPoolNameBytesMax, 'a')));
}

}  // namespace
}  // namespace bonsai::scale
