// SPDX-License-Identifier: Apache-2.0
#include "scale/attachments.h"

#include <gtest/gtest.h>

#include "base/coro/scheduler.h"
#include "base/thread.h"

namespace bonsai::scale {
namespace {

rdma::Hello hello_of(uint32_t node, uint64_t session) {
  rdma::Hello hello;
  hello.node = node;
  hello.session = session;
  return hello;
}

TEST(AttachmentsTest, ANumberIsThatOfOneLinkUntilItHasLeft) {
  base::Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([] {
    Attachments attachments;
    const auto keep = [&](bool connected) { attachments.keep([connected](uint32_t) { return connected; }); };
    EXPECT_TRUE(attachments.admit(hello_of(1, 5)).ok());
    EXPECT_TRUE(attachments.admit(hello_of(1, 5)).ok());
    EXPECT_TRUE(attachments.admit(hello_of(2, 6)).ok());
    EXPECT_TRUE(attachments.admit(hello_of(1, 6)).IsBusy());
    keep(false);
    EXPECT_TRUE(attachments.admit(hello_of(1, 6)).IsBusy()) << "it may be on its way";
    base::sleep_ms(20'000);
    keep(true);
    EXPECT_TRUE(attachments.admit(hello_of(1, 6)).IsBusy()) << "it is connected";
    EXPECT_EQ(attachments.count(), 2U);
    keep(false);
    EXPECT_EQ(attachments.count(), 0U);
    EXPECT_TRUE(attachments.admit(hello_of(1, 6)).ok());
    EXPECT_TRUE(attachments.admit(hello_of(1, 5)).IsBusy());
  });
  EXPECT_TRUE(scheduler.run().ok());
}

// Another thread may be in admit() while keep() asks, and the asking one may wait for it.
TEST(AttachmentsTest, WhoIsAdmittedWhileItIsAskedForIsKept) {
  base::Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([] {
    Attachments attachments;
    for (const uint32_t node : {1U, 2U}) EXPECT_TRUE(attachments.admit(hello_of(node, 5)).ok());
    base::sleep_ms(20'000);
    attachments.keep([&](uint32_t node) {
      EXPECT_TRUE(node != 1 || attachments.admit(hello_of(1, 5)).ok());
      return false;
    });
    EXPECT_TRUE(attachments.admit(hello_of(1, 6)).IsBusy());
    EXPECT_TRUE(attachments.admit(hello_of(2, 6)).ok()) << "it has left";
  });
  EXPECT_TRUE(scheduler.run().ok());
}

TEST(AttachmentsTest, AreCountedInTheOrderOfTheirMaking) {
  Attachments attachments;
  for (const uint32_t node : {9U, 3U, 9U, 5U, 3U}) EXPECT_TRUE(attachments.admit(hello_of(node, 7)).ok());
  EXPECT_EQ(attachments.find(9).order, 1U);
  EXPECT_EQ(attachments.find(3).order, 2U);
  EXPECT_EQ(attachments.find(5).order, 3U);
  EXPECT_EQ(attachments.find(5).link, 7U);
  EXPECT_EQ(attachments.find(6).order, 0U) << "unknown";
}

}  // namespace
}  // namespace bonsai::scale
