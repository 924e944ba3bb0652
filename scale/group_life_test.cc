// SPDX-License-Identifier: Apache-2.0
// Lives of a group of three nodes, or of two and a witness, on the simulated fabric, in virtual time and followed from
// their seeds: a node is killed or stopped while its owner writes, joins again, with its pool or without, while others
// fail, and the group is opened again by those that are there. Nothing that was acknowledged is lost. Each rule of
// testing/mutants.h that is about groups is left out once, and a life must notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "base/units.h"
#include "rdma/sim/sim.h"
#include "scale/fabrics.h"
#include "scale/pool_owner.h"
#include "scale/pool_server.h"
#include "scale/read_batch.h"
#include "scale/target.h"
#include "scale/testing/mutants.h"

namespace bonsai::scale {
namespace {

constexpr size_t kNodes = 3, kWitness = 2, kSlots = 512, kWriters = 3;
constexpr uint64_t kLifeBytes = uint64_t{512} << 10, kResident = 4 << 10;
constexpr uint64_t kLimitMs = 6'000, kMemberMs = 500;
constexpr uint64_t kPauseUs = 10'000, kAtOnce = 800;
inline constexpr base::Site kLifeSite{"group_life.write"};

enum class Kind : uint8_t { kTwoOfThree, kAllOfThree, kWitnessed };
Kind kind_of(uint64_t seed) {
  return seed % 4 == 0 ? Kind::kAllOfThree : seed % 4 == 1 ? Kind::kWitnessed : Kind::kTwoOfThree;
}

class GroupLife {
 public:
  GroupLife(uint64_t seed, Kind kind)
      : dice_(seed), needs_all_(kind == Kind::kAllOfThree), has_witness_(kind == Kind::kWitnessed) {
    register_fabric("grouplife", [this](std::shared_ptr<rdma::Fabric>* fabric) {
      *fabric = network_.make_fabric();
      return Status::OK();
    });
  }

  // What went wrong; empty: nothing.
  std::string run(uint64_t seed) {
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = seed, .stack_bytes = size_t{256} << 10});
    scheduler.spawn([this] {
      for (size_t i = 0; i < kNodes; ++i) start(i);
      live();
      close();
      for (size_t i = 0; i < kNodes; ++i) end(i);
    });
    if (!scheduler.run().ok() && wrong_.empty()) wrong_ = "the life does not end";
    return wrong_;
  }

 private:
  struct Node {
    testing::TempFolder folder = testing::TempFolder::on_tmpfs();
    std::unique_ptr<rdma::Fabric> fabric;
    bool over = true, stopped = false;
    bool rests = false;  // it has seen that it is stopped
    base::Thread thread;

    // Its disk; it keeps it while it runs.
    void lose() const {
      if (!over) return;
      std::filesystem::remove(folder.file("p"));
      std::filesystem::remove(folder.file(".p.owner"));
    }
  };

  void start(size_t number) {
    Node& node = nodes_[number];
    if (!node.over) return;
    node.fabric = network_.make_fabric();
    node.over = false;
    node.thread = base::Thread("node", [&node, number] {
      PoolServer::Config config;
      config.folder = node.folder.path();
      config.address = std::string(1, static_cast<char>('a' + number));
      std::unique_ptr<PoolServer> server;
      const Status made = PoolServer::make(node.fabric.get(), config, &server);
      while (made.ok() && !node.over) {
        node.rests = node.stopped;
        if (node.rests) base::sleep_ms(1);
        if (!node.rests) static_cast<void>(server->serve(1));
      }
    });
  }
  void end(size_t number) {
    Node& node = nodes_[number];
    if (node.over) return;
    node.over = true;
    node.thread.join();
  }
  void fail(size_t number, bool stops) {
    if (!stops) return end(number);
    nodes_[number].stopped = true;
    while (!nodes_[number].rests) base::sleep_ms(1);
  }
  void come_back(size_t number) {
    nodes_[number].stopped = false;
    start(number);
  }

