// SPDX-License-Identifier: Apache-2.0
#include "scale/read_batch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/epoch.h"
#include "base/nvm/far.h"

namespace bonsai::scale {
namespace {

constexpr base::Site kReadSite{"test"};

// Memory whose reads take time when asked; notes them.
class SlowMedium final : public base::HookedMedium {
 public:
  static constexpr size_t kBytes = 16384;
  SlowMedium() : HookedMedium(nullptr, 0) { set_view(bytes_of_view_.data(), kBytes); }

  void store8(std::byte* dst, uint64_t value) override { std::memcpy(dst, &value, sizeof value); }
  void copy(std::byte* dst, const void* src, size_t n) override { std::memcpy(dst, src, n); }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site&) override { std::memcpy(dst, src, n); }
  void flush(const std::byte*, size_t, const base::Site&) override {}
  bool fence(const base::Site&) override { return true; }
  [[nodiscard]] bool reads_wait() const override { return read_ns != 0; }
  [[nodiscard]] uint64_t read_deadline(uint64_t blocks, uint64_t first_ns, uint64_t last_ns) override {
    reads.push_back(blocks);
    EXPECT_LE(first_ns, last_ns);
    first_issued_ns = first_ns;
    return last_ns + read_ns;
  }

  uint64_t read_ns = 0;
  std::vector<uint64_t> reads;
  uint64_t first_issued_ns = 0;

