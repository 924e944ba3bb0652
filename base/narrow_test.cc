// SPDX-License-Identifier: Apache-2.0
#include "base/narrow.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace bonsai::base {
namespace {

enum class Kind : uint8_t { kLast = 7 };

TEST(Narrow, WhatFitsKeepsItsValue) {
  EXPECT_EQ(checked_narrow<uint16_t>(uint64_t{65535}), 65535);
  EXPECT_EQ(checked_narrow<uint32_t>(5), 5u);
  EXPECT_EQ(checked_narrow<int8_t>(-128L), -128);
  EXPECT_EQ(checked_narrow<uint8_t>(Kind::kLast), 7);
}

TEST(NarrowDeathTest, WhatDoesNotFitEndsTheProgram) {
  EXPECT_DEATH(static_cast<void>(checked_narrow<uint16_t>(uint64_t{65536})), "broken invariant");
  EXPECT_DEATH(static_cast<void>(checked_narrow<uint32_t>(-1)), "broken invariant");
  EXPECT_DEATH(static_cast<void>(checked_narrow<int8_t>(128)), "broken invariant");
}

TEST(Narrow, LowBitsDropTheOthers) {
  EXPECT_EQ(low_bits<uint8_t>(uint64_t{0x1234}), 0x34);
  EXPECT_EQ(low_bits<uint16_t>(0x12345678u), 0x5678);
}

}  // namespace
}  // namespace bonsai::base
