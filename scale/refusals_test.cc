// SPDX-License-Identifier: Apache-2.0
// Refused connections are named with their origin, and no number of them fills the log.
#include "scale/refusals.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"

namespace bonsai::scale {
namespace {

class RefusalsTest : public ::testing::Test {
 protected:
  RefusalsTest() { base::virtual_now_ns = &now_ns_; }
  ~RefusalsTest() override { base::virtual_now_ns = nullptr; }
  void knock(size_t times, const std::string& from) {
    for (size_t i = 0; i < times; ++i) refusals_.add(from, Status::InvalidArgument("no secret"));
  }

  uint64_t now_ns_ = 3 * 60 * base::kNsPerSecond;
  Refusals refusals_;
};

TEST_F(RefusalsTest, NamesWhoWasRefusedAndWhy) {
  knock(1, "10.0.0.2");
  const std::vector<std::string> lines = refusals_.take();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "a connection from 10.0.0.2 was refused: no secret");
  EXPECT_TRUE(refusals_.take().empty()) << "once";
}

TEST_F(RefusalsTest, AFloodGetsAFewLinesAMinuteAndItsNumber) {
  size_t lines = 0;
  for (int i = 0; i < 100; ++i) {
    knock(10, "process 7");
    lines += refusals_.take().size();
  }
  EXPECT_EQ(lines, Refusals::kPerMinuteMax);
  now_ns_ += 60 * base::kNsPerSecond;
  knock(1, "process 8");
  const std::vector<std::string> next = refusals_.take();
  ASSERT_EQ(next.size(), 2U);
  EXPECT_EQ(next[0], "990 further connections were refused within that minute");
  EXPECT_NE(next[1].find("process 8"), std::string::npos) << next[1];
}

TEST_F(RefusalsTest, LinesThatNobodyTakesAreBounded) {
  for (int i = 0; i < 100; ++i) {
    knock(100, "10.0.0.2");
    now_ns_ += 60 * base::kNsPerSecond;
  }
  EXPECT_LE(refusals_.take().size(), 5 * Refusals::kPerMinuteMax);
}

}  // namespace
}  // namespace bonsai::scale