  // False: something is wrong, and the life ends.
  bool check(bool right, const std::string& text) {
    if (!right && wrong_.empty()) wrong_ = text;
    return right && wrong_.empty();
  }
  Status open() {
    TargetConfig config;
    config.limit_ms = kLimitMs;
    config.member_ms = kMemberMs;
    config.workers = 2;
    // All writers are at it when copying begins, and copying has ended before they pause again.
    config.note = [this](const std::string& text) {
      if (text.find("and is brought up to date") == std::string::npos) return;
      at_once_ = UINT64_MAX;
      base::sleep_us(kPauseUs);
      at_once_ = kAtOnce;
    };
    auto made = std::make_unique<Targets>(config);
    TargetName name;
    const std::string third = has_witness_ ? "?witness=grouplife://c/p" : "|grouplife://c/p";
    const std::string query = needs_all_ ? "?replicas_min=3" : "";
    Status status = parse_target_name("grouplife://a/p|grouplife://b/p" + third + query, &name);
    if (status.ok()) status = made->add(std::move(name));
    bool found = false;
    if (status.ok()) status = (*made)[0].exists(false, &found);
    if (!status.ok()) return status;
    if (found) status = (*made)[0].open(0);
    if (!found) status = (*made)[0].create(kLifeBytes);
    if (status.ok() && !found) status = made->complete();
    if (!status.ok()) return status;
    targets_ = std::move(made);
    volume_ = targets_->hooked_volume();
    return volume_->fetch(Addr(0, 0), kResident);
  }
  void close() {
    volume_.reset();
    targets_.reset();
  }
  // Half of the slots are resident; the first word of a pool never changes. All are at the beginning, which a member
  // that joins gets first. They are so many that few are written twice meanwhile: what one of them misses stays
  // missing.
  static uint64_t place_of(size_t slot) { return slot % 2 == 0 ? 8 * slot + 8 : kResident + 496 * slot; }
  // A word to a slot of the writer's own.
  bool write(size_t writer = 0) {
    const size_t slot = dice_.below(kSlots / kWriters) * kWriters + writer;
    const uint64_t word = ++words_;
    volume_->nt_copy(Addr(0, place_of(slot)), &word, sizeof word, kLifeSite);
    if (!check(volume_->fence(kLifeSite), "a fence fails: " + volume_->health().ToString())) return false;
    acknowledged_[slot] = word;
    at_once_ -= std::min<uint64_t>(at_once_, 1);
    return true;
  }
  bool write_some() {
    for (uint64_t n = 1 + dice_.below(12); n > 0; --n) {
      if (!write()) return false;
    }
    return true;
  }
  bool read_all() {
    ReadBatch reads(*volume_);
    std::array<const std::byte*, kSlots> found{};
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const Addr at(0, place_of(slot));
      found[slot] = slot % 2 == 0 ? volume_->resident(at) : reads.issue(at, sizeof(uint64_t));
    }
    const Status status = reads.wait();
    if (!check(status.ok(), "a read fails: " + status.ToString())) return false;
    for (size_t slot = 0; slot < kSlots; ++slot) {
      uint64_t word = 0;
      std::memcpy(&word, found[slot], sizeof word);
      if (!check(word == acknowledged_[slot],
                 "slot " + std::to_string(slot) + " has another word than was acknowledged"))
        return false;
    }
    return members_hold_all();
  }
  // A page names only members that hold everything that was acknowledged. Requires: nothing is being written.
  bool members_hold_all() {
    VersionedPage newest;
    for (const Node& node : nodes_) {
      uint64_t epoch = 0;
      VersionedPage page;
      const Status status = PoolOwner::recorded_page(node.folder.path(), "p", &epoch, &page);
      if (status.ok() && page.is_newer_than(newest)) newest = page;
    }
    for (size_t number = 0; number < kNodes; ++number) {
      if (!newest.page.has(number)) continue;
      const std::string bytes = testing::read_file(nodes_[number].folder.file("p"));
      if (!check(bytes.size() >= kLifeBytes, "a member in sync has no pool")) return false;
      for (size_t slot = 0; slot < kSlots; ++slot) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + place_of(slot), sizeof word);
        if (!check(word == acknowledged_[slot], "a member in sync misses slot " + std::to_string(slot))) return false;
      }
    }
    return true;
  }
  bool reopen(const char* text) {
    close();
    const Status status = open();
    return check(status.ok(), std::string(text) + ": " + status.ToString()) && read_all();
  }

  void live() {
    for (int round = 0; round < 3; ++round) {
      if (!reopen("all nodes are there, and the group does not open") || !write_some()) return;
      const size_t lost = dice_.below(kNodes);
      const size_t other = (lost + 1 + dice_.below(2)) % kNodes, third = kNodes - lost - other;
      const bool stops = dice_.below(2) == 0 && !needs_all_;
      fail(lost, stops);
      if (stops) base::sleep_ms(4 * kMemberMs);  // it still takes WRITEs, so it is not missed before its grants are
      if (needs_all_) {
        if (!wait_for(lost)) return;
        continue;
      }
      if (!write_some() || !read_all()) return;
      if (dice_.below(2) == 0 && !join(lost, other)) return;
      if (!write_some() || !read_all()) return;
      close();
      come_back(lost);
      if (!fail_after(lost, other, third, stops)) return;
    }
  }
  // A member comes back while updates go on, and is brought up to date; it, or another one, may fail meanwhile.
  bool join(size_t lost, size_t other) {
    if (dice_.below(4) == 0) nodes_[lost].lose();
    come_back(lost);
    bool over = false;
    std::array<base::Thread, kWriters> writers;
    for (size_t i = 0; i < kWriters; ++i) {
      writers[i] = base::Thread("writer", [this, &over, i] {
        while (!over && write(i)) base::sleep_us(at_once_ == 0 ? 1 + dice_.below(kPauseUs) : dice_.below(10));
      });
    }
    if (dice_.below(2) == 0) {
      base::sleep_ms(dice_.below(400));
      const size_t fails = dice_.below(2) == 0 ? lost : other;
      fail(fails, dice_.below(2) == 0);
      base::sleep_ms(dice_.below(2 * kMemberMs));
      come_back(fails);
    }
    base::BoundedWait wait("life.joins", 60'000);
    bool joins = false;  // it may be left out again at once, if it was the one that failed
    while (!(joins = is_back(lost, other)) && !wait.expired() && wrong_.empty()) wait.pause();
    over = true;
    for (base::Thread& writer : writers) writer.join();
    return check(joins, "a member that is back does not join") && read_all();
  }
  [[nodiscard]] VersionedPage page_of(size_t node) const {
    uint64_t epoch = 0;
    VersionedPage page;
    const Status status = PoolOwner::recorded_page(nodes_[node].folder.path(), "p", &epoch, &page);
    return status.ok() ? page : VersionedPage();
  }
  [[nodiscard]] bool in_sync(size_t node, size_t member) const { return page_of(node).page.has(member); }
  [[nodiscard]] bool is_witness(size_t node) const { return has_witness_ && node == kWitness; }
  // A witness is back when it has a page that is as new as the other's.
  [[nodiscard]] bool is_back(size_t node, size_t other) const {
    if (!is_witness(node)) return in_sync(other, node) && in_sync(node, node);
    return page_of(node).page.members != 0 && !page_of(other).is_newer_than(page_of(node));
  }
  // `other` fails when the store is closed. Those that are left hold everything if the one that was lost has joined; or
  // if one of these two is the witness.
  bool fail_after(size_t lost, size_t other, size_t third, bool stops) {
    const bool knows = in_sync(third, lost) || is_witness(lost) || is_witness(other);
    fail(other, false);
    Status status = open();
    if (knows) {
      if (!check(status.ok(), "a member that has joined does not count: " + status.ToString()) || !read_all()) {
        return false;
      }
      if (!write_some()) return false;
      close();
      come_back(other);
      return true;
    }
    // The one that was away, and one that knows: too few, whatever the first one thinks.
    if (!check(status.IsUnavailable(), "too few members are opened: " + status.ToString())) return false;
    fail(lost, stops);
    come_back(other);
    if (!reopen("those that know are there, and the group does not open") || !write_some()) return false;
    fail(third, false);  // below what is needed: nothing is written, and all are needed to go on
    close();
    come_back(lost);
    come_back(third);
    return true;
  }
  // All are needed: an update waits for the one that is away, however long that is.
  bool wait_for(size_t lost) {
    bool done = false;
    base::Thread writer("writer", [&] {
      static_cast<void>(write());
      done = true;
    });
    base::sleep_ms(4 * kMemberMs);
    const bool early = done;
    come_back(lost);
    writer.join();
    return check(!early, "an update is acknowledged by fewer than are needed") && read_all();
  }

  base::Random dice_;
  const bool needs_all_, has_witness_;
  rdma::SimNetwork network_;
  std::array<Node, kNodes> nodes_;
  std::unique_ptr<Targets> targets_;
  std::unique_ptr<Volume> volume_;
  uint64_t words_ = 0;
  uint64_t at_once_ = 0;  // so many words are written without pauses between them
  std::array<uint64_t, kSlots> acknowledged_{};
  std::string wrong_;
};

