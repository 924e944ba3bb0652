// SPDX-License-Identifier: Apache-2.0
#include "base/sizes.h"

#include <gtest/gtest.h>

namespace bonsai::base {
namespace {

constexpr uint64_t kHalf = uint64_t{1} << 63;

TEST(SizesTest, SmallSizesAreExact) {
  EXPECT_EQ(add_sizes(0, 0), 0U);
  EXPECT_EQ(add_sizes(5, 7), 12U);
  EXPECT_EQ(multiply_sizes(0, UINT64_MAX), 0U);
  EXPECT_EQ(multiply_sizes(UINT64_MAX, 0), 0U);
  EXPECT_EQ(multiply_sizes(6, 7), 42U);
  EXPECT_EQ(round_up(0, 4096), 0U);
  EXPECT_EQ(round_up(1, 4096), 4096U);
  EXPECT_EQ(round_up(4096, 4096), 4096U);
  EXPECT_EQ(round_up(7, 3), 9U);
  EXPECT_EQ(round_up(7, 1), 7U);
}

TEST(SizesTest, LargeSizesNeverWrapAround) {
  EXPECT_EQ(add_sizes(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(add_sizes(UINT64_MAX, 1), UINT64_MAX);
  EXPECT_EQ(add_sizes(kHalf, kHalf), UINT64_MAX);
  EXPECT_EQ(add_sizes(kHalf, kHalf - 1), UINT64_MAX);
  EXPECT_EQ(multiply_sizes(kHalf, 2), UINT64_MAX);
  EXPECT_EQ(multiply_sizes(kHalf, 1), kHalf);
  EXPECT_EQ(multiply_sizes(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), UINT64_MAX - UINT32_MAX);
  EXPECT_EQ(round_up(kHalf + 1, 4096), kHalf + 4096);
  EXPECT_EQ(round_up(kHalf + 1, kHalf), UINT64_MAX);
  EXPECT_EQ(round_up(UINT64_MAX - 4095, 4096), UINT64_MAX - 4095);
  for (uint64_t below = 0; below < 4095; below += 7) EXPECT_EQ(round_up(UINT64_MAX - below, 4096), UINT64_MAX);
}

}  // namespace
}  // namespace bonsai::base
