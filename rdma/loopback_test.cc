// The loopback provider under threads: atomics of several nodes and of the processor, messages, regions that go away.
#include "rdma/loopback.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/thread.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kLimitMs = 10'000;
constexpr int kThreads = 3;

class LoopbackTest : public ::testing::Test {
 protected:
  LoopbackTest() {
    EXPECT_TRUE(server_->register_region(std::as_writable_bytes(std::span(memory_)), Rights::all(), &region_).ok());
    EXPECT_TRUE(server_->make_worker(&worker_).ok());
    EXPECT_TRUE(worker_->listen("server", {}, {}).ok());
  }

  // Runs body(worker, peer, local region) as a node and thread of its own.
  template <class Body>
  base::Thread client(Body body) {
    return base::Thread("client", [this, body] {
      const auto fabric = network_.make_fabric();
      std::vector<uint64_t> words(8);
      std::unique_ptr<Region> local;
      ASSERT_TRUE(fabric->register_region(std::as_writable_bytes(std::span(words)), Rights::none(), &local).ok());
      std::unique_ptr<Worker> worker;
      ASSERT_TRUE(fabric->make_worker(&worker).ok());
      std::unique_ptr<Peer> peer;
      ASSERT_TRUE(worker->connect("server", {}, kLimitMs, &peer).ok());
      body(*worker, *peer, *local, words);
    });
  }

  LoopbackNetwork network_;
  std::unique_ptr<Fabric> server_ = network_.make_fabric();
  std::vector<uint64_t> memory_ = std::vector<uint64_t>(64);
  std::unique_ptr<Region> region_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(LoopbackTest, AtomicsOfAllNodesAndOfTheProcessorAddUp) {
  constexpr uint64_t kRounds = 5'000;
  std::vector<base::Thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(client([&](Worker& worker, Peer& peer, Region& local, std::vector<uint64_t>& words) {
      WorkList list;
      for (uint64_t round = 0; round < kRounds; ++round) {
        list.clear();
        list.faa(peer, region_->remote().at(0), 1, local.slice(0, 8));
        ASSERT_TRUE(worker.run(&list, kLimitMs).ok());
        for (uint64_t seen = words[0];; seen = words[1]) {  // an addition by CAS
          list.clear();
          list.cas(peer, region_->remote().at(8), seen, seen + 1, local.slice(8, 8));
          ASSERT_TRUE(worker.run(&list, kLimitMs).ok());
          if (words[1] == seen) break;
        }
      }
    }));
  }
  for (uint64_t round = 0; round < kRounds; ++round) {
    base::word_at(reinterpret_cast<std::byte*>(&memory_[0])).fetch_add(1);
  }
  threads.clear();
  EXPECT_EQ(memory_[0], (kThreads + 1) * kRounds);
  EXPECT_EQ(memory_[1], kThreads * kRounds);
}

TEST_F(LoopbackTest, ALockTakenByCasGuardsBytes) {
  constexpr uint64_t kRounds = 1'000;
  std::vector<base::Thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(client([&](Worker& worker, Peer& peer, Region& local, std::vector<uint64_t>& words) {
      const RemoteRegion remote = region_->remote();
      for (uint64_t round = 0; round < kRounds;) {
        WorkList list;
        list.cas(peer, remote.at(0), 0, 1, local.slice(0, 8));
        list.fence();
        list.read(peer, remote.at(8), local.slice(8, 32));
        ASSERT_TRUE(worker.run(&list, kLimitMs).ok());
        if (words[0] != 0) continue;  // held by another: what was read does not count
        ASSERT_TRUE(words[1] == words[2] && words[2] == words[3] && words[3] == words[4]);
        for (size_t word = 1; word <= 4; ++word) ++words[word];
        list.clear();
        list.write(peer, local.slice(8, 32), remote.at(8));
        list.cas(peer, remote.at(0), 1, 0, local.slice(0, 8));
        ASSERT_TRUE(worker.run(&list, kLimitMs).ok());
        ++round;
      }
    }));
  }
  threads.clear();
  for (size_t word = 1; word <= 4; ++word) EXPECT_EQ(memory_[word], kThreads * kRounds);
}

TEST_F(LoopbackTest, MessagesPublishWhatWasWrittenBefore) {
  constexpr uint64_t kRounds = 2'000;
  std::vector<uint64_t> ring(16);
  std::unique_ptr<Region> ring_region;
  ASSERT_TRUE(server_->register_region(std::as_writable_bytes(std::span(ring)), Rights::none(), &ring_region).ok());
  ASSERT_TRUE(worker_->set_receive_ring(ring_region->slice(0, 128), 8).ok());
  std::atomic<uint64_t> taken{0};
  base::Thread sender = client([&](Worker& worker, Peer& peer, Region& local, std::vector<uint64_t>& words) {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      for (base::BoundedWait wait("taken", kLimitMs); taken.load() + 1 < round; wait.pause())
        ASSERT_FALSE(wait.expired());
      words[0] = round;
      WorkList list;
      list.write(peer, local.slice(0, 8), region_->remote().at(8 * (round % 8)));
      list.send(peer, local.slice(0, 8));
      ASSERT_TRUE(worker.run(&list, kLimitMs).ok());
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    Message message;
    ASSERT_TRUE(worker_->receive(kLimitMs, &message).ok());
    ASSERT_EQ(message.bytes().size(), 8u);
    ASSERT_EQ(memory_[round % 8], round);
    taken.store(round);
  }
}

TEST_F(LoopbackTest, ARegionIsNotTouchedOnceItIsGone) {
  std::atomic<int> ready{0};
  std::atomic<uint64_t> written{0};
  std::vector<base::Thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(client([&](Worker& worker, Peer& peer, Region& local, std::vector<uint64_t>& words) {
      const RemoteRegion remote = region_->remote();
      words[0] = 1;
      ready.fetch_add(1);
      Status status;
      for (base::BoundedWait wait("region gone", kLimitMs); status.ok() && !wait.expired(); wait.pause()) {
        WorkList list;
        list.write(peer, local.slice(0, 8), remote.at(0));
        status = worker.run(&list, kLimitMs);
        written.fetch_add(status.ok() ? 1 : 0);
      }
      EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    }));
  }
  for (base::BoundedWait wait("ready", kLimitMs); ready.load() < kThreads || written.load() < 100; wait.pause()) {
    ASSERT_FALSE(wait.expired());
  }
  region_.reset();
  memory_.assign(memory_.size(), 0);  // plain stores: ThreadSanitizer watches
  threads.clear();
  EXPECT_EQ(memory_[0], 0u);
}

}  // namespace
}  // namespace bonsai::rdma
