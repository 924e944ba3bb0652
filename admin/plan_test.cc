// SPDX-License-Identifier: Apache-2.0
// plan: its figures against pools that were made as it says, and its words.
#include "admin/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "admin/testing/run_program.h"
#include "base/testing/temp_folder.h"
#include "bonsai/db.h"

namespace bonsai::admin {
namespace {

using testing::TempFolder;

struct Shape {
  const char* name;
  Workload workload;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class PlannedPool : public ::testing::TestWithParam<Shape> {
 protected:
  // Keys in random order: the low bits of `i` come first.
  [[nodiscard]] std::string key_of(uint64_t i) const {
    std::string key(workload_.key_bytes, 'k');
    uint64_t mixed = i * 0x9e3779b97f4a7c15;
    for (size_t at = 0; at < std::min<size_t>(8, key.size()); ++at, mixed >>= 8) key[at] = static_cast<char>(mixed);
    return key;
  }
  [[nodiscard]] std::string value_of(uint64_t i) const {
    const uint64_t bytes = workload_.value_bytes;
    return std::string(workload_.sizes_differ ? bytes / 2 + i % (bytes + 1) : bytes, static_cast<char>(i));
  }
  void put_all(uint64_t step) {
    for (uint64_t n = 0; n < workload_.records; ++n) {
      const uint64_t i = n * step % workload_.records;
      ASSERT_TRUE(db_->Put(key_of(i), value_of(i + step)).ok()) << i;
    }
  }
  // The larger of what is there and what was there before.
  void look() {
    const Stats stats = db_->GetStats();
    dram_most_ = std::max(dram_most_, stats.dram_bytes);
    data_most_ = std::max(data_most_, stats.data_bytes_used);
  }

  const Workload workload_ = GetParam().workload;
  TempFolder folder_ = TempFolder::on_tmpfs();
  std::unique_ptr<DB> db_;
  uint64_t dram_most_ = 0, data_most_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, PlannedPool,
    ::testing::Values(
        Shape{"Small", {.records = 60'000, .value_bytes = 8, .updates_per_second = 1'000}},
        Shape{"Medium", {.records = 30'000, .key_bytes = 24, .value_bytes = 100, .updates_per_second = 1'000}},
        Shape{"Differing",
              {.records = 30'000,
               .key_bytes = 24,
               .value_bytes = 100,
               .sizes_differ = true,
               .updates_per_second = 1'000}},
        Shape{"Kilobyte", {.records = 6'000, .key_bytes = 16, .value_bytes = 1'000, .updates_per_second = 1'000}},
        Shape{"Large", {.records = 1'500, .key_bytes = 16, .value_bytes = 8'000, .updates_per_second = 1'000}}),
    [](const auto& each) { return each.param.name; });

// Without a thread, so that what is written does not hang on the clock.
TEST_P(PlannedPool, HoldsItsRecordsAndTheirUpdates) {
  Plan plan;
  ASSERT_TRUE(make_plan(workload_, &plan).ok());
  Options options;
  options.create_if_missing = true;
  options.background_threads = 0;
  options.pool_bytes = static_cast<uint64_t>(plan.target);
  ASSERT_TRUE(DB::Open(options, folder_.file("pool"), &db_).ok());
  const Stats made = db_->GetStats();
  EXPECT_GE(static_cast<double>(made.data_bytes), plan.data) << "there is as much room as was promised";
  EXPECT_NEAR(static_cast<double>(made.log_bytes), plan.log, .05 * plan.log);

  ASSERT_NO_FATAL_FAILURE(put_all(7'919));
  look();
  ASSERT_TRUE(db_->Drain().ok());
  look();
  const Stats settled = db_->GetStats();
  EXPECT_NEAR(static_cast<double>(settled.data_bytes_used), plan.records, .1 * plan.records);
  EXPECT_LE(static_cast<double>(settled.dram_bytes), plan.dram_settled);
  for (const uint64_t step : {104'729, 15'485'863}) {
    ASSERT_NO_FATAL_FAILURE(put_all(step));
    look();
  }
  const Stats updated = db_->GetStats();
  const double written = static_cast<double>(updated.nvm_bytes_stored - settled.nvm_bytes_stored) /
                         static_cast<double>(2 * workload_.records);
  EXPECT_GT(written, .4 * plan.update);
  EXPECT_LT(written, 1.3 * plan.update);
  EXPECT_LE(static_cast<double>(dram_most_), plan.dram_most);
  EXPECT_LE(static_cast<double>(data_most_), plan.data);
  ASSERT_TRUE(db_->Close().ok());
}

TEST(PlanProgram, SaysWhatIsNeededAndHowToMakeIt) {
  const ProgramResult load = run_program({"plan", "--records=1000000", "--value-bytes=100"});
  EXPECT_EQ(load.exit_code, 0) << load.err;
  for (const char* words : {"1000000 of 8 + 100 bytes", "113 bytes a record", "make it ", "DRAM, at rest"}) {
    EXPECT_NE(load.out.find(words), std::string::npos) << words << " in: " << load.out;
  }
  EXPECT_EQ(load.out.find("a second"), std::string::npos) << load.out;

  const TempFolder folder = TempFolder::on_tmpfs();
  const size_t at = load.out.find("--bytes=");
  const std::string bytes = load.out.substr(at, load.out.find(' ', at) - at);
  EXPECT_EQ(run_program({"create", "--pool=" + folder.file("pool"), bytes}).exit_code, 0) << bytes;
}

TEST(PlanProgram, CountsMembersAndTargets) {
  const std::vector<std::string> words = {"plan", "--json", "--records=100000", "--updates_per_second=1000"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return nlohmann::json::parse(run_program(all).out);
  };
  const auto one = with({}), members = with({"--members=3"}), targets = with({"--targets=2"});
  EXPECT_EQ(one["update_bytes"], 24 + 4 * 20);
  EXPECT_EQ(one["written_bytes_per_second"], 1000 * (24 + 4 * 20));
  EXPECT_EQ(members["written_bytes_per_second"], 3000 * (24 + 4 * 20));
  EXPECT_EQ(members["target_bytes"], one["target_bytes"]) << "each member holds all of it";
  EXPECT_LT(targets["target_bytes"], one["target_bytes"]);
  EXPECT_GE(2 * targets["target_bytes"].get<uint64_t>(), one["target_bytes"].get<uint64_t>());
}

TEST(PlanProgram, RefusesWhatNoPoolHas) {
  const auto refusal = [](const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"plan"};
    words.insert(words.end(), flags.begin(), flags.end());
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_NE(refusal({}).find("bonsai plan --records=1000000"), std::string::npos);
  EXPECT_NE(refusal({"--records=0"}).find("--records is 0; give a number from 1"), std::string::npos);
  EXPECT_NE(refusal({"--records=1", "--key_bytes=1025"}).find("from 1 to 1024"), std::string::npos);
  EXPECT_NE(refusal({"--records=1", "--value_bytes=16777217"}).find("from 0 to 16777216"), std::string::npos);
  EXPECT_NE(refusal({"--records=1", "--members=0"}).find("--members"), std::string::npos);
  EXPECT_NE(refusal({"--records=1", "--targets=65"}).find("--targets"), std::string::npos);
  EXPECT_NE(refusal({"--records=1", "--updates_per_second=1000000001"}).find("--updates"), std::string::npos);
  EXPECT_NE(refusal({"--records=1", "--pool=x"}).find("--pool"), std::string::npos);
}

TEST(Plan, TheLargestNumbersHaveAPlan) {
  Plan plan;
  ASSERT_TRUE(make_plan({.records = kPlanRecordsMax,
                         .key_bytes = kKeyBytesMax,
                         .value_bytes = kValueBytesMax,
                         .updates_per_second = kPlanUpdatesMax,
                         .members = kPlanNodesMax},
                        &plan)
                  .ok());
  for (const double bytes : {plan.target, plan.data, plan.dram_most, plan.nvm_per_second}) {
    EXPECT_GT(bytes, 0);
    EXPECT_LT(bytes, 0x1p63) << "it can be shown";
  }
}

}  // namespace
}  // namespace bonsai::admin
