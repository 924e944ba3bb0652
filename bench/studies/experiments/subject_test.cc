// SPDX-License-Identifier: Apache-2.0
// Tests of a loaded store that teams work on: what each team gets, that wrong answers and interruptions end it, and the
// words and sizes that experiments share.
#include "bench/studies/experiments/subject.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/engines/testing/faulty_engine.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kSubjectRecords = 2000;

class Subjects : public ::testing::Test {
 protected:
  Subjects() {
    plan_.scale = Scale::kTrial;
    plan_.stop = &stop_;
    plan_.listener = {.on_phase = [this](const std::string& store, const std::string& phase,
                                         uint64_t) { phases_.push_back(store + ": " + phase); },
                      .on_progress = {},
                      .on_result = {},
                      .on_note = {},
                      .on_left_out = {}};
  }
  [[nodiscard]] std::unique_ptr<Subject> subject(Fault fault) const {
    return std::make_unique<Subject>(plan_, kSubjectRecords, std::make_unique<FaultyEngine>(fault));
  }

  std::atomic<bool> stop_{false};
  ExperimentPlan plan_;
  std::vector<std::string> phases_;
};

TEST_F(Subjects, AreLoadedAndSayWhatGoesOn) {
  const auto store = subject(Fault::kNone);
  ExperimentResult result;
  ASSERT_TRUE(store->load(&result).ok());
  EXPECT_FALSE(result.medium.has_value()) << "of a store in DRAM";
  uint64_t found = 0;
  ASSERT_TRUE(store->engine().scan("", UINT32_MAX, [&found](auto, auto) { return ++found > 0; }).ok());
  EXPECT_EQ(found, kSubjectRecords);
  std::optional<double> gets;
  ASSERT_TRUE(store->rates({{Role::kGet}, {Role::kGet}}, Role::kGet, &gets).ok());
  EXPECT_GT(gets.value_or(0), 0);
  EXPECT_EQ(phases_, (std::vector<std::string>{"store: load 2000", "store: 2 threads on 2000"}));
  EXPECT_EQ(subject(Fault::kRefuses)->load(nullptr).code(), Status::Code::kNoSpace) << "the store's own error";
}

TEST_F(Subjects, GiveATeamWhatThePlanSays) {
  const auto store = subject(Fault::kNone);
  ASSERT_TRUE(store->load(nullptr).ok());
  TeamPlan first, second;
  TeamResult done;
  for (TeamPlan* team : {&first, &second}) {
    team->members = {{Role::kGet}};
    ASSERT_TRUE(store->run(team, &done).ok());
    EXPECT_EQ(team->records, kSubjectRecords);
    EXPECT_EQ(team->ms, cell_ms(Scale::kTrial));
    EXPECT_EQ(team->stop, &stop_);
    EXPECT_TRUE(team->all_loaded);
  }
  EXPECT_NE(first.seed, second.seed) << "no team does what the one before did";
  first.ms = 1;
  ASSERT_TRUE(store->run(&first, &done).ok());
  EXPECT_EQ(first.ms, 1U) << "as the caller says";
}

TEST_F(Subjects, KnowThatPutsRemoveRecords) {
  const auto store = subject(Fault::kNone);
  ASSERT_TRUE(store->load(nullptr).ok());
  TeamPlan puts, gets;
  TeamResult done;
  puts.members = {{Role::kPut}};
  ASSERT_TRUE(store->run(&puts, &done).ok());
  gets.members = {{Role::kGet}};
  ASSERT_TRUE(store->run(&gets, &done).ok()) << "what was removed is no failure";
  EXPECT_FALSE(gets.all_loaded);
}

TEST_F(Subjects, EndAtAWrongAnswerAndAtAnInterruption) {
  for (const auto& [fault, role] : {std::pair(Fault::kLosesKeys, Role::kGet),
                                    {Fault::kMixesValues, Role::kGet},
                                    {Fault::kScanTwice, Role::kScan}}) {
    const auto store = subject(fault);
    ASSERT_TRUE(store->load(nullptr).ok());
    std::optional<double> figure;
    EXPECT_TRUE(store->rates({{role, 10}}, role, &figure).IsUnavailable());
    EXPECT_FALSE(figure.has_value()) << "no figure of wrong answers";
  }
  const auto store = subject(Fault::kNone);
  ASSERT_TRUE(store->load(nullptr).ok());
  stop_ = true;
  std::optional<double> figure;
  EXPECT_TRUE(store->rates({{Role::kGet}}, Role::kGet, &figure).IsUnavailable());
  EXPECT_TRUE(subject(Fault::kNone)->load(nullptr).IsUnavailable());
}

TEST(ExperimentWords, AreRoundedAndBounded) {
  EXPECT_EQ(percent(0), "0 %");
  EXPECT_EQ(percent(0.954), "95 %");
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(percent(2.5), "250 %");
  EXPECT_EQ(log_bytes_for(1), uint64_t{1} << 14) << "the least log";
  EXPECT_NEAR(static_cast<double>(log_bytes_for(1'000'000)), 2'045'000, 1);
  EXPECT_EQ(log_bytes_for(1'000'000, 4), 4'000'000U);
  EXPECT_LT(cell_ms(Scale::kTrial), cell_ms(Scale::kSmall));
  EXPECT_LT(cell_ms(Scale::kSmall), cell_ms(Scale::kPaper));
}

}  // namespace
}  // namespace bonsai::bench
