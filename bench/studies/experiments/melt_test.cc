// SPDX-License-Identifier: Apache-2.0
// Tests of the figures of MELT: each has its command, all share their samples, and each view has its figure's form.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/melt_study.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

class Melt : public ::testing::Test {
 protected:
  Melt() {
    plan_.scale = Scale::kTrial;
    plan_.threads_max = 2;
    plan_.config.out_dir = folder_.file("out");
    plan_.stop = &stop_;
    plan_.listener = {.on_phase = [this](const std::string&, const std::string&, uint64_t) { ++phases_; },
                      .on_progress = {},
                      .on_result = {},
                      .on_note = [](const std::string& note) { ADD_FAILURE() << note; },
                      .on_left_out = {}};
  }

  ExperimentResult run(const std::string& name) {
    ExperimentResult result;
    const auto found = find_experiments(name);
    EXPECT_EQ(found.size(), 1U) << name;
    const Status status = found.at(0)->run(plan_, &result);
    EXPECT_TRUE(status.ok()) << name << ": " << status.ToString();
    for (const Row& row : result.rows) EXPECT_EQ(row.size(), result.columns.size()) << name;
    return result;
  }
  [[nodiscard]] static size_t column(const ExperimentResult& result, const std::string& name) {
    for (size_t i = 0; i < result.columns.size(); ++i) {
      if (result.columns[i].name == name) return i;
    }
    ADD_FAILURE() << "no column " << name;
    return 0;
  }

  testing::ScratchFolder folder_;
  std::atomic<bool> stop_{false};
  ExperimentPlan plan_;
  int phases_ = 0;
};

TEST_F(Melt, FiguresAreViewsOfTheSameSamples) {
  const ExperimentResult rates = run("melt-9-2");
  const int taken = phases_;
  EXPECT_GT(taken, 0);
  ASSERT_GE(rates.rows.size(), 1U);
  const size_t store = column(rates, "2 libcuckoo");
  // Other work of the machine may keep a rate from being held and the next one from being tried. No rate is exceeded.
  EXPECT_GT(rates.rows[0][store].value_or(0), 0) << "M/s, of a target of 50 K/s";
  EXPECT_LE(rates.rows[0][store].value_or(1), 0.0501);
  EXPECT_EQ(rates.columns[column(rates, "hopscotch")].unit, "M/s");
  const ExperimentResult deviations = run("melt-9-4");
  EXPECT_EQ(phases_, taken) << "nothing was measured again";
  EXPECT_NEAR(deviations.rows[0][store].value_or(100), 100 * (*rates.rows[0][store] / 0.05 - 1), 1e-6);
  const ExperimentResult slept = run("melt-9-5");
  EXPECT_EQ(phases_, taken);
  EXPECT_EQ(slept.rows.size(), rates.rows.size());
}

TEST_F(Melt, EachKindOfFigureShowsItsAxes) {
  const ExperimentResult surface = run("melt-9-15");
  EXPECT_EQ(surface.columns[0].name, "percentile");
  ASSERT_GE(surface.columns.size(), 2U);
  EXPECT_EQ(surface.columns[1].name, "0.05 M/s") << "one curve per rate";
  EXPECT_GT(surface.rows[4][1].value_or(0), 10) << "ns of the median";
  EXPECT_FALSE(surface.rows.back()[1].has_value()) << "so few samples do not carry p99.9";
  const ExperimentResult applications = run("melt-9-20");
  EXPECT_GT(applications.columns.size(), 3U);
  EXPECT_NE(applications.labels[0].find("held"), std::string::npos);
  const ExperimentResult best = run("melt-serial-or-concurrent");
  EXPECT_FALSE(best.columns[column(best, "serial by p90")].words.empty());
  for (const char* contest : {"throughput", "memory"}) {
    for (const std::string kind : {"serial ", "concurrent "}) {
      EXPECT_GT(best.rows[0][column(best, kind + contest)].value_or(0), 0) << kind << contest;
      EXPECT_TRUE(best.rows[0][column(best, kind + "by " + contest)].has_value()) << kind << contest;
    }
    const auto says = [&](const std::string& label) { return label.find(contest) != std::string::npos; };
    EXPECT_TRUE(std::any_of(best.labels.begin(), best.labels.end(), says)) << "where they cross";
  }
  const ExperimentResult memory = run("melt-memory");
  const size_t efficiency = column(memory, "space efficiency");
  const size_t used = column(memory, "used"), reserved = column(memory, "reserved");
  for (const Row& row : memory.rows) {
    EXPECT_GT(row[efficiency].value_or(0), 0) << memory.columns[0].words[static_cast<size_t>(*row[0])];
    EXPECT_LT(row[efficiency].value_or(2), 1);
    EXPECT_GE(row[reserved].value_or(0), row[used].value_or(1));
    EXPECT_GT(row[column(memory, "load: used")].value_or(0), 0) << "sampled while the records are loaded";
    EXPECT_GT(row[column(memory, "load: space efficiency")].value_or(0), 0);
  }
}

TEST_F(Melt, SaysWhyThereIsNoEnergy) {
  const ExperimentResult energy = run("melt-9-12");
  std::unique_ptr<MeltStudy> study;
  ASSERT_TRUE(MeltStudy::open(plan_, &study).ok());
  for (size_t i = 1; i < energy.columns.size(); ++i) {
    EXPECT_EQ(energy.columns[i].absent, study->without_energy());
    EXPECT_EQ(energy.rows[0][i].has_value(), study->without_energy().empty());
  }
}

TEST_F(Melt, AnInterruptedFigureKeepsItsSamples) {
  plan_.listener.on_phase = [this](const std::string&, const std::string&, uint64_t) { stop_ = ++phases_ == 5; };
  ExperimentResult result;
  EXPECT_TRUE(find_experiments("melt-9-1").at(0)->run(plan_, &result).IsUnavailable());
  MeltSamples samples;
  ASSERT_TRUE(samples.open(plan_.config.out_dir).ok());
  EXPECT_EQ(samples.size(), 2U) << "each has two phases";
}

TEST(MeltFigures, HaveAllNumbersOfTheThesis) {
  std::set<std::string_view> names;
  for (const Experiment* each : find_experiments("melt")) names.insert(each->name);
  for (int i = 1; i <= 24; ++i) EXPECT_TRUE(names.contains("melt-9-" + std::to_string(i))) << i;
  EXPECT_EQ(find_experiments("all").size(), experiment_list().size());
}

TEST(MeltWorkload, IsYcsbs) {
  for (const auto& [letter, reads, writes] : {std::tuple{'a', 0.5, OpKind::kUpdate},
                                              {'b', 0.95, OpKind::kUpdate},
                                              {'c', 1.0, OpKind::kUpdate},
                                              {'d', 0.95, OpKind::kInsert}}) {
    const Workload workload = melt_workload(letter);
    EXPECT_DOUBLE_EQ(workload.share(OpKind::kRead), reads);
    EXPECT_DOUBLE_EQ(workload.share(writes), 1 - reads);
    EXPECT_EQ(workload.requests == Distribution::kLatest, letter == 'd');
    EXPECT_EQ(RecordShape({KeyForm::kString, true, workload.zero_padding, 100}).key_bytes_max(), 24U);
  }
}

}  // namespace
}  // namespace bonsai::bench
