// SPDX-License-Identifier: Apache-2.0
// Faults of the network and of the other machine, verb by verb, on a real device. Some need two machines: they request
// cuts and repairs from the testbed (scripts/testbed/testbed_test.py) through files in the folder that
// BONSAI_TESTBED_SHARE names.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "rdma/litmus.h"
#include "rdma/testing/suite.h"
#include "rdma/verbs.h"

namespace bonsai::rdma {
namespace {

// Makes scripts/testbed.sh run a command, e.g. "cut 1 2".
void ask_testbed(const std::string& words) {
  const std::string folder = std::getenv("BONSAI_TESTBED_SHARE");
  const std::string request = folder + "/request";
  std::ofstream(request + ".new") << words << "\n";
  std::filesystem::rename(request + ".new", request);
  for (base::BoundedWait wait("testbed", 60'000); std::filesystem::exists(request); wait.pause()) {
    ASSERT_FALSE(wait.expired()) << words;
  }
}

class NetworkTest : public FabricSuite {
 protected:
  // Adds one request of `verb`, with its own local word.
  void add(WorkList* list, Verb verb, Peer& peer, const RemoteRegion& region, uint64_t offset) {
    add_seven(list, verb, peer, region.at(offset), here_.region->slice(8 * slots_++, 8));
  }

  // Expects that every verb ends as `outcome` at the peer, and that later requests are not carried out.
  void expect_refused(Verb verb, const RemoteRegion& region, uint64_t offset, Outcome outcome) {
    const auto peer = here_.connect(there_.address);
    ASSERT_NE(peer, nullptr);
    WorkList list;
    add(&list, verb, *peer, region, offset);
    add(&list, Verb::kWrite, *peer, there_.region, 1024);
    EXPECT_FALSE(here_.worker->run(&list, kTestLimitMs).ok());
    EXPECT_EQ(list.outcome(0), outcome) << verb_name(verb) << " " << outcome_name(list.outcome(0));
    EXPECT_EQ(list.outcome(1), Outcome::kFlushed) << verb_name(verb) << " " << outcome_name(list.outcome(1));
    EXPECT_EQ(there_.word(128), 0u) << verb_name(verb);
    testing::add_figure("fault_matrix_cells", 1);
  }

  size_t slots_ = 0;
};

TEST_P(NetworkTest, EveryOneSidedVerbIsRefusedByTheOwner) {
  for (const Verb verb : {Verb::kRead, Verb::kWrite, Verb::kCas, Verb::kFaa}) {
    size_t id = 0;
    const RemoteRegion stale = there_.add_region(64, "read,write,atomic", &id);
    there_.remove_region(id);
    expect_refused(verb, stale, 0, Outcome::kRemoteAccess);
    expect_refused(verb, there_.region, Node::kBytes, Outcome::kRemoteAccess);
    const RemoteRegion closed = there_.add_region(64, verb == Verb::kRead ? "write,atomic" : "read", &id);
    expect_refused(verb, closed, 0, Outcome::kRemoteAccess);
    EXPECT_EQ(there_.remove_region(id), std::string(64, '\0')) << verb_name(verb);
  }
}

TEST_P(NetworkTest, ANodeThatConnectsTwiceHasTwoConnections) {
  const auto first = here_.connect(there_.address);
  auto second = here_.connect(there_.address);
  WorkList list;
  add(&list, Verb::kFaa, *first, there_.region, 0);
  add(&list, Verb::kFaa, *second, there_.region, 0);
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  second.reset();
  list.clear();
  add(&list, Verb::kFaa, *first, there_.region, 0);
  EXPECT_TRUE(here_.worker->run(&list, kTestLimitMs).ok()) << "one connection's end is not the other's";
  EXPECT_EQ(there_.word(0), 21u);
  testing::add_figure("fault_matrix_cells", 1);
}

// Every failed request has a completion, signalled or not: the maximum number of failures must not overrun the queue.
TEST_P(NetworkTest, ManyFailuresAtOnceOverrunNoQueue) {
  const auto peer = here_.connect(there_.address);
  const size_t bound = here_.fabric->capabilities().lists_pending_max;
  std::vector<std::unique_ptr<WorkList>> lists;
  for (size_t i = 0; i < bound; ++i) {
    lists.push_back(std::make_unique<WorkList>());
    const Slice word = here_.region->slice(0, 8);
    while (lists[i]->room()) lists[i]->read(*peer, there_.region.at(i == 0 ? Node::kBytes : 0), word);
    ASSERT_TRUE(here_.worker->post(lists[i].get()).ok());
  }
  for (size_t i = 0; i < bound; ++i) {
    EXPECT_FALSE(here_.worker->wait(*lists[i], kTestLimitMs).ok());
    for (size_t k = 0; k < lists[i]->size(); ++k) {
      const Outcome expected = i + k == 0 ? Outcome::kRemoteAccess : Outcome::kFlushed;
      ASSERT_EQ(lists[i]->outcome(k), expected) << i << " " << k;
    }
  }
  const auto fresh = here_.connect(there_.address);
  WorkList list;
  add(&list, Verb::kFaa, *fresh, there_.region, 0);
  EXPECT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  testing::add_figure("fault_matrix_cells", 1);
}

// The guarantees that Bonsai relies on hold. Known deviations of Soft-RoCE are printed, to check docs/fabric.md against
// them.
TEST_P(NetworkTest, LitmusTestsPass) {
  size_t id = 0;
  const RemoteRegion scratch = there_.add_region(kLitmusBytes, "read,write,atomic", &id);
  LitmusReport report;
  EXPECT_EQ("OK", status_text(run_litmus(*here_.fabric, there_.address, here_.hello, scratch,
                                         {.phase_ms = testing::budget<uint64_t>(500, 1'000, 20'000)}, &report)));
  std::printf("litmus: %s\n", report.text().c_str());
  EXPECT_EQ("OK", status_text(report.status()));
  EXPECT_GT(report.unlocks, 0u);
}

// ---- cuts

struct Cut {
  const char* words;
  bool requests_arrive;  // then requests reported as unknown have been carried out
};

class CutTest : public NetworkTest {
 protected:
  void expect_unreachable(const Cut& cut) {
    slots_ = 0;
    for (size_t word = 0; word < kFabricVerbs.size(); ++word) there_.set_word(word, 0);
    std::array<std::unique_ptr<Peer>, kFabricVerbs.size()> peers;
    std::array<WorkList, kFabricVerbs.size()> lists;
    for (auto& peer : peers) ASSERT_NE(peer = here_.connect(there_.address), nullptr);
    ask_testbed(cut.words);
    const uint64_t begin = base::now_ns();
    for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
      add(&lists[i], kFabricVerbs[i], *peers[i], there_.region, 8 * i);
      add(&lists[i], Verb::kRead, *peers[i], there_.region, 8 * i);
      ASSERT_TRUE(here_.worker->post(&lists[i]).ok());
    }
    for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
      EXPECT_TRUE(here_.worker->wait(lists[i], kTestLimitMs).IsUnavailable());
      EXPECT_EQ(lists[i].outcome(0), Outcome::kUnreachable) << verb_name(kFabricVerbs[i]);
      EXPECT_EQ(lists[i].outcome(1), Outcome::kUnreachable) << "it may have been carried out as well";
      EXPECT_FALSE(peers[i]->usable());
      testing::add_figure("fault_matrix_cells", 1);
    }
    const uint64_t waited_ms = (base::now_ns() - begin) / base::kNsPerMs;
    std::printf("%s: given up after %llu ms\n", cut.words, static_cast<unsigned long long>(waited_ms));
    EXPECT_GE(waited_ms, 1'000u) << "it tries again before it gives up";
    for (auto& peer : peers) peer.reset();
    std::unique_ptr<Peer> none;
    EXPECT_TRUE(here_.worker->connect(there_.address, here_.hello, 300, &none).IsUnavailable());
    ask_testbed("heal");
    const auto peer = here_.connect(there_.address);
    ASSERT_NE(peer, nullptr);
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(there_.word(i), cut.requests_arrive ? 7u : 0u) << cut.words << " " << verb_name(kFabricVerbs[i]);
    }
  }
};

TEST_P(CutTest, WhatWasNotAnsweredIsUnknown) {
  if (!site_.far() || std::getenv("BONSAI_TESTBED_SHARE") == nullptr) GTEST_SKIP() << "needs two guests of the testbed";
  expect_unreachable({"cut 1 2", false});
  expect_unreachable({"cut 1 2 --one-way", false});
  expect_unreachable({"cut 2 1 --one-way", true});
}

// Nodes that wait longer than a cut lasts.
class PatientWorld final : public World {
 public:
  std::unique_ptr<Fabric> make_fabric() override { return open(); }
  std::string address(uint32_t node) override { return open()->host() + ":" + std::to_string(18'900 + node); }

 private:
  static std::unique_ptr<VerbsFabric> open() {
    VerbsOptions options;
    options.unreachable_ms = 5'000;
    std::unique_ptr<VerbsFabric> fabric;
    EXPECT_EQ("OK", status_text(VerbsFabric::open(options, &fabric)));
    return fabric;
  }
};

// The answers are lost for a while: the device retries, and nothing is carried out twice.
TEST_P(CutTest, ALateAnswerCompletesWhatWasCarriedOutOnce) {
  if (!site_.far() || std::getenv("BONSAI_TESTBED_SHARE") == nullptr) GTEST_SKIP() << "needs two guests of the testbed";
  PatientWorld world;
  Node patient(world, 3);
  std::array<std::unique_ptr<Peer>, kFabricVerbs.size()> peers;
  std::array<WorkList, kFabricVerbs.size()> lists;
  for (auto& peer : peers) ASSERT_NE(peer = patient.connect(there_.address), nullptr);
  ask_testbed("cut 2 1 --one-way");
  for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
    add_seven(&lists[i], kFabricVerbs[i], *peers[i], there_.region.at(8 * i), patient.region->slice(8 * i, 8));
    ASSERT_TRUE(patient.worker->post(&lists[i]).ok());
  }
  for (const WorkList& list : lists) EXPECT_TRUE(patient.worker->wait(list, 50).IsUnavailable()) << "no answer yet";
  for (const WorkList& list : lists) EXPECT_TRUE(list.pending());
  ask_testbed("heal");
  for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
    EXPECT_EQ("OK", status_text(patient.worker->wait(lists[i], kTestLimitMs))) << verb_name(kFabricVerbs[i]);
    testing::add_figure("fault_matrix_cells", 1);
  }
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(there_.word(i), 7u) << verb_name(kFabricVerbs[i]);
  EXPECT_EQ(patient.word(2), 0u) << "the CAS found what it found when it was carried out";
  EXPECT_EQ(patient.word(3), 0u) << "the FAA, too";
  uint32_t from = 0;
  EXPECT_EQ(there_.receive(&from).size(), sizeof(uint64_t));
  EXPECT_NE(there_.tell("receive", "0"), "OK") << "one message came once";
}

INSTANTIATE_TEST_SUITE_P(, NetworkTest, ::testing::ValuesIn(settings()), setting_name);
INSTANTIATE_TEST_SUITE_P(, CutTest, ::testing::ValuesIn(settings()), setting_name);

}  // namespace
}  // namespace bonsai::rdma
