// SPDX-License-Identifier: Apache-2.0
// The workers of a remote link: which worker carries a request, that workers do not wait for each other, and that the
// link fails as a whole. On sim, whose device model shows which request waits for which; with real threads over shm.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"
#include "scale/pool_server.h"
#include "scale/read_batch.h"
#include "scale/remote_link.h"
#include "scale/remote_medium.h"
#include "scale/residence.h"
#include "scale/testing/serving_node.h"
#include "scale/volume.h"

namespace bonsai::scale {
namespace {

inline constexpr base::Site kWorkersSite{"remote_workers_test.flush"};
constexpr uint64_t kTargetBytes = 64 << 10;
constexpr uint64_t kListNs = 100'000;  // that a worker takes for a list; far more than the network does
constexpr size_t kListsMax = 4;        // of a worker

// A fabric whose callers a test names, and whose workers it looks at.
class WatchedFabric final : public rdma::Fabric {
 public:
  explicit WatchedFabric(std::unique_ptr<rdma::Fabric> fabric) : fabric_(std::move(fabric)) {}
  [[nodiscard]] const rdma::Capabilities& capabilities() const override { return fabric_->capabilities(); }
  Status register_region(std::span<std::byte> memory, rdma::Rights rights,
                         std::unique_ptr<rdma::Region>* region) override {
    if (registers_no_more_) return Status::NoSpace("no more memory can be registered");
    return fabric_->register_region(memory, rights, region);
  }
  Status make_worker(std::unique_ptr<rdma::Worker>* worker) override {
    const Status status = fabric_->make_worker(worker);
    if (status.ok()) workers_.push_back(worker->get());
    return status;
  }
  [[nodiscard]] uint32_t caller() const override {
    const auto found = slots_.find(base::Scheduler::number());
    return found != slots_.end() ? found->second : 0;
  }

  // Makes the calling coroutine stand for the thread of that number.
  void be(uint32_t slot) { slots_[base::Scheduler::number()] = slot; }
  void register_no_more() { registers_no_more_ = true; }
  // The lists that each worker of the link has posted.
  [[nodiscard]] std::vector<uint64_t> lists() const {
    std::vector<uint64_t> lists;
    for (const rdma::Worker* worker : workers_) lists.push_back(worker->traffic().round_trips);
    return lists;
  }

