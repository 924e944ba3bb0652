// SPDX-License-Identifier: Apache-2.0
// Remote targets over shm, nodes of one process: what reaches the serving node and what does not, owners, failures.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"
#include "scale/fabrics.h"
#include "scale/read_batch.h"
#include "scale/remote_link.h"
#include "scale/remote_links.h"
#include "scale/remote_medium.h"
#include "scale/target_name.h"
#include "scale/testing/serving_node.h"
#include "scale/volume.h"

namespace bonsai::scale {
namespace {

inline constexpr base::Site kFlushSite{"remote_test.flush"};
inline constexpr base::Site kFenceSite{"remote_test.fence"};
constexpr uint64_t kPoolBytes = 64 << 10;

class RemoteTest : public ::testing::Test {
 protected:
  std::unique_ptr<RemoteLink> make_link(LinkOptions options = {}) {
    std::unique_ptr<RemoteLink> link;
    const Status status = RemoteLink::make(network_.make_fabric(), options, &link);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return link;
  }
  // The target's medium, of a new pool, of which nothing is resident.
  static std::unique_ptr<RemoteMedium> create_far(RemoteLink* link, const std::string& pool, size_t* target,
                                                  uint64_t bytes = kPoolBytes) {
    Status status = link->open(named(pool), PoolOp::kCreate, bytes, 0, target);
    EXPECT_TRUE(status.ok()) << status.ToString();
    std::unique_ptr<RemoteMedium> medium;
    status = RemoteMedium::make(link, *target, &medium);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return medium;
  }
  // Creates a pool on the far node; its first `resident` bytes are resident.
  static std::unique_ptr<RemoteMedium> create(RemoteLink* link, const std::string& pool, size_t* target,
                                              uint64_t resident = kPoolBytes) {
    std::unique_ptr<RemoteMedium> medium = create_far(link, pool, target);
    EXPECT_TRUE(make_resident(*medium, resident).ok());
    return medium;
  }
  uint64_t word_of_file(const std::string& pool, uint64_t offset) {
    std::ifstream file(scratch_.file(pool), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    uint64_t word = ~uint64_t{0};
    file.read(reinterpret_cast<char*>(&word), sizeof word);
    return word;
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  ServingNode node_{&network_, scratch_.path()};
};

TEST_F(RemoteTest, OnlyWhatWasFlushedAndFencedReachesTheNode) {
  const auto link = make_link();
  size_t target = 0;
  const auto medium = create(link.get(), "p", &target);
  std::byte* const view = medium->view();
  medium->store8(view + 64, 1);
  medium->store8(view + 128, 2);
  medium->flush(view + 128, 8, kFlushSite);
  EXPECT_EQ(word_of_file("p", 128), 0u) << "flushed, not fenced";
  EXPECT_TRUE(medium->fence(kFenceSite));
  EXPECT_EQ(word_of_file("p", 64), 0u) << "never flushed";
  EXPECT_EQ(word_of_file("p", 128), 2u);
  const uint64_t content[2] = {3, 4};
  medium->nt_copy(view + 256, content, sizeof content, kFlushSite);
  medium->copy(view + 512, content, sizeof content);
  medium->flush(view + 512, sizeof content, kFlushSite);
  EXPECT_TRUE(medium->fence(kFenceSite));
  EXPECT_EQ(word_of_file("p", 264), 4u);
  EXPECT_EQ(word_of_file("p", 512), 3u);
  EXPECT_TRUE(medium->health().ok());
}

TEST_F(RemoteTest, AnOpenedPoolIsFetchedWhole) {
  {
    const auto link = make_link();
    size_t target = 0;
    const auto medium = create(link.get(), "p", &target);
    for (uint64_t offset = 0; offset < kPoolBytes; offset += 8) medium->store8(medium->view() + offset, offset * 3 + 1);
    medium->flush(medium->view(), kPoolBytes, kFlushSite);
    ASSERT_TRUE(medium->fence(kFenceSite));
  }
  const auto link = make_link();
  size_t target = 0;
  ASSERT_EQ("OK", link->open(named("p"), PoolOp::kOpen, 0, 0, &target).ToString());
  EXPECT_EQ(link->pool(target).region.bytes, kPoolBytes);
  EXPECT_NE(link->pool(target).text.find("over shm"), std::string::npos) << link->pool(target).text;
  std::unique_ptr<RemoteMedium> medium;
  ASSERT_EQ("OK", RemoteMedium::make(link.get(), target, &medium).ToString());
  ASSERT_TRUE(make_resident(*medium, kPoolBytes).ok());
  for (uint64_t offset = 0; offset < kPoolBytes; offset += 8) {
    ASSERT_EQ(base::word_at(medium->view() + offset).load(), offset * 3 + 1) << offset;
  }
}

// As a log segment lives: its bytes are never read from the node, and only what was flushed is written there.
TEST_F(RemoteTest, ABlankRangeIsWrittenInPlaceAndGivenBack) {
  const auto link = make_link();
  size_t target = 0;
  const auto medium = create_far(link.get(), "p", &target);
  const uint64_t content[2] = {3, 4};
  medium->nt_copy(medium->view() + 4096, content, sizeof content, kFlushSite);
  ASSERT_TRUE(medium->fence(kFenceSite));
  VolumeOf<base::HookedMedium> volume({medium.get()});
  const uint64_t before = link->traffic().bytes();
  ASSERT_EQ("OK", volume.open_blank(Addr(0, 4096), 8192).ToString());
  EXPECT_EQ(link->traffic().bytes(), before) << "nothing is read";
  EXPECT_EQ(volume.resident_bytes(), 8192u);
  volume.store8(Addr(0, 4096 + 128), 7);
  volume.flush(Addr(0, 4096 + 128), 8, kFlushSite);
  volume.nt_copy(Addr(0, 8192), content, sizeof content, kFlushSite);
  ASSERT_TRUE(volume.fence(kFenceSite));
  volume.close_blank(Addr(0, 4096), 8192);
  EXPECT_EQ(word_of_file("p", 4104), 4u) << "from before it was resident";
  EXPECT_EQ(word_of_file("p", 4096 + 128), 7u);
  EXPECT_EQ(word_of_file("p", 8200), 4u);
}

TEST_F(RemoteTest, AFenceIsOneListForEachTarget) {
  const auto link = make_link();
  size_t one = 0, two = 0;
  const auto first = create(link.get(), "one", &one), second = create(link.get(), "two", &two);
  VolumeOf<base::HookedMedium> volume({first.get(), second.get()});
  const uint64_t content[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const rdma::Traffic before = link->traffic();
  volume.nt_copy(Addr(0, 0), content, sizeof content, kFlushSite);
  volume.nt_copy(Addr(0, 64), content, sizeof content, kFlushSite);  // goes on there: one WRITE
  volume.nt_copy(Addr(1, 4096), content, sizeof content, kFlushSite);
  EXPECT_TRUE(volume.fence(kFenceSite));
  const rdma::Traffic after = link->traffic();
  EXPECT_EQ(after.round_trips - before.round_trips, 2u);
  EXPECT_EQ(after.messages() - before.messages(), 4u) << "a WRITE and a flush request each";
  EXPECT_EQ(word_of_file("one", 64), 1u);
  EXPECT_EQ(word_of_file("two", 4096 + 56), 8u);
  EXPECT_TRUE(volume.fence(kFenceSite));
  EXPECT_EQ(link->traffic().round_trips, after.round_trips) << "nothing to do";
}

// More ranges than one flush request takes, and more than may be in flight.
TEST_F(RemoteTest, AFenceOfAnySizeIsWhole) {
  const auto link = make_link();
  size_t target = 0;
  const auto medium = create(link.get(), "p", &target);
  for (uint64_t offset = 0; offset < kPoolBytes; offset += 64) {
    medium->store8(medium->view() + offset, offset + 1);
    medium->flush(medium->view() + offset, 8, kFlushSite);
  }
  ASSERT_TRUE(medium->fence(kFenceSite));
  for (uint64_t offset = 0; offset < kPoolBytes; offset += 64) ASSERT_EQ(word_of_file("p", offset), offset + 1);
}

// Threads store to words of the same lines, and to one word in turn, as they may on NVM.
TEST_F(RemoteTest, ThreadsShareLinesAndTheLastContentStays) {
  const auto link = make_link();
  size_t target = 0;
  const auto medium = create(link.get(), "p", &target);
  constexpr uint64_t kThreads = 4, kRounds = 200;
  base::YieldingMutex turn("turn");
  uint64_t shared = 0;
  std::atomic<uint64_t> wrong{0};
  base::for_each_on(kThreads, kThreads, [&](size_t thread) {
    std::byte* const mine = medium->view() + 8 * thread;
    std::byte* const common = medium->view() + 4096;
    for (uint64_t round = 1; round <= kRounds; ++round) {
      medium->store8(mine, round);
      medium->flush(mine, 8, kFlushSite);
      {
        const std::lock_guard lock(turn);
        medium->store8(common, ++shared);
        medium->flush(common, 8, kFlushSite);
      }
      if (!medium->fence(kFenceSite) || word_of_file("p", 8 * thread) != round) wrong.fetch_add(1);
    }
  });
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(word_of_file("p", 4096), kThreads * kRounds);
}

// A thread gives back the place of bytes that it has not fenced; its next fence finds other bytes there.
TEST_F(RemoteTest, ACopyThatWasGivenUpReplacesNothing) {
  const auto link = make_link();
  size_t target = 0;
  const auto medium = create(link.get(), "p", &target, 4096);
  const std::vector<uint64_t> given_up(32, 1), later(16, 2);
  for (uint64_t at = 4096; const uint64_t from : {0, 64, 128, 0, 64, 128}) {
    medium->nt_copy(medium->view() + at, given_up.data(), 256, kFlushSite);
    base::Thread("other", [&] {
      EXPECT_TRUE(at < kPoolBytes / 2 || make_resident(*medium, at + 4096).ok());
      medium->nt_copy(medium->view() + at + from, later.data(), 128, kFlushSite);
      EXPECT_TRUE(medium->fence(kFenceSite));
    });
    medium->nt_copy(medium->view() + at + 4096, given_up.data(), 256, kFlushSite);
    EXPECT_TRUE(medium->fence(kFenceSite));
    EXPECT_EQ(word_of_file("p", at + from), 2U) << "at " << at << ", from " << from;
    EXPECT_EQ(word_of_file("p", at + 4096), 1U);
    at += 8192;
  }
}

TEST_F(RemoteTest, APoolHasOneOwner) {
  size_t target = 0;
  auto first = make_link();
  create(first.get(), "p", &target);
  const auto second = make_link();
  size_t other = 0;
  const Status busy = second->open(named("p"), PoolOp::kOpen, 0, 0, &other);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  EXPECT_NE(busy.message().find("has an owner"), std::string::npos);
  const Status twice = first->open(named("p"), PoolOp::kOpen, 0, 0, &other);
  EXPECT_TRUE(twice.IsInvalidArgument()) << twice.ToString();
  first.reset();
  EXPECT_EQ("OK", second->open(named("p"), PoolOp::kOpen, 0, 0, &other).ToString());
}

TEST_F(RemoteTest, SaysWhatIsMissing) {
  const auto link = make_link({.limit_ms = 200});
  size_t target = 0;
  const Status missing = link->open(named("p"), PoolOp::kOpen, 0, 0, &target);
  EXPECT_TRUE(missing.IsNotFound()) << missing.ToString();
  EXPECT_NE(missing.message().find("shm://node/p"), std::string::npos) << missing.ToString();
  TargetName elsewhere = named("p");
  elsewhere.node = "nobody";
  const Status nobody = link->open(elsewhere, PoolOp::kOpen, 0, 0, &target);
  EXPECT_TRUE(nobody.IsUnavailable()) << nobody.ToString();
  EXPECT_NE(nobody.message().find("start bonsaid"), std::string::npos) << nobody.ToString();
  EXPECT_TRUE(link->open(named("p"), PoolOp::kCreate, 8, 0, &target).IsInvalidArgument()) << "too small";
  TargetName climbing = named("p");
  climbing.pool = "../p";
  EXPECT_TRUE(link->open(climbing, PoolOp::kCreate, kPoolBytes, 0, &target).IsInvalidArgument());
  ASSERT_TRUE(link->open(named("p"), PoolOp::kCreate, kPoolBytes, 77, &target).ok());
  EXPECT_EQ(word_of_file("p", 0), 77u) << "marked as unfinished";
  ASSERT_TRUE(link->remove(target).ok());
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("p")));
}

TEST_F(RemoteTest, AnotherVersionIsRefusedOnBothSides) {
  const auto future = network_.make_fabric();
  std::unique_ptr<rdma::Worker> worker;
  ASSERT_TRUE(future->make_worker(&worker).ok());
  rdma::Hello own;
  own.version = rdma::kProtocolVersion + 1;
  ASSERT_TRUE(worker->listen("future", own, {}).ok());
  TargetName name = named("p");
  name.node = "future";
  size_t target = 0;
  const Status refused = make_link()->open(name, PoolOp::kOpen, 0, 0, &target);
  EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
  EXPECT_NE(refused.message().find("version"), std::string::npos) << refused.ToString();
  std::unique_ptr<rdma::Peer> peer;
  EXPECT_TRUE(worker->connect("node", own, 1'000, &peer).IsNotSupported());
}

TEST_F(RemoteTest, ASilentNodeFailsTheFenceWithinItsBoundAndForGood) {
  const auto link = make_link({.limit_ms = 300});
  size_t target = 0;
  const auto medium = create(link.get(), "p", &target);
  medium->store8(medium->view() + 64, 1);
  medium->flush(medium->view() + 64, 8, kFlushSite);
  ASSERT_TRUE(medium->fence(kFenceSite));
  node_.pause(true);
  medium->store8(medium->view() + 64, 2);
  medium->flush(medium->view() + 64, 8, kFlushSite);
  const uint64_t begin_ns = base::now_ns();
  EXPECT_FALSE(medium->fence(kFenceSite));
  EXPECT_LT(base::now_ns() - begin_ns, 5'000'000'000U);
  EXPECT_TRUE(medium->health().IsUnavailable());
  EXPECT_NE(medium->health().message().find("shm://node/p"), std::string::npos) << medium->health().ToString();
  node_.pause(false);
  EXPECT_FALSE(medium->fence(kFenceSite)) << "what was in flight may be lost, whatever the node says now";
}

// The node answers a request after the link has given up waiting, over the remaining connection.
TEST_F(RemoteTest, AnAnswerThatComesTooLateHarmsNoOtherTarget) {
  const auto link = make_link({.limit_ms = 200});
  size_t target = 0, other = 0;
  const auto medium = create(link.get(), "p", &target);
  node_.pause(true);
  EXPECT_TRUE(link->open(named("q"), PoolOp::kCreate, kPoolBytes, 0, &other).IsUnavailable());
  node_.pause(false);
  const std::string path = scratch_.file("q");
  for (base::BoundedWait wait("the late pool", 10'000); !std::filesystem::exists(path) && !wait.expired();
       wait.pause()) {
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  base::sleep_ms(100);  // until the answer has left
  medium->store8(medium->view() + 64, 7);
  medium->flush(medium->view() + 64, 8, kFlushSite);
  EXPECT_TRUE(medium->fence(kFenceSite)) << medium->health().ToString();
  EXPECT_EQ(word_of_file("p", 64), 7U);
}

// Words of one line that are flushed one after another travel one after another, whatever their order in memory.
TEST_F(RemoteTest, WordsOfALineKeepTheirOrder) {
  const auto link = make_link();
  size_t target = 0;
  const auto medium = create(link.get(), "p", &target);
  const auto writes_of = [&](auto store) {
    const uint64_t before = link->traffic().of(rdma::Verb::kWrite).messages;
    store();
    EXPECT_TRUE(medium->fence(kFenceSite));
    return link->traffic().of(rdma::Verb::kWrite).messages - before;
  };
  std::byte* const line = medium->view() + 640;
  const auto store = [&](size_t word) { medium->store8(line + 8 * word, 1); };
  const auto flush = [&](size_t word, size_t words) { medium->flush(line + 8 * word, 8 * words, kFlushSite); };
  EXPECT_EQ(writes_of([&] { store(0), flush(0, 1), store(1), flush(1, 1); }), 2u);
  EXPECT_EQ(writes_of([&] { store(3), store(2), flush(2, 2); }), 2u) << "the first by itself, then both";
  EXPECT_EQ(writes_of([&] { store(5), flush(4, 4); }), 1u);
  const uint64_t content = 1;
  EXPECT_EQ(writes_of([&] { medium->copy(line, &content, 8), flush(0, 1), store(1), flush(1, 1); }), 2u);
  EXPECT_EQ(writes_of([&] { store(0), flush(0, 1), medium->copy(line + 8, &content, 8), flush(1, 1); }), 2u);
}

TEST_F(RemoteTest, APoolIsResizedAndKeepsItsContent) {
  const auto link = make_link();
  size_t target = 0;
  {
    const auto medium = create(link.get(), "p", &target);
    medium->store8(medium->view() + 64, 7);
    medium->flush(medium->view() + 64, 8, kFlushSite);
    ASSERT_TRUE(medium->fence(kFenceSite));
  }
  for (const uint64_t bytes : {2 * kPoolBytes, kPoolBytes}) {
    ASSERT_EQ("OK", link->resize(target, bytes).ToString());
    EXPECT_EQ(link->pool(target).region.bytes, bytes);
    EXPECT_EQ(std::filesystem::file_size(scratch_.file("p")), bytes);
    std::unique_ptr<RemoteMedium> medium;
    ASSERT_EQ("OK", RemoteMedium::make(link.get(), target, &medium).ToString());
    ASSERT_EQ("OK", make_resident(*medium, bytes).ToString());
    EXPECT_EQ(base::word_at(medium->view() + 64).load(), 7u);
    medium->store8(medium->view() + bytes - 8, bytes);
    medium->flush(medium->view() + bytes - 8, 8, kFlushSite);
    EXPECT_TRUE(medium->fence(kFenceSite)) << "its last word is served";
    EXPECT_EQ(word_of_file("p", bytes - 8), bytes);
  }
}

TEST_F(RemoteTest, APoolWithoutANameGetsItOrIsGone) {
  auto link = make_link();
  size_t target = 0, other = 0;
  ASSERT_TRUE(link->open(named("p"), PoolOp::kCreateUnnamed, kPoolBytes, 0, &target).ok());
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("p")));
  EXPECT_TRUE(make_link()->open(named("p"), PoolOp::kCreateUnnamed, kPoolBytes, 0, &other).IsBusy());
  ASSERT_EQ("OK", link->complete(target).ToString());
  EXPECT_TRUE(std::filesystem::exists(scratch_.file("p")));
  EXPECT_TRUE(link->complete(target).IsInvalidArgument()) << "it has its name";
  EXPECT_TRUE(make_link()->open(named("p"), PoolOp::kOpen, 0, 0, &other).IsBusy()) << "and its owner";
  ASSERT_TRUE(link->open(named("q"), PoolOp::kCreateUnnamed, kPoolBytes, 0, &target).ok());
  std::ofstream(scratch_.file("q")) << "of somebody";
  EXPECT_TRUE(link->complete(target).IsBusy());
  EXPECT_EQ("OK", link->remove(target).ToString());
  EXPECT_EQ(std::filesystem::file_size(scratch_.file("q")), 11u);
  EXPECT_FALSE(link->open(named("q"), PoolOp::kCreateUnnamed, kPoolBytes, 0, &target).ok()) << "it exists";
  ASSERT_TRUE(link->open(named("r"), PoolOp::kCreateUnnamed, kPoolBytes, 0, &target).ok());
  EXPECT_TRUE(link->resize(target, 2 * kPoolBytes).IsInvalidArgument()) << "not yet";
  link.reset();
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("r")));
}

// A killed creation leaves the mark, and zeros after the first page. A client that checks the mark finds no pool;
// others find the file.
TEST_F(RemoteTest, APoolThatWasNeverFinishedIsNone) {
  constexpr uint64_t kMark = 77, kJudgedBytes = 8192;
  const auto make = [&](uint64_t mark) {
    const auto link = make_link();
    size_t target = 0;
    return link->open(named("p"), PoolOp::kCreate, kPoolBytes, mark, &target);
  };
  const auto link = make_link();
  size_t target = 0;
  ASSERT_EQ("OK", make(kMark + 1).ToString());
  EXPECT_EQ("OK", link->open(named("p"), PoolOp::kOpen, kJudgedBytes, kMark, &target).ToString()) << "another mark";
  ASSERT_EQ("OK", link->remove(target).ToString());
  ASSERT_EQ("OK", make(kMark).ToString());
  ASSERT_EQ("OK", link->open(named("p"), PoolOp::kOpen, 0, 0, &target).ToString()) << "nobody asked";
  EXPECT_TRUE(make_link()->open(named("p"), PoolOp::kOpen, kJudgedBytes, kMark, &target).IsBusy()) << "it has an owner";
  ASSERT_EQ("OK", link->remove(target).ToString());
  ASSERT_EQ("OK", make(kMark).ToString());
  EXPECT_TRUE(link->open(named("p"), PoolOp::kOpen, kJudgedBytes, kMark, &target).IsNotFound());
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("p")));
}

TEST_F(RemoteTest, LinksAreMadeOnceForEachFabric) {
  register_fabric("here", [&](std::shared_ptr<rdma::Fabric>* made) {
    *made = network_.make_fabric();
    return Status::OK();
  });
  RemoteLinks links("", 1'000, 2);
  EXPECT_EQ(links.traffic(), rdma::Traffic());
  TargetName name = named("p");
  name.scheme = "nowhere";
  RemoteLink *one = nullptr, *two = nullptr;
  EXPECT_TRUE(links.link_of(name, &one).IsNotSupported());
  name.scheme = "here";
  ASSERT_EQ("OK", links.link_of(name, &one).ToString());
  name.pool = "other";
  ASSERT_EQ("OK", links.link_of(name, &two).ToString());
  EXPECT_EQ(one, two);
  size_t target = 0;
  create(one, "p", &target);
  EXPECT_GT(links.traffic().round_trips, 0u);
  RemoteLinks guarded(scratch_.file("no such secret"), 1'000, 2);
  EXPECT_TRUE(guarded.link_of(name, &one).IsIoError());
}

// Bytes that are not resident are written from a copy and read over the fabric; the view takes no memory for them.
TEST_F(RemoteTest, BytesThatAreNotResidentAreCarried) {
  const auto link = make_link();
  size_t target = 0;
  const auto medium = create(link.get(), "p", &target, 100);
  ASSERT_TRUE(make_resident(*medium, 4096).ok());
  EXPECT_EQ(medium->resident_bytes(), 4096U);
  VolumeOf<base::HookedMedium> volume({medium.get()});
  std::vector<uint64_t> content(1024);
  for (size_t i = 0; i < content.size(); ++i) content[i] = i + 1;
  volume.nt_copy(Addr(0, 16384), content.data(), 8192, kFlushSite);
  volume.nt_copy(Addr(0, 64), content.data(), 64, kFlushSite);
  content.assign(content.size(), 0);  // a copy was taken
  ASSERT_TRUE(volume.fence(kFenceSite));
  EXPECT_EQ(word_of_file("p", 16384 + 8 * 1000), 1001U);
  EXPECT_EQ(word_of_file("p", 64 + 8), 2U);
  const rdma::Traffic before = link->traffic();
  ReadBatch reads(volume);
  const std::byte* one = reads.issue(Addr(0, 16384 + 800), 8);
  const std::byte* other = reads.issue(Addr(0, 16384 + 1600), 16);
  ASSERT_TRUE(reads.wait().ok());
  EXPECT_EQ(base::word_at(one).load(), 101U);
  EXPECT_EQ(base::word_at(other + 8).load(), 202U);
  const rdma::Traffic asked = link->traffic() - before;
  EXPECT_EQ(asked.round_trips, 1U);
  EXPECT_EQ(asked.of(rdma::Verb::kRead).messages, 2U);
  EXPECT_EQ(asked.bytes(), 24U);
  EXPECT_EQ(medium->resident_bytes(), 4096U);
  EXPECT_DEATH(EXPECT_EQ(base::word_at(medium->view() + 16384).load(), 0U), "");
}

// Larger than one READ, and more pieces than one list takes.
TEST_F(RemoteTest, ReadsOfAnySizeAreWhole) {
  const auto link = make_link();
  constexpr uint64_t kLarge = uint64_t{4} << 20;
  size_t target = 0;
  const auto medium = create_far(link.get(), "p", &target, kLarge);
  VolumeOf<base::HookedMedium> volume({medium.get()});
  std::vector<uint64_t> content(kLarge / 8);
  for (size_t i = 0; i < content.size(); ++i) content[i] = i;
  volume.nt_copy(Addr(0, 0), content.data(), kLarge, kFlushSite);
  ASSERT_TRUE(volume.fence(kFenceSite));
  ReadBatch reads(volume);
  const std::byte* whole = reads.issue(Addr(0, 0), kLarge);
  std::vector<const std::byte*> words;
  for (uint64_t i = 0; i < 100; ++i) words.push_back(reads.issue(Addr(0, 4096 * i), 8));
  ASSERT_TRUE(reads.wait().ok());
  EXPECT_EQ(std::memcmp(whole, content.data(), kLarge), 0);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(base::word_at(words[i]).load(), 512 * i);
}

// The request is in flight for longer than it is waited for: an answer, and nothing that is torn down too early.
TEST(RemoteLinkTest, GivesUpARequestThatTakesTooLong) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network({.folder = "", .latency_ns = 300'000'000});
  const ServingNode node(&network, scratch.path());
  std::unique_ptr<RemoteLink> link;
  ASSERT_TRUE(RemoteLink::make(network.make_fabric(), {.limit_ms = 50}, &link).ok());
  size_t target = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status status = link->open(named("p"), PoolOp::kCreate, kPoolBytes, 0, &target);
    EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
  }
  link.reset();
  base::sleep_ms(700);  // until the node's answers have left, too
}

// A read that is given up is in flight for longer than its reader lives.
TEST(RemoteLinkTest, AReadThatTakesTooLongIsUnavailableAndKeepsItsMemory) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network({.folder = "", .latency_ns = 100'000'000});
  const ServingNode node(&network, scratch.path());
  std::unique_ptr<RemoteLink> link;
  ASSERT_TRUE(RemoteLink::make(network.make_fabric(), {.limit_ms = 5'000}, &link).ok());
  size_t target = 0;
  ASSERT_TRUE(link->open(named("p"), PoolOp::kCreate, kPoolBytes, 0, &target).ok());
  const base::FarReads::Memory memory = link->reads().memory(64);
  const base::FarReads::Piece piece{0, memory.get(), 64};
  const uint64_t ticket = link->reads().begin(link->target(target), {&piece, 1}, memory);
  Status status;
  EXPECT_FALSE(link->reads().ended(ticket, &status));
  link->reads().forget(ticket);
  EXPECT_EQ(memory.use_count(), 2);
  base::sleep_ms(200);
  const uint64_t other = link->reads().begin(link->target(target), {}, nullptr);
  EXPECT_TRUE(link->reads().ended(other, &status));
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(memory.use_count(), 1);
  const uint64_t unregistered = link->reads().begin(link->target(target), {&piece, 1}, nullptr);
  link->reads().forget(unregistered);  // and in flight when the link ends
  link.reset();
  base::sleep_ms(300);  // until the node's answers have left, too
}

// A node without power says nothing, and its connections look as before.
TEST(RemoteSimTest, AnOwnerThatLostItsPowerLosesThePool) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  rdma::SimNetwork network;
  const std::unique_ptr<rdma::Fabric> node = network.make_fabric();
  const std::shared_ptr<rdma::Fabric> first = network.make_fabric(), second = network.make_fabric();
  base::Scheduler scheduler(
      {.pick = base::Scheduler::Pick::kSeeded, .seed = base::seed_from_env_or(3), .stack_bytes = size_t{256} << 10});
  bool over = false;
  scheduler.spawn([&] {
    std::unique_ptr<PoolServer> server;
    PoolServer::Config config;
    config.folder = scratch.path();
    config.address = "node";
    ASSERT_EQ("OK", PoolServer::make(node.get(), config, &server).ToString());
    while (!over) static_cast<void>(server->serve(5));
  });
  scheduler.spawn([&] {
    Leases leases;
    std::unique_ptr<RemoteLink> link, next;
    size_t target = 0;
    ASSERT_TRUE(RemoteLink::make(first, {.limit_ms = 50, .leases = &leases}, &link).ok());
    ASSERT_EQ("OK", link->open(named("p"), PoolOp::kCreate, kPoolBytes, 0, &target).ToString());
    ASSERT_TRUE(RemoteLink::make(second, {.limit_ms = 50}, &next).ok());
    for (const uint64_t bytes : {kPoolBytes, 2 * kPoolBytes}) {
      const Status resized = bytes == kPoolBytes ? Status::OK() : link->resize(0, bytes);
      ASSERT_EQ("OK", resized.ToString());
      base::sleep_ms(1'000);
      EXPECT_TRUE(next->open(named("p"), PoolOp::kOpen, 0, 0, &target).IsBusy()) << "an idle owner keeps its pool";
    }
    network.kill(*first);
    const uint64_t begin_ns = base::now_ns();
    EXPECT_EQ("OK", next->open(named("p"), PoolOp::kOpen, 0, 0, &target).ToString());
    EXPECT_LE(base::now_ns() - begin_ns, kOwnerLeaseNs + 100 * base::kNsPerMs);
    link.reset();
    next.reset();
    over = true;
  });
  const Status status = scheduler.run();
  EXPECT_TRUE(status.ok()) << status.ToString();
}

}  // namespace
}  // namespace bonsai::scale
