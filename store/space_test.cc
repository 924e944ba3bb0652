// SPDX-License-Identifier: Apache-2.0
// A pool that fills up: updates get NoSpace, deletes work, space comes back, and the store's counts agree with its
// contents.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <ostream>
#include <string>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;

std::string space_key(uint64_t i) { return "key" + std::to_string(1'000'000 + i); }

struct Shape {
  const char* name;
  size_t value_bytes;
  size_t targets;
  uint32_t background_threads;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class SpaceTest : public ::testing::TestWithParam<Shape> {
 protected:
  SpaceTest() {
    options_.create_if_missing = true;
    options_.pool_bytes = kMiB / GetParam().targets;
    options_.background_threads = GetParam().background_threads;
    const Status status = open_db(options_, path_, &db_);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  // Puts new records until the pool is full; returns how many went in.
  uint64_t fill() {
    uint64_t i = 0;
    Status status;
    for (; status.ok() && i < 100'000; ++i) status = db_->Put(space_key(i), value_of(i));
    EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
    EXPECT_NE(status.message().find("delete data"), std::string_view::npos) << status.message();
    return i - 1;
  }
  [[nodiscard]] std::string value_of(uint64_t i) const {
    return std::string(GetParam().value_bytes, static_cast<char>('a' + i % 26));
  }
  // Statistics that stay the same over several readings. Before that, the background may still compact drained ranges,
  // so that both the replaced bytes and the new ones are in use.
  Stats stats_at_rest() {
    constexpr int kLooksMax = 300, kSameLooks = 3;
    Stats stats = db_->GetStats();
    for (int look = 0, same = 0; options_.background_threads > 0 && look < kLooksMax && same < kSameLooks; ++look) {
      base::sleep_ms(30);
      const uint64_t before = stats.data_bytes_used;
      stats = db_->GetStats();
      same = stats.data_bytes_used == before ? same + 1 : 0;
    }
    return stats;
  }
  // Drains, closes, checks, and compares the store's counts with those of the check; opens again.
  void expect_sound(uint64_t records) {
    const Status drained = db_->Drain();
    ASSERT_TRUE(drained.ok()) << drained.ToString();
    const Stats stats = stats_at_rest();
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    CheckReport report;
    ASSERT_TRUE(Check(file_names(path_), &report).ok());
    EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
    EXPECT_EQ(report.records, records);
    EXPECT_EQ(report.data_bytes, stats.data_bytes);
    EXPECT_EQ(report.data_bytes_used, stats.data_bytes_used) << "bytes are leaked, or counted wrongly";
    ASSERT_TRUE(open_db(options_, path_, &db_).ok());
    EXPECT_EQ(db_->GetStats().data_bytes_used, report.data_bytes_used) << "recovery counts otherwise";
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.pool(GetParam().targets);
  Options options_;
  std::unique_ptr<DB> db_;
};

TEST_P(SpaceTest, FullIsAnAnswerAndNothingIsLost) {
  const uint64_t records = fill();
  EXPECT_GT(records * (GetParam().value_bytes + 10), kMiB / 4) << "a quarter of the pool at least is for data";
  std::string value;
  for (uint64_t i = 0; i < records; ++i) {
    ASSERT_TRUE(db_->Get(space_key(i), &value).ok()) << i;
    ASSERT_EQ(value, value_of(i)) << i;
  }
  EXPECT_TRUE(db_->Get(space_key(records), &value).IsNotFound()) << "the refused put has changed nothing";
  expect_sound(records);
  for (uint64_t i = 0; i < records; ++i) ASSERT_TRUE(db_->Get(space_key(i), &value).ok()) << i;
}

TEST_P(SpaceTest, AFullPoolCanBeEmptiedAndFilledAgain) {
  uint64_t first_fill = 0;
  for (int round = 0; round < 4; ++round) {
    const uint64_t records = fill();
    if (round == 0) first_fill = records;
    EXPECT_GE(records, first_fill * 9 / 10) << "round " << round << ": deleted space has not come back";
    for (uint64_t i = 0; i < records; ++i) {
      const Status status = db_->Delete(space_key(i));
      ASSERT_TRUE(status.ok()) << "delete " << i << " of " << records << ": " << status.ToString();
    }
    expect_sound(0);
    EXPECT_LT(db_->GetStats().data_bytes_used, db_->GetStats().data_bytes / 4) << "round " << round;
  }
}

TEST_P(SpaceTest, OverwritingForEverDoesNotGrow) {
  const uint64_t keys = kMiB / 8 / (GetParam().value_bytes + 10) + 1;
  const uint64_t bytes_to_write = budget<uint64_t>(4, 12, 200) * kMiB;
  std::map<uint64_t, uint64_t> last;
  base::Random random(7);
  uint64_t used_max = 0;
  const uint64_t updates = bytes_to_write / (GetParam().value_bytes + 10);
  for (uint64_t i = 0; i < updates; ++i) {
    const uint64_t key = random.below(keys);
    const Status status = db_->Put(space_key(key), value_of(i));
    ASSERT_TRUE(status.ok()) << "update " << i << " of " << updates << ": " << status.ToString();
    last[key] = i;
    if (i % (updates / 20) == 0) {
      const Status drained = db_->Drain();
      ASSERT_TRUE(drained.ok()) << drained.ToString();
      used_max = std::max(used_max, db_->GetStats().data_bytes_used);
    }
  }
  EXPECT_LT(used_max, kMiB / 8 * 5) << "an eighth of the pool is live";
  std::string value;
  for (const auto& [key, i] : last) {
    ASSERT_TRUE(db_->Get(space_key(key), &value).ok());
    ASSERT_EQ(value, value_of(i));
  }
  expect_sound(last.size());
}

TEST_P(SpaceTest, BatchesToo) {
  uint64_t records = 0;
  Status status;
  WriteBatch batch;
  for (; status.ok() && records < 100'000; records += batch.Count()) {
    batch.Clear();
    for (uint64_t i = 0; i < 4; ++i) batch.Put(space_key(records + i), value_of(i));
    status = db_->Write(batch);
  }
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  records -= batch.Count();
  std::string value;
  for (uint64_t i = 0; i < batch.Count(); ++i) {
    EXPECT_TRUE(db_->Get(space_key(records + i), &value).IsNotFound()) << "the refused batch is absent as a whole";
  }
  expect_sound(records);
  batch.Clear();
  for (uint64_t i = 0; i < std::min<uint64_t>(records, 40); ++i) batch.Delete(space_key(i));
  status = db_->Write(batch);
  EXPECT_TRUE(status.ok()) << "a batch of deletes: " << status.ToString();
  expect_sound(records - batch.Count());
}

// Pools that are filled, thinned out and filled again, until all free pieces are too short to use. Acknowledged updates
// can still be offloaded.
TEST(Fragments, APoolThatIsThinnedOutAndFilledAgainCanBeDrained) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  for (int pools = budget(2, 8, 200); pools > 0; --pools) {
    const ScratchFolder folder;
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = (kMiB / 4) << random.below(3);
    options.background_threads = static_cast<uint32_t>(random.below(2));
    std::unique_ptr<DB> db;
    ASSERT_TRUE(open_db(options, folder.pool(1), &db).ok());
    const uint64_t bytes_max = std::array<uint64_t, 4>{1, 8, 30, 120}[random.below(4)];
    std::map<std::string, std::string> model;
    const auto put = [&](uint64_t i) {
      const std::string value(random.chance(1, 2) ? bytes_max : random.below(bytes_max + 1), 'v');
      const Status status = db->Put(space_key(i), value);
      if (status.ok()) model[space_key(i)] = value;
      EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
      return status.ok();
    };
    uint64_t keys = 0;
    while (put(keys)) ++keys;
    for (int round = 0; round < 4; ++round) {
      const bool stripes = random.chance(1, 2);
      for (uint64_t i = 0; i < 2 * keys; ++i) {
        if (!model.contains(space_key(i)) || (stripes ? i / 200 % 2 == 0 : random.chance(1, 2))) continue;
        ASSERT_TRUE(db->Delete(space_key(i)).ok());
        model.erase(space_key(i));
      }
      for (int refused = 0; refused < 10;) refused += put(random.below(2 * keys)) ? 0 : 1;
      const Status drained = db->Drain();
      ASSERT_TRUE(drained.ok()) << drained.ToString();
    }
    std::string value;
    for (const auto& [key, wanted] : model) {
      ASSERT_TRUE(db->Get(key, &value).ok()) << key;
      ASSERT_EQ(value, wanted) << key;
    }
    ASSERT_TRUE(db->Close().ok());
    CheckReport report;
    ASSERT_TRUE(Check(file_names(folder.pool(1)), &report).ok());
    EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
    EXPECT_EQ(report.records, model.size());
  }
}

INSTANTIATE_TEST_SUITE_P(, SpaceTest,
                         ::testing::Values(Shape{"Small", 8, 1, 1}, Shape{"Medium", 300, 1, 1},
                                           Shape{"MediumNoBackground", 300, 1, 0}, Shape{"MediumTwoTargets", 300, 2, 1},
                                           Shape{"Large", 20'000, 1, 1}, Shape{"LargeTwoTargets", 20'000, 2, 0}),
                         [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace bonsai::testing
