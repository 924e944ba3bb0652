// SPDX-License-Identifier: Apache-2.0
#include "scale/target_name.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

TEST(TargetNameTest, AGroupIsItsMembersAndHowManyAreNeeded) {
  TargetName name;
  ASSERT_EQ("OK", parse_target_name("shm://a/p|shm://b/p|shm://c/q-1?replicas_min=3&role=log", &name).ToString());
  EXPECT_TRUE(name.is_group() && name.is_remote());
  EXPECT_EQ(name.text, "shm://a/p|shm://b/p|shm://c/q-1");
  EXPECT_EQ(name.scheme, "shm");
  ASSERT_EQ(name.members.size(), 3U);
  EXPECT_EQ(name.members[2].node, "c");
  EXPECT_EQ(name.members[2].pool, "q-1");
  EXPECT_EQ(name.replicas_min, 3U);
  EXPECT_EQ(name.role, TargetRole::kLog);
  ASSERT_EQ("OK", parse_target_name("rdma://[::1]:1/p|rdma://h:2/p?role=dnodes", &name).ToString());
  EXPECT_EQ(name.replicas_min, 0U);
  EXPECT_EQ(name.role, TargetRole::kDnodes);
  EXPECT_EQ(name.replaces, 0U);
  ASSERT_EQ("OK", parse_target_name("shm://a/p|shm://a/q?replace=2&same_node=allowed", &name).ToString());
  EXPECT_EQ(name.replaces, 2U);
  EXPECT_EQ(name.members[1].pool, "q");
  EXPECT_TRUE(name.witness.empty());
  ASSERT_EQ("OK", parse_target_name("rdma://a:1/p|rdma://b:1/p?witness=rdma://c:1/w&replace=3", &name).ToString());
  EXPECT_EQ(name.text, "rdma://a:1/p|rdma://b:1/p");
  ASSERT_EQ(name.witness.size(), 1U);
  EXPECT_EQ(name.witness[0].node, "c:1");
  EXPECT_EQ(name.witness[0].pool, "w");
  EXPECT_EQ(name.replaces, 3U);
  ASSERT_EQ("OK", parse_target_name("/tmp/a|b", &name).ToString());
  EXPECT_FALSE(name.is_group()) << "a file";

  std::vector<TargetName> names;
  ASSERT_EQ("OK", parse_target_names("shm://a/l|shm://b/l,shm://a/d|shm://b/d", &names).ToString());
  EXPECT_EQ(names.size(), 2U);
}

TEST(TargetNameTest, WhatNamesNoGroupIsRefusedAndSaysWhy) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"shm://a/p|rdma://b:1/p", "one scheme"},
      {"shm://a/p|/tmp/p", "one scheme"},
      {"shm://a/p|shm://b/p|shm://a/p", "twice"},
      {"shm://a/p|shm://b/p?replicas_min=3", "replicas_min=1 to 2"},
      {"shm://a/p|shm://b/p?replicas_min=0", "replicas_min=N"},
      {"shm://a/p|shm://b/p?replace=3", "?replace=1 to 2"},
      {"shm://a/p|shm://b/p?replace=1&replace=2", "?replace=N"},
      {"shm://a/p?replace=1", "none of a target"},
      {"shm://a/p|shm://b/p|shm://a/q", "two members on a,"},
      {"shm://a/p|shm://a/q?same_node=yes", "?same_node=allowed"},
      {"shm://a/p|shm://b/p?replicas=2", "replicas_min=N"},
      {"shm://a/p|shm://b/p?role=both&role=some", "?role=dnodes"},
      {"shm://a/p|shm://b", "shm://NODE/POOL"},
      {"shm://a/p|shm://b/p?witness=shm://a/w", "two members on a,"},
      {"shm://a/p|shm://b/p?witness=shm://a/p&same_node=allowed", "and as the witness"},
      {"shm://a/p|shm://b/p?witness=rdma://c:1/w", "?witness=shm://NODE/POOL"},
      {"shm://a/p|shm://b/p?witness=/tmp/w", "?witness=shm://NODE/POOL"},
      {"shm://a/p|shm://b/p?witness=", "?witness=shm://NODE/POOL"},
      {"shm://a/p|shm://b/p?witness=shm://c/w?role=log", "?witness=shm://NODE/POOL"},
      {"shm://a/p|shm://b/p?witness=shm://c/w&witness=shm://d/w", "?witness=SCHEME://NODE/POOL"},
      {"shm://a/p|shm://b/p|shm://c/p?witness=shm://d/w", "decide by themselves"},
      {"shm://a/p|shm://b/p?witness=shm://c/w&replace=4", "?replace=1 to 3"},
      {"shm://a/p?witness=shm://c/w", "none of a target"},
      {"shm://a/p|", "empty member"},
      {"|shm://a/p", "empty member"},
      {"/tmp/p|shm://a/p", "write shm://... for /tmp/p"},
      {"shm://1/p|shm://2/p|shm://3/p|shm://4/p|shm://5/p|shm://6/p|shm://7/p|shm://8/p|shm://9/p", "at most 8"}};
  for (const auto& [text, says] : wrong) {
    TargetName name;
    const Status status = parse_target_name(text, &name);
    EXPECT_TRUE(status.IsInvalidArgument()) << text;
    EXPECT_NE(status.message().find(says), std::string_view::npos) << text << ": " << status.ToString();
  }
}

}  // namespace
}  // namespace bonsai::scale
