// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/far.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

constexpr size_t kBytes = 16384;
constexpr Site kSite{"test"};

// Memory in which every store is durable at once; records the operations.
class NearMedium final : public HookedMedium {
 public:
  NearMedium() : HookedMedium(nullptr, 0), room_(kBytes / sizeof(Page)) { set_view(room_[0].bytes, kBytes); }
  void store8(std::byte* dst, uint64_t value) override { came('s', dst), word_at(dst).store(value); }
  void copy(std::byte* dst, const void* src, size_t n) override { came('c', dst), racy_store(dst, src, n); }
  void nt_copy(std::byte* dst, const void* src, size_t n, const Site&) override {
    came('n', dst), racy_store(dst, src, n);
  }
  void flush(const std::byte* dst, size_t, const Site&) override { came('f', dst); }
  bool fence(const Site&) override { return ++fences, true; }

  std::string order;  // the operations and their lines, in order
  int fences = 0;

 private:
  void came(char op, const std::byte* dst) { order += op + std::to_string((dst - view()) / 64) + ' '; }
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> room_;
};

class FarTest : public ::testing::Test {
 protected:
  std::byte* at(uint64_t offset) { return far_.view() + offset; }
  uint64_t near_word(uint64_t offset) { return word_at(near_.view() + offset).load(); }
  // Polls until the ticket has ended.
  Status end(uint64_t ticket) {
    Status status;
    for (int polls = 0; !far_.ended(ticket, &status); ++polls) EXPECT_LT(polls, 100);
    return status;
  }
  void make_resident(uint64_t offset, uint64_t n) {
    std::vector<FarReads::Piece> pieces;
    EXPECT_TRUE(far_.open_resident(offset, n, &pieces).ok());
    EXPECT_TRUE(end(far_.begin(pieces, nullptr)).ok());
    far_.close_resident(pieces);
  }
  uint64_t carried(uint64_t offset) {
    uint64_t value = 0;
    const FarReads::Piece piece{offset, reinterpret_cast<std::byte*>(&value), sizeof value};
    EXPECT_TRUE(end(far_.begin({&piece, 1}, nullptr)).ok());
    return value;
  }

  NearMedium near_;
  FarMedium far_{near_, {.seed = 7}};
};

TEST_F(FarTest, StoresComeWithTheFenceOfTheirThreadInOrder) {
  const uint64_t content[2] = {5, 6};
  far_.store8(at(64), 1);
  far_.flush(at(64), 8, kSite);
  far_.nt_copy(at(0), content, sizeof content, kSite);
  far_.copy(at(128), content, sizeof content);
  EXPECT_EQ(near_.order, "");
  Thread("other", [&] { EXPECT_TRUE(far_.fence(kSite)); });
  EXPECT_EQ(near_.order, "") << "of another thread";
  EXPECT_TRUE(far_.fence(kSite));
  EXPECT_EQ(near_.order, "s1 c1 f1 n0 c2 ");
  EXPECT_EQ(near_.fences, 2);
  EXPECT_EQ(near_word(8), 6U);
  EXPECT_EQ(near_word(64), 1U);
  EXPECT_TRUE(far_.fence(kSite));
  EXPECT_EQ(near_.order, "s1 c1 f1 n0 c2 ") << "once";
}

TEST_F(FarTest, AFlushBringsWhatAnotherThreadHasStored) {
  const uint64_t content[2] = {5, 6};
  far_.copy(at(64), content, sizeof content);
  Thread("other", [&] {
    far_.flush(at(64), sizeof content, kSite);
    EXPECT_TRUE(far_.fence(kSite));
  });
  EXPECT_EQ(near_word(72), 6U);
}

// If two threads store to one word the later content stays, whichever fences last.
TEST_F(FarTest, AnOlderContentNeverReplacesANewerOne) {
  far_.store8(at(64), 1);
  Thread("other", [&] {
    far_.store8(at(64), 2);
    EXPECT_TRUE(far_.fence(kSite));
  });
  EXPECT_TRUE(far_.fence(kSite));
  EXPECT_EQ(near_word(64), 2U);
}

TEST_F(FarTest, OnlyResidentBytesCanBeReadWhereTheyAre) {
  near_.store8(near_.view() + 4096, 9);
  far_.store8(at(4104), 3);
  EXPECT_DEATH(static_cast<void>(word_at(at(4096)).load()), "");
  make_resident(4096, 1);
  EXPECT_EQ(word_at(at(4096)).load(), 9U);
  far_.store8(at(4104), 4);
  EXPECT_EQ(word_at(at(4104)).load(), 4U) << "before its fence, too";
  make_resident(4096, 8);
  EXPECT_EQ(word_at(at(4104)).load(), 4U) << "and is not fetched again";
  EXPECT_DEATH(static_cast<void>(word_at(at(0)).load()), "");
  EXPECT_EQ(far_.counts().resident_bytes, 4096U);
}