std::string life(uint64_t seed) { return GroupLife(seed, kind_of(seed)).run(seed); }

TEST(GroupLife, NothingAcknowledgedIsLost) {
  const uint64_t first = base::seed_from_env_or(1), seeds = testing::budget<uint64_t>(8, 24, 2'000);
  uint64_t violations = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const std::string wrong = life(seed);
    EXPECT_EQ("", wrong) << "BONSAI_SEED=" << seed;
    violations += wrong.empty() ? 0 : 1;
  }
  testing::add_figure("group_sim_seeds", seeds);
  testing::add_figure("group_sim_violations", violations);
}

TEST(GroupLife, TheLossOfEachRuleIsNoticed) {
  constexpr std::array kRules = {kOutBeforePage,    kOpensWithTooFew,    kNotMadeEqual,   kFirstMemberOnly,
                                 kTooFewGoOn,       kJoinerMissesWrites, kStaleCopyLands, kEarlierNotAwaited,
                                 kEntersBeforeCopy, kPageNotRaised,      kWitnessSkipped};
  uint64_t noticed = 0;
  for (const uint64_t rule : kRules) {
    bool wrong = false;
    bonsai::testing::mutants_on.store(rule);
    for (uint64_t seed = 1; seed <= 40 && !wrong; ++seed) wrong = !life(seed).empty();
    bonsai::testing::mutants_on.store(0);
    EXPECT_TRUE(wrong) << rule;
    noticed += wrong ? 1 : 0;
  }
  testing::add_figure("group_sim_mutants", kRules.size());
  testing::add_figure("group_sim_mutants_killed", noticed);
}

}  // namespace
}  // namespace bonsai::scale
