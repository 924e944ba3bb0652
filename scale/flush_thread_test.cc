// SPDX-License-Identifier: Apache-2.0
// Pools whose medium blocks: their owners wait, and nobody else does.
#include "scale/flush_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/testing/running_time.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "scale/remote_link.h"
#include "scale/remote_medium.h"
#include "scale/testing/serving_node.h"

namespace bonsai::scale {
namespace {

inline constexpr base::Site kDiskWrite{"flush_thread_test.write"};
constexpr uint64_t kDiskBytes = 64 << 10;
constexpr uint64_t kDiskLimitMs = 500, kDiskWaitMs = 20'000;

void await_that(const std::function<bool()>& condition) {
  for (base::BoundedWait wait("a test's condition", kDiskWaitMs); !condition() && !wait.expired(); wait.pause()) {
  }
  ASSERT_TRUE(condition());
}

// What the fences of a disk do.
struct Disk {
  std::atomic<bool> stuck{false}, broken{false};
  std::atomic<uint64_t> flushes{0}, fences_begun{0}, fences_ended{0};
};

class DiskMedium final : public base::HookedMedium {
 public:
  DiskMedium(const base::Mapping& mapping, Disk* disk) : HookedMedium(mapping.data(), mapping.bytes()), disk_(*disk) {}

  // Only the fabric stores here.
  void store8(std::byte*, uint64_t) override { ADD_FAILURE(); }
  void copy(std::byte*, const void*, size_t) override { ADD_FAILURE(); }
  void nt_copy(std::byte*, const void*, size_t, const base::Site&) override { ADD_FAILURE(); }
  void flush(const std::byte*, size_t, const base::Site&) override { disk_.flushes.fetch_add(1); }
  bool fence(const base::Site&) override {
    disk_.fences_begun.fetch_add(1);
    for (base::BoundedWait wait("disk", 10 * kDiskWaitMs); disk_.stuck.load() && !wait.expired(); wait.pause()) {
    }
    disk_.fences_ended.fetch_add(1);
    return !disk_.broken.load();
  }

 private:
  Disk& disk_;
};

// A node whose pool "disk" is on a disk, and each other one in memory.
class FlushThreadTest : public ::testing::Test {
 protected:
  struct Owner {
    std::unique_ptr<RemoteLink> link;
    size_t target = 0;
    std::unique_ptr<RemoteMedium> medium;

    void store(uint64_t offset, uint64_t value) {
      medium->store8(medium->view() + offset, value);
      medium->flush(medium->view() + offset, 8, kDiskWrite);
    }
    bool put(uint64_t offset, uint64_t value) {
      store(offset, value);
      return medium->fence(kDiskWrite);
    }
  };

  ~FlushThreadTest() override { disk_.stuck.store(false); }

