// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/shadow.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/nvm/testing.h"
#include "base/os_wait.h"
#include "base/testing/temp_folder.h"

namespace bonsai::base {
namespace {

using nvm_testing::create;
using nvm_testing::in_child;
using nvm_testing::reopen;
using testing::TempFolder;

constexpr Site kSite{"test"};
constexpr size_t kBytes = 64 * 1024;
constexpr std::array<uint64_t, 8> kOnes = {1, 1, 1, 1, 1, 1, 1, 1};

std::unique_ptr<ShadowMedium> make(const Mapping& mapping, const ShadowOptions& options) {
  std::unique_ptr<ShadowMedium> medium;
  const Status status = ShadowMedium::make(mapping, options, &medium);
  BONSAI_CHECK(status.ok());
  return medium;
}

// Runs with both ways of writing a line; the machine may support only system calls.
class Shadow : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options_.lines_by_system_call = GetParam();
    if (!GetParam() && !LineWriter::machine_stores_lines()) GTEST_SKIP() << "no 64-byte stores on this machine";
  }

  // Runs `body` on a shadow of the pool in a process that is then killed.
  void run_and_kill(const std::function<void(ShadowMedium&)>& body,
                    PersistenceDomain domain = PersistenceDomain::kAdr) {
    const std::string end = in_child([&]() -> std::string {
      std::unique_ptr<Mapping> mapping;
      MappingOptions opening;
      opening.domain = domain;
      if (!Mapping::open(path_, opening, &mapping).ok()) return "cannot open";
      auto medium = make(*mapping, options_);
      body(*medium);
      ::raise(SIGKILL);
      return "not reached";
    });
    ASSERT_EQ(end, "died");
  }

  // The word of the pool at an offset after the crash.
  uint64_t survived(size_t offset) { return word_at(reopen(path_)->data() + offset).load(); }

  TempFolder dir_ = TempFolder::on_tmpfs();
  std::string path_ = dir_.file("pool");
  ShadowOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Writers, Shadow, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "SystemCall" : "LineStore"; });

TEST_P(Shadow, OnlyFlushedAndFencedLinesSurvive) {
  { auto mapping = create(path_, kBytes); }
  run_and_kill([](ShadowMedium& medium) {
    medium.store8(medium.view(), 1);
    medium.store8(medium.view() + 128, 2);
    medium.flush(medium.view() + 128, 8, kSite);
    medium.fence(kSite);
    medium.store8(medium.view() + 256, 3);
    medium.flush(medium.view() + 256, 8, kSite);  // no fence
    medium.store8(medium.view() + 128, 4);        // after the fence
    medium.store8(medium.view() + 512, 5);
    BONSAI_CHECK(word_at(medium.view()).load() == 1 && word_at(medium.view() + 256).load() == 3);
  });
  EXPECT_EQ(survived(0), 0U);
  EXPECT_EQ(survived(128), 2U);
  EXPECT_EQ(survived(256), 0U);
  EXPECT_EQ(survived(512), 0U);
}

TEST_P(Shadow, FlushCoversEveryLineOfItsRange) {
  { auto mapping = create(path_, kBytes); }
  run_and_kill([](ShadowMedium& medium) {
    for (size_t line = 0; line < 8; ++line) medium.copy(medium.view() + 64 * line, kOnes.data(), 64);
    medium.flush(medium.view() + 127, 2, kSite);  // lines 1 and 2
    medium.flush(medium.view() + 320, 0, kSite);  // none
    medium.fence(kSite);
  });
  for (size_t line = 0; line < 8; ++line) EXPECT_EQ(survived(64 * line), line == 1 || line == 2 ? 1U : 0U) << line;
}

TEST_P(Shadow, NonTemporalCopyNeedsOnlyTheFence) {
  { auto mapping = create(path_, kBytes); }
  run_and_kill([](ShadowMedium& medium) {
    medium.nt_copy(medium.view(), kOnes.data(), 64, kSite);
    medium.fence(kSite);
    medium.nt_copy(medium.view() + 64, kOnes.data(), 64, kSite);
  });
  EXPECT_EQ(survived(56), 1U);
  EXPECT_EQ(survived(64), 0U);
}

