// SPDX-License-Identifier: Apache-2.0
// Copies of bytes that other threads change meanwhile: all bytes arrive, and no aligned word is torn.
#include "base/nvm/racy_copy.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "base/clock.h"

namespace bonsai::base {
namespace {

TEST(RacyCopy, EveryByteOfEverySizeArrivesAndNoOther) {
  constexpr size_t kMax = 40;
  for (size_t n = 0; n <= kMax; ++n) {
    for (size_t offset = 0; offset < 8; ++offset) {
      alignas(8) std::array<std::byte, kMax + 16> shared{};
      std::array<std::byte, kMax + 16> source{}, target{};
      for (size_t i = 0; i < n; ++i) source[3 + i] = static_cast<std::byte>(i + 1);
      racy_store(shared.data() + offset, source.data() + 3, n);
      for (size_t i = 0; i < shared.size(); ++i) {
        const bool inside = i >= offset && i < offset + n;
        ASSERT_EQ(shared[i], inside ? source[3 + i - offset] : std::byte{0}) << n << " bytes at " << offset;
      }
      racy_load(target.data() + 3, shared.data() + offset, n);
      ASSERT_EQ(target, source) << n << " bytes at " << offset;
      alignas(8) std::array<std::byte, kMax + 16> alike{}, elsewhere{};
      racy_copy(alike.data() + offset, shared.data() + offset, n);
      ASSERT_EQ(alike, shared) << n << " bytes at " << offset;
      racy_copy(elsewhere.data() + 3, shared.data() + offset, n);
      ASSERT_EQ(elsewhere, source) << n << " bytes at " << offset;
    }
  }
}

// One thread writes blocks whose words have eight equal bytes, another reads them; returns the number of torn words.
// The blocks are placed so that glibc's memcpy takes `rep movsb`: far apart, and two words off the alignment of the
// processor's vectors.
template <class Store, class Load>
uint64_t torn_words(Store store, Load load) {
  constexpr size_t kCopyBytes = 8192, kWords = kCopyBytes / sizeof(uint64_t);
  constexpr uint64_t kMs = 100, kSame = 0x0101010101010101;
  struct Blocks {
    alignas(64) std::array<uint64_t, 3 * kWords> shared{};
    alignas(64) std::array<uint64_t, kWords> written{}, read{};
  };
  const auto blocks = std::make_unique<Blocks>();
  auto* const shared = reinterpret_cast<std::byte*>(blocks->shared.data() + 2);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t round = 1; !stop.load(); ++round) {
      blocks->written.fill(kSame * (round & 0xff));
      store(shared, blocks->written.data(), kCopyBytes);
    }
  });
  uint64_t torn = 0;
  for (const uint64_t end_ns = now_ns() + kMs * kNsPerMs; now_ns() < end_ns;) {
    load(blocks->read.data(), shared, kCopyBytes);
    for (const uint64_t word : blocks->read) torn += word != kSame * (word & 0xff) ? 1 : 0;
  }
  stop.store(true);
  writer.join();
  return torn;
}

TEST(RacyCopy, NoWordIsTorn) { EXPECT_EQ(torn_words(racy_store, racy_load), 0U); }

#if BONSAI_TSAN == 0
// Shows what the test above would find if memcpy made the copies; not every processor and C library tear words.
TEST(RacyCopy, MemcpyMayTearWords) {
  void* (*volatile copy)(void*, const void*, size_t) = std::memcpy;  // the C library's, not the compiler's
  std::printf("memcpy of 8 KiB tore %llu words here\n", static_cast<unsigned long long>(torn_words(copy, copy)));
}
#endif

}  // namespace
}  // namespace bonsai::base
