// SPDX-License-Identifier: Apache-2.0
// The leases under which a store answers reads, and their keeper, in virtual time. Each rule of testing/mutants.h that
// is about leases is left out once, and a test must notice.
#include "scale/leases.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/boot_clock.h"
#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/sim/sim.h"
#include "scale/pool_server.h"
#include "scale/remote_link.h"
#include "scale/remote_medium.h"
#include "scale/testing/mutants.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kMs = base::kNsPerMs;
constexpr uint64_t kOwnerNs = kOwnerLeaseNs - kOwnerLeaseNs / 50;  // so long the owner relies on a grant
constexpr uint64_t kWaitMs = 1'000;

// In virtual time; true if nothing is wrong.
bool holds(const std::function<bool()>& body) {
  bool right = false;
  base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = 1, .stack_bytes = size_t{256} << 10});
  scheduler.spawn([&] { right = body(); });
  return scheduler.run().ok() && right;
}

Status none() { return Status::Unavailable("the node is silent"); }

class LeasesOfTwo {
 public:
  LeasesOfTwo() {
    leases.add(&first, {}, [this] { return asks ? asks() : none(); });
    leases.add(&second, {}, [] { return none(); });
  }
  int first = 0, second = 0;
  Leases leases;
  std::function<Status()> asks;
};

bool a_grant_counts_from_its_request() {
  LeasesOfTwo two;
  if (two.leases.valid()) return false;
  const uint64_t sent_ns = base::boot_ns();
  base::sleep_ms(500);
  two.leases.granted(&two.first, {sent_ns, kOwnerLeaseNs});
  if (!two.leases.valid()) return false;
  const uint64_t end_ns = sent_ns + kOwnerNs - base::kQuickBootErrorNsMax;
  base::sleep_until(end_ns - 1);
  const bool until_then = two.leases.valid();
  base::sleep_until(end_ns);
  return until_then && !two.leases.valid();
}

bool one_target_is_enough_and_a_lapsed_lease_is_waited_for() {
  LeasesOfTwo two;
  two.leases.granted(&two.second, {base::boot_ns(), kOwnerLeaseNs});
  two.leases.granted(&two.first, {base::boot_ns(), 0});  // denied
  if (!two.leases.valid()) return false;
  two.leases.remove(&two.second);
  if (two.leases.valid()) return false;
  two.asks = [&two] {
    two.leases.granted(&two.first, {base::boot_ns(), kOwnerLeaseNs});
    return Status::OK();
  };
  return two.leases.await(kWaitMs).ok() && two.leases.valid();
}