TEST_P(Shadow, AnotherThreadsFenceDoesNotCompleteMyFlush) {
  { auto mapping = create(path_, kBytes); }
  run_and_kill([](ShadowMedium& medium) {
    medium.store8(medium.view(), 1);
    medium.flush(medium.view(), 8, kSite);
    std::thread([&] {
      medium.store8(medium.view() + 64, 2);
      medium.flush(medium.view() + 64, 8, kSite);
      medium.fence(kSite);
    }).join();
  });
  EXPECT_EQ(survived(0), 0U);
  EXPECT_EQ(survived(64), 2U);
}

TEST_P(Shadow, EadrKeepsEveryStore) {
  { auto mapping = create(path_, kBytes); }
  run_and_kill([](ShadowMedium& medium) { medium.store8(medium.view() + 8, 9); }, PersistenceDomain::kEadr);
  EXPECT_EQ(survived(8), 9U);
}

TEST_P(Shadow, CanaryLosesWhatWasFlushed) {
  { auto mapping = create(path_, kBytes); }
  options_.drops_flushes = true;
  run_and_kill([](ShadowMedium& medium) {
    medium.store8(medium.view(), 1);
    medium.flush(medium.view(), 8, kSite);
    medium.nt_copy(medium.view() + 64, kOnes.data(), 64, kSite);
    medium.fence(kSite);
  });
  EXPECT_EQ(survived(0), 0U);
  EXPECT_EQ(survived(64), 0U);
}

TEST_P(Shadow, EarlyEvictionsReachTheFileWithoutAFlush) {
  { auto mapping = create(path_, kBytes); }
  options_.eviction_seed = seed_from_env_or(7);
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(options_.eviction_seed));
  run_and_kill([](ShadowMedium& medium) {
    for (size_t line = 0; line < kBytes / 64; ++line) medium.store8(medium.view() + 64 * line, line + 1);
  });
  auto mapping = reopen(path_);
  size_t evicted = 0;
  for (size_t line = 0; line < kBytes / 64; ++line) {
    const uint64_t word = word_at(mapping->data() + 64 * line).load();
    ASSERT_TRUE(word == 0 || word == line + 1);
    evicted += word != 0;
  }
  EXPECT_GT(evicted, 0U);
  EXPECT_LT(evicted, kBytes / 64 / 4);
}

TEST_P(Shadow, StartsWithThePoolsContentAndLeavesItAlone) {
  auto mapping = create(path_, kBytes);
  word_at(mapping->data() + 8192).store(77);
  {
    auto medium = make(*mapping, options_);
    EXPECT_EQ(word_at(medium->view() + 8192).load(), 77U);
    medium->store8(medium->view() + 8192, 78);
    EXPECT_NE(medium->view(), mapping->data());
  }
  EXPECT_EQ(word_at(mapping->data() + 8192).load(), 77U);
}

// A process that writes payload, then commit word, into one line, with the commit word *below* the payload, is killed
// at random moments. If the shadow copied a line word by word, the file would show a commit without its payload.
TEST_P(Shadow, KilledAtRandomMomentsALineIsAPrefix) {
  { auto mapping = create(path_, kBytes); }
  const uint64_t seed = seed_from_env_or(fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  Random random(seed);
  options_.eviction_seed = 1;
  uint64_t last = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto mapping = reopen(path_);
      auto medium = make(*mapping, options_);
      for (uint64_t i = word_at(medium->view()).load() + 1;; ++i) {
        medium->store8(medium->view() + 56, i);
        medium->store8(medium->view(), i);
        medium->flush(medium->view(), 64, kSite);
        medium->fence(kSite);
      }
    }
    os_wait_until(now_ns() + 2 * kNsPerMs + random.below(5 * kNsPerMs));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    auto mapping = reopen(path_);
    const uint64_t commit = word_at(mapping->data()).load(), payload = word_at(mapping->data() + 56).load();
    EXPECT_GE(payload, commit);
    EXPECT_LE(payload, commit + 1);
    EXPECT_GE(commit, last);
    last = commit;
  }
  EXPECT_GT(last, 0U) << "the child never got to a fence";
}

