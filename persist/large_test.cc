// SPDX-License-Identifier: Apache-2.0
#include "persist/large.h"

#include <gtest/gtest.h>

#include "persist/sites.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using testing::MemoryPool;

TEST(Large, AValueOfAnySizeComesBackAndItsSpaceToo) {
  MemoryPool pool(uint64_t{4} << 20);
  const uint64_t used = pool.rig.space.used_bytes();
  for (const size_t bytes : {1U, 7U, 8U, 255U, 4096U, 100'001U}) {
    std::string value(bytes, 'v');
    value.back() = 'e';
    LargeRef ref{};
    ASSERT_TRUE(pool.rig.large->write(value, &ref).ok());
    EXPECT_EQ(pool.rig.large->verify(ref), Trouble::kNone);
    std::string read;
    ASSERT_EQ(pool.rig.large->read(ref, &read), Trouble::kNone);
    EXPECT_EQ(read, value);
    const LargeRef copy = large_ref(bytes_of(ref));
    EXPECT_EQ(copy.addr, ref.addr);
    EXPECT_EQ(copy.crc, ref.crc);
    EXPECT_EQ(pool.rig.space.used_bytes(), used + round_up(bytes, kBlockBytes));
    pool.rig.large->free(ref);
    EXPECT_EQ(pool.rig.space.used_bytes(), used);
  }
}

TEST(Large, ARetiredValueStaysAsLongAsItsReaders) {
  MemoryPool pool;
  base::EpochDomain epochs;
  const uint64_t used = pool.rig.space.used_bytes();
  LargeRef ref{};
  ASSERT_TRUE(pool.rig.large->write(std::string(1000, 'x'), &ref).ok());
  {
    const auto reader = epochs.enter();
    pool.rig.large->retire(ref, epochs);
    epochs.collect();
    EXPECT_EQ(pool.rig.space.used_bytes(), used + round_up(1000, kBlockBytes));
    EXPECT_EQ(pool.rig.large->verify(ref), Trouble::kNone);
  }
  ASSERT_TRUE(epochs.drain(1'000));
  EXPECT_EQ(pool.rig.space.used_bytes(), used);
}

TEST(Large, IsDurableWhenWriteReturns) {
  if (!testing::stores_are_recorded()) GTEST_SKIP() << "what the fabric writes is no operation of the medium";
  MemoryPool pool;
  pool.medium.record(true);
  LargeRef ref{};
  ASSERT_TRUE(pool.rig.large->write(std::string(1001, 'x'), &ref).ok());
  const size_t fence = pool.medium.first('|', kSiteLargeFence);
  EXPECT_EQ(fence + 1, pool.medium.events().size());
  EXPECT_LT(pool.medium.last('n', kSiteLarge), fence);
}

TEST(Large, DamageIsReported) {
  MemoryPool pool;
  LargeRef ref{};
  ASSERT_TRUE(pool.rig.large->write(std::string(500, 'x'), &ref).ok());
  std::string read = "untouched";
  for (uint64_t byte = 0; byte < 500; ++byte) {
    pool.medium.flip(scale::Addr::of_bits(ref.addr).offset() + byte, byte % 8);
    EXPECT_EQ(pool.rig.large->read(ref, &read), Trouble::kDamaged);
    pool.medium.flip(scale::Addr::of_bits(ref.addr).offset() + byte, byte % 8);
  }
  EXPECT_EQ(read, "untouched");
  EXPECT_EQ(pool.rig.large->read(ref, &read), Trouble::kNone);
}

TEST(Large, AReferenceOutsideThePoolIsRefused) {
  MemoryPool pool;
  std::string read;
  EXPECT_EQ(pool.rig.large->read({kPoolBytesMin - 8, 16, 0}, &read), Trouble::kDamaged);
  EXPECT_EQ(pool.rig.large->read({scale::Addr(3, 4096).bits(), 16, 0}, &read), Trouble::kDamaged);
  EXPECT_EQ(pool.rig.large->read({UINT64_MAX, UINT32_MAX, 0}, &read), Trouble::kDamaged);
}

TEST(Large, FullIsAnAnswerThatLeavesTheReserve) {
  MemoryPool pool;
  LargeRef ref{};
  const std::string value(1000, 'x');
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = pool.rig.large->write(value, &ref);
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_NE(status.message().find("1000 bytes"), std::string_view::npos);
  EXPECT_FALSE(pool.rig.space.allocate(1000, Space::Use::kReserve).is_nil());
}

}  // namespace
}  // namespace bonsai::persist