  std::unique_ptr<RemoteLink> make_link(uint64_t limit_ms) {
    std::unique_ptr<RemoteLink> link;
    EXPECT_EQ("OK", RemoteLink::make(network_.make_fabric(), {.limit_ms = limit_ms}, &link).ToString());
    return link;
  }
  Owner own(const std::string& pool, PoolOp op, uint64_t limit_ms) {
    Owner owner{make_link(limit_ms), 0, nullptr};
    EXPECT_EQ("OK", owner.link->open(named(pool), op, kDiskBytes, 0, &owner.target).ToString());
    EXPECT_EQ("OK", RemoteMedium::make(owner.link.get(), owner.target, &owner.medium).ToString());
    EXPECT_TRUE(make_resident(*owner.medium, kDiskBytes).ok());
    return owner;
  }
  uint64_t word_of_file(const std::string& pool, uint64_t offset) {
    const std::string bytes = testing::read_file(scratch_.file(pool));
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + offset, sizeof word);
    return word;
  }
  [[nodiscard]] bool noted(const std::string& text) {
    for (const std::string& note : node_.take_notes()) notes_ += note + "\n";
    return notes_.find(text) != std::string::npos;
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  Disk disk_;
  std::string notes_;
  ServingNode node_{&network_, scratch_.path(), nullptr, [this](const base::Mapping& mapping, base::Media* media) {
                      if (std::filesystem::path(mapping.path()).filename() != "disk") {
                        return base::make_media(mapping, {}, media);
                      }
                      media->hooked = std::make_unique<DiskMedium>(mapping, &disk_);
                      media->fence_blocks = true;
                      return Status::OK();
                    }};
};

TEST_F(FlushThreadTest, AFlushThatBlocksDelaysItsOwnOwnerAlone) {
  Owner slow = own("disk", PoolOp::kCreate, kDiskWaitMs), other = own("memory", PoolOp::kCreate, kDiskLimitMs);
  ASSERT_TRUE(slow.put(0, 1));
  disk_.stuck.store(true);
  std::atomic<bool> kept{false}, ended{false};
  base::Thread writer("writer", [&] {
    kept.store(slow.put(64, 2));
    ended.store(true);
  });
  await_that([&] { return disk_.fences_begun.load() == 2; });
  const testing::RunningTime running;
  uint64_t puts = 0;
  for (; running.ms() < 3 * kDiskLimitMs; ++puts)
    ASSERT_TRUE(other.put(8 * (puts % 100), puts)) << "its node serves it";
  EXPECT_FALSE(ended.load()) << "it is not durable yet";
  await_that([&] { return noted("/disk takes more than a second"); });
  size_t next = 0;
  const auto newcomer = make_link(kDiskWaitMs);
  EXPECT_EQ("OK", newcomer->open(named("new"), PoolOp::kCreate, kDiskBytes, 0, &next).ToString());
  disk_.stuck.store(false);
  writer.join();
  EXPECT_TRUE(kept.load()) << "late, and all the same true";
  EXPECT_EQ(word_of_file("disk", 64), 2u);
  EXPECT_TRUE(slow.put(128, 3)) << "it goes on";
  EXPECT_GT(puts, 100u);
}

TEST_F(FlushThreadTest, RequestsThatWaitGetOneFenceTogether) {
  constexpr uint64_t kWriters = 6;
  Owner owner = own("disk", PoolOp::kCreate, kDiskWaitMs);
  disk_.stuck.store(true);
  std::atomic<uint64_t> kept{0};
  std::vector<base::Thread> writers;
  const auto write = [&](uint64_t i) {
    writers.emplace_back("writer", [&, i] { kept.fetch_add(owner.put(512 * i, i) ? 1 : 0); });
  };
  write(0);
  await_that([&] { return disk_.fences_begun.load() == 1; });
  const uint64_t before = owner.link->traffic().of(rdma::Verb::kSend).messages;
  for (uint64_t i = 1; i < kWriters; ++i) write(i);
  await_that([&] { return owner.link->traffic().of(rdma::Verb::kSend).messages == before + kWriters - 1; });
  base::sleep_ms(50);  // they arrive
  disk_.stuck.store(false);
  for (base::Thread& writer : writers) writer.join();
  EXPECT_EQ(kept.load(), kWriters);
  EXPECT_EQ(disk_.flushes.load(), kWriters);
  EXPECT_LT(disk_.fences_ended.load(), kWriters);
}

// The owner gives up. The pool is its own until the flush ends; then the next owner finds all that was acknowledged.
TEST_F(FlushThreadTest, AnOwnerThatGivesUpLosesNothingThatWasAcknowledged) {
  Owner owner = own("disk", PoolOp::kCreate, kDiskLimitMs), other = own("memory", PoolOp::kCreate, kDiskLimitMs);
  ASSERT_TRUE(owner.put(0, 1));
  disk_.stuck.store(true);
  EXPECT_FALSE(owner.put(64, 2));
  EXPECT_NE(owner.medium->health().ToString().find("no answer within"), std::string::npos);
  owner.medium.reset();
  owner.link.reset();
  EXPECT_TRUE(other.put(0, 5));
  size_t target = 0;
  const auto early = make_link(kDiskLimitMs);
  const Status busy = early->open(named("disk"), PoolOp::kOpen, 0, 0, &target);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  EXPECT_TRUE(other.put(0, 6));
  disk_.stuck.store(false);
  Status status;
  for (base::BoundedWait wait("the pool is free", kDiskWaitMs); !wait.expired(); wait.pause()) {
    status = early->open(named("disk"), PoolOp::kOpen, 0, 0, &target);
    if (status.ok()) break;
  }
  ASSERT_EQ("OK", status.ToString());
  EXPECT_EQ(word_of_file("disk", 0), 1u);
}

TEST_F(FlushThreadTest, AMediumThatFailsFailsItsOwnOwnerAlone) {
  Owner owner = own("disk", PoolOp::kCreate, kDiskWaitMs), other = own("memory", PoolOp::kCreate, kDiskWaitMs);
  disk_.broken.store(true);
  EXPECT_FALSE(owner.put(0, 1));
  EXPECT_NE(owner.medium->health().ToString().find("could not make the bytes durable"), std::string::npos);
  EXPECT_TRUE(other.put(0, 1));
}

// A flush after the file was cut short, by a process that does not touch the missing bytes itself.
TEST_F(FlushThreadTest, AFileThatIsCutShortIsNoted) {
  Owner owner = own("disk", PoolOp::kCreate, kDiskWaitMs);
  std::filesystem::resize_file(scratch_.file("disk"), kDiskBytes / 2);
  EXPECT_FALSE(owner.put(0, 1)) << "the bytes that are left do not make a pool";
  EXPECT_TRUE(noted("/disk was cut short"));
}

// The thread is there before anything changes.
TEST_F(FlushThreadTest, WithoutAFurtherThreadAPoolIsNotOpened) {
  const auto link = make_link(kDiskWaitMs);
  size_t target = 0;
  base::threads_granted_for_test.store(1);  // for the request itself
  const Status created = link->open(named("disk"), PoolOp::kCreate, kDiskBytes, 0, &target);
  base::threads_granted_for_test.store(-1);
  EXPECT_TRUE(created.IsNoSpace()) << created.ToString();
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
  Owner owner = own("disk", PoolOp::kCreate, kDiskWaitMs);
  base::threads_granted_for_test.store(1);
  EXPECT_EQ("OK", owner.link->resize(owner.target, 2 * kDiskBytes).ToString()) << "it keeps its thread";
  base::threads_granted_for_test.store(-1);
}

// More requests than the owner has credits for.
TEST(FlushThread, TakesNoMoreThanItsOwnersCredits) {
  Disk disk;
  disk.stuck.store(true);
  const testing::TempFolder scratch = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network;
  const auto fabric = network.make_fabric();
  PoolBytes bytes;
  base::MappingOptions options;
  options.create_bytes = kDiskBytes;
  ASSERT_EQ("OK", base::Mapping::open(scratch.file("disk"), options, &bytes.mapping).ToString());
  bytes.media.hooked = std::make_unique<DiskMedium>(*bytes.mapping, &disk);
  ASSERT_EQ("OK", bytes.register_at(fabric.get()).ToString());
  const auto results = std::make_shared<FlushResults>();
  std::unique_ptr<FlushThread> thread;
  ASSERT_EQ("OK", FlushThread::reserve(results, &thread).ToString());
  thread->begin(2);
  const PoolBytes::Range range{bytes.region->remote().base, 8};
  const auto add = [&](uint64_t token) { return thread->add(&bytes, {&range, 1}, {1, token, {}}); };
  EXPECT_TRUE(thread->idle());
  ASSERT_TRUE(add(1));
  await_that([&] { return disk.fences_begun.load() == 1; });
  EXPECT_TRUE(add(2) && add(3));
  EXPECT_FALSE(add(4));
  EXPECT_FALSE(thread->idle());
  EXPECT_TRUE(results->pending());
  EXPECT_TRUE(results->take().empty());
  disk.stuck.store(false);
  EXPECT_EQ("OK", thread->await_idle("disk").ToString());
  const std::vector<FlushResults::Done> done = results->take();
  ASSERT_EQ(done.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(done[i].asked.token, i + 1) << "in order";
    EXPECT_EQ(done[i].result, rdma::FlushResult::kDone);
  }
  EXPECT_FALSE(results->pending());
  disk.stuck.store(true);
  ASSERT_TRUE(add(5));
  await_that([&] { return disk.fences_begun.load() == 3; });
  ASSERT_TRUE(add(6));
  base::Thread release("release", [&] {
    base::sleep_ms(20);
    disk.stuck.store(false);
  });
  thread.reset();
  EXPECT_EQ(results->take().size(), 1u) << "what had begun has ended, and what had not is dropped";
  EXPECT_FALSE(results->pending());
}

}  // namespace
}  // namespace bonsai::scale
