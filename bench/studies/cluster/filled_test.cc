// SPDX-License-Identifier: Apache-2.0
// Tests of stores that are filled without a model before a measurement.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/testing/budget.h"
#include "bench/studies/cluster/trial.h"

namespace bonsai::bench {
namespace {

using testing::budget;

TrialOptions few_records(size_t threads = 2, size_t coroutines = 2) {
  return {.records = 2'000, .inserts_max = 1'000, .shape = {.threads = threads, .coroutines = coroutines}};
}

TrialOptions filled_options(KeyForm form) {
  TrialOptions options = {.records = 20'000, .inserts_max = 5'000, .shape = {.threads = 4, .coroutines = 4}};
  options.key_form = form;
  return options;
}

// All records are there, with their values, and operations cost as much on a filled store as on a loaded one.
TEST(Filled, StoresAreThoseThatWereLoaded) {
  for (const SystemEntry& entry : systems()) {
    for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
      if (!entry.strings && form == KeyForm::kString) continue;
      const TrialOptions options = filled_options(form);
      std::unique_ptr<Trial> loaded, filled;
      TrialResult load, rest, of_loaded, of_filled;
      ASSERT_EQ("OK", Trial::make(entry, options, &loaded).ToString());
      ASSERT_EQ("OK", Trial::make(entry, options, &filled).ToString());
      ASSERT_EQ("OK", loaded->load(&load).ToString());
      ASSERT_EQ("OK", filled->fill(options.records - 5'000).ToString()) << entry.name;
      ASSERT_EQ("OK", filled->load(&rest).ToString()) << entry.name;
      EXPECT_EQ(rest.operations, 4'499u) << entry.name;
      EXPECT_NEAR(rest.memory_bytes_per_record / load.memory_bytes_per_record, 1, .3) << entry.name;
      for (const char letter : {'c', 'a', 'e'}) {
        if (letter == 'e' && !entry.scans) continue;
        const uint64_t operations = letter == 'e' ? 1'000 : budget<uint64_t>(4'000, 4'000, 10'000);
        ASSERT_EQ("OK", loaded->run(ycsb_workload(letter), operations, &of_loaded).ToString());
        ASSERT_EQ("OK", filled->run(ycsb_workload(letter), operations, &of_filled).ToString()) << entry.name;
        std::printf("%-21s %c %s: lists %.3f and %.3f, bytes %.0f and %.0f, Mop/s %.2f and %.2f +- %.1f %%\n",
                    std::string(entry.name).c_str(), letter, form == KeyForm::kFixed8 ? "integers" : "strings",
                    of_loaded.lists(), of_filled.lists(), of_loaded.bytes(), of_filled.bytes(), of_loaded.mops(),
                    of_filled.mops(), of_filled.spread * 100);
        EXPECT_NEAR(of_filled.lists() / of_loaded.lists(), 1, .15) << entry.name << " " << letter;
        EXPECT_NEAR(of_filled.mops() / of_loaded.mops(), 1, .15) << entry.name << " " << letter;
      }
    }
  }
}

TEST(Filled, ClientsAndDevicesMayChange) {
  for (const char* name : {"RACE-like", "Sherman-persist-like", "Bonsai"}) {
    const SystemEntry& entry = *find_system(name);
    std::unique_ptr<Trial> trial;
    TrialOptions options = few_records(8, 2);
    ASSERT_EQ("OK", Trial::make(entry, options, &trial).ToString());
    ASSERT_EQ("OK", trial->fill(options.records).ToString());
    TrialResult many, few, far, again;
    ASSERT_EQ("OK", trial->run(ycsb_workload('c'), 2'000, &many).ToString());
    trial->change({.threads = 1, .coroutines = 1}, options.device, 0);
    ASSERT_EQ("OK", trial->run(ycsb_workload('c'), 2'000, &few).ToString());
    EXPECT_GT(many.mops(), 5 * few.mops()) << name;
    rdma::SimDevice slow = options.device;
    slow.wire_ns *= 10;
    trial->change({.threads = 1, .coroutines = 1}, slow, 0);
    ASSERT_EQ("OK", trial->run(ycsb_workload('c'), 2'000, &far).ToString());
    EXPECT_LT(far.mops(), few.mops() / 3) << name;
    trial->change({.threads = 8, .coroutines = 2}, options.device, 0);
    ASSERT_EQ("OK", trial->run(ycsb_workload('c'), 2'000, &again).ToString());
    EXPECT_NEAR(again.mops() / many.mops(), 1, .15) << name;
  }
}

TEST(Filled, SpreadIsThatOfTheParts) {
  TrialOptions options = few_records(4, 2);
  std::unique_ptr<Trial> trial;
  ASSERT_EQ("OK", Trial::make(*find_system("RACE-like"), options, &trial).ToString());
  ASSERT_EQ("OK", trial->fill(options.records).ToString());
  TrialResult steady, few;
  ASSERT_EQ("OK", trial->run(ycsb_workload('c'), 20'000, &steady).ToString());
  ASSERT_EQ("OK", trial->run(ycsb_workload('a'), 200, &few).ToString());
  EXPECT_GT(steady.spread, 0);
  EXPECT_LT(steady.spread, .05) << "reads take the same time, always";
  EXPECT_GT(few.spread, steady.spread);
}

// A failure during filling is reported.
TEST(Filled, FailuresAreFound) {
  TrialOptions options = few_records();
  options.records = 2'000;
  std::unique_ptr<Trial> trial;
  ASSERT_EQ("OK", Trial::make(*find_system("RCuckoo-like"), options, &trial).ToString());
  const Status status = trial->fill(10'000);
  EXPECT_TRUE(status.IsUnavailable()) << "a table of some 3,800 entries holds no more: " << status.ToString();
}

}  // namespace
}  // namespace bonsai::bench
