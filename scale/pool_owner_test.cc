// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_owner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "base/boot_clock.h"
#include "base/coro/scheduler.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "base/units.h"
#include "scale/target.h"

namespace bonsai::scale {
namespace {

using Answer = PoolOwner::Register::Answer;
using Sender = PoolOwner::Sender;

constexpr uint64_t kLease = 1'000'000'000;
constexpr uint64_t kFileBytes = uint64_t{1} << 20;
constexpr membership::SessionId kA{{1, 2}}, kB{{3, 4}};

class PoolOwnerTest : public ::testing::Test {
 protected:
  // As a process of the node that has just been started would know it.
  std::shared_ptr<PoolOwner> fresh() { return PoolOwners(folder_.path()).of("p"); }
  [[nodiscard]] std::string record() const { return folder_.file(".p.owner"); }

  static Answer fence(PoolOwner* owner, const Sender& sender, bool force = false) {
    return owner->fence(sender, sender.epoch - 1, kLease, force, "test").answer;
  }
  // Makes the sender the owner of a pool that nobody has a lease on.
  static void take(PoolOwner* owner, const Sender& sender) {
    ASSERT_EQ(fence(owner, sender), Answer::kAgain);
    ASSERT_EQ("OK", owner->persist().ToString());
    EXPECT_FALSE(owner->serves(sender));
    owner->earlier_ended(sender.connection);
    ASSERT_TRUE(owner->serves(sender));
    EXPECT_EQ(owner->renew(sender).answer, Answer::kGranted);
  }
  void make_owned() {
    const auto owner = fresh();
    EXPECT_EQ(owner->begin_new(), 0U);
    take(owner.get(), {kA, 1, 1});
  }
  // In virtual time.
  static void run(const std::function<void()>& body) {
    base::Scheduler scheduler({.virtual_time = true});
    scheduler.spawn(body);
    EXPECT_TRUE(scheduler.run().ok());
  }
  // A pool's file, as a store of this machine opens it.
  [[nodiscard]] std::unique_ptr<Targets> local(const std::string& name = "p") const {
    TargetConfig config;
    config.mark = 0x4b52414d;
    config.first_bytes = 2 * base::kPageBytes;
    auto made = std::make_unique<Targets>(config);
    TargetName parsed;
    EXPECT_EQ("OK", parse_target_name(folder_.file(name), &parsed).ToString());
    EXPECT_EQ("OK", made->add(parsed).ToString());
    return made;
  }
  void make_file() const {
    std::ofstream(folder_.file("p"), std::ios::binary) << "a pool";
    std::filesystem::resize_file(folder_.file("p"), kFileBytes);
  }
  // The answer to the session that make_owned() has made the owner, after a restart.
  Answer resumed() {
    const auto owner = fresh();
    EXPECT_EQ("OK", owner->load().ToString());
    return owner->resume({kA, 1, 9}).answer;
  }
  void damage(size_t slot) {
    std::fstream file(record(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(slot * membership::kSlotBytes + 40));
    file.write("damage", 6);
  }

  testing::TempFolder folder_ = testing::TempFolder::on_tmpfs();
};

TEST_F(PoolOwnerTest, ARestartedNodeLetsTheSameSessionGoOnAtOnceAndAnotherWait) {
  run([&] {
    make_owned();
    const auto restarted = fresh();
    ASSERT_EQ("OK", restarted->load().ToString());
    EXPECT_NE(restarted->text().find("test since 2000-01-01"), std::string::npos) << restarted->text();
    EXPECT_EQ(fence(restarted.get(), {kB, 2, 5}), Answer::kLeaseRuns);
    EXPECT_EQ(restarted->resume({kB, 1, 5}).answer, Answer::kReplaced) << "a forged session";
    EXPECT_EQ(restarted->resume({kA, 0, 5}).answer, Answer::kReplaced) << "an epoch that is over";
    EXPECT_EQ(restarted->resume({kA, 1, 5}).answer, Answer::kAgain);
    ASSERT_EQ("OK", restarted->persist().ToString());
    restarted->earlier_ended(5);
    EXPECT_EQ(restarted->resume({kA, 1, 5}).answer, Answer::kGranted);
    base::sleep_ms(999);
    ASSERT_EQ("OK", restarted->load().ToString()) << "and keeps what it knows";
    EXPECT_EQ(fence(restarted.get(), {kB, 2, 6}), Answer::kLeaseRuns);
    base::sleep_ms(2);
    take(restarted.get(), {kB, 2, 6});
    EXPECT_EQ(restarted->renew({kA, 1, 5}).answer, Answer::kReplaced);
    EXPECT_EQ(fence(restarted.get(), {kA, 2, 7}), Answer::kReplaced) << "it has seen an older epoch";
  });
}

TEST_F(PoolOwnerTest, WhoLeavesIsNotWaitedFor) {
  run([&] {
    const auto owner = fresh();
    owner->begin_new();
    take(owner.get(), {kA, 1, 1});
    EXPECT_GT(owner->lease_left_ns(), 0U);
    EXPECT_LE(owner->lease_left_ns(), kLease);
    EXPECT_EQ(owner->leave({kB, 1, 1}).answer, Answer::kReplaced);
    EXPECT_EQ(owner->leave({kA, 1, 1}).answer, Answer::kAgain);
    ASSERT_EQ("OK", owner->persist().ToString());
    EXPECT_EQ(owner->holder(), "");
    EXPECT_EQ(owner->lease_left_ns(), 0U);
    const auto restarted = fresh();
    ASSERT_EQ("OK", restarted->load().ToString());
    take(restarted.get(), {kB, 2, 1});
  });
}

TEST_F(PoolOwnerTest, ALostRecordIsTheLongestLease) {
  run([&] {
    make_owned();
    std::filesystem::remove(record());
    PoolOwners started(folder_.path());
    const auto owner = started.of("p");
    ASSERT_EQ("OK", owner->load().ToString());
    EXPECT_EQ(owner->resume({kA, 1, 1}).answer, Answer::kReplaced) << "nobody knows that session";
    base::sleep_ms(1'900);
    EXPECT_EQ(fence(owner.get(), {kB, 1, 2}), Answer::kLeaseRuns);
    base::sleep_ms(101);
    take(owner.get(), {kB, 1, 2});
    // It was there, and granted leases: it waits again.
    std::filesystem::remove(record());
    ASSERT_EQ("OK", owner->load().ToString());
    EXPECT_EQ(fence(owner.get(), {kA, 1, 3}), Answer::kLeaseRuns);
  });
}

TEST_F(PoolOwnerTest, ATornRecordIsRepairedAndADamagedOneIsRefused) {
  run([&] {
    for (const size_t slot : {0, 1}) {
      std::filesystem::remove(record());
      make_owned();
      damage(slot);
      const auto owner = fresh();
      ASSERT_EQ("OK", owner->load().ToString());
      EXPECT_EQ(fence(owner.get(), {kB, 2, 1}), Answer::kLeaseRuns);
      damage(1 - slot);
      const auto again = fresh();
      ASSERT_EQ("OK", again->load().ToString()) << "it was written again";
      EXPECT_EQ(again->resume({kA, 1, 1}).answer, Answer::kAgain);
    }
    damage(0);
    damage(1);
    const Status damaged = fresh()->load();
    EXPECT_TRUE(damaged.IsCorruption()) << damaged.ToString();
    EXPECT_NE(damaged.message().find(record()), std::string::npos) << damaged.ToString();
    std::filesystem::remove(record());
    make_owned();
    std::filesystem::rename(record(), folder_.file(".q.owner"));
    EXPECT_TRUE(PoolOwners(folder_.path()).of("q")->load().IsCorruption()) << "that of another pool";
  });
}

TEST_F(PoolOwnerTest, APageIsKeptBesideTheOwner) {
  run([&] {
    VersionedPage page;
    page.page = {.group = 7, .ids = {1, 2}, .members = 2, .needed = 1, .self = 1, .in_sync = 3};
    page.written_by = 1;
    page.version = 1;
    make_owned();
    auto owner = fresh();
    ASSERT_EQ("OK", owner->load().ToString());
    EXPECT_TRUE(owner->set_page({kA, 1, 9}, page, false).IsBusy()) << "it is not served";
    owner->begin_new();
    take(owner.get(), {kA, 2, 1});
    EXPECT_EQ(owner->group_page(), VersionedPage()) << "a new file has none";
    page.written_by = 2;
    ASSERT_EQ("OK", owner->set_page({kA, 2, 1}, page, false).ToString());
    ASSERT_EQ("OK", owner->set_page({kA, 2, 1}, page, false).ToString()) << "asked again";
    VersionedPage other = page;
    other.page.group = 8;
    other.version = 2;
    EXPECT_TRUE(owner->set_page({kA, 2, 1}, other, false).IsInvalidArgument());
    owner = fresh();
    ASSERT_EQ("OK", owner->load().ToString());
    EXPECT_EQ(owner->group_page(), page);
    base::sleep_ms(1'001);
    take(owner.get(), {kB, 3, 2});
    uint64_t epoch = 0;
    VersionedPage recorded;
    ASSERT_EQ("OK", PoolOwner::recorded_page(folder_.path(), "p", &epoch, &recorded).ToString());
    EXPECT_EQ(epoch, 3U);
    EXPECT_EQ(recorded, page) << "another owner does not change it";
    EXPECT_TRUE(owner->take_over().IsInvalidArgument()) << "a store that opens the file alone";
    // A page that cannot be written is none.
    std::filesystem::rename(record(), folder_.file("elsewhere"));
    std::filesystem::create_directory(record());
    VersionedPage next = page;
    next.written_by = 3;
    EXPECT_FALSE(owner->set_page({kB, 3, 2}, next, false).ok());
    std::filesystem::remove(record());
    EXPECT_EQ(owner->group_page(), page);
    EXPECT_EQ("OK", owner->set_page({kB, 3, 2}, next, false).ToString());
  });
}

TEST_F(PoolOwnerTest, AForcedOneTakesOverWithinALease) {
  run([&] {
    const auto owner = fresh();
    owner->begin_new();
    take(owner.get(), {kA, 1, 1});
    EXPECT_EQ(fence(owner.get(), {kB, 2, 2}, true), Answer::kLeaseRuns);
    EXPECT_EQ(owner->renew({kA, 1, 1}).answer, Answer::kDenied);
    base::sleep_ms(1'001);
    EXPECT_EQ(owner->renew({kA, 1, 1}).answer, Answer::kDenied) << "served until the other one comes";
    take(owner.get(), {kB, 2, 2});
    EXPECT_EQ(owner->renew({kA, 1, 1}).answer, Answer::kReplaced);
  });
}

TEST_F(PoolOwnerTest, ARecordThatCannotBeWrittenMakesNobodyOwner) {
  run([&] {
    const auto owner = fresh();
    owner->begin_new();
    std::filesystem::create_directory(record());
    ASSERT_EQ(fence(owner.get(), {kA, 1, 1}), Answer::kAgain);
    EXPECT_FALSE(owner->persist().ok());
    owner->earlier_ended(1);
    EXPECT_FALSE(owner->serves({kA, 1, 1}));
    EXPECT_FALSE(owner->load().ok());
    std::filesystem::remove(record());
    ASSERT_EQ("OK", owner->load().ToString());
    EXPECT_EQ(fence(owner.get(), {kB, 1, 2}), Answer::kLeaseRuns) << "as without a record";
  });
}

TEST_F(PoolOwnerTest, ANewFileOfTheNameIsNobodys) {
  run([&] {
    make_owned();
    const auto owner = fresh();
    EXPECT_EQ(owner->begin_new(), 1U) << "epochs go on";
    take(owner.get(), {kB, 2, 1});
    PoolOwners owners(folder_.path());
    EXPECT_EQ("OK", owners.remove("p").ToString());
    EXPECT_FALSE(std::filesystem::exists(record()));
    EXPECT_EQ("OK", owners.remove("p").ToString()) << "it is gone";
  });
}

TEST_F(PoolOwnerTest, AStoreThatOpensTheFileItselfReplacesTheOwnerAfterItsLease) {
  run([&] {
    make_file();
    make_owned();
    ASSERT_EQ("OK", (*local())[0].open_read_only().ToString());
    EXPECT_EQ(resumed(), Answer::kAgain) << "reading changes nothing";
    uint64_t begin_ns = base::boot_ns();
    ASSERT_EQ("OK", (*local())[0].open(0).ToString());
    EXPECT_GE(base::boot_ns() - begin_ns, kLease);
    EXPECT_EQ(resumed(), Answer::kReplaced);
    begin_ns = base::boot_ns();
    ASSERT_EQ("OK", (*local())[0].open(2 * kFileBytes).ToString());
    EXPECT_LT(base::boot_ns() - begin_ns, kLease) << "the record names nobody";
    const auto owner = fresh();
    ASSERT_EQ("OK", owner->load().ToString());
    EXPECT_EQ(fence(owner.get(), {kB, 2, 1}), Answer::kReplaced) << "the epoch has risen";
    take(owner.get(), {kB, 3, 1});
  });
}

TEST_F(PoolOwnerTest, ANodeThatKnowsTheOwnerNoticesThatItWasReplaced) {
  run([&] {
    make_file();
    const auto owner = fresh();
    owner->begin_new();
    take(owner.get(), {kA, 1, 1});
    ASSERT_EQ("OK", (*local())[0].open(0).ToString());
    ASSERT_EQ("OK", owner->load().ToString());
    EXPECT_EQ(owner->resume({kA, 1, 2}).answer, Answer::kReplaced);
    take(owner.get(), {kB, 3, 3});
  });
}

TEST_F(PoolOwnerTest, ANewFileAndALinkReplaceTheOwnerToo) {
  run([&] {
    make_owned();
    {
      const auto made = local();
      ASSERT_EQ("OK", (*made)[0].create(kFileBytes).ToString());
      EXPECT_EQ(resumed(), Answer::kAgain) << "it has no name";
      ASSERT_EQ("OK", made->complete().ToString());
    }
    EXPECT_EQ(resumed(), Answer::kReplaced);
    std::filesystem::remove(record());
    make_owned();
    std::filesystem::create_directory(folder_.file("links"));
    std::filesystem::create_symlink("../p", folder_.file("links/other"));
    ASSERT_EQ("OK", (*local("links/other"))[0].open(0).ToString());
    EXPECT_EQ(resumed(), Answer::kReplaced);
  });
}

TEST_F(PoolOwnerTest, WithoutARecordALocalStoreMakesNone) {
  const auto made = local();
  ASSERT_EQ("OK", (*made)[0].create(kFileBytes).ToString());
  ASSERT_EQ("OK", made->complete().ToString());
  EXPECT_FALSE(std::filesystem::exists(record()));
}

TEST_F(PoolOwnerTest, ADamagedRecordKeepsALocalStoreFromThePool) {
  run([&] {
    make_owned();
    damage(0);
    damage(1);
    {
      const auto made = local();
      ASSERT_EQ("OK", (*made)[0].create(kFileBytes).ToString());
      EXPECT_TRUE(made->complete().IsCorruption());
    }
    EXPECT_FALSE(std::filesystem::exists(folder_.file("p")));
    make_file();
    const Status damaged = (*local())[0].open(2 * kFileBytes);
    EXPECT_TRUE(damaged.IsCorruption()) << damaged.ToString();
    EXPECT_NE(damaged.message().find("delete the record's file"), std::string::npos) << damaged.ToString();
    EXPECT_EQ(std::filesystem::file_size(folder_.file("p")), kFileBytes);
    EXPECT_EQ("OK", (*local())[0].open_read_only().ToString());
    std::filesystem::remove(record());
    EXPECT_EQ("OK", (*local())[0].open(0).ToString());
    EXPECT_FALSE(std::filesystem::exists(record()));
  });
}

TEST_F(PoolOwnerTest, LeasesThatTheNodeDoesNotServeAreRefused) {
  const auto owner = fresh();
  owner->begin_new();
  for (const uint64_t lease_ns : {uint64_t{0}, uint64_t{1}, kServedLeaseNsMax + 1, UINT64_MAX}) {
    EXPECT_EQ(owner->fence({kA, 1, 1}, 0, lease_ns, false, "test").answer, Answer::kInvalid) << lease_ns;
  }
  EXPECT_EQ(owner->fence({{}, 1, 1}, 0, kLease, false, "test").answer, Answer::kInvalid) << "nobody's session";
  EXPECT_EQ(owner->fence({kA, 0, 1}, UINT64_MAX, kLease, false, "test").answer, Answer::kInvalid);
}

}  // namespace
}  // namespace bonsai::scale
