// SPDX-License-Identifier: Apache-2.0
// The allowance for early work, by a clock of the test's own.
#include "store/early_work.h"

#include <gtest/gtest.h>

namespace bonsai::store {
namespace {

constexpr uint64_t kStartMs = 1'000'000;

class EarlyWorkTest : public ::testing::Test {
 protected:
  EarlyWork::May look() {
    return early_.look({.now_ns = now_ms_ * base::kNsPerMs, .updates = updates_, .user_bytes = user_bytes_});
  }
  void update(uint64_t bytes) {
    ++updates_;
    user_bytes_ += bytes;
  }
  // Writes while that is allowed, a megabyte at a time.
  uint64_t write_all() {
    uint64_t bytes = 0;
    for (; look().write; bytes += 1 << 20) early_.wrote(1 << 20);
    return bytes;
  }

  EarlyWork early_;
  uint64_t now_ms_ = kStartMs, updates_ = 0, user_bytes_ = 0;
};

TEST_F(EarlyWorkTest, AStoreIsIdleSomeTimeAfterItsLastUpdate) {
  EXPECT_TRUE(look().idle) << "nobody has ever updated it";
  update(16);
  EXPECT_FALSE(look().idle);
  now_ms_ += EarlyWork::kIdleNs / base::kNsPerMs - 1;
  EXPECT_FALSE(look().idle);
  now_ms_ += 1;
  EXPECT_TRUE(look().idle);
  update(16);
  EXPECT_FALSE(look().idle);
}

TEST_F(EarlyWorkTest, TimeAllowsAStreamOfBytesAndABoundedBurst) {
  static_cast<void>(look());
  now_ms_ += 3'600'000;
  EXPECT_LE(write_all(), static_cast<uint64_t>(EarlyWork::kBytesSavedMax) + (2 << 20)) << "after an idle hour";
  EXPECT_FALSE(look().write);
  uint64_t bytes = 0;
  for (int second = 0; second < 100; ++second) {
    now_ms_ += 1'000;
    bytes += write_all();
  }
  EXPECT_NEAR(static_cast<double>(bytes), 100.0 * 1'000 * EarlyWork::kBytesPerMs, 2 << 20);
}

TEST_F(EarlyWorkTest, AThreadThatReadTheClockEarlierEarnsNothing) {
  static_cast<void>(look());
  write_all();
  now_ms_ -= 5;
  EXPECT_FALSE(look().write);
}

TEST_F(EarlyWorkTest, UsersAllowAShareOfWhatTheyWrite) {
  static_cast<void>(look());
  write_all();
  uint64_t bytes = 0;
  for (int i = 0; i < 1'000; ++i) {  // at no time
    update(1 << 20);
    bytes += write_all();
  }
  EXPECT_NEAR(static_cast<double>(bytes), 1'000.0 * (1 << 20) / EarlyWork::kUserBytesPerByte, 2 << 20);
  EXPECT_GE(early_.bytes(), bytes);
}

}  // namespace
}  // namespace bonsai::store
