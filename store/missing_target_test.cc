// SPDX-License-Identifier: Apache-2.0
// Pools one or more of whose targets are gone: what Check and Salvage say is left, against what was there.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/temp_folder.h"
#include "base/units.h"
#include "bonsai/db.h"

namespace bonsai {
namespace {

using base::kMiB;
using testing::TempFolder;
using Records = std::map<std::string, std::string>;

std::string key_of(uint64_t i) { return "key" + std::to_string(100'000 + i); }

Records records_of(DB* db) {
  Records records;
  EXPECT_TRUE(db->Scan({}, {}, [&](std::string_view key, std::string_view value) {
                  records.emplace(key, value);
                  return true;
                }).ok());
  return records;
}

Options partial() {
  Options options;
  options.allow_missing = true;
  return options;
}

// `["a", "b")` of a report, whose keys print as they are; none: the end of the key space.
struct Range {
  std::string lo;
  std::optional<std::string> hi;
  explicit Range(const std::string& text) {
    std::vector<std::string> keys;
    for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
      const size_t end = text.find('"', at + 1);
      keys.push_back(text.substr(at + 1, end - at - 1));
      at = end;
    }
    const bool from_start = text.find('"') > text.find(',');
    if (!from_start) lo = keys.front();
    if (keys.size() == (from_start ? 1U : 2U)) hi = keys.back();
  }
  [[nodiscard]] bool has(const std::string& key) const { return key >= lo && (!hi || key < *hi); }
};

// What a report says is left.
class Left {
 public:
  explicit Left(const std::vector<RangeState>& states) {
    for (const RangeState& state : states) ranges_.emplace_back(Range(state.key_range), state.left);
  }
  // Requires: keys are asked for in rising order.
  RangeState::Left of(const std::string& key) {
    while (at_ < ranges_.size() && !ranges_[at_].first.has(key)) ++at_;
    EXPECT_LT(at_, ranges_.size()) << "no range has " << key;
    return at_ < ranges_.size() ? ranges_[at_].second : RangeState::Left::kNothing;
  }

 private:
  std::vector<std::pair<Range, RangeState::Left>> ranges_;
  size_t at_ = 0;
};

class MissingTarget : public ::testing::Test {
 protected:
  // Makes a pool of these targets, each `roles`; the last updates stay in the log.
  void make(const std::vector<std::string>& roles, uint64_t records = 20'000) {
    for (size_t i = 0; i < roles.size(); ++i)
      files_.push_back(folder_.file(std::string(1, static_cast<char>('a' + i))));
    std::string names;
    for (size_t i = 0; i < roles.size(); ++i) names += (i == 0 ? "" : ",") + files_[i] + roles[i];
    with_roles_ = names;
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 8 * kMiB;
    std::unique_ptr<DB> db;
    const Status status = DB::Open(options, names, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (uint64_t i = 0; i < records; ++i) ASSERT_TRUE(db->Put(key_of(i), "drained" + std::to_string(i)).ok());
    for (uint64_t i = 0; i < records; i += 400) ASSERT_TRUE(db->Put(key_of(i) + "L", std::string(9'000, 'l')).ok());
    ASSERT_TRUE(db->Drain().ok());
    drained_ = records_of(db.get());
    for (uint64_t i = 0; i < records; i += 50) ASSERT_TRUE(db->Put(key_of(i), "logged" + std::to_string(i)).ok());
    last_ = records_of(db.get());
    ASSERT_TRUE(db->Close().ok());
  }
  [[nodiscard]] std::string pool() const {
    std::string names;
    for (const std::string& file : files_) names += (names.empty() ? "" : ",") + file;
    return names;
  }
  const TempFolder folder_;
  std::vector<std::string> files_;
  std::string with_roles_;  // pool(), as it was made
  Records drained_, last_;
};

TEST_F(MissingTarget, WithoutTheOptionAllMissingOnesAreNamed) {
  make({"", "", ""}, 100);
  std::filesystem::remove(files_[0]);
  std::filesystem::remove(files_[2]);
  CheckReport report;
  const Status status = Check(pool(), &report);
  EXPECT_TRUE(status.IsIoError());
  EXPECT_NE(status.message().find(files_[0] + ", " + files_[2]), std::string_view::npos) << status.ToString();
}

TEST_F(MissingTarget, ASoundPoolIsOneWholeRange) {
  make({"", ""});
  CheckReport report;
  ASSERT_TRUE(Check(pool(), &report, {}, partial()).ok());
  EXPECT_TRUE(report.ok() && report.clean);
  ASSERT_EQ(report.ranges.size(), 1U);
  EXPECT_EQ(report.ranges[0].left, RangeState::Left::kWhole);
  EXPECT_EQ(report.ranges[0].records, last_.size());
  EXPECT_EQ(report.missing, 0U);
}

// Each of three targets that have everything: what is in whole ranges is there, with its value or, where only the lost
// part of the log had the last one, the one before. What is in lost ranges is not there.
TEST_F(MissingTarget, WhatIsLeftIsSaidByRangesAndCopied) {
  make({"", "", ""});
  const std::string all = pool();
  uint64_t whole_most = 0;  // where the missing target did not have the headers of all dnodes
  for (size_t lost = 0; lost < files_.size(); ++lost) {
    const std::string aside = folder_.file("aside");
    std::filesystem::rename(files_[lost], aside);
    CheckReport report;
    Status status = Check(all, &report, {}, partial());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.missing, 1U);
    EXPECT_NE(report.damages[0].where.find(files_[lost]), std::string::npos);
    EXPECT_NE(report.damages[0].what.find("part of the log"), std::string::npos);
    SalvageReport salvaged;
    const std::string to = folder_.file("saved" + std::to_string(lost));
    status = Salvage(all, partial(), to, &salvaged);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(salvaged.ranges.size(), report.ranges.size());
    std::unique_ptr<DB> db;
    Options reading;
    reading.read_only = true;
    ASSERT_TRUE(DB::Open(reading, to, &db).ok());
    const Records saved = records_of(db.get());
    EXPECT_EQ(saved.size(), salvaged.records);
    uint64_t in_whole = 0;
    Left left(report.ranges);
    for (const auto& [key, value] : last_) {
      const auto found = saved.find(key);
      const RangeState::Left state = left.of(key);
      if (state == RangeState::Left::kWhole) {
        ++in_whole;
        ASSERT_NE(found, saved.end()) << key;
        EXPECT_TRUE(found->second == value || found->second == drained_.at(key)) << key;
      } else if (state == RangeState::Left::kNothing) {
        EXPECT_EQ(found, saved.end()) << key;
      }
    }
    for (const auto& [key, value] : saved) ASSERT_TRUE(last_.contains(key)) << key;
    whole_most = std::max(whole_most, in_whole);
    EXPECT_FALSE(std::filesystem::exists(files_[lost])) << "nothing is made in its place";
    std::filesystem::rename(aside, files_[lost]);
  }
  EXPECT_GT(whole_most, 0U) << "targets take turns: something is left";
  CheckReport report;
  ASSERT_TRUE(Check(all, &report).ok());
  EXPECT_TRUE(report.ok()) << "the others were not changed";
}

// The log is whole: a whole range has the last value of each key.
TEST_F(MissingTarget, ATargetOfDnodesAloneTakesNoUpdatesOfOthers) {
  make({"?role=log", "?role=dnodes", "?role=dnodes"});
  uint64_t in_whole = 0;
  for (const size_t lost : {1, 2}) {
    const std::string aside = folder_.file("aside"), to = folder_.file("saved" + std::to_string(lost));
    std::filesystem::rename(files_[lost], aside);
    CheckReport report;
    const Status status = Check(with_roles_, &report, {}, partial());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(report.missing, 1U);
    CheckReport unsaid;
    ASSERT_TRUE(Check(pool(), &unsaid, {}, partial()).ok());
    EXPECT_NE(unsaid.damages[0].what.find("part of the log"), std::string::npos) << "nobody said that it had none";
    EXPECT_EQ(report.damages[0].what.find("part of the log"), std::string::npos) << report.damages[0].what;
    SalvageReport salvaged;
    ASSERT_TRUE(Salvage(with_roles_, partial(), to, &salvaged).ok());
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(Options(), to, &db).ok());
    const Records saved = records_of(db.get());
    Left left(report.ranges);
    for (const auto& [key, value] : last_) {
      if (left.of(key) != RangeState::Left::kWhole) continue;
      ++in_whole;
      const auto found = saved.find(key);
      ASSERT_NE(found, saved.end()) << key;
      EXPECT_TRUE(found->second == value) << key;
    }
    std::filesystem::rename(aside, files_[lost]);
  }
  EXPECT_GT(in_whole, 0U);
}

TEST_F(MissingTarget, WithoutTheLogDnodesAreAsTheyWereOffloaded) {
  make({"?role=log", "?role=dnodes", "?role=dnodes"});
  std::filesystem::remove(files_[0]);
  CheckReport report;
  const Status status = Check(pool(), &report, {}, partial());
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_NE(report.damages[0].what.find("part of the log"), std::string::npos);
  for (const RangeState& range : report.ranges) EXPECT_EQ(range.left, RangeState::Left::kWhole) << range.key_range;
  SalvageReport salvaged;
  ASSERT_TRUE(Salvage(pool(), partial(), folder_.file("saved"), &salvaged).ok());
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(Options(), folder_.file("saved"), &db).ok());
  const Records saved = records_of(db.get());
  EXPECT_EQ(saved.size(), drained_.size());
  for (const auto& [key, value] : saved) ASSERT_TRUE(value == last_.at(key) || value == drained_.at(key)) << key;
}

TEST_F(MissingTarget, WhatCannotBeToldIsRefusedWithItsReason) {
  make({"?role=log", "?role=dnodes"}, 100);
  const auto expect = [&](const std::string& path, bool (Status::*is)() const noexcept, const char* says) {
    CheckReport report;
    const Status status = Check(path, &report, {}, partial());
    EXPECT_TRUE((status.*is)()) << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << status.ToString();
  };
  expect(files_[0] + "," + files_[1] + "," + folder_.file("c"), &Status::IsInvalidArgument, "a pool of 2 targets");
  expect(folder_.file("x") + "," + folder_.file("y"), &Status::IsIoError, "x");
  expect(folder_.file("x"), &Status::IsIoError, "x");
  std::filesystem::remove(files_[1]);
  expect(pool(), &Status::IsNotSupported, "no target that has some");
  std::unique_ptr<DB> db;
  EXPECT_TRUE(DB::Open(partial(), pool(), &db).IsInvalidArgument());
  Options striped;
  striped.create_if_missing = true;
  striped.pool_bytes = 8 * kMiB;
  striped.layout = LayoutChoice::kSoftware;
  const std::string two = folder_.file("s0") + "," + folder_.file("s1");
  ASSERT_TRUE(DB::Open(striped, two, &db).ok());
  ASSERT_TRUE(db->Close().ok());
  std::filesystem::remove(folder_.file("s1"));
  expect(two, &Status::IsNotSupported, "striped");
}

// Damage of what is there, beside a missing target: no crash, and no value that was never written.
TEST_F(MissingTarget, DamageOfTheOthersIsFoundToo) {
  make({"", "", ""}, 5'000);
  std::filesystem::remove(files_[1]);
  const std::string sound = testing::read_file(files_[2]);
  const int rounds = testing::budget(10, 60, 600);
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  base::Random random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = sound;
    for (int i = 0; i < 3; ++i)
      bytes[8'192 + random.below(bytes.size() - 8'192)] ^= static_cast<char>(1 << random.below(8));
    folder_.write("c", bytes);
    SalvageReport salvaged;
    const std::string to = folder_.file("saved" + std::to_string(round));
    const Status status = Salvage(pool(), partial(), to, &salvaged);
    if (!status.ok()) continue;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(Options(), to, &db).ok());
    for (const auto& [key, value] : records_of(db.get())) {
      ASSERT_TRUE(value == last_.at(key) || value == drained_.at(key)) << key;
    }
    db.reset();
    std::filesystem::remove(to);
  }
}

}  // namespace
}  // namespace bonsai
