// SPDX-License-Identifier: Apache-2.0
// Teams: what each role does and counts, on one thread and on several; that wrong answers end them; and how they load.
#include "bench/driver/team.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/engines/testing/faulty_engine.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kTeamRecords = 5000;

// Loads a faulty engine soundly and runs a team on it.
class Teams : public ::testing::Test {
 protected:
  Teams() {
    plan_.records = kTeamRecords;
    plan_.ms = 20;
    plan_.stop = &stop_;
  }
  Status run(Fault fault, const std::vector<Member>& members) {
    FaultyEngine engine(fault);
    plan_.members = members;
    const Status loaded = load_for_team(&engine, plan_.shape, plan_.records, 1, never_);
    return loaded.ok() ? run_team(&engine, plan_, &result_) : loaded;
  }

  std::atomic<bool> stop_{false}, never_{false};
  TeamPlan plan_;
  TeamResult result_;
};

TEST_F(Teams, CountWhatTheirMembersDo) {
  const Member get{Role::kGet}, gets{.role = Role::kGet, .depth = 8}, mix{.role = Role::kMix, .depth = 8};
  const Member put{Role::kPut}, scan{Role::kScan, 10};
  for (const bool zipfian : {false, true}) {
    plan_.zipfian = zipfian;
    for (const Member& member : {get, gets, mix, put}) {
      ASSERT_TRUE(run(Fault::kNone, {member}).ok());
      EXPECT_GT(result_.operations[0], 0U);
      EXPECT_EQ(result_.operations[0] % member.depth, 0U);
      EXPECT_EQ(result_.operations, result_.records);
      EXPECT_GE(result_.seconds, 0.02);
    }
  }
  ASSERT_TRUE(run(Fault::kNone, {scan}).ok());
  EXPECT_GT(result_.records[0], 9 * result_.operations[0]);
  EXPECT_LE(result_.records[0], 10 * result_.operations[0]);
  plan_.all_loaded = false;  // what is put may be a removal
  ASSERT_TRUE(run(Fault::kNone, {get, scan, put, get}).ok());
  ASSERT_EQ(result_.operations.size(), 4U);
  const double all = result_.records_m_per_s(plan_, Role::kGet);
  EXPECT_NEAR(all * result_.seconds * 1e6, static_cast<double>(result_.records[0] + result_.records[3]), 1);
  EXPECT_EQ(result_.records_m_per_s(plan_, Role::kStream), 0) << "nobody does it";
}