 private:
  alignas(64) std::array<std::byte, kBytes> bytes_of_view_{};
};

TEST(ReadBatch, AreIssuedTogetherAndWaitedForOnce) {
  SlowMedium first, second;
  first.read_ns = second.read_ns = 100'000;
  const VolumeOf<base::HookedMedium> volume({&first, &second});
  ASSERT_TRUE(volume.reads_wait());
  ReadBatch reads(volume);
  const uint64_t begin_ns = base::now_ns();
  reads.add(Addr(0, 300), 8);
  reads.add(Addr(0, 400), 100);  // in the same block
  reads.add(Addr(0, 1000), 100);
  reads.add(Addr(1, 0), 257);
  reads.add(Addr(1, 4000), 0);
  EXPECT_TRUE(second.reads.empty());
  EXPECT_TRUE(reads.wait().ok());
  EXPECT_EQ(first.reads, std::vector<uint64_t>{3});
  EXPECT_EQ(second.reads, std::vector<uint64_t>{2});
  EXPECT_GE(base::now_ns() - begin_ns, 100'000U);
  EXPECT_TRUE(reads.wait().ok());
  static_cast<void>(reads.issue(Addr(1, 256), 1));
  EXPECT_TRUE(reads.wait().ok());  // still there
  EXPECT_EQ(second.reads.size(), 1U);
  static_cast<void>(reads.issue(Addr(1, 512), 1));
  EXPECT_TRUE(reads.wait().ok());
  EXPECT_EQ(second.reads.size(), 2U);
}

// Their time runs from when they were issued, not from when they are waited for.
TEST(ReadBatch, TakeTheirTimeWhileTheReaderDoesSomethingElse) {
  SlowMedium medium;
  medium.read_ns = 50'000'000;
  const VolumeOf<base::HookedMedium> volume({&medium});
  ReadBatch reads(volume);
  EXPECT_EQ(reads.begin(), 0U) << "nothing was issued";
  const uint64_t before_ns = base::now_ns();
  reads.add(Addr(0, 300), 8, 2);
  reads.add(Addr(0, 310), 8);  // in the same block
  const uint64_t issued_ns = base::now_ns();
  const uint64_t asked_ns = reads.begin();
  EXPECT_EQ(medium.reads, std::vector<uint64_t>{3});
  EXPECT_GE(medium.first_issued_ns, before_ns);
  EXPECT_LE(medium.first_issued_ns, issued_ns);
  EXPECT_GE(asked_ns, issued_ns);
  EXPECT_TRUE(reads.wait(asked_ns + medium.read_ns).ok());  // a later time, so it is not waited for
  EXPECT_LT(base::now_ns(), asked_ns + medium.read_ns);
  reads.add(Addr(0, 1000), 1);
  const uint64_t again_ns = reads.begin();
  EXPECT_TRUE(reads.wait(again_ns).ok());
  EXPECT_GE(base::now_ns(), again_ns + medium.read_ns);
}

TEST(ReadBatch, CostNothingWhereTheyDoNotWait) {
  SlowMedium medium;
  const VolumeOf<base::HookedMedium> volume({&medium});
  EXPECT_FALSE(volume.reads_wait());
  ReadBatch reads(volume);
  static_cast<void>(reads.issue(Addr(0, 300), 8));
  EXPECT_TRUE(reads.wait().ok());
  EXPECT_TRUE(medium.reads.empty());
}

// Two far targets and a mapped one; each word holds its offset, and its target in the first byte.
class FarTargets : public ::testing::Test {
 protected:
  FarTargets() {
    std::vector<uint64_t> words(SlowMedium::kBytes / 8);
    for (size_t target = 0; target < near_.size(); ++target) {
      for (size_t i = 0; i < words.size(); ++i) words[i] = value_at(target, 8 * i);
      std::memcpy(near_[target].view(), words.data(), SlowMedium::kBytes);
    }
  }
  static uint64_t value_at(size_t target, uint64_t offset) { return target << 32 | offset; }
  static uint64_t word(const std::byte* at) {
    uint64_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  std::array<SlowMedium, 3> near_;
  base::FarMedium one_{near_[0], {.seed = 3, .limit_ms = 50}};
  base::FarMedium two_{near_[1], {.seed = 4, .limit_ms = 50}};
  VolumeOf<base::HookedMedium> volume_{{&one_, &two_, &near_[2]}};
};

TEST_F(FarTargets, BytesComeWithTheWaitInOneListForEachTarget) {
  ReadBatch reads(volume_);
  const std::byte* mapped = reads.issue(Addr(2, 800), 8);
  EXPECT_EQ(mapped, near_[2].view() + 800);
  std::vector<const std::byte*> places;
  for (uint64_t offset = 0; offset < 4096; offset += 128) {
    places.push_back(reads.issue(Addr(0, offset), 8));
    places.push_back(reads.issue(Addr(1, offset + 8), 16));
  }
  EXPECT_EQ(one_.counts().lists, 0U);
  reads.begin();
  EXPECT_EQ(one_.counts().lists, 1U);
  ASSERT_TRUE(reads.wait().ok());
  ASSERT_TRUE(reads.wait().ok()) << "nothing more";
  EXPECT_EQ(word(mapped), value_at(2, 800));
  for (uint64_t i = 0; i < places.size(); i += 2) {
    EXPECT_EQ(word(places[i]), value_at(0, 64 * i));
    EXPECT_EQ(word(places[i + 1]), value_at(1, 64 * i + 8));
    EXPECT_EQ(word(places[i + 1] + 8), value_at(1, 64 * i + 16));
  }
  EXPECT_EQ(one_.counts().lists, 1U);
  EXPECT_EQ(one_.counts().reads, 32U);
  EXPECT_EQ(one_.counts().bytes, 32U * 8);
  EXPECT_EQ(two_.counts().lists, 1U);
  EXPECT_EQ(two_.counts().bytes, 32U * 16);
  const std::byte* again = reads.issue(Addr(0, 8), 8);
  ASSERT_TRUE(reads.wait().ok());
  EXPECT_EQ(word(again), value_at(0, 8));
  EXPECT_EQ(word(places[0]), value_at(0, 0)) << "what came before stays";
}

TEST_F(FarTargets, PartsOfAThingKeepTheirDistance) {
  ReadBatch reads(volume_);
  const std::byte* place = reads.place(Addr(0, 1000), 3000);
  const std::byte* begin = begin_of(place, 1000);
  reads.read(Addr(0, 1000), 8, place);
  reads.read(Addr(0, 3992), 8, begin + 3992);
  ASSERT_TRUE(reads.wait().ok());
  EXPECT_EQ(word(begin + 1000), value_at(0, 1000));
  EXPECT_EQ(word(begin + 3992), value_at(0, 3992));
  EXPECT_EQ(one_.counts().bytes, 16U) << "and nothing between them";
}

TEST_F(FarTargets, ATargetThatIsNotFetchedIsNamed) {
  const std::array<Volume::Range, 2> ranges = {{{Addr(0, 0), 4096}, {Addr(1, 8192), 8}}};
  two_.silence(true);
  const Status status = volume_.fetch(ranges);
  EXPECT_TRUE(status.IsUnavailable());
  EXPECT_NE(status.message().find("target 1"), std::string::npos) << status.ToString();
  two_.silence(false);
  ASSERT_TRUE(volume_.fetch(ranges).ok());
  EXPECT_EQ(word(volume_.resident(Addr(0, 96))), value_at(0, 96));
  EXPECT_EQ(word(volume_.resident(Addr(1, 8192))), value_at(1, 8192));
}

TEST_F(FarTargets, OnlyWhatWasFetchedIsResident) {
  EXPECT_EQ(ReadBatch(volume_).mapped(Addr(0, 0)), nullptr);
  EXPECT_NE(ReadBatch(volume_).mapped(Addr(2, 0)), nullptr);
  ASSERT_TRUE(volume_.fetch(Addr(0, 4096), 100).ok());
  ASSERT_TRUE(volume_.fetch(Addr(2, 0), 100).ok());
  EXPECT_EQ(word(volume_.resident(Addr(0, 4096 + 96))), value_at(0, 4096 + 96));
  EXPECT_DEATH(EXPECT_EQ(word(volume_.resident(Addr(0, 8192))), 0U), "") << "not fetched";
  volume_.store8(Addr(0, 4096), 7);
  volume_.store8(Addr(0, 8192), 8);
  EXPECT_EQ(word(volume_.resident(Addr(0, 4096))), 7U) << "one's own stores";
  ReadBatch reads(volume_);
  const std::byte* early = reads.issue(Addr(0, 8192), 8);
  ASSERT_TRUE(reads.wait().ok());
  EXPECT_EQ(word(early), value_at(0, 8192)) << "carried is what was fenced";
  volume_.flush(Addr(0, 8192), 8, kReadSite);
  ASSERT_TRUE(volume_.fence(kReadSite));
  const std::byte* late = reads.issue(Addr(0, 8192), 8);
  ASSERT_TRUE(reads.wait().ok());
  EXPECT_EQ(word(late), 8U);
}

TEST_F(FarTargets, AFailureIsOfItsTargetAndAnotherReadMaySucceed) {
  one_.fail_reads(1);
  ReadBatch reads(volume_);
  static_cast<void>(reads.issue(Addr(0, 0), 8));
  const std::byte* other = reads.issue(Addr(1, 16), 8);
  const Status status = reads.wait();
  EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
  EXPECT_NE(status.message().find("target 0"), std::string::npos) << status.ToString();
  EXPECT_EQ(volume_.unavailable().message(), status.message());
  EXPECT_TRUE(reads.lost(Addr(0, 500)));
  EXPECT_FALSE(reads.lost(Addr(1, 500)) || reads.lost(Addr(2, 500)));
  EXPECT_EQ(word(other), value_at(1, 16));
  EXPECT_TRUE(volume_.fetch(Addr(0, 0), 8).IsUnavailable());
  one_.fail_reads(0);
  const std::byte* again = reads.issue(Addr(0, 24), 8);
  ASSERT_TRUE(reads.wait().ok());
  EXPECT_EQ(word(again), value_at(0, 24));
  EXPECT_FALSE(reads.lost(Addr(0, 0)));
}

// A target that says nothing costs its bound; what it was to write to is kept until it has.
TEST_F(FarTargets, ASilentTargetIsWaitedForBoundedly) {
  one_.silence(true);
  {
    ReadBatch reads(volume_);
    static_cast<void>(reads.issue(Addr(0, 0), 4096));
    const uint64_t begin_ns = base::now_ns();
    EXPECT_TRUE(reads.wait().IsUnavailable());
    EXPECT_LT(base::now_ns() - begin_ns, 5'000'000'000U);
    static_cast<void>(reads.issue(Addr(0, 64), 4096));
    reads.begin();  // and is not waited for at all
  }
  one_.silence(false);
  for (int i = 0; i < 8; ++i) {  // late answers arrive meanwhile
    ReadBatch reads(volume_);
    const std::byte* at = reads.issue(Addr(0, 128), 8);
    ASSERT_TRUE(reads.wait().ok());
    EXPECT_EQ(word(at), value_at(0, 128));
  }
}

TEST_F(FarTargets, SiblingsRunWhileOneWaits) {
  base::Scheduler scheduler{base::Scheduler::Options()};
  bool waiting = false, ran = false;
  one_.silence(true);
  scheduler.spawn(
      [&] {
        ReadBatch reads(volume_);
        static_cast<void>(reads.issue(Addr(0, 0), 8));
        waiting = true;
        EXPECT_TRUE(reads.wait().ok());
        EXPECT_TRUE(ran);
      },
      "reader");
  scheduler.spawn(
      [&] {
        ran = waiting;
        one_.silence(false);
      },
      "sibling");
  EXPECT_TRUE(scheduler.run().ok());
}

TEST_F(FarTargets, BytesStayForTheGuardInWhichTheirBatchEnded) {
  base::EpochDomain epochs;
  volume_.set_epochs(&epochs);
  auto guard = epochs.enter();
  const std::byte* at = nullptr;
  {
    ReadBatch reads(volume_);
    at = reads.issue(Addr(0, 40), 8);
    ASSERT_TRUE(reads.wait().ok());
  }
  epochs.collect();
  EXPECT_EQ(epochs.retired_objects(), 1U);
  EXPECT_EQ(word(at), value_at(0, 40));
  guard.release();
  EXPECT_TRUE(epochs.drain(1'000));
  EXPECT_EQ(epochs.retired_objects(), 0U);
  volume_.set_epochs(nullptr);
}

}  // namespace
}  // namespace bonsai::scale
