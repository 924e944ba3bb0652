// SPDX-License-Identifier: Apache-2.0
// Connections that end, and go on as new ones without the pool being opened again: what was unanswered is sent again,
// reads wait, and beyond the bound updates fail for good. Over shm with real threads; on sim at every moment.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/probe.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"
#include "scale/await_read.h"
#include "scale/pool_server.h"
#include "scale/read_batch.h"
#include "scale/remote_link.h"
#include "scale/remote_medium.h"
#include "scale/testing/serving_node.h"
#include "scale/volume.h"

namespace bonsai::scale {
namespace {

inline constexpr base::Site kReconnectSite{"reconnect_test.flush"};
constexpr uint64_t kBytes = 512 << 10, kResident = 8 << 10;

bool write(RemoteMedium* medium, uint64_t offset, uint64_t word) {
  medium->nt_copy(medium->view() + offset, &word, sizeof word, kReconnectSite);
  return medium->fence(kReconnectSite);
}

Status read(RemoteMedium* medium, uint64_t offset, uint64_t* word) {
  VolumeOf<base::HookedMedium> volume({medium});
  ReadBatch reads(volume);
  const std::byte* const found = reads.issue(Addr(0, offset), sizeof *word);
  const Status status = reads.wait();
  if (status.ok()) std::memcpy(word, found, sizeof *word);
  return status;
}

std::unique_ptr<RemoteMedium> create_on(RemoteLink* link, const TargetName& name, size_t* target) {
  EXPECT_EQ("OK", link->open(name, PoolOp::kCreate, kBytes, 0, target).ToString());
  std::unique_ptr<RemoteMedium> medium;
  EXPECT_EQ("OK", RemoteMedium::make(link, *target, &medium).ToString());
  EXPECT_TRUE(make_resident(*medium, kResident).ok());
  return medium;
}

class Reconnect : public ::testing::Test {
 protected:
  void open(uint64_t limit_ms) {
    ASSERT_TRUE(RemoteLink::make(network_.make_fabric(), {.limit_ms = limit_ms, .workers = 3}, &link_).ok());
    medium_ = create_on(link_.get(), named("p"), &target_);
  }
  uint64_t word_of_file(uint64_t offset) {
    std::ifstream file(scratch_.file("p"), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    uint64_t word = ~uint64_t{0};
    file.read(reinterpret_cast<char*>(&word), sizeof word);
    return word;
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  ServingNode node_{&network_, scratch_.path()};
  std::unique_ptr<RemoteLink> link_;
  size_t target_ = 0;
  std::unique_ptr<RemoteMedium> medium_;
};

TEST_F(Reconnect, ANodeThatIsRestartedIsGoneOnWith) {
  open(30'000);
  uint64_t word = 0;
  for (uint64_t round = 1; round <= 4; ++round) {
    EXPECT_TRUE(write(medium_.get(), 64, round));          // resident
    EXPECT_TRUE(write(medium_.get(), 16'384, 2 * round));  // carried
    node_.end();
    node_.start();
    if (round % 2 == 0) {
      EXPECT_TRUE(write(medium_.get(), 72, round));
    }
    EXPECT_EQ("OK", read(medium_.get(), 16'384, &word).ToString());
    EXPECT_EQ(word, 2 * round);
    EXPECT_EQ(word_of_file(64), round);
  }
  EXPECT_EQ("OK", medium_->health().ToString());
  EXPECT_EQ(link_->target(target_)->connections[0]->openings(), 5U) << "once each time";
}

// Fences and reads that begin while the node is away end when it is back.
TEST_F(Reconnect, WhoWaitsGoesOnWhenTheNodeIsBack) {
  open(60'000);
  ASSERT_TRUE(write(medium_.get(), 16'384, 5));
  for (const uint64_t away_ms : {0, 30, 300}) {
    node_.end();
    std::atomic<int> waiting{3};
    base::Thread writer("writer", [&] {
      EXPECT_TRUE(write(medium_.get(), 64, away_ms + 1));
      --waiting;
    });
    base::Thread other("writer", [&] {
      EXPECT_TRUE(write(medium_.get(), 128, away_ms + 1));
      --waiting;
    });
    base::Thread reader("reader", [&] {
      uint64_t word = 0;
      EXPECT_EQ("OK", read(medium_.get(), 16'384, &word).ToString());
      EXPECT_EQ(word, 5U);
      --waiting;
    });
    base::sleep_ms(away_ms);
    EXPECT_EQ(waiting.load(), 3) << "nobody is answered by a node that is away";
    node_.start();
    writer.join();
    other.join();
    reader.join();
    EXPECT_EQ(word_of_file(64), away_ms + 1);
    EXPECT_EQ(word_of_file(128), away_ms + 1);
  }
}

// A node that is stopped keeps its connections: it is waited for, and nothing is made anew.
TEST_F(Reconnect, ANodeThatIsStoppedIsWaitedFor) {
  open(60'000);
  node_.pause(true);
  base::Thread writer("writer", [&] { EXPECT_TRUE(write(medium_.get(), 64, 7)); });
  base::sleep_ms(100);
  node_.pause(false);
  writer.join();
  EXPECT_EQ(word_of_file(64), 7U);
  EXPECT_EQ(link_->target(target_)->connections[0]->openings(), 1U);
}

TEST_F(Reconnect, BeyondTheBoundUpdatesFailForGoodAndReadsComeBack) {
  open(300);
  ASSERT_TRUE(write(medium_.get(), 16'384, 5));
  node_.end();
  const uint64_t begin_ns = base::now_ns();
  EXPECT_FALSE(write(medium_.get(), 64, 7));
  EXPECT_GE(base::now_ns() - begin_ns, 200 * base::kNsPerMs);
  EXPECT_LT(base::now_ns() - begin_ns, 20'000 * base::kNsPerMs);
  EXPECT_TRUE(medium_->health().IsUnavailable());
  EXPECT_NE(medium_->health().message().find("shm://node/p did not confirm a write"), std::string::npos);
  EXPECT_NE(medium_->health().message().find("start bonsaid there"), std::string::npos) << medium_->health().ToString();
  uint64_t word = 0;
  EXPECT_TRUE(read(medium_.get(), 16'384, &word).IsUnavailable());
  EXPECT_FALSE(write(medium_.get(), 64, 8)) << "at once";
  node_.start();
  Status status = Status::Unavailable("not read");
  for (base::BoundedWait wait("reads", 60'000); !status.ok() && !wait.expired(); wait.pause()) {
    status = read(medium_.get(), 16'384, &word);
  }
  EXPECT_EQ("OK", status.ToString());
  EXPECT_EQ(word, 5U);
  EXPECT_FALSE(write(medium_.get(), 64, 9));
  EXPECT_EQ(word_of_file(64), 0U) << "an update that has failed is not sent again";
}

TEST_F(Reconnect, OtherTargetsGoOn) {
  ServingNode beside(&network_, scratch_.path(), nullptr, nullptr, "beside");
  open(60'000);
  TargetName name;
  ASSERT_TRUE(parse_target_name("shm://beside/q", &name).ok());
  size_t other = 0;
  const auto there = create_on(link_.get(), name, &other);
  ASSERT_TRUE(write(there.get(), 16'384, 3));
  node_.end();
  base::Thread writer("writer", [&] { EXPECT_TRUE(write(medium_.get(), 64, 7)); });
  for (uint64_t round = 1; round <= 100; ++round) {
    uint64_t word = 0;
    EXPECT_TRUE(write(there.get(), 64, round));
    EXPECT_EQ("OK", read(there.get(), 16'384, &word).ToString());
  }
  EXPECT_EQ(word_of_file(64), 0U);
  node_.start();
  writer.join();
  EXPECT_EQ(link_->target(other)->connections[0]->openings(), 1U);
}

TEST_F(Reconnect, APoolThatWasReplacedOnItsNodeIsNotGoneOnWith) {
  open(1'000);
  node_.end();
  std::ofstream(scratch_.file("p"), std::ios::binary).seekp(static_cast<std::streamoff>(2 * kBytes - 1)).put('x');
  node_.start();
  EXPECT_FALSE(write(medium_.get(), 64, 7));
  EXPECT_NE(medium_->health().message().find("another pool"), std::string::npos) << medium_->health().ToString();
  EXPECT_EQ(word_of_file(64), 0U);
}

// Another owner got the pool while this one was away: it ends, and changes nothing.
TEST_F(Reconnect, AnOwnerThatWasReplacedEnds) {
  open(30'000);
  ASSERT_TRUE(write(medium_.get(), 16'384, 1));
  node_.end();
  node_.start();
  std::unique_ptr<RemoteLink> next;
  ASSERT_TRUE(RemoteLink::make(network_.make_fabric(), {.workers = 1}, &next).ok());
  size_t number = 0;
  ASSERT_EQ("OK", next->open(named("p"), PoolOp::kOpen, 0, 0, &number).ToString());
  std::unique_ptr<RemoteMedium> its;
  ASSERT_EQ("OK", RemoteMedium::make(next.get(), number, &its).ToString());
  ASSERT_TRUE(write(its.get(), 16'384, 2));
  EXPECT_FALSE(write(medium_.get(), 16'384, 3)) << "at once";
  EXPECT_NE(medium_->health().message().find("shm://node/p belongs to another owner now"), std::string::npos)
      << medium_->health().ToString();
  uint64_t word = 0;
  EXPECT_TRUE(read(medium_.get(), 16'384, &word).IsUnavailable());
  EXPECT_EQ("OK", read(its.get(), 16'384, &word).ToString());
  EXPECT_EQ(word, 2U);
  next.reset();
  EXPECT_FALSE(write(medium_.get(), 16'384, 4)) << "also when that one has left";
  EXPECT_EQ(word_of_file(16'384), 2U);
}

// ---- at every moment, in virtual time

constexpr uint64_t kLimitMs = 30'000;
constexpr uint32_t kThreads = 5, kWords = 3;
constexpr uint64_t kUnit = 64, kSpread = 16'384;  // spread over the lanes
constexpr uint64_t kLarge = 32'768, kLargeBytes = 20'000;
constexpr uint64_t kManyReads = 300'000;  // more than is in flight together

// A link whose threads write and read while its connections end, once or again and again.
class Moments : public ::testing::Test {
 protected:
  enum class Trouble { kBroken, kNodeEnds, kNetworkAway, kFewCredits };

  // The body has a node, a link and its medium.
  void run(uint64_t seed, bool remote_flush, const std::function<void()>& body) {
    rdma::SimOptions options;
    options.seed = seed;
    options.remote_flush = remote_flush;
    network_ = std::make_unique<rdma::SimNetwork>(options);
    fabric_ = network_->make_fabric();
    requests_max_ = 4'096;
    common_ = 0;
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = seed, .stack_bytes = size_t{256} << 10});
    scheduler.spawn([&] {
      start_node();
      ASSERT_TRUE(RemoteLink::make(fabric_, {.limit_ms = kLimitMs, .workers = 3}, &link_).ok());
      medium_ = create_on(link_.get(), named("p"), &target_);
      medium_->spread(kSpread, kThreads * kUnit, kUnit);
      body();
      EXPECT_EQ("OK", medium_->health().ToString());
      EXPECT_EQ("OK", link_->remove(target_).ToString());
      medium_.reset();
      link_.reset();
      end_node();
    });
    const Status status = scheduler.run();
    EXPECT_EQ("OK", status.ToString());
  }

  void start_node() {
    node_fabric_ = network_->make_fabric();
    over_ = false;
    node_ = base::Thread("node", [this] {
      PoolServer::Config config;
      config.folder = scratch_.path();
      config.address = "node";
      config.requests_max = requests_max_;
      std::unique_ptr<PoolServer> server;
      ASSERT_EQ("OK", PoolServer::make(node_fabric_.get(), config, &server).ToString());
      while (!over_) {
        if (paused_) base::sleep_us(50);
        if (!paused_) static_cast<void>(server->serve(1));
      }
    });
  }
  void end_node() {
    over_ = true;
    node_.join();
  }

  void work(Trouble trouble, uint64_t at_us) {
    std::array<uint64_t, kThreads> last{};
    std::vector<base::Thread> threads;
    bool stop = false;
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads.emplace_back("worker", [&, i] {
        while (!stop || last[i] < 3) {
          ++last[i];
          write_all(i, last[i]);
          read_all(i, last[i]);
        }
      });
    }
    base::sleep_us(at_us);
    make(trouble);
    base::sleep_us(200);
    stop = true;
    threads.clear();
    for (uint32_t i = 0; i < kThreads; ++i) read_all(i, last[i]);
  }

  // A word of the thread's unit on each lane, one that all threads write, and more than one READ takes.
  void write_all(uint32_t thread, uint64_t value) {
    const uint64_t common = ++common_;
    medium_->nt_copy(medium_->view() + 128, &common, sizeof common, kReconnectSite);
    for (uint64_t word = 0; word < kWords; ++word) {
      for (const uint64_t begin : {uint64_t{1024}, kSpread}) {
        const uint64_t at = begin + kUnit * thread + 8 * word;
        medium_->nt_copy(medium_->view() + at, &value, sizeof value, kReconnectSite);
      }
    }
    if (thread == 0) {
      const std::vector<uint64_t> large(kLargeBytes / 8, value);
      medium_->nt_copy(medium_->view() + kLarge, large.data(), kLargeBytes, kReconnectSite);
    }
    EXPECT_TRUE(medium_->fence(kReconnectSite));
    EXPECT_GE(word_at(128), common) << "an earlier content of a word replaced a later one";
  }
  void read_all(uint32_t thread, uint64_t value) {
    for (uint64_t word = 0; word < kWords; ++word) {
      EXPECT_EQ(word_at(kSpread + kUnit * thread + 8 * word), value);
      EXPECT_EQ(word_at(1024 + kUnit * thread + 8 * word), value);
    }
    VolumeOf<base::HookedMedium> volume({medium_.get()});
    ReadBatch reads(volume);
    const std::byte* const found = reads.issue(Addr(0, kLarge), kManyReads);
    EXPECT_EQ("OK", reads.wait().ToString());
    if (thread == 0) {
      const std::vector<uint64_t> large(kLargeBytes / 8, value);
      EXPECT_EQ(std::memcmp(found, large.data(), kLargeBytes), 0);
    }
  }
  uint64_t word_at(uint64_t offset) {
    uint64_t word = ~uint64_t{0};
    EXPECT_EQ("OK", read(medium_.get(), offset, &word).ToString());
    return word;
  }

  void make(Trouble trouble) {
    switch (trouble) {
      case Trouble::kBroken:
        return network_->overflow(*fabric_);
      case Trouble::kFewCredits:
        requests_max_ = 8;
        [[fallthrough]];
      case Trouble::kNodeEnds:
        end_node();
        base::sleep_us(50);
        return start_node();
      case Trouble::kNetworkAway:
        network_->cut(*fabric_, *node_fabric_);
        network_->cut(*node_fabric_, *fabric_);
        base::sleep_ms(100);
        return network_->heal();
    }
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  std::unique_ptr<rdma::SimNetwork> network_;
  std::shared_ptr<rdma::Fabric> fabric_;
  std::unique_ptr<rdma::Fabric> node_fabric_;
  bool over_ = false, paused_ = false;
  size_t requests_max_ = 0;
  base::Thread node_;
  std::unique_ptr<RemoteLink> link_;
  size_t target_ = 0;
  std::unique_ptr<RemoteMedium> medium_;
  uint64_t common_ = 0;
  std::map<std::string, uint64_t> before_;

  static std::map<std::string, uint64_t> hits() {
    std::map<std::string, uint64_t> all;
    base::Probe::each([&](const base::Probe& probe) { all[probe.name()] = probe.hits(); });
    return all;
  }
  // Since live_all() has begun.
  void expect_hits(const std::vector<std::string>& probes) {
    std::map<std::string, uint64_t> now = hits();
    for (const std::string& probe : probes) EXPECT_GT(now[probe], before_[probe]) << probe << ": it was not reached";
  }
  void live_all(Trouble trouble, uint64_t moments) {
    before_ = hits();
    const uint64_t first = base::seed_from_env_or(1);
    for (uint64_t i = 0; i < moments && !HasFailure(); ++i) {
      SCOPED_TRACE("BONSAI_SEED=" + std::to_string(first + i));
      run(first + i, trouble != Trouble::kFewCredits && i % 2 == 0, [&] { work(trouble, 3 * i % 251); });
    }
  }
};

TEST_F(Moments, ConnectionsBreak) {
  live_all(Trouble::kBroken, testing::budget<uint64_t>(30, 150, 3'000));
  expect_hits({"link.write_sent_again", "link.read_again", "link.read_withdrawn", "link.reconnected"});
}

TEST_F(Moments, TheNodeEndsAndIsRestarted) {
  live_all(Trouble::kNodeEnds, testing::budget<uint64_t>(30, 150, 3'000));
  expect_hits({"link.write_sent_again", "link.read_again", "link.reconnected"});
}

TEST_F(Moments, TheNetworkIsAway) {
  live_all(Trouble::kNetworkAway, testing::budget<uint64_t>(40, 100, 1'000));
  expect_hits({"link.write_sent_again", "link.read_again", "link.reconnected"});
}

// The node's end breaks when it cannot deliver an answer. This end learns that only when it asks.
TEST_F(Moments, AnAnswerThatWasLostIsAskedFor) {
  before_ = hits();
  run(base::seed_from_env_or(1), false, [&] {
    ASSERT_TRUE(write(medium_.get(), 64, 6));
    paused_ = true;
    base::sleep_ms(5);  // until its last round is over
    base::Thread writer("writer", [&] { EXPECT_TRUE(write(medium_.get(), 64, 7)); });
    base::sleep_ms(50);  // the request has arrived
    network_->cut(*node_fabric_, *fabric_);
    network_->cut(*fabric_, *node_fabric_);
    paused_ = false;
    base::sleep_ms(5'000);
    network_->heal();
    writer.join();
    EXPECT_EQ(word_at(64), 7U);
    EXPECT_GT(link_->target(target_)->connections[0]->openings(), 1U);
  });
  expect_hits({"link.looked_at_a_connection", "link.reconnected"});
}

// Reads that do not fit into one list, of which the first was posted before the node was restarted, and has arrived or
// not. The restarted node has the pool elsewhere.
TEST_F(Moments, AReadOfSeveralListsGoesOnOverANewConnection) {
  constexpr std::array<uint64_t, 3> kOffsets{40'000, 140'000, 300'000}, kSizes{60'000, 100'000, 40'000};
  for (const bool has_arrived : {false, true}) {
    SCOPED_TRACE(has_arrived ? "the first list has arrived" : "the first list has not arrived");
    run(base::seed_from_env_or(1), false, [&] {
      std::vector<base::FarReads::Piece> pieces;
      std::vector<base::FarReads::Memory> read;
      for (size_t i = 0; i < kOffsets.size(); ++i) {
        const std::vector<char> written(kSizes[i], static_cast<char>('a' + i));
        medium_->nt_copy(medium_->view() + kOffsets[i], written.data(), written.size(), kReconnectSite);
        read.push_back(medium_->memory(kSizes[i]));
        std::memset(read.back().get(), '-', kSizes[i]);
        pieces.push_back({kOffsets[i], read.back().get(), kSizes[i]});
      }
      ASSERT_TRUE(medium_->fence(kReconnectSite));
      const uint64_t base = link_->target(target_)->connections[0]->region().base;
      const uint64_t ticket = medium_->begin(pieces, std::make_shared<std::vector<base::FarReads::Memory>>(read));
      if (has_arrived) {
        static_cast<void>(word_at(1024));  // over the same lane
      } else {
        network_->overflow(*fabric_);
      }
      end_node();
      void* const at = std::bit_cast<void*>(base);
      void* const taken = ::mmap(at, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      start_node();
      EXPECT_TRUE(write(medium_.get(), 64, 7)) << "makes the connections anew";
      EXPECT_NE(link_->target(target_)->connections[0]->region().base, base);
      base::BoundedWait wait("a read of several lists", kLimitMs);
      EXPECT_EQ("OK", await_read(medium_.get(), ticket, &wait).ToString());
      for (size_t i = 0; i < kOffsets.size(); ++i) {
        const std::string found(reinterpret_cast<const char*>(read[i].get()), kSizes[i]);
        EXPECT_EQ(found.find_first_not_of(static_cast<char>('a' + i)), std::string::npos) << "of piece " << i;
      }
      ASSERT_EQ(taken, at);
      ::munmap(taken, kBytes);
    });
  }
}

TEST_F(Moments, TheNodeGrantsFewerCredits) {
  live_all(Trouble::kFewCredits, testing::budget<uint64_t>(30, 60, 500));
  expect_hits({"link.write_sent_again_waits", "link.reconnected"});
}

}  // namespace
}  // namespace bonsai::scale
