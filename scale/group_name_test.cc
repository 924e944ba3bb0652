// SPDX-License-Identifier: Apache-2.0
// Names of targets that have several members.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scale/target_name.h"

namespace bonsai::scale {
namespace {

TEST(GroupNameTest, AGroupIsItsMembersAndHowManyAreNeeded) {
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
  ASSERT_EQ("OK", parse_target_name("/tmp/a|b", &name).ToString());
  EXPECT_FALSE(name.is_group()) << "a file";

  std::vector<TargetName> names;
  ASSERT_EQ("OK", parse_target_names("shm://a/l|shm://b/l,shm://a/d|shm://b/d", &names).ToString());
  EXPECT_EQ(names.size(), 2U);
}

TEST(GroupNameTest, WhatNamesNoGroupIsRefusedAndSaysWhy) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"shm://a/p|rdma://b:1/p", "one scheme"},
      {"shm://a/p|/tmp/p", "one scheme"},
      {"shm://a/p|shm://b/p|shm://a/p", "twice"},
      {"shm://a/p|shm://b/p?replicas_min=3", "replicas_min=1 to 2"},
      {"shm://a/p|shm://b/p?replicas_min=0", "replicas_min=N"},
      {"shm://a/p|shm://b/p?replicas=2", "replicas_min=N"},
      {"shm://a/p|shm://b/p?role=both&role=some", "?role=dnodes"},
      {"shm://a/p|shm://b", "shm://NODE/POOL"},
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
