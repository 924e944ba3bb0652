// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/emulator.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/nvm/counters.h"
#include "base/nvm/media.h"
#include "base/nvm/racy_copy.h"
#include "base/nvm/testing.h"
#include "base/testing/temp_folder.h"

namespace bonsai::base {
namespace {

using nvm_testing::create;
using testing::TempFolder;

constexpr Site kSite{"test"};
constexpr size_t kBytes = 1 << 20;

// Time stands still unless a wait moves it, so that every deadline can be checked to the nanosecond.
thread_local uint64_t frozen_ns = 0;
thread_local std::vector<uint64_t> waits;

void wait_frozen(uint64_t deadline_ns) {
  waits.push_back(deadline_ns - frozen_ns);
  frozen_ns = deadline_ns;
}

class Emulator : public ::testing::Test {
 protected:
  Emulator() {
    frozen_ns = 1'000'000;
    waits.clear();
    virtual_now_ns = &frozen_ns;
  }
  ~Emulator() override { virtual_now_ns = nullptr; }

  TempFolder dir_ = TempFolder::on_tmpfs();
  std::unique_ptr<Mapping> mapping_ = create(dir_.file("pool"), kBytes);
  EmulatorModel model_{300, 100, 2'560'000'000, 256'000'000};  // a block: 100 ns to read, 1000 ns to write
  EmulatorMedium medium_{*mapping_, model_, wait_frozen};
};

TEST_F(Emulator, FenceWaitsForTheWriteLatency) {
  medium_.store8(medium_.view(), 1);
  medium_.flush(medium_.view(), 8, kSite);
  EXPECT_TRUE(waits.empty());
  medium_.fence(kSite);
  EXPECT_EQ(waits, (std::vector<uint64_t>{100}));
  medium_.fence(kSite);
  EXPECT_EQ(waits.size(), 1U) << "nothing was pending";
}

TEST_F(Emulator, TimeThatPassedBeforeTheFenceCounts) {
  medium_.flush(medium_.view(), 8, kSite);
  frozen_ns += 40;
  medium_.fence(kSite);
  EXPECT_EQ(waits, (std::vector<uint64_t>{60}));
  medium_.flush(medium_.view(), 8, kSite);
  frozen_ns += 100;
  medium_.fence(kSite);
  EXPECT_EQ(waits.size(), 1U);
}

TEST_F(Emulator, AFullBufferWritesAtTheMediasBandwidth) {
  const std::array<uint64_t, 32> block{};
  for (size_t i = 0; i < 64; ++i) medium_.nt_copy(medium_.view() + i * 256, block.data(), 256, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(waits, (std::vector<uint64_t>{100})) << "64 blocks fit";
  for (size_t i = 64; i < 74; ++i) medium_.nt_copy(medium_.view() + i * 256, block.data(), 256, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(waits.back(), 10'100U) << "ten blocks had to leave";
}

TEST_F(Emulator, ABlockThatWasStoredToInPartIsReadBeforeItIsWritten) {
  for (size_t i = 0; i < 64; ++i) medium_.flush(medium_.view() + i * 256, 192, kSite);
  medium_.flush(medium_.view() + 192, 8, kSite);
  medium_.fence(kSite);
  medium_.flush(medium_.view() + 64 * 256, 8, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(waits.back(), 1'100U) << "the first block is whole";
  medium_.flush(medium_.view() + 65 * 256, 8, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(waits.back(), 1'200U);
}

TEST_F(Emulator, LinesOfOneBlockAreCombined) {
  for (size_t i = 0; i < 64; ++i) medium_.flush(medium_.view() + i * 256, 8, kSite);
  for (size_t i = 0; i < 64; ++i) medium_.flush(medium_.view() + i * 256 + 64, 8, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(waits, (std::vector<uint64_t>{100}));
}

TEST_F(Emulator, ReadsQueueForBandwidth) {
  EXPECT_TRUE(medium_.reads_wait());
  EXPECT_EQ(medium_.read_deadline(1, 1'000, 1'000), 1'400U);
  EXPECT_EQ(medium_.read_deadline(2, 1'000, 1'000), 1'600U) << "two blocks, behind one";
  EXPECT_EQ(medium_.read_deadline(0, 1'000, 1'000), 0U);
  EXPECT_EQ(medium_.read_deadline(1, 10'000, 10'000), 10'400U);
  EXPECT_EQ(medium_.read_deadline(3, 20'000, 20'250), 20'600U) << "begun while the first were on their way";
  EXPECT_EQ(medium_.read_deadline(3, 30'000, 31'000), 31'300U) << "the last takes its time, too";
}

// Threads that read at the same time share the bandwidth, and together get no more than there is.
TEST_F(Emulator, ReadsOfThreadsShareTheBandwidth) {
  constexpr uint64_t kThreads = 4, kReads = 5'000, kBegin = 1'000'000, kBlockNs = 100, kLatencyNs = 300;
  std::array<uint64_t, kThreads> ends{};
  std::vector<std::thread> threads;
  for (uint64_t& end : ends) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kReads; ++i) {
        const uint64_t deadline = medium_.read_deadline(1 + i % 3, kBegin, kBegin);
        EXPECT_GE(deadline, end + kBlockNs * (1 + i % 3)) << "of a thread, one after the other";
        end = deadline;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t blocks = 0;
  for (uint64_t i = 0; i < kReads; ++i) blocks += kThreads * (1 + i % 3);
  const uint64_t all_ns = kBegin + blocks * kBlockNs + kLatencyNs, unreported_ns = kThreads * 10 * kBlockNs;
  const uint64_t last = medium_.read_deadline(1, kBegin, kBegin);
  EXPECT_LE(last, all_ns + kBlockNs);
  EXPECT_GE(last + unreported_ns, all_ns);
  for (const uint64_t end : ends) EXPECT_LE(end, all_ns);
  // Reads that are reported late do not occupy a device that was idle since.
  EXPECT_EQ(medium_.read_deadline(1, 2 * all_ns, 2 * all_ns), 2 * all_ns + kBlockNs + kLatencyNs);
}

TEST_F(Emulator, EadrFlushesCostNothing) {
  mapping_.reset();
  mapping_ = create(dir_.file("eadr"), kBytes, PersistenceDomain::kEadr);
  EmulatorMedium medium(*mapping_, model_, wait_frozen);
  medium.flush(medium.view(), 8, kSite);
  medium.fence(kSite);
  EXPECT_TRUE(waits.empty());
}

TEST_F(Emulator, AnotherThreadsFenceDoesNotWaitForMyFlush) {
  medium_.flush(medium_.view(), 8, kSite);
  std::thread([&] {
    medium_.fence(kSite);
    EXPECT_TRUE(waits.empty());
  }).join();
}

TEST_F(Emulator, StoresAndCounts) {
  const NvmCounters before = nvm_counters();
  medium_.store8(medium_.view() + 8, 5);
  medium_.copy(medium_.view() + 64, "bonsai", 6);
  medium_.nt_copy(medium_.view() + 128, "01234567", 8, kSite);
  medium_.flush(medium_.view(), 128, kSite);
  medium_.fence(kSite);
  const NvmCounters after = nvm_counters();
  EXPECT_EQ(after.bytes_stored - before.bytes_stored, 22U);
  EXPECT_EQ(after.lines_flushed - before.lines_flushed, 2U);
  EXPECT_EQ(after.fences - before.fences, 1U);
  EXPECT_EQ(word_at(mapping_->data() + 8).load(), 5U);
  EXPECT_EQ(std::memcmp(mapping_->data() + 128, "01234567", 8), 0);
}

TEST(EmulatorPresets, KnownAndUnknown) {
  EmulatorModel model;
  ASSERT_TRUE(emulator_preset("optane", &model).ok());
  EXPECT_EQ(model.read_latency_ns, 300U);
  ASSERT_TRUE(emulator_preset("dram", &model).ok());
  EXPECT_EQ(model.read_latency_ns + model.write_latency_ns + model.read_bytes_per_s + model.write_bytes_per_s, 0U);
  const Status status = emulator_preset("flash", &model);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find("use dram or optane"), std::string::npos);
}

TEST(PoliteWait, ReachesTheDeadlineAndIsBounded) {
  const uint64_t soon = now_ns() + 5 * kNsPerUs;
  wait_politely_until(soon);
  EXPECT_GE(now_ns(), soon);
  const uint64_t later = now_ns() + 2 * kNsPerMs;
  wait_politely_until(later);
  EXPECT_GE(now_ns(), later);
  const uint64_t begin = now_ns();
  wait_politely_until(begin + 3600 * kNsPerSecond);
  EXPECT_LT(now_ns() - begin, 30 * kNsPerSecond);
  uint64_t frozen = 0;
  virtual_now_ns = &frozen;
  wait_politely_until(100);  // returns, though the clock stands still
  virtual_now_ns = nullptr;
}

class MakeMedia : public ::testing::Test {
 protected:
  Status make(const TempFolder& dir, MediaOptions options, PersistenceDomain domain = PersistenceDomain::kAuto) {
    media_ = {};
    mapping_ = create(dir.file(std::to_string(++files_)), kBytes, domain);
    return make_media(*mapping_, options, &media_);
  }

  TempFolder tmpfs_ = TempFolder::on_tmpfs();
  int files_ = 0;
  std::unique_ptr<Mapping> mapping_;
  Media media_;
};

TEST_F(MakeMedia, AutomaticIsTheProductMediumExceptForPlainFiles) {
  ASSERT_TRUE(make(tmpfs_, {}).ok());
  EXPECT_EQ(media_.hooked, nullptr);
  EXPECT_EQ(media_.text, mapping_->text());
  EXPECT_TRUE(media_.emulated);
  const TempFolder disk = TempFolder::on_disk();
  ASSERT_TRUE(make(disk, {}).ok());
  if (mapping_->kind() != MediumKind::kFile) return;  // the temporary directory is a tmpfs here
  EXPECT_NE(media_.hooked, nullptr);
  EXPECT_NE(media_.text.find("slow"), std::string::npos);
  EXPECT_TRUE(make(disk, {}, PersistenceDomain::kEadr).IsInvalidArgument());
}

TEST_F(MakeMedia, ShadowAndEmulatorAreLabelled) {
  MediaOptions options;
  options.test.medium = TestMedium::kShadow;
  ASSERT_TRUE(make(tmpfs_, options).ok());
  EXPECT_EQ(media_.text, "shadow on " + mapping_->text());
  EXPECT_NE(media_.hooked->view(), mapping_->data());
  options.test.shadow_drops_flushes = true;
  ASSERT_TRUE(make(tmpfs_, options).ok());
  EXPECT_EQ(media_.text, "shadow without flushes on " + mapping_->text());
  EXPECT_TRUE(make(tmpfs_, options, PersistenceDomain::kEadr).IsInvalidArgument());
  options.test.medium = TestMedium::kEmulator;
  ASSERT_TRUE(make(tmpfs_, options).ok());
  EXPECT_EQ(media_.text, "optane model on " + mapping_->text());
  EXPECT_GT(media_.hooked->read_deadline(1, 0, 0), 0U);
  const TempFolder disk = TempFolder::on_disk();
  ASSERT_TRUE(make(disk, options).ok());
  EXPECT_EQ(media_.text.find("msync"), std::string::npos) << "only the file medium calls it";
  options.test.emulator_preset = "flash";
  EXPECT_TRUE(make(tmpfs_, options).IsInvalidArgument());
  EXPECT_EQ(media_.hooked, nullptr);
}

}  // namespace
}  // namespace bonsai::base
