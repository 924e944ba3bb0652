// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/product.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "base/nvm/hooked_product.h"
#include "base/nvm/testing.h"
#include "base/testing/temp_folder.h"

namespace bonsai::base {
namespace {

constexpr Site kSite{"test"};
constexpr size_t kBytes = 64 * 1024;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

class Product : public ::testing::TestWithParam<PersistenceDomain> {
 protected:
  Product() : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, kBytes))) {
    std::memset(memory_.get(), 0, kBytes);
  }

  std::unique_ptr<std::byte, Free> memory_;
  ProductMedium medium_{memory_.get(), kBytes, GetParam()};
};

TEST_P(Product, Store8WritesOneWord) {
  medium_.store8(medium_.view() + 16, 0x1122334455667788);
  EXPECT_EQ(word_at(medium_.view() + 16).load(), 0x1122334455667788U);
  EXPECT_EQ(word_at(medium_.view() + 8).load(), 0U);
  EXPECT_EQ(word_at(medium_.view() + 24).load(), 0U);
}

TEST_P(Product, CopyWritesExactlyTheRange) {
  std::vector<std::byte> source(301, std::byte{0xab});
  for (const size_t offset : {0, 1, 7, 63}) {
    for (const size_t n : {0, 1, 7, 8, 9, 65, 301}) {
      std::memset(medium_.view(), 0, 1024);
      medium_.copy(medium_.view() + 128 + offset, source.data(), n);
      for (size_t i = 0; i < 1024; ++i) {
        const bool inside = i >= 128 + offset && i < 128 + offset + n;
        ASSERT_EQ(medium_.view()[i], inside ? std::byte{0xab} : std::byte{0}) << offset << " " << n << " " << i;
      }
    }
  }
}

// Lengths on both sides of the threshold between the inline loop and libpmem.
TEST_P(Product, NtCopyWritesExactlyTheRange) {
  std::vector<std::byte> source(8192);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + 1);
  for (const size_t offset : {0, 8, 56}) {
    for (const size_t n : {0, 8, 64, 256, 264, 1024, 8192}) {
      std::memset(medium_.view(), 0, kBytes);
      medium_.nt_copy(medium_.view() + 128 + offset, source.data(), n, kSite);
      medium_.fence(kSite);
      EXPECT_EQ(std::memcmp(medium_.view() + 128 + offset, source.data(), n), 0);
      EXPECT_EQ(medium_.view()[127 + offset], std::byte{0});
      EXPECT_EQ(medium_.view()[128 + offset + n], std::byte{0});
    }
  }
}

TEST_P(Product, EveryOperationCounts) {
  const NvmCounters before = nvm_counters();
  const std::array<uint64_t, 8> line{};
  medium_.store8(medium_.view(), 1);
  medium_.copy(medium_.view() + 8, line.data(), 12);
  medium_.nt_copy(medium_.view() + 1024, line.data(), 64, kSite);
  medium_.flush(medium_.view(), 65, kSite);
  medium_.fence(kSite);
  const NvmCounters after = nvm_counters();
  EXPECT_EQ(after.bytes_stored - before.bytes_stored, 84U);
  EXPECT_EQ(after.lines_flushed - before.lines_flushed, 2U);
  EXPECT_EQ(after.fences - before.fences, 1U);
  EXPECT_LE(after.media_bytes - before.media_bytes, 512U);
  EXPECT_TRUE(medium_.health().ok());
  EXPECT_FALSE(medium_.reads_wait());
  EXPECT_EQ(medium_.read_deadline(1, 0, 0), 0U);
}

// A writer replaces a value under a version; the reader copies first and checks the version afterwards. This is clean
// under TSan, and no torn copy passes the check.
TEST_P(Product, RacingReaderIsModelled) {
  std::byte* const version = medium_.view();
  std::byte* const value = medium_.view() + 64;
  constexpr uint64_t kRounds = 20'000;
  std::thread writer([&] {
    std::array<uint64_t, 8> words{};
    for (uint64_t round = 1; round <= kRounds; ++round) {
      words.fill(round);
      medium_.store8(version, 2 * round - 1);
      word_at(version).fetch_add(0);  // a full barrier between the odd version and the bytes, as a seqlock needs
      medium_.copy(value, words.data(), sizeof words);
      medium_.store8(version, 2 * round);
    }
  });
  uint64_t checked = 0;
  for (uint64_t last = 0; last < 2 * kRounds;) {
    std::array<uint64_t, 8> words{};
    last = word_at(version).load(std::memory_order_acquire);
    racy_load(words.data(), value, sizeof words);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (last % 2 != 0 || word_at(version).fetch_add(0) != last) continue;
    ++checked;
    for (const uint64_t word : words) ASSERT_EQ(word, last / 2);
  }
  writer.join();
  EXPECT_GT(checked, 0U);
}

// Through the virtual interface the operations and counts are equal to those of the product medium.
TEST(HookedProduct, DoesWhatTheProductDoes) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  const auto mapping = nvm_testing::create(scratch.file("pool"), kBytes);
  HookedProduct hooked(*mapping);
  HookedMedium& medium = hooked;
  EXPECT_EQ(medium.view(), mapping->data());
  EXPECT_EQ(medium.bytes(), mapping->bytes());
  const NvmCounters before = nvm_counters();
  const std::array<uint64_t, 8> line{1, 2, 3, 4, 5, 6, 7, 8};
  medium.store8(medium.view(), 9);
  medium.copy(medium.view() + 64, line.data(), sizeof line);
  medium.nt_copy(medium.view() + 1024, line.data(), sizeof line, kSite);
  medium.flush(medium.view(), 128, kSite);
  EXPECT_TRUE(medium.fence(kSite));
  EXPECT_EQ(word_at(medium.view()).load(), 9U);
  EXPECT_EQ(word_at(medium.view() + 64 + 56).load(), 8U);
  EXPECT_EQ(word_at(medium.view() + 1024 + 8).load(), 2U);
  const NvmCounters after = nvm_counters();
  EXPECT_EQ(after.bytes_stored - before.bytes_stored, 8U + 64U + 64U);
  EXPECT_EQ(after.lines_flushed - before.lines_flushed, 2U);
  EXPECT_EQ(after.fences - before.fences, 1U);
}

#ifndef NDEBUG
TEST_P(Product, RangeChecksStopTheProgramInDebugBuilds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(medium_.store8(medium_.view() + kBytes, 1), "broken invariant");
  EXPECT_DEATH(medium_.copy(medium_.view() + kBytes - 4, "12345678", 8), "broken invariant");
}
#endif

INSTANTIATE_TEST_SUITE_P(Domains, Product, ::testing::Values(PersistenceDomain::kAdr, PersistenceDomain::kEadr),
                         [](const auto& each) { return each.param == PersistenceDomain::kAdr ? "Adr" : "Eadr"; });

}  // namespace
}  // namespace bonsai::base
