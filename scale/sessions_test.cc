// SPDX-License-Identifier: Apache-2.0
#include "scale/sessions.h"

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

TEST(SessionsTest, ANumberIsThatOfOneSessionUntilItHasLeft) {
  base::Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([] {
    Sessions sessions;
    const auto keep = [&](bool connected) { sessions.keep([connected](uint32_t) { return connected; }); };
    EXPECT_TRUE(sessions.admit(hello_of(1, 5)).ok());
    EXPECT_TRUE(sessions.admit(hello_of(1, 5)).ok());
    EXPECT_TRUE(sessions.admit(hello_of(2, 6)).ok());
    EXPECT_TRUE(sessions.admit(hello_of(1, 6)).IsBusy());
    keep(false);
    EXPECT_TRUE(sessions.admit(hello_of(1, 6)).IsBusy()) << "it may be on its way";
    base::sleep_ms(20'000);
    keep(true);
    EXPECT_TRUE(sessions.admit(hello_of(1, 6)).IsBusy()) << "it is connected";
    keep(false);
    EXPECT_TRUE(sessions.admit(hello_of(1, 6)).ok());
    EXPECT_TRUE(sessions.admit(hello_of(1, 5)).IsBusy());
  });
  EXPECT_TRUE(scheduler.run().ok());
}

}  // namespace
}  // namespace bonsai::scale