TEST_F(Teams, AStreamKeepsItsPace) {
  // 100 K per second for 20 ms, in strides of a hundred.
  ASSERT_TRUE(run(Fault::kNone, {{.role = Role::kStream, .scan_records = 100, .records_per_s_max = 100'000}}).ok());
  EXPECT_GT(result_.records[0], 0U);
  EXPECT_LE(static_cast<double>(result_.records[0]), 100'000 * result_.seconds + 200);
}

TEST_F(Teams, AnUpdaterKeepsItsPace) {
  ASSERT_TRUE(run(Fault::kNone, {{.role = Role::kPut, .records_per_s_max = 5'000}}).ok());
  EXPECT_GT(result_.records[0], 0U);
  EXPECT_LE(static_cast<double>(result_.records[0]), 5'000 * result_.seconds + 32);
}

TEST_F(Teams, EndAtTheFirstWrongAnswer) {
  const Member get{Role::kGet}, gets{.role = Role::kGet, .depth = 8}, mix{.role = Role::kMix, .depth = 8};
  const Member put{Role::kPut}, scan{Role::kScan, 10};
  const struct {
    Fault fault;
    std::vector<Member> finders;
    std::string says;
  } cases[] = {{Fault::kLosesKeys, {get, gets, mix}, "a get"},
               {Fault::kMixesValues, {get, gets, mix}, "a get answered wrongly"},
               {Fault::kShortValues, {get, gets, mix}, "a get answered wrongly"},
               {Fault::kScanBackwards, {scan}, "a scan answered wrongly"},
               {Fault::kScanTwice, {scan}, "a scan answered wrongly"}};
  for (const auto& one : cases) {
    for (const Member& finder : one.finders) {
      const Status status = run(one.fault, {finder});
      EXPECT_TRUE(status.IsUnavailable()) << static_cast<int>(one.fault);
      EXPECT_NE(status.message().find(one.says), std::string::npos) << status.ToString();
    }
  }
  // One of several is enough to end all.
  EXPECT_TRUE(run(Fault::kMixesValues, {put, get}).IsUnavailable());
}

TEST_F(Teams, ARecordThatMayBeGoneIsNoFailure) {
  plan_.all_loaded = false;
  EXPECT_TRUE(run(Fault::kLosesKeys, {{Role::kGet}}).ok());
  EXPECT_TRUE(run(Fault::kMixesValues, {{Role::kGet}}).IsUnavailable()) << "a wrong value is";
}

TEST_F(Teams, EndWhenTheyAreInterrupted) {
  stop_ = true;
  plan_.ms = 60'000;
  const uint64_t begin_ns = base::now_ns();
  EXPECT_TRUE(run(Fault::kNone, {{Role::kGet}}).IsUnavailable());
  EXPECT_LT(base::now_ns() - begin_ns, 30'000 * base::kNsPerMs);
  never_ = true;
  FaultyEngine engine(Fault::kNone);
  EXPECT_TRUE(load_for_team(&engine, plan_.shape, kTeamRecords, 2, never_).IsUnavailable()) << "a load, too";
}

// A store whose reported memory grows by one byte with each query.
class Swelling final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {.threads = true}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override { return Status::OK(); }
  Status insert(std::string_view, std::string_view) override { return Status::OK(); }
  Status read(std::string_view, std::string*) override { return Status::NotFound(); }
  Status remove(std::string_view) override { return Status::OK(); }
  [[nodiscard]] MemoryUse memory() const override { return {.dram_bytes = ++bytes_, .nvm_bytes = 7}; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  mutable std::atomic<uint64_t> bytes_{0};
};

TEST_F(Teams, SayWhetherMemoryGrows) {
  Swelling engine;
  plan_.members = {{Role::kPut}};
  ASSERT_TRUE(run_team(&engine, plan_, &result_).ok());
  EXPECT_EQ(engine.bytes(), 0U) << "asked though nobody wants to know";
  EXPECT_EQ(result_.dram_growth, 0);
  plan_.samples_memory = true;
  ASSERT_TRUE(run_team(&engine, plan_, &result_).ok());
  const auto samples = static_cast<double>(engine.bytes());  // 1, 2, 3 ...
  EXPECT_DOUBLE_EQ(result_.dram_bytes_max, samples);
  EXPECT_DOUBLE_EQ(result_.dram_bytes, (samples + 1) / 2);
  EXPECT_DOUBLE_EQ(result_.nvm_bytes, 7);
  const double half = std::floor((samples + 1) / 2);
  EXPECT_DOUBLE_EQ(result_.dram_growth, (samples - half + 1 + samples) / (1 + half));
}

TEST(LoadForTeam, StoresEachRecordOnceWhateverTheThreads) {
  const std::atomic<bool> never = false;
  const RecordShape shape{KeyForm::kString, true, 1, 20};
  for (const unsigned threads : {1U, 3U}) {
    for (const uint64_t records : {1U, 31U, 33U, 4096U, 5000U}) {
      FaultyEngine engine(Fault::kNone);
      ASSERT_TRUE(load_for_team(&engine, shape, records, threads, never).ok());
      uint64_t found = 0;
      ASSERT_TRUE(
          engine.scan("", UINT32_MAX, [&found](std::string_view, std::string_view) { return ++found > 0; }).ok());
      EXPECT_EQ(found, records);
      for (uint64_t number = 0; number < records; ++number) {
        std::string room(shape.key_bytes_max(), ' '), value;
        ASSERT_TRUE(engine.read(encode_key(shape, shape.id(number), room.data()), &value).ok()) << number;
        ASSERT_TRUE(value_is_of(shape.id(number), value, shape.value_bytes)) << number;
      }
    }
  }
  FaultyEngine full(Fault::kRefuses);
  EXPECT_EQ(load_for_team(&full, shape, kTeamRecords, 1, never).code(), Status::Code::kNoSpace)
      << "the engine's own error";
}

}  // namespace
}  // namespace bonsai::bench
