// SPDX-License-Identifier: Apache-2.0
#include "base/crc.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/random.h"

namespace bonsai::base {
namespace {

// The definition, bit by bit: the polynomial 0x1edc6f41 reflected, the register inverted before and after.
uint32_t crc32c_by_definition(const unsigned char* data, size_t n) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < n; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc, KnownAnswersOfRfc3720) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  std::array<unsigned char, 32> bytes{};
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x8a9136aau);
  bytes.fill(0xff);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x62a8ab43u);
  for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x46dd794eu);
  EXPECT_EQ(crc32c("", 0), 0u);
}

TEST(Crc, AgreesWithTheDefinitionAtEveryLengthAlignmentAndCut) {
  const uint64_t seed = seed_from_env_or(1);
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<unsigned char> data(1200);
  for (auto& byte : data) byte = static_cast<unsigned char>(random.next());
  for (size_t n = 0; n < 600; ++n) {
    const unsigned char* at = data.data() + random.below(64);
    const uint32_t expected = crc32c_by_definition(at, n);
    ASSERT_EQ(crc32c(at, n), expected) << n;
    const size_t cut = random.below(n + 1);
    ASSERT_EQ(crc32c(at + cut, n - cut, crc32c(at, cut)), expected) << n << " cut at " << cut;
  }
}

TEST(Crc, FourAtATimeAreTheFour) {
  const uint64_t seed = seed_from_env_or(1);
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<unsigned char> data(1200);
  for (auto& byte : data) byte = static_cast<unsigned char>(random.next());
  for (size_t n = 0; n < 200; ++n) {
    const size_t stride = n + random.below(100);
    const auto seeds = [&] { return static_cast<uint32_t>(random.next()); };
    const std::array<uint32_t, 4> begun = {seeds(), seeds(), seeds(), seeds()};
    const std::array<uint32_t, 4> four = crc32c_four(data.data(), stride, n, begun);
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(four[i], crc32c(data.data() + i * stride, n, begun[i])) << n;
  }
}

TEST(Crc, SeesEverySingleBit) {
  std::array<unsigned char, 64> data{};
  const uint32_t whole = crc32c(data.data(), data.size());
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    EXPECT_NE(crc32c(data.data(), data.size()), whole) << bit;
    data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
  }
}

}  // namespace
}  // namespace bonsai::base
