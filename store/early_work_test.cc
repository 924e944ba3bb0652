// What may be written early, by a clock of the test's own.
#include "store/early_work.h"

#include <gtest/gtest.h>

namespace bonsai::store {
namespace {

constexpr uint64_t kStartMs = 1'000'000;

class EarlyWorkTest : public ::testing::Test {
 protected:
  EarlyWork::May look(EarlyWork& early) {
    return early.look({.now_ns = now_ms_ * base::kNsPerMs,
                       .updates = updates_,
                       .user_bytes = user_bytes_,
                       .media_bytes = media_bytes_});
  }
  EarlyWork::May look() { return look(early_); }
  // Of so many bytes, which make so many be written to log and dnodes.
  void update(uint64_t bytes, uint64_t media_bytes = 0) {
    ++updates_;
    user_bytes_ += bytes;
    media_bytes_ += media_bytes;
  }
  // Writes while that is allowed, an eighth of a megabyte at a time.
  uint64_t write_all(EarlyWork& early) {
    uint64_t bytes = 0;
    for (; look(early).write; bytes += kStep) {
      early.wrote(kStep);
      media_bytes_ += kStep;
    }
    return bytes;
  }
  uint64_t write_all() { return write_all(early_); }

  static constexpr uint64_t kStep = 1 << 17;
  EarlyWork early_;
  uint64_t now_ms_ = kStartMs, updates_ = 0, user_bytes_ = 0, media_bytes_ = 0;
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
  EXPECT_LE(write_all(), static_cast<uint64_t>(EarlyWork::kBytesSavedMax) + 2 * kStep) << "after an idle hour";
  EXPECT_FALSE(look().write);
  uint64_t bytes = 0;
  for (int second = 0; second < 100; ++second) {
    now_ms_ += 1'000;
    bytes += write_all();
  }
  EXPECT_NEAR(static_cast<double>(bytes), 100.0 * 1'000 * EarlyWork::kBytesPerMs, 2 * kStep);
}

TEST_F(EarlyWorkTest, WhatALoadLeavesOfTheBoundPutsItInOrder) {
  constexpr uint64_t kUserBytes = uint64_t{160} << 20;
  for (const double loading : {3.0, 4.0, 4.79}) {
    EarlyWork early;
    user_bytes_ = media_bytes_ = 0;
    static_cast<void>(look(early));
    write_all(early);
    const uint64_t burst = media_bytes_;
    for (uint64_t i = 0; i < kUserBytes >> 20; ++i) update(1 << 20, static_cast<uint64_t>(loading * (1 << 20)));
    write_all(early);
    now_ms_ += 10'000;
    write_all(early);
    const auto written = static_cast<double>(media_bytes_ - burst);
    EXPECT_GE(written / kUserBytes, 4.79) << loading;
    EXPECT_LE(written / kUserBytes, 4.9) << loading;
  }
}

TEST_F(EarlyWorkTest, WhereUpdatesTakeMoreThereIsTimeAlone) {
  static_cast<void>(look());
  write_all();
  for (int i = 0; i < 1'000; ++i) {
    update(1 << 20, 5 << 20);
    EXPECT_FALSE(look().write);
  }
  now_ms_ += 2 * static_cast<uint64_t>(EarlyWork::kBytesOwedMax) / EarlyWork::kBytesPerMs;
  EXPECT_TRUE(look().write) << "they owe a bounded sum";
}

TEST_F(EarlyWorkTest, WhatAPoolHeldIsPutInOrderOnce) {
  constexpr uint64_t kHeld = uint64_t{100} << 20;
  EarlyWork opened(kHeld);
  const uint64_t bytes = write_all(opened);
  EXPECT_GE(bytes, kHeld);
  EXPECT_LE(bytes, kHeld + static_cast<uint64_t>(EarlyWork::kBytesSavedMax) + 2 * kStep);
  EXPECT_EQ(opened.bytes(), bytes);
  EXPECT_FALSE(look(opened).write);
}

}  // namespace
}  // namespace bonsai::store
