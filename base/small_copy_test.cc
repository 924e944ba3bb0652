// SPDX-License-Identifier: Apache-2.0
#include "base/small_copy.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::base {
namespace {

TEST(SmallCopy, CopiesWhatItIsGivenAndNothingElse) {
  const std::string from = "0123456789abcdefghijklmnopqrstuvwxyz";
  for (size_t bytes = 0; bytes <= from.size(); ++bytes) {
    std::string to(from.size() + 1, '#');
    EXPECT_EQ(copy_small(to.data(), std::string_view(from).substr(0, bytes)), to.data() + bytes);
    EXPECT_EQ(to, from.substr(0, bytes) + std::string(from.size() + 1 - bytes, '#'));
  }
  EXPECT_EQ(copy_small(nullptr, {}), nullptr);
}

}  // namespace
}  // namespace bonsai::base
