// SPDX-License-Identifier: Apache-2.0
// Work in a child process: its messages and its status arrive. If a signal ends it, only its own call fails.
#include "bench/driver/apart.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "bench/driver/engine_apart.h"
#include "bench/engines/pool_place.h"
#include "bench/engines/testing/faulty_engine.h"

namespace bonsai::bench {
namespace {

const std::atomic<bool> kNever{false};

Status ignore(std::string_view) { return Status::OK(); }

TEST(Apart, MessagesComeWholeAndInOrder) {
  std::vector<std::string> sent, got;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{70'000}, size_t{3}, size_t{1'000'000}})
    sent.emplace_back(bytes, static_cast<char>('a' + bytes % 26));
  const Status status = run_apart(
      [&](const Send& send) {
        for (const std::string& each : sent) send(each);
        return Status::OK();
      },
      [&](std::string_view message) {
        got.emplace_back(message);
        return Status::OK();
      },
      kNever);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(got, sent);
}

TEST(Apart, EveryStatusComesAsItIs) {
  for (const Status& one : {Status::OK(), Status::NotFound("a"), Status::InvalidArgument("b"), Status::NoSpace("c"),
                            Status::Corruption("d"), Status::IoError(""), Status::Unavailable("f"), Status::Busy("g"),
                            Status::NotSupported("h")}) {
    EXPECT_EQ(run_apart([&](const Send&) { return one; }, ignore, kNever).ToString(), one.ToString());
  }
}

TEST(Apart, TheEndBySignalIsNamed) {
  for (const auto& [signal, name] : {std::pair{SIGABRT, "SIGABRT"}, {SIGSEGV, "SIGSEGV"}, {SIGKILL, "SIGKILL"}}) {
    const Status status = run_apart(
        [signal = signal](const Send&) {
          ::signal(signal, SIG_DFL);  // of a test program that catches it
          ::raise(signal);
          return Status::OK();
        },
        ignore, kNever);
    EXPECT_TRUE(status.IsUnavailable());
    EXPECT_NE(status.message().find(name), std::string_view::npos) << status.ToString();
  }
  const Status left = run_apart([](const Send&) -> Status { ::_exit(7); }, ignore, kNever);
  EXPECT_NE(left.message().find("code 7"), std::string_view::npos) << left.ToString();
}

TEST(Apart, ARefusedMessageEndsTheChild) {
  const Status status = run_apart(
      [](const Send& send) {
        send("x");
        while (true) base::sleep_ms(1000);
        return Status::OK();
      },
      [](std::string_view) { return Status::Busy("enough"); }, kNever);
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
}

std::atomic<bool> asked{false};

TEST(Apart, StopAsksTheChildToEnd) {
  std::atomic<bool> stop{false};
  ASSERT_NE(::signal(SIGTERM, [](int) { asked = true; }), SIG_ERR);
  const Status status = run_apart(
      [](const Send& send) {
        send("begun");
        while (!asked) base::sleep_ms(1);
        return Status::NotFound("ended in order");
      },
      [&stop](std::string_view) {
        stop = true;
        return Status::OK();
      },
      stop);
  ::signal(SIGTERM, SIG_DFL);
  EXPECT_TRUE(status.IsNotFound()) << status.ToString();
  EXPECT_FALSE(asked) << "the child's copy is set, not this one";
}

// The child has sent all that it has, and has ended, before the first message is received.
TEST(Apart, NothingIsReceivedAfterStop) {
  std::atomic<bool> stop{false};
  int received = 0;
  ASSERT_NE(::signal(SIGTERM, SIG_IGN), SIG_ERR);
  const Status status = run_apart(
      [](const Send& send) {
        for (int i = 0; i < 100; ++i) send("message");
        return Status::OK();
      },
      [&](std::string_view) {
        stop = ++received == 3;
        base::sleep_ms(20);  // so that the child ends
        return Status::OK();
      },
      stop);
  ::signal(SIGTERM, SIG_DFL);
  EXPECT_EQ(received, 3);
  EXPECT_TRUE(status.IsUnavailable()) << "a run with missing messages is not whole: " << status.ToString();
}

// The clock jumps by more than the limit while the program waits for its child, as after a stop of both.
TEST(Apart, AStopOfBothIsNoSilenceOfTheChild) {
  void* const shared = ::mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const clock_ns = static_cast<uint64_t*>(shared);
  *clock_ns = base::kNsPerSecond;
  base::virtual_now_ns = clock_ns;
  std::string got;
  const Status status = run_apart(
      [clock_ns](const Send& send) {
        ::usleep(50'000);  // until the program waits
        *clock_ns += (kSilentMsMax + 1) * base::kNsPerMs;
        send("late");
        return Status::OK();
      },
      [&got](std::string_view message) {
        got += message;
        return Status::OK();
      },
      kNever);
  base::virtual_now_ns = nullptr;
  ::munmap(shared, sizeof(uint64_t));
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(got, "late");
}

// An engine that ends the process in the middle of its work, with a pool of its own.
class CrashingEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {}; }
  Status open(const EngineOptions& options) override { return place_.make(options.pool_dir, "", 1); }
  Status close() override {
    place_.remove();
    return Status::OK();
  }
  Status insert(std::string_view, std::string_view) override {
    if (++inserts_ < 50) return Status::OK();
    ::signal(SIGABRT, SIG_DFL);
    std::abort();
  }
  Status read(std::string_view, std::string*) override { return Status::NotFound(); }
  Status remove(std::string_view) override { return Status::OK(); }

 private:
  PoolPlace place_;
  int inserts_ = 0;
};

class EngineApart : public ::testing::Test {
 protected:
  Status run(const EngineEntry& entry) {
    RunConfig config;
    config.records = 200;
    config.operations = 100;
    config.threads = 2;
    config.pool_dir = folder_.path();
    const RunListener listener{.on_phase =
                                   [this](const std::string& engine, const std::string& phase, uint64_t operations) {
                                     phases_ += engine + " " + phase + " " + std::to_string(operations) + ";";
                                   },
                               .on_progress = {},
                               .on_result = [this](const RunResult& result) { results_.push_back(result); },
                               .on_note = [this](const std::string& note) { notes_ += note; },
                               .on_left_out = [this](const LeftOut& one) { notes_ += one.engine + " " + one.reason; }};
    Workload reads, scans;
    reads.name = "reads";
    scans.name = "scans";
    reads.shares = {};
    reads.shares[static_cast<size_t>(OpKind::kRead)] = 1;
    scans.shares = {};
    scans.shares[static_cast<size_t>(OpKind::kScan)] = 1;
    return run_engine_apart(entry, config, {{.workload = reads}, {.workload = scans}}, kNever, listener);
  }