// Its process was stopped between the answer and now: nobody had the pool when the request was sent, after the read.
bool a_grant_that_was_requested_after_the_read_covers_it() {
  LeasesOfTwo two;
  two.asks = [&two] {
    two.leases.granted(&two.first, {base::boot_ns(), kOwnerLeaseNs, Leases::now()});
    base::sleep_ms(5'000);
    return Status::OK();
  };
  return two.leases.await(kWaitMs).ok() && !two.leases.valid();
}

// Its answer arrives after the read, and another owner may have written between.
bool a_grant_that_was_requested_before_the_read_does_not() {
  LeasesOfTwo two;
  const Leases::Grant grant{base::boot_ns(), kOwnerLeaseNs, Leases::now()};
  base::sleep_ms(5'000);
  two.asks = [&] {
    two.leases.granted(&two.first, grant);
    return Status::OK();
  };
  const uint64_t begin_ns = base::now_ns();
  const Status status = two.leases.await(kWaitMs);
  return status.IsUnavailable() && base::now_ns() - begin_ns < 3 * kWaitMs * kMs &&
         status.message().find("the node is silent") != std::string::npos;
}

// The machine's clock stood between the grant and the read, and another owner has written meanwhile.
bool without_a_clock_each_read_asks() {
  LeasesOfTwo two;
  two.leases.distrust_clock();
  const Leases::Grant grant{base::boot_ns(), kOwnerLeaseNs, Leases::now()};
  two.leases.granted(&two.first, grant);
  if (two.leases.valid()) return false;
  int asked = 0;
  two.asks = [&] {
    ++asked;
    two.leases.granted(&two.first, grant);
    return Status::OK();
  };
  if (!two.leases.await(0).IsUnavailable() || asked == 0) return false;
  two.asks = [&] {
    two.leases.granted(&two.first, {base::boot_ns(), kOwnerLeaseNs, Leases::now()});
    return Status::OK();
  };
  return two.leases.await(0).ok() && !two.leases.valid();
}

bool who_was_replaced_is_never_valid_again() {
  LeasesOfTwo two;
  two.leases.granted(&two.first, {base::boot_ns(), kOwnerLeaseNs});
  two.leases.end(&two.first, Status::Unavailable("B has it"));
  two.leases.end(&two.second, Status::Unavailable("later"));
  two.asks = [&two] {
    two.leases.granted(&two.first, {base::boot_ns(), kOwnerLeaseNs});
    two.leases.granted(&two.second, {base::boot_ns(), kOwnerLeaseNs});
    return Status::OK();
  };
  const bool valid = two.leases.valid();
  const uint64_t begin_ns = base::now_ns();
  const Status status = two.leases.await(kWaitMs);
  return !valid && !two.leases.valid() && status.message() == "B has it" &&
         base::now_ns() - begin_ns < kWaitMs / 2 * kMs;
}

bool the_end_of_a_pool_that_was_given_back_ends_nothing() {
  LeasesOfTwo two;
  two.leases.granted(&two.first, {base::boot_ns(), kOwnerLeaseNs});
  two.leases.remove(&two.second);
  two.leases.end(&two.second, Status::Unavailable("it is somebody else's"));
  return two.leases.valid();
}

// Another owner must be given one of any two members.
bool a_group_is_valid_by_the_grants_of_those_that_are_needed() {
  int members[3] = {};
  const Leases::Key keys[3] = {&members[0], &members[1], &members[2]};
  Leases leases;
  Status asked = none();
  for (const Leases::Key key : keys) leases.add(key, {}, [&asked] { return asked; });
  leases.make_group(keys, 2);
  const uint64_t first_ns = base::boot_ns();
  leases.granted(keys[0], {first_ns, kOwnerLeaseNs});
  if (leases.valid()) return false;
  base::sleep_ms(300);
  const uint64_t second_ns = base::boot_ns();
  leases.granted(keys[1], {second_ns, kOwnerLeaseNs});
  if (!leases.valid()) return false;
  base::sleep_until(first_ns + kOwnerNs);
  if (leases.valid()) return false;  // the second latest counts
  base::sleep_ms(10);
  leases.granted(keys[2], {base::boot_ns(), kOwnerLeaseNs});
  if (!leases.valid() || leases.granted_ns(keys[1]) != second_ns) return false;
  leases.remove(keys[2]);  // left out of the group
  if (leases.valid() || leases.granted_ns(keys[2]) != 0) return false;
  leases.granted(keys[2], {base::boot_ns(), kOwnerLeaseNs});
  return !leases.valid();
}

bool a_read_is_covered_by_as_many_grants_as_are_needed() {
  int members[2] = {};
  const Leases::Key keys[2] = {&members[0], &members[1]};
  Leases leases;
  int grants = 1;
  for (const Leases::Key key : keys) {
    leases.add(key, {}, [&leases, &grants, key] {
      if (grants-- <= 0) return none();
      const uint64_t sent_ns = base::boot_ns();
      leases.granted(key, {sent_ns, kOwnerLeaseNs, Leases::now()});
      base::sleep_ms(5'000);
      return Status::OK();
    });
  }
  leases.make_group(keys, 2);
  if (!leases.await(kWaitMs).IsUnavailable()) return false;
  grants = 2;
  return leases.await(kWaitMs).ok() && !leases.valid();
}

TEST(LeasesTest, HoldAndEndAsTheProtocolSays) {
  EXPECT_TRUE(holds(a_group_is_valid_by_the_grants_of_those_that_are_needed));
  EXPECT_TRUE(holds(a_read_is_covered_by_as_many_grants_as_are_needed));
  EXPECT_TRUE(holds(a_grant_counts_from_its_request));
  EXPECT_TRUE(holds(one_target_is_enough_and_a_lapsed_lease_is_waited_for));
  EXPECT_TRUE(holds(a_grant_that_was_requested_after_the_read_covers_it));
  EXPECT_TRUE(holds(a_grant_that_was_requested_before_the_read_does_not));
  EXPECT_TRUE(holds(without_a_clock_each_read_asks));
  EXPECT_TRUE(holds(who_was_replaced_is_never_valid_again));
  EXPECT_TRUE(holds(the_end_of_a_pool_that_was_given_back_ends_nothing));
}

TEST(LeasesTest, TheLossOfEachRuleIsNoticed) {
  const struct {
    uint64_t rule;
    bool (*notices)();
  } all[] = {{kLeaseNotChecked, a_grant_counts_from_its_request},
             {kLeaseByArrival, a_grant_counts_from_its_request},
             {kEarlierGrantCovers, a_grant_that_was_requested_before_the_read_does_not},
             {kEarlierGrantCovers, without_a_clock_each_read_asks},
             {kStandingClockTrusted, without_a_clock_each_read_asks},
             {kReplacedGoesOn, who_was_replaced_is_never_valid_again}};
  for (const auto& [rule, notices] : all) {
    bonsai::testing::mutants_on.store(rule);
    EXPECT_FALSE(holds(notices)) << rule;
    bonsai::testing::mutants_on.store(0);
  }
}

// ---- the keeper

class LeaseKeeperTest : public ::testing::Test {
 protected:
  // With a node, and a link that has one of its pools.
  void run(const std::function<void()>& body) {
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = 1, .stack_bytes = size_t{256} << 10});
    scheduler.spawn([&] {
      start_node();
      const LinkOptions options{.limit_ms = kWaitMs, .workers = 2, .leases = &leases_};
      ASSERT_EQ("OK", RemoteLink::make(fabric_, options, &link_).ToString());
      size_t target = 0;
      ASSERT_EQ("OK", link_->open(name(), PoolOp::kCreate, kBytes, 0, &target).ToString());
      body();
      link_.reset();
      end_node();
    });
    ASSERT_EQ("OK", scheduler.run().ToString());
  }
  void start_node() {
    node_fabric_ = network_.make_fabric();
    over_ = false;
    node_ = base::Thread("node", [this] {
      PoolServer::Config config;
      config.folder = scratch_.path();
      config.address = "node";
      std::unique_ptr<PoolServer> server;
      ASSERT_EQ("OK", PoolServer::make(node_fabric_.get(), config, &server).ToString());
      while (!over_) {
        if (is_stopped_) base::sleep_ms(1);
        if (!is_stopped_) static_cast<void>(server->serve(1));
      }
    });
  }
  void end_node() {
    over_ = true;
    node_.join();
  }
  static TargetName name() {
    TargetName name;
    EXPECT_TRUE(parse_target_name("sim://node/p", &name).ok());
    return name;
  }

  static constexpr uint64_t kBytes = 512 << 10;
  bonsai::testing::TempFolder scratch_ = bonsai::testing::TempFolder::on_tmpfs();
  rdma::SimNetwork network_;
  std::shared_ptr<rdma::Fabric> fabric_ = network_.make_fabric();
  std::unique_ptr<rdma::Fabric> node_fabric_;
  bool over_ = false, is_stopped_ = false;
  base::Thread node_;
  Leases leases_;
  std::unique_ptr<RemoteLink> link_;
};

TEST_F(LeaseKeeperTest, AnIdleLeaseIsOneRequestEachThirdOfItAndNeverLapses) {
  run([&] {
    const rdma::Traffic before = link_->traffic();
    for (int i = 0; i < 1'000; ++i) {
      EXPECT_TRUE(leases_.valid()) << i;
      base::sleep_ms(10);
    }
    const uint64_t thirds = 10'000 * kMs / (kOwnerLeaseNs / 3);
    EXPECT_GE(link_->lease_traffic().messages(), thirds - 4);  // and as many answers
    EXPECT_LE(link_->lease_traffic().messages(), thirds + 1);
    EXPECT_EQ(link_->traffic().messages(), before.messages()) << "they are counted apart";
  });
}

// A node that is stopped gets few requests, and a reader is answered as soon as it goes on.
TEST_F(LeaseKeeperTest, ANodeThatIsStoppedIsWaitedFor) {
  run([&] {
    const uint64_t before = link_->lease_traffic().messages();
    is_stopped_ = true;
    base::sleep_ms(60'000);
    EXPECT_FALSE(leases_.valid());
    EXPECT_LE(link_->lease_traffic().messages(), before + 8) << "its receive buffers are few";
    base::Thread reader("reader", [&] { EXPECT_EQ("OK", leases_.await(30'000).ToString()); });
    base::sleep_ms(100);
    const uint64_t begin_ns = base::now_ns();
    is_stopped_ = false;
    reader.join();
    EXPECT_LT(base::now_ns() - begin_ns, 100 * kMs);
    EXPECT_TRUE(leases_.valid());
    EXPECT_EQ(link_->target(0)->connections[0]->openings(), 1U);
  });
}

// An idle owner keeps its pool when its node is restarted, and is not given up while the node is away.
TEST_F(LeaseKeeperTest, ANodeThatIsRestartedGrantsAgainWithoutARequestOfTheStore) {
  run([&] {
    end_node();
    base::sleep_ms(20 * kWaitMs);
    EXPECT_FALSE(leases_.valid());
    EXPECT_TRUE(leases_.await(0).IsUnavailable());
    EXPECT_TRUE(link_->target(0)->state.awaits_updates());
    start_node();
    base::sleep_ms(5'000);
    EXPECT_TRUE(leases_.valid());
    EXPECT_GT(link_->target(0)->connections[0]->openings(), 1U);
  });
}

// The next owner has it, and this one hears of it.
TEST_F(LeaseKeeperTest, AnOwnerThatWasReplacedIsToldByWhom) {
  run([&] {
    network_.cut(*fabric_, *node_fabric_);
    network_.cut(*node_fabric_, *fabric_);
    std::unique_ptr<RemoteLink> next;
    ASSERT_EQ("OK", RemoteLink::make(network_.make_fabric(), {.limit_ms = kWaitMs, .workers = 1}, &next).ToString());
    size_t number = 0;
    Status status;
    const uint64_t begin_ns = base::now_ns();
    do {
      EXPECT_LT(base::now_ns() - begin_ns, 60'000 * kMs);
      status = next->open(name(), PoolOp::kOpen, 0, 0, &number);
    } while (status.IsBusy());
    EXPECT_EQ("OK", status.ToString());
    EXPECT_FALSE(leases_.valid()) << "before the next one has it";
    network_.heal();
    status = leases_.await(60'000);
    EXPECT_TRUE(status.IsUnavailable());
    EXPECT_NE(status.message().find("has got another owner meanwhile: "), std::string::npos) << status.ToString();
    EXPECT_FALSE(leases_.valid());
    EXPECT_EQ(leases_.await(0).ToString(), status.ToString()) << "for good";
    next.reset();
  });
}

// ---- take-over

// Another opening of the pool, and how long it took.
struct Opening {
  std::unique_ptr<RemoteLink> link;
  Status status;
  uint64_t ms = 0;
};

Opening open_beside(rdma::SimNetwork* network, const TargetName& name, const TakeOver& take_over = {}) {
  Opening made;
  EXPECT_EQ("OK", RemoteLink::make(network->make_fabric(), {.limit_ms = kWaitMs, .workers = 1}, &made.link).ToString());
  size_t target = 0;
  const uint64_t begin_ns = base::now_ns();
  made.status = made.link->open(name, PoolOp::kOpen, 0, 0, &target, take_over);
  made.ms = (base::now_ns() - begin_ns) / kMs;
  return made;
}

TEST_F(LeaseKeeperTest, AnOwnerThatRenewsIsNotRobbed) {
  run([&] {
    for (int i = 0; i < 20; ++i) {
      base::sleep_ms(static_cast<uint64_t>(37 * i));
      const Opening rival = open_beside(&network_, name());
      EXPECT_TRUE(rival.status.IsBusy()) << rival.status.ToString();
      EXPECT_LE(rival.ms, 2 * kOwnerLeaseNs / kMs);
      for (const char* said : {"pool p has an owner: ", ", seen 0 s ago", "its lease runs for "}) {
        EXPECT_NE(rival.status.message().find(said), std::string::npos) << rival.status.ToString();
      }
    }
    EXPECT_TRUE(leases_.valid());
    EXPECT_EQ(link_->target(0)->connections[0]->openings(), 1U);
  });
}

// Its connection is whole, but it renews nothing: as a process that is stopped.
TEST_F(LeaseKeeperTest, AConnectedOwnerThatIsSilentIsReplacedAfterItsLease) {
  run([&] {
    Opening silent = open_beside(&network_, name());
    EXPECT_TRUE(silent.status.IsBusy());
    link_.reset();
    silent = open_beside(&network_, name());
    EXPECT_EQ("OK", silent.status.ToString());
    std::unique_ptr<RemoteMedium> medium;
    EXPECT_EQ("OK", RemoteMedium::make(silent.link.get(), 0, &medium).ToString());
    const base::Site site{"leases_test.flush"};
    const uint64_t word = 7;
    medium->nt_copy(medium->view(), &word, sizeof word, site);
    EXPECT_TRUE(medium->fence(site));
    Opening next = open_beside(&network_, name());
    EXPECT_EQ("OK", next.status.ToString());
    EXPECT_GE(next.ms, kOwnerLeaseNs / kMs / 2);
    EXPECT_LE(next.ms, 2 * kOwnerLeaseNs / kMs);
    medium->nt_copy(medium->view(), &word, sizeof word, site);
    EXPECT_FALSE(medium->fence(site)) << "it was replaced";
    EXPECT_NE(medium->health().message().find("belongs to another owner now"), std::string::npos);
    medium.reset();
  });
}

TEST_F(LeaseKeeperTest, AnOwnerThatIsAliveIsReplacedByForceWithinALease) {
  run([&] {
    std::string noted;
    const Opening next = open_beside(&network_, name(), {true, [&noted](const std::string& text) { noted += text; }});
    EXPECT_EQ("OK", next.status.ToString());
    EXPECT_FALSE(leases_.valid()) << "before the next one has it";
    EXPECT_LE(next.ms, 2 * kOwnerLeaseNs / kMs);
    for (const char* said : {"pool p has an owner: ", "then the pool is taken over"}) {
      EXPECT_NE(noted.find(said), std::string::npos) << noted;
    }
    const Status status = leases_.await(kWaitMs);
    EXPECT_NE(status.message().find("has got another owner meanwhile: "), std::string::npos) << status.ToString();
    EXPECT_TRUE(open_beside(&network_, name()).status.ok()) << "the next one is silent";
  });
}

}  // namespace
}  // namespace bonsai::scale