 private:
  const std::unique_ptr<rdma::Fabric> fabric_;
  std::vector<const rdma::Worker*> workers_;
  std::map<size_t, uint32_t> slots_;
  bool registers_no_more_ = false;
};

class RemoteWorkers : public ::testing::Test {
 protected:
  explicit RemoteWorkers(const rdma::SimOptions& options = slow_poster()) : network_(options) {}
  // Runs `body` in virtual time, with a node that serves pools. The devices of its network take kListNs to post a list.
  void run(const std::function<void()>& body) {
    std::unique_ptr<PoolServer> server;
    PoolServer::Config config;
    config.folder = scratch_.path();
    config.address = "node";
    config.domain = domain_;
    base::Scheduler scheduler({.virtual_time = true});
    bool over = false;
    scheduler.spawn([&] {
      ASSERT_EQ("OK", PoolServer::make(node_.get(), config, &server).ToString());
      while (!over) static_cast<void>(server->serve(5));
    });
    scheduler.spawn([&] {
      body();
      link_.reset();
      over = true;
    });
    const Status status = scheduler.run();
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  void make_link(size_t workers) {
    link_.reset();
    fabric_ = std::make_shared<WatchedFabric>(network_.make_fabric());
    ASSERT_EQ("OK", RemoteLink::make(fabric_, {.limit_ms = 100, .workers = workers}, &link_).ToString());
  }
  std::unique_ptr<RemoteMedium> create(const std::string& pool, size_t* target) {
    EXPECT_EQ("OK", link_->open(named(pool), PoolOp::kCreate, kTargetBytes, 0, target).ToString());
    std::unique_ptr<RemoteMedium> medium;
    EXPECT_EQ("OK", RemoteMedium::make(link_.get(), *target, &medium).ToString());
    EXPECT_TRUE(make_resident(*medium, 4096).ok());
    return medium;
  }
  Status read(size_t target, uint64_t offset, uint64_t* word) {
    const base::FarReads::Memory memory = link_->reads().memory(sizeof *word);
    const base::FarReads::Piece piece{offset, memory.get(), sizeof *word};
    const uint64_t ticket = link_->reads().begin(link_->target(target), {&piece, 1}, memory);
    Status status;
    for (base::BoundedWait wait("read", 1'000); !link_->reads().ended(ticket, &status); wait.pause()) {
      if (!wait.expired()) continue;
      link_->reads().forget(ticket);
      return wait.status();
    }
    std::memcpy(word, memory.get(), sizeof *word);
    return status;
  }
  bool write(RemoteMedium* medium, uint64_t offset, uint64_t word) {
    medium->store8(medium->view() + offset, word);
    medium->flush(medium->view() + offset, 8, kWorkersSite);
    return medium->fence(kWorkersSite);
  }
  // Runs `what` in `threads` "threads" at the same time. Returns how long it took.
  uint64_t together(uint32_t threads, const std::function<void(uint32_t)>& what) {
    const uint64_t begin_ns = base::now_ns();
    uint32_t left = threads;
    for (uint32_t slot = 0; slot < threads; ++slot) {
      base::Scheduler::current()->spawn([&, slot] {
        fabric_->be(slot);
        what(slot);
        --left;
      });
    }
    while (left > 0) base::sleep_us(1);
    return base::now_ns() - begin_ns;
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  static rdma::SimOptions slow_poster() {
    auto options = rdma::SimOptions::with_device(
        {.name = "slow poster", .wire_ns = 2'000, .list_cpu_ns = kListNs, .bytes_per_ns = 10}, 1);
    options.lists_pending_max = kListsMax;
    return options;
  }
  rdma::SimNetwork network_;
  std::unique_ptr<rdma::Fabric> node_ = network_.make_fabric();
  std::shared_ptr<WatchedFabric> fabric_;
  std::unique_ptr<RemoteLink> link_;
  rdma::RemoteDomain domain_ = rdma::RemoteDomain::kAdr;
};

// A network whose packets are late, lost and sent again, so that connections overtake each other.
class RemoteWorkersOutOfStep : public RemoteWorkers {
 protected:
  RemoteWorkersOutOfStep() : RemoteWorkers(rdma::SimOptions()) {}
};

TEST_F(RemoteWorkers, ThreadsReadOverWorkersOfTheirOwnAtTheSameTime) {
  constexpr uint64_t kReads = 10;
  run([&] {
    std::map<size_t, uint64_t> took;
    for (const size_t workers : {1, 2, 3}) {
      make_link(workers);
      size_t target = 0;
      const auto medium = create("p" + std::to_string(workers), &target);
      ASSERT_TRUE(write(medium.get(), 64, 7));
      const std::vector<uint64_t> before = fabric_->lists();
      took[workers] = together(2, [&](uint32_t) {
        uint64_t word = 0;
        for (uint64_t i = 0; i < kReads; ++i) {
          EXPECT_EQ("OK", read(target, 64, &word).ToString());
          EXPECT_EQ(word, 7u);
        }
      });
      std::vector<uint64_t> lists = fabric_->lists();
      for (size_t i = 0; i < workers; ++i) lists[i] -= before[i];
      const std::vector<uint64_t> expected = workers == 1   ? std::vector<uint64_t>{2 * kReads}
                                             : workers == 2 ? std::vector<uint64_t>{0, 2 * kReads}
                                                            : std::vector<uint64_t>{0, kReads, kReads};
      EXPECT_EQ(lists, expected) << "a thread keeps to its worker, and none reads over that of the writes";
    }
    EXPECT_GE(took[1], 2 * kReads * kListNs) << "one after the other";
    EXPECT_GE(took[2], 2 * kReads * kListNs);
    EXPECT_LT(took[3], 3 * kReads * kListNs / 2) << "side by side";
  });
}

TEST_F(RemoteWorkers, AWriteDoesNotWaitForReads) {
  run([&] {
    make_link(2);
    size_t target = 0;
    const auto medium = create("p", &target);
    uint64_t write_ns = 0;
    together(6, [&](uint32_t slot) {
      uint64_t word = 0;
      if (slot != 5) {
        EXPECT_EQ("OK", read(target, 64, &word).ToString());
        return;
      }
      const uint64_t begin_ns = base::now_ns();
      EXPECT_TRUE(write(medium.get(), 128, 1));
      write_ns = base::now_ns() - begin_ns;
    });
    EXPECT_LT(write_ns, 3 * kListNs) << "its list, and the answer's";
  });
}

// A READ that the node refuses breaks the connection that it came over, once more after it was made anew. It fails
// alone: its target and others go on.
TEST_F(RemoteWorkers, AReadThatIsRefusedFailsAlone) {
  run([&] {
    make_link(3);
    size_t target = 0, other = 0;
    const auto medium = create("p", &target), beside = create("q", &other);
    ASSERT_TRUE(write(medium.get(), 64, 7));
    const uint64_t connected_before = link_->target(target)->connections[1]->openings();
    together(1, [&](uint32_t) {
      uint64_t word = 0;
      EXPECT_EQ("OK", read(target, 64, &word).ToString());
      const Status refused = read(target, uint64_t{1} << 40, &word);
      EXPECT_TRUE(refused.IsUnavailable()) << refused.ToString();
      EXPECT_NE(refused.message().find("shm://node/p"), std::string::npos) << refused.ToString();
    });
    EXPECT_TRUE(link_->target(target)->state.is_apart());
    EXPECT_TRUE(write(beside.get(), 64, 8)) << "another target goes on";
    EXPECT_EQ(link_->target(other)->connections[1]->openings(), 1U);
    EXPECT_TRUE(write(medium.get(), 64, 8)) << "and this one, over connections that are made now";
    EXPECT_EQ(link_->target(target)->connections[1]->openings(), connected_before + 2) << "twice";
    EXPECT_EQ("OK", link_->status(target).ToString());
    together(2, [&](uint32_t) {
      uint64_t word = 0;
      EXPECT_EQ("OK", read(target, 64, &word).ToString());
      EXPECT_EQ(word, 8U);
    });
    make_link(3);
    base::sleep_ms(300);  // until the node has found the owner gone
    EXPECT_EQ("OK", link_->open(named("p"), PoolOp::kOpen, 0, 0, &target).ToString());
  });
}

TEST_F(RemoteWorkers, ANodeThatLostItsPowerIsUnavailableToEveryWorker) {
  run([&] {
    make_link(4);
    size_t target = 0;
    const auto medium = create("p", &target);
    network_.kill(*node_);
    together(4, [&](uint32_t slot) {
      uint64_t word = 0;
      const uint64_t begin_ns = base::now_ns();
      const Status status = read(target, 64, &word);
      EXPECT_TRUE(status.IsUnavailable()) << slot << " " << status.ToString();
      EXPECT_LT(base::now_ns() - begin_ns, 1'100'000'000u) << slot;
    });
    EXPECT_FALSE(write(medium.get(), 64, 8));
    EXPECT_TRUE(medium->health().IsUnavailable());
    EXPECT_NE(medium->health().message().find("shm://node/p"), std::string::npos) << medium->health().ToString();
  });
}

// Each unit of a spread range has its worker; all else goes over the first one.
TEST_F(RemoteWorkers, UnitsOfASpreadRangeAreWrittenAtTheSameTime) {
  constexpr uint64_t kWrites = 10, kRange = 1024, kUnit = 1024;
  domain_ = rdma::RemoteDomain::kAdrDirect;  // no processor of the node answers, which would do so one by one
  run([&] {
    std::map<bool, uint64_t> took;
    for (const bool is_spread : {false, true}) {
      make_link(3);
      size_t target = 0;
      const auto medium = create(is_spread ? "spread" : "p", &target);
      if (is_spread) medium->spread(kRange, 3 * kUnit, kUnit);
      const std::vector<uint64_t> before = fabric_->lists();
      took[is_spread] = together(2, [&](uint32_t thread) {
        for (uint64_t i = 0; i < kWrites; ++i) EXPECT_TRUE(write(medium.get(), kRange + thread * kUnit + 8 * i, i));
      });
      EXPECT_TRUE(write(medium.get(), kRange - 8, 1));
      EXPECT_TRUE(write(medium.get(), kRange + 2 * kUnit, 1));
      std::vector<uint64_t> lists = fabric_->lists();
      for (size_t i = 0; i < lists.size(); ++i) lists[i] -= before[i];
      EXPECT_EQ(lists, is_spread ? std::vector<uint64_t>({1, kWrites + 1, kWrites})
                                 : std::vector<uint64_t>({2 * kWrites + 2, 0, 0}));
    }
    EXPECT_GE(took[false], 2 * kWrites * kListNs) << "one after the other";
    EXPECT_LT(took[true], 3 * kWrites * kListNs / 2) << "side by side";
  });
}

// A fence answers for the workers of all units that it covers.
TEST_F(RemoteWorkers, AWriteAcrossUnitsIsWhole) {
  constexpr uint64_t kUnit = 64;
  run([&] {
    make_link(4);
    size_t target = 0;
    const auto medium = create("p", &target);
    medium->spread(128, 10 * kUnit, kUnit);
    std::vector<uint64_t> words(128);
    for (size_t i = 0; i < words.size(); ++i) words[i] = i + 1;
    medium->copy(medium->view() + 8, words.data(), words.size() * 8);
    medium->flush(medium->view() + 8, words.size() * 8, kWorkersSite);
    medium->nt_copy(medium->view() + 2048, words.data(), words.size() * 8, kWorkersSite);
    EXPECT_TRUE(medium->fence(kWorkersSite));
    for (size_t i = 0; i < words.size(); ++i) {
      for (const uint64_t begin : {8, 2048}) {
        uint64_t word = 0;
        EXPECT_EQ("OK", read(target, begin + 8 * i, &word).ToString());
        EXPECT_EQ(word, i + 1) << begin << " " << i;
      }
    }
  });
}

// The later content of a word stays, however many workers there are: its place decides which one carries it.
TEST_F(RemoteWorkersOutOfStep, LaterContentOfAWordStays) {
  constexpr uint64_t kRounds = 400, kUnit = 64, kUnits = 2, kRange = 8192;
  run([&] {
    make_link(5);
    size_t target = 0;
    const auto medium = create("p", &target);
    medium->spread(kRange, kUnits * kUnit, kUnit);
    uint64_t round = 0;
    std::array<uint64_t, kUnits> last{};
    while (round < kRounds) {
      together(8, [&](uint32_t) {
        const uint64_t unit = ++round % kUnits;
        last[unit] = round;
        medium->nt_copy(medium->view() + kRange + kUnit * unit, &last[unit], sizeof last[unit], kWorkersSite);
        EXPECT_TRUE(medium->fence(kWorkersSite));
      });
      for (uint64_t unit = 0; unit < kUnits; ++unit) {
        uint64_t word = 0;
        EXPECT_EQ("OK", read(target, kRange + kUnit * unit, &word).ToString());
        EXPECT_EQ(word, last[unit]) << unit << ", round " << round;
      }
    }
  });
}

TEST_F(RemoteWorkers, EachTargetHasAConnectionOfEachWorker) {
  run([&] {
    constexpr size_t kWorkers = 4;
    make_link(kWorkers);
    EXPECT_EQ(link_->connections(), 0u);
    size_t one = 0, two = 0;
    const auto first = create("one", &one), second = create("two", &two);
    EXPECT_EQ(link_->connections(), 2 * kWorkers);
    ASSERT_TRUE(write(first.get(), 64, 1) && write(second.get(), 64, 2));
    EXPECT_EQ("OK", link_->remove(one).ToString());
    EXPECT_EQ(link_->connections(), kWorkers);
    together(kWorkers, [&](uint32_t) {
      uint64_t word = 0;
      EXPECT_EQ("OK", read(two, 64, &word).ToString());
      EXPECT_EQ(word, 2u);
      EXPECT_TRUE(read(one, 64, &word).IsUnavailable()) << "it was given back";
    });
    EXPECT_EQ("OK", link_->status(two).ToString());
    make_link(1);
    const auto alone = create("alone", &one);
    EXPECT_EQ(link_->connections(), 1u);
  });
}

// Giving a pool back waits for a worker whose queue is full, but not for its requests in flight.
TEST_F(RemoteWorkers, APoolIsGivenBackBesideReadsThatWereGivenUp) {
  run([&] {
    make_link(1);
    size_t target = 0;
    const auto medium = create("p", &target);
    for (size_t i = 0; i < kListsMax; ++i) {
      const base::FarReads::Memory memory = link_->reads().memory(8);
      const base::FarReads::Piece piece{0, memory.get(), 8};
      link_->reads().forget(link_->reads().begin(link_->target(target), {&piece, 1}, memory));
    }
    EXPECT_EQ("OK", link_->remove(target).ToString());
  });
}

// The device has reached a limit, for example of descriptors: copies that exceed the registered memory travel in parts.
TEST_F(RemoteWorkers, ACopyThatCannotBeRegisteredIsWrittenAllTheSame) {
  constexpr uint64_t kCopyBytes = 40 << 10;
  run([&] {
    make_link(2);
    size_t target = 0;
    const auto medium = create("p", &target);
    fabric_->register_no_more();
    std::vector<uint64_t> words(kCopyBytes / 8);
    for (size_t i = 0; i < words.size(); ++i) words[i] = i + 1;
    for (const uint64_t rounds : {1, 20}) {  // more than the reserve has pieces for at a time
      for (uint64_t round = 0; round < rounds; ++round) {
        medium->nt_copy(medium->view() + 8192 + 8 * round, words.data(), kCopyBytes, kWorkersSite);
        medium->nt_copy(medium->view() + 8192 + kCopyBytes + 512, words.data(), 8 * round + 8, kWorkersSite);
      }
      ASSERT_TRUE(medium->fence(kWorkersSite)) << medium->health().ToString();
    }
    std::ifstream file(scratch_.file("p"), std::ios::binary);
    file.seekg(8192 + 8 * 19);
    std::vector<uint64_t> written(words.size());
    file.read(reinterpret_cast<char*>(written.data()), kCopyBytes);
    EXPECT_EQ(written, words);
    const base::FarReads::Memory memory = link_->reads().memory(kCopyBytes);
    const base::FarReads::Piece piece{8192, memory.get(), kCopyBytes};
    const uint64_t ticket = link_->reads().begin(link_->target(target), {&piece, 1}, memory);
    Status status;
    ASSERT_TRUE(link_->reads().ended(ticket, &status));
    EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
    EXPECT_NE(status.message().find("ulimit"), std::string::npos) << status.ToString();
    EXPECT_TRUE(medium->health().ok()) << "a read that was refused fails nothing else";
  });
}

// Until such a READ has ended, it could overwrite bytes that were read again, and written by this node since.
TEST_F(RemoteWorkers, AReadThatWasGivenUpLandsBeforeItsRetry) {
  run([&] {
    make_link(2);
    size_t target = 0;
    const auto medium = create("p", &target);
    std::vector<base::FarReads::Piece> pieces, again;
    ASSERT_EQ("OK", medium->open_resident(8192, 4096, &pieces).ToString());
    medium->forget(medium->begin(pieces, nullptr));
    const Status refused = medium->open_resident(8192, 4096, &again);
    EXPECT_TRUE(refused.IsUnavailable()) << refused.ToString();
    EXPECT_EQ("OK", medium->open_resident(16384, 4096, &again).ToString()) << "other bytes";
    base::sleep_ms(10);
    again.clear();
    EXPECT_EQ("OK", medium->open_resident(8192, 4096, &again).ToString()) << "it has landed";
    EXPECT_EQ(again.size(), 1u);
    const FarRange range{medium.get(), 8192, 4096};
    EXPECT_EQ("OK", make_resident({&range, 1}).ToString());
    EXPECT_TRUE(write(medium.get(), 8192, 7));
  });
}

TEST_F(RemoteWorkers, TheirNumberIsBounded) {
  for (const size_t workers : {size_t{0}, LinkOptions::kWorkersMax + 1}) {
    std::unique_ptr<RemoteLink> link;
    const Status status = RemoteLink::make(network_.make_fabric(), {.workers = workers}, &link);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_NE(status.message().find("give 1 to 64"), std::string::npos) << status.ToString();
  }
}

// Real threads: each reads what it has written, over buffers of the pool that all workers use.
TEST(RemoteWorkersShm, ThreadsReadWhatTheyWrote) {
  constexpr size_t kThreads = 5, kRounds = 200;
  const auto scratch = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network;
  const ServingNode node(&network, scratch.path());
  std::unique_ptr<RemoteLink> link;
  ASSERT_TRUE(RemoteLink::make(network.make_fabric(), {.workers = 3}, &link).ok());
  size_t target = 0;
  ASSERT_TRUE(link->open(named("p"), PoolOp::kCreate, kTargetBytes, 0, &target).ok());
  std::unique_ptr<RemoteMedium> medium;
  ASSERT_TRUE(RemoteMedium::make(link.get(), target, &medium).ok());
  VolumeOf<base::HookedMedium> volume({medium.get()});
  std::atomic<uint64_t> wrong{0};
  base::for_each_on(kThreads, kThreads, [&](size_t thread) {
    const Addr mine(0, 4096 + 4096 * thread);
    for (uint64_t round = 1; round <= kRounds; ++round) {
      volume.nt_copy(mine, &round, sizeof round, kWorkersSite);
      if (!volume.fence(kWorkersSite)) wrong.fetch_add(1);
      ReadBatch reads(volume);
      const std::byte* const found = reads.issue(mine, sizeof round);
      if (!reads.wait().ok() || std::memcmp(found, &round, sizeof round) != 0) wrong.fetch_add(1);
    }
  });
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_TRUE(link->status(target).ok());
}

}  // namespace
}  // namespace bonsai::scale