  const testing::TempFolder folder_;
  std::string phases_, notes_;
  std::vector<RunResult> results_;
};

TEST_F(EngineApart, CallsTheListenerHere) {
  const Status status = run({"map", "", [] { return std::make_unique<FaultyEngine>(Fault::kNone); }});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(phases_, "map load 200;map reads 100;map scans 100;");
  ASSERT_EQ(results_.size(), 3U);
  EXPECT_EQ(results_[0].operations, 200U);
  EXPECT_EQ(results_[1].failures, 0U);
  EXPECT_EQ(results_[1].threads, 2U);
}

TEST_F(EngineApart, FailuresAndLeftOutWorkloadsCome) {
  ASSERT_TRUE(run({"map", "", [] { return std::make_unique<FaultyEngine>(Fault::kLosesKeys); }}).ok());
  ASSERT_EQ(results_.size(), 3U);
  EXPECT_GT(results_[1].failures, 0U);
  EXPECT_NE(results_[1].first_failure, "");
}

TEST_F(EngineApart, ACrashIsAnErrorAndLeavesNoPool) {
  const Status status = run({"crashing", "", [] { return std::make_unique<CrashingEngine>(); }});
  EXPECT_TRUE(status.IsUnavailable());
  EXPECT_NE(status.message().find("SIGABRT"), std::string_view::npos) << status.ToString();
  EXPECT_EQ(phases_, "crashing load 200;");
  EXPECT_NE(notes_.find("runs on 1 thread"), std::string::npos) << notes_;
  EXPECT_TRUE(results_.empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace bonsai::bench