// An older content of a line must never replace a newer one, whichever thread writes it back.
TEST_P(Shadow, RacingFencesOfOneLineEndWithTheNewestContent) {
  auto mapping = create(path_, kBytes);
  auto medium = make(*mapping, options_);
  constexpr uint64_t kRounds = BONSAI_TSAN == 0 ? 50'000 : 3'000;
  std::atomic<uint64_t> regressions{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= kRounds; ++i) {
        medium->store8(medium->view() + 8 * t, i);
        medium->flush(medium->view(), 64, kSite);
        medium->fence(kSite);
        // The file is hardware's side, which nothing reads while the medium is in use; only this test does.
        if (BONSAI_TSAN == 0 && word_at(mapping->data() + 8 * t).load() != i) ++regressions;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(regressions.load(), 0U);
  for (size_t t = 0; t < 4; ++t) EXPECT_EQ(word_at(mapping->data() + 8 * t).load(), kRounds);
}

// Two threads write rising numbers, each to two lines. A thread writes a number to its second line once the first line
// is durable with it. So at every moment the first line equals the second or is one ahead.
TEST_P(Shadow, DurableIsOfOneMoment) {
  auto mapping = create(path_, kBytes, PersistenceDomain::kAdr);
  auto medium = make(*mapping, options_);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (size_t at : {size_t{0}, size_t{8 * 1024}}) {
    writers.emplace_back([&, at] {
      for (uint64_t i = 1; !stop.load(); ++i) {
        for (size_t line : {at, at + 32 * 1024}) {
          medium->store8(medium->view() + line, i);
          medium->flush(medium->view() + line, 8, kSite);
          medium->fence(kSite);
        }
      }
    });
  }
  uint64_t last = 0;
  for (int i = 0; i < 200 || last < 10; ++i) {
    std::vector<std::byte> image = medium->durable();
    ASSERT_EQ(image.size(), kBytes);
    for (size_t at : {size_t{0}, size_t{8 * 1024}}) {
      const uint64_t first = word_at(image.data() + at).load();
      const uint64_t second = word_at(image.data() + at + 32 * 1024).load();
      EXPECT_TRUE(first == second || first == second + 1) << first << " and " << second;
      last = second;
    }
    std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& writer : writers) writer.join();
}

TEST_P(Shadow, Counts) {
  auto mapping = create(path_, kBytes);
  auto medium = make(*mapping, options_);
  const NvmCounters before = nvm_counters();
  medium->store8(medium->view(), 1);
  medium->copy(medium->view(), kOnes.data(), 20);
  medium->nt_copy(medium->view(), kOnes.data(), 64, kSite);
  medium->flush(medium->view(), 129, kSite);
  medium->fence(kSite);
  const NvmCounters after = nvm_counters();
  EXPECT_EQ(after.bytes_stored - before.bytes_stored, 92U);
  EXPECT_EQ(after.lines_flushed - before.lines_flushed, 3U);
  EXPECT_EQ(after.fences - before.fences, 1U);
  EXPECT_TRUE(medium->health().ok());
}

TEST(ShadowErrors, BadInput) {
  const TempFolder dir = TempFolder::on_tmpfs();
  const std::string path = dir.file("pool");
  std::unique_ptr<ShadowMedium> medium;
  {
    auto mapping = create(path, kBytes, PersistenceDomain::kEadr);
    ShadowOptions canary;
    canary.drops_flushes = true;
    EXPECT_TRUE(ShadowMedium::make(*mapping, canary, &medium).IsInvalidArgument());
  }
  {
    std::unique_ptr<Mapping> mapping;
    MappingOptions options;
    options.read_only = true;
    ASSERT_TRUE(Mapping::open(path, options, &mapping).ok());
    EXPECT_TRUE(ShadowMedium::make(*mapping, {}, &medium).IsInvalidArgument());
  }
  std::filesystem::resize_file(path, kBytes - 1);
  EXPECT_TRUE(ShadowMedium::make(*reopen(path), {}, &medium).IsCorruption());
  EXPECT_EQ(medium, nullptr);
}

}  // namespace
}  // namespace bonsai::base