// Nobody can rely on what blank pages held, here or on the other side.
TEST_F(FarTest, BlankPagesAreWrittenAndNotRead) {
  near_.store8(near_.view() + 4096, 9);
  make_resident(8192, 8);
  ASSERT_TRUE(far_.open_blank(4096, 8192).ok());
  EXPECT_EQ(far_.resident_bytes(), 8192U);
  EXPECT_EQ(far_.counts().bytes, 4096U) << "of the page that was read before";
  EXPECT_NE(word_at(at(4096)).load(), 9U);
  EXPECT_EQ(word_at(at(8192)).load(), 0U) << "resident already";
  far_.store8(at(4104), 3);
  far_.flush(at(4104), 8, kSite);
  EXPECT_TRUE(far_.fence(kSite));
  far_.close_blank(4096, 4096);
  EXPECT_EQ(far_.resident_bytes(), 4096U);
  EXPECT_DEATH(static_cast<void>(word_at(at(4104)).load()), "");
  EXPECT_EQ(carried(4096), 9U) << "only what was flushed went there";
  EXPECT_EQ(carried(4104), 3U);
  EXPECT_DEATH(static_cast<void>(far_.open_blank(100, 4096)), "") << "whole pages";
}

// A thread stores what another one flushes and fences, as a buffered log's closer does. Its own fence comes when the
// page is closed, and when it is open again.
TEST_F(FarTest, AClosedPageIsLeftAloneByLaterFences) {
  std::byte* const pages[] = {at(4096), at(8192)};
  for (std::byte* const page : pages) {
    const uint64_t offset = page == pages[0] ? 4096 : 8192;
    ASSERT_TRUE(far_.open_blank(offset, 4096).ok());
    const uint64_t content = 7;
    far_.copy(page, &content, sizeof content);
    far_.store8(page + 8, 8);
    std::thread closer([&] {
      far_.flush(page, 16, kSite);
      EXPECT_TRUE(far_.fence(kSite));
    });
    closer.join();
    far_.close_blank(offset, 4096);
  }
  ASSERT_TRUE(far_.open_blank(8192, 4096).ok());
  EXPECT_TRUE(far_.fence(kSite));
  EXPECT_EQ(carried(4096), 7U);
  EXPECT_EQ(carried(4104), 8U);
  EXPECT_EQ(carried(8192), 7U) << "blank pages hold junk until they are stored to";
  far_.store8(pages[1], 9);
  EXPECT_TRUE(far_.fence(kSite));
  EXPECT_EQ(carried(8192), 9U);
}

// Against the contract. So it shows in what the other side has.
TEST_F(FarTest, AFlushThatIsFencedAfterItsPageWasClosedCarriesJunk) {
  ASSERT_TRUE(far_.open_blank(4096, 4096).ok());
  far_.store8(at(4096), 1);
  far_.flush(at(4096), 8, kSite);
  far_.close_blank(4096, 4096);
  EXPECT_TRUE(far_.fence(kSite));
  EXPECT_EQ(carried(4096), 0xe5e5e5e5e5e5e5e5U);
}

TEST_F(FarTest, ReadsComeLateAndCarryWhatWasFenced) {
  far_.store8(at(0), 1);
  EXPECT_EQ(carried(0), 0U);
  EXPECT_TRUE(far_.fence(kSite));
  EXPECT_EQ(carried(0), 1U);
  bool late = false;
  for (int i = 0; i < 20; ++i) {
    uint64_t value = 0;
    Status status;
    const FarReads::Piece piece{0, reinterpret_cast<std::byte*>(&value), sizeof value};
    const uint64_t ticket = far_.begin({&piece, 1}, nullptr);
    EXPECT_NE(value, 1U) << "not before it was waited for";
    late = late || !far_.ended(ticket, &status);
    if (!late) continue;
    EXPECT_TRUE(end(ticket).ok());
    break;
  }
  EXPECT_TRUE(late);
}

TEST_F(FarTest, WhatNobodyWaitsForArrivesAllTheSameAndIsHeldUntilThen) {
  far_.store8(at(8), 5);
  EXPECT_TRUE(far_.fence(kSite));
  const FarReads::Memory memory = far_.memory(8);
  const FarReads::Piece piece{8, memory.get(), 8};
  far_.silence(true);
  const uint64_t ticket = far_.begin({&piece, 1}, memory);
  Status status;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(far_.ended(ticket, &status));
  EXPECT_EQ(memory.use_count(), 2);
  far_.forget(ticket);
  EXPECT_EQ(memory.use_count(), 2);
  far_.silence(false);
  for (int i = 0; i < 8; ++i) {  // other reads
    far_.fail_reads(1);
    const FarReads::Memory other_memory = far_.memory(8);
    const FarReads::Piece other{0, other_memory.get(), 0};
    EXPECT_TRUE(end(far_.begin({&other, 1}, other_memory)).IsUnavailable());
  }
  EXPECT_EQ(memory.use_count(), 1);
  uint64_t value = 0;
  std::memcpy(&value, memory.get(), sizeof value);
  EXPECT_EQ(value, 5U);
}

TEST_F(FarTest, AFenceThatFailsDoesSoForGoodAndBringsAPart) {
  int parts = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    NearMedium near;
    FarMedium far(near, {.seed = seed});
    EXPECT_TRUE(far.health().ok());
    far.fail_fences(1);
    for (uint64_t offset = 0; offset < 640; offset += 64) far.store8(far.view() + offset, 1);
    EXPECT_FALSE(far.fence(kSite));
    parts += !near.order.empty() && near.order.find("s9") == std::string::npos ? 1 : 0;
    far.fail_fences(0);
    EXPECT_FALSE(far.fence(kSite));
    EXPECT_TRUE(far.health().IsUnavailable());
  }
  EXPECT_GT(parts, 5);
}

}  // namespace
}  // namespace bonsai::base
