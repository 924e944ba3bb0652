// SPDX-License-Identifier: Apache-2.0
#include "testing/crash_check.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "testing/recorder.h"

namespace bonsai::testing {
namespace {

bool all_keys(uint64_t) { return true; }
bool no_key(uint64_t) { return false; }

// Key 1 gets 10, 11; key 2 gets 20 after that; then a batch over both is in flight.
History killed_writer() {
  History h;
  h.add(OpKind::kPut, 0, 1, 2, {{1, 10}});
  h.add(OpKind::kPut, 0, 3, 4, {{1, 11}});
  h.add(OpKind::kPut, 0, 5, 6, {{2, 20}});
  h.add(OpKind::kBatch, 0, 7, kOpen, {{1, 12}, {2, 22}});
  return h;
}

// Judged as keys of one writer and as keys of several; both must say the same.
bool accepted(Durability durability, uint64_t value1, uint64_t value2, uint64_t synced_at = 0) {
  const Cell recovered[] = {{1, value1}, {2, value2}};
  const CrashCase what{durability, {}, recovered, synced_at};
  return check_crash(killed_writer(), what, all_keys).ok;
}

TEST(CrashCheck, DurableKeepsWhatWasAcknowledgedAndTakesInFlightBatchesWhole) {
  constexpr auto kLevel = Durability::kDurable;
  EXPECT_TRUE(accepted(kLevel, 11, 20));
  EXPECT_TRUE(accepted(kLevel, 12, 22));
  EXPECT_FALSE(accepted(kLevel, 12, 20)) << "half a batch";
  EXPECT_FALSE(accepted(kLevel, 11, 22)) << "half a batch";
  EXPECT_FALSE(accepted(kLevel, 10, 20)) << "an older value";
  EXPECT_FALSE(accepted(kLevel, 11, kAbsent)) << "lost";
  EXPECT_FALSE(accepted(kLevel, 11, 21)) << "invented";
  EXPECT_FALSE(accepted(kLevel, 11, kGarbled)) << "garbled";
}

TEST(CrashCheck, BufferedKeepsAPrefix) {
  constexpr auto kLevel = Durability::kBuffered;
  for (const auto& [value1, value2] : {std::pair{kAbsent, kAbsent}, {10, kAbsent}, {11, kAbsent}, {11, 20}, {12, 22}}) {
    EXPECT_TRUE(accepted(kLevel, value1, value2)) << value1 << " " << value2;
  }
  EXPECT_FALSE(accepted(kLevel, 10, 20)) << "20 returned after 11 did";
  EXPECT_FALSE(accepted(kLevel, kAbsent, 20));
  EXPECT_FALSE(accepted(kLevel, 12, 20)) << "half a batch";
  EXPECT_TRUE(accepted(kLevel, 11, kAbsent, 5)) << "synced after 11 returned";
  EXPECT_FALSE(accepted(kLevel, 10, kAbsent, 5));
}

TEST(CrashCheck, BufferedKeepsNoEffectWithoutItsCause) {
  History h;  // thread 1 reads what thread 0 is still writing, then writes key 2
  h.add(OpKind::kPut, 0, 1, 9, {{1, 10}});
  h.add(OpKind::kGet, 1, 2, 3, {{1, 10}});
  h.add(OpKind::kPut, 1, 4, 5, {{2, 20}});
  const Cell effect_only[] = {{1, kAbsent}, {2, 20}};
  const Cell cause_only[] = {{1, 10}, {2, kAbsent}};
  EXPECT_FALSE(check_crash(h, {Durability::kBuffered, {}, effect_only, 0}, all_keys).ok);
  EXPECT_TRUE(check_crash(h, {Durability::kBuffered, {}, cause_only, 0}, all_keys).ok);
}

// The last thing done was a Sync, and no operation has an ordinal after its.
TEST(CrashCheck, BufferedKeepsWhatWasSyncedLast) {
  History h;
  h.add(OpKind::kPut, 0, 1, 2, {{1, 10}});
  const Cell kept[] = {{1, 10}};
  const Cell gone[] = {{1, kAbsent}};
  EXPECT_TRUE(check_crash(h, {Durability::kBuffered, {}, kept, 7}, all_keys).ok);
  EXPECT_FALSE(check_crash(h, {Durability::kBuffered, {}, gone, 7}, all_keys).ok);
}

// A put is preempted after its append; another one comes, is read, and is lost.
TEST(CrashCheck, BufferedMayKeepAnUpdateInFlightWithoutOneThatOvertookIt) {
  const auto accepts = [](uint64_t begun, const Cell& first, const Cell& second) {
    History h;
    h.add(OpKind::kPut, 1, 2, 3, {{2, 20}});
    h.add(OpKind::kScan, 1, 4, 5, {{1, kAbsent}, {2, 20}});
    h.add(OpKind::kPut, 0, begun, kOpen, {{1, 10}});
    const Cell recovered[] = {first, second};
    return check_crash(h, {Durability::kBuffered, {}, recovered, 0}, all_keys).ok;
  };
  EXPECT_TRUE(accepts(1, {1, 10}, {2, kAbsent})) << "in flight together";
  EXPECT_FALSE(accepts(6, {1, 10}, {2, kAbsent})) << "begun when the lost one had returned";
  EXPECT_TRUE(accepts(6, {1, kAbsent}, {2, 20}));
}

TEST(CrashCheck, DurableKeepsWhatAReadSaw) {
  History h;
  h.add(OpKind::kPut, 0, 1, kOpen, {{1, 10}});
  const Cell gone[] = {{1, kAbsent}};
  for (const auto& keys : {all_keys, no_key}) {
    EXPECT_TRUE(check_crash(h, {Durability::kDurable, {}, gone, 0}, keys).ok);
  }
  h.add(OpKind::kGet, 1, 2, 3, {{1, 10}});
  for (const auto& keys : {all_keys, no_key}) {
    EXPECT_FALSE(check_crash(h, {Durability::kDurable, {}, gone, 0}, keys).ok);
  }
}

TEST(CrashCheck, KeysOfManyWriters) {
  History h;
  h.add(OpKind::kPut, 0, 1, 5, {{1, 10}});
  h.add(OpKind::kPut, 1, 2, 6, {{1, 11}});
  h.add(OpKind::kBatch, 2, 7, kOpen, {{1, 12}, {2, 22}});
  const auto accepts = [&](Durability durability, uint64_t value1, uint64_t value2) {
    const Cell recovered[] = {{1, value1}, {2, value2}};
    return check_crash(h, {durability, {}, recovered, 0}, no_key).ok;
  };
  EXPECT_TRUE(accepts(Durability::kDurable, 10, kAbsent));
  EXPECT_TRUE(accepts(Durability::kDurable, 11, kAbsent));
  EXPECT_TRUE(accepts(Durability::kDurable, 12, 22));
  EXPECT_FALSE(accepts(Durability::kDurable, kAbsent, kAbsent));
  EXPECT_FALSE(accepts(Durability::kDurable, 12, kAbsent)) << "half a batch";
  EXPECT_FALSE(accepts(Durability::kDurable, 10, 22)) << "half a batch";
  EXPECT_TRUE(accepts(Durability::kBuffered, kAbsent, kAbsent));
  EXPECT_FALSE(accepts(Durability::kBuffered, 13, kAbsent));
}

TEST(CrashCheck, WhatWasThereBeforeCounts) {
  const Cell initial[] = {{1, 5}};
  const Cell kept[] = {{1, 5}};
  const Cell gone[] = {{1, kAbsent}};
  for (const auto& keys : {all_keys, no_key}) {
    EXPECT_TRUE(check_crash({}, {Durability::kDurable, initial, kept, 0}, keys).ok);
    EXPECT_FALSE(check_crash({}, {Durability::kDurable, initial, gone, 0}, keys).ok);
  }
}

// An update that was refused and changed nothing may be nowhere.
TEST(CrashCheck, AWithdrawnUpdateMustNotSurvive) {
  const auto recorder = Recorder::in_memory({.lanes = 1, .operations_max = 10, .cells_max = 10});
  Recorder::Lane lane = recorder->lane(0);
  const uint64_t put = lane.begin_update(OpKind::kPut, {1, 10});
  const Cell there[] = {{1, 10}};
  const Cell gone[] = {{1, kAbsent}};
  EXPECT_TRUE(check_crash(recorder->history(), {Durability::kDurable, {}, there, 0}, all_keys).ok) << "in flight";
  lane.withdraw_update(put);
  for (const auto& keys : {all_keys, no_key}) {
    EXPECT_FALSE(check_crash(recorder->history(), {Durability::kDurable, {}, there, 0}, keys).ok);
    EXPECT_TRUE(check_crash(recorder->history(), {Durability::kDurable, {}, gone, 0}, keys).ok);
  }
}

TEST(RecorderFile, SurvivesSigkill) {
  const std::string path = "/dev/shm/bonsai_recorder_test." + std::to_string(getpid());
  std::filesystem::remove(path);
  const auto recorder = Recorder::create_file(path, {.lanes = 2, .operations_max = 100, .cells_max = 100});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto mine = Recorder::open_file(path);
    Recorder::Lane lane = mine->lane(1);
    const uint64_t put = lane.begin_update(OpKind::kPut, {1, 10});
    lane.end_update(put);
    (void)lane.begin_update(OpKind::kPut, {1, 11});
    mine->mark(3).store(77);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  std::filesystem::remove(path);
  const History h = recorder->history();
  ASSERT_EQ(h.operations.size(), 2u);
  EXPECT_EQ(h.text_of(h.operations[0]), "[1,2] thread 1 put k1=10");
  EXPECT_EQ(h.text_of(h.operations[1]), "[3,open] thread 1 put k1=11");
  EXPECT_EQ(recorder->mark(3).load(), 77u);
}

}  // namespace
}  // namespace bonsai::testing
