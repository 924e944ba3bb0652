// SPDX-License-Identifier: Apache-2.0
// Copies of pools: checkpoints of open stores, and salvaged records of damaged ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;
using Content = std::map<std::string, std::string>;

std::string key_of(uint64_t i) { return "key" + std::to_string(1'000'000 + i); }

// Puts the records 0 to `records`, in groups.
void put_all(DB* db, uint64_t records, size_t value_bytes) {
  const std::string value(value_bytes, 'v');
  std::vector<Status> statuses(records);
  const auto session = db->NewSession(32);
  std::vector<std::string> keys(records);
  for (uint64_t i = 0; i < records; ++i) {
    keys[i] = key_of(i);
    session->Put(keys[i], value, &statuses[i]);
  }
  session->Wait();
  for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
}

class BackupTest : public ::testing::Test {
 protected:
  static Options options() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 4 * kMiB;
    return options;
  }
  static Content content_of(DB* db) {
    Content content;
    EXPECT_TRUE(db->Scan({}, {}, [&](auto key, auto value) {
                    content.emplace(key, value);
                    return true;
                  }).ok());
    return content;
  }
  static Content content_of(const std::string& path) {
    CheckReport report;
    EXPECT_TRUE(Check(asked_name(path), &report).ok());
    EXPECT_TRUE(report.ok() && report.clean);
    std::unique_ptr<DB> db;
    Options any;
    any.any_key_format = true;
    const Status status = open_db(any, path, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return status.ok() ? content_of(db.get()) : Content();
  }
  // Without a node's records of owners.
  [[nodiscard]] size_t files() const {
    const std::filesystem::directory_iterator all(folder_.file(""));
    return static_cast<size_t>(std::count_if(
        begin(all), end(all), [](const auto& entry) { return entry.path().filename().string().front() != '.'; }));
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
  const std::string copy_ = folder_.file("copy");
};

TEST_F(BackupTest, ACheckpointHoldsWhatTheSnapshotSees) {
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options(), path_, &db).ok());
  Content model;
  for (uint64_t i = 0; i < 2000; ++i) model[key_of(i)] = std::string(i % 50, 'v');
  model["large"] = std::string(100'000, 'L');
  model[std::string("\0\xff", 2)] = std::string("\0\n\t", 3);
  for (const auto& [key, value] : model) ASSERT_TRUE(db->Put(key, value).ok());
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db->GetSnapshot(&snapshot).ok());
  const Content before = model;
  for (uint64_t i = 0; i < 2000; i += 3) ASSERT_TRUE(db->Delete(key_of(i)).ok());
  for (uint64_t i = 0; i < 2000; i += 3) model.erase(key_of(i));
  ASSERT_TRUE(db->Put("later", "update").ok());
  model["later"] = "update";
  uint64_t records = 0;
  Status status = Checkpoint(db.get(), options(), asked_name(copy_), snapshot.get(), &records);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(records, before.size());
  status = Checkpoint(db.get(), options(), asked_name(folder_.pool(2, "now")));
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(content_of(copy_) == before);
  EXPECT_TRUE(content_of(folder_.pool(2, "now")) == model);
  EXPECT_TRUE(content_of(db.get()) == model) << "the source has not changed";
}

// Every round moves one unit between two keys in a batch, so that each moment has the same sum.
TEST_F(BackupTest, ACheckpointIsOneMomentWhileWritersGoOn) {
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options(), path_, &db).ok());
  constexpr uint64_t kAccounts = 64, kEach = 1000;
  for (uint64_t i = 0; i < kAccounts; ++i) ASSERT_TRUE(db->Put(key_of(i), std::to_string(kEach)).ok());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> moves{0};
  base::Thread writer("writer", [&] {
    base::Random random(3);
    std::vector<uint64_t> amounts(kAccounts, kEach);
    while (!stop.load()) {
      const uint64_t from = random.below(kAccounts), to = (from + 1 + random.below(kAccounts - 1)) % kAccounts;
      if (amounts[from] == 0) continue;
      WriteBatch batch;
      batch.Put(key_of(from), std::to_string(--amounts[from]));
      batch.Put(key_of(to), std::to_string(++amounts[to]));
      if (db->Write(batch).ok()) moves.fetch_add(1);
    }
  });
  for (int round = 0; round < budget(3, 10, 200); ++round) {
    const uint64_t before = moves.load();
    const std::string name = copy_ + std::to_string(round);
    const Status status = Checkpoint(db.get(), options(), asked_name(name));
    ASSERT_TRUE(status.ok()) << status.ToString();
    uint64_t sum = 0;
    for (const auto& [key, value] : content_of(name)) sum += std::stoull(value);
    EXPECT_EQ(sum, kAccounts * kEach);
    while (moves.load() == before) base::yield_thread();
    std::filesystem::remove(name);
  }
  stop.store(true);
}

TEST_F(BackupTest, AFailedCheckpointLeavesNothing) {
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options(), path_, &db).ok());
  for (uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(db->Put(key_of(i), std::string(300, 'v')).ok());
  Options small = options();
  small.pool_bytes = kPoolBytesMin;
  EXPECT_TRUE(Checkpoint(db.get(), small, asked_name(copy_)).IsNoSpace());
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(Checkpoint(db.get(), options(), asked_name(path_)).IsInvalidArgument()) << "over a pool that is there";
  EXPECT_TRUE(Checkpoint(db.get(), options(), folder_.file("no/copy")).IsIoError());
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(Checkpoint(db.get(), options(), asked_name(copy_)).ok());
  EXPECT_EQ(files(), 2U);
}

// A copy without a given size has room for its records, and is not smaller than the source.
TEST_F(BackupTest, ACopyIsAsLargeAsItsRecordsNeed) {
  Options sized = options();
  sized.pool_bytes = 0;
  std::unique_ptr<DB> none;
  EXPECT_FALSE(open_db(sized, path_, &none).ok()) << "only of a copy";
  for (const size_t value_bytes : {8U, 100U, 1000U, 20'000U}) {
    const std::string name = folder_.file("source" + std::to_string(value_bytes)), copy = name + ".copy";
    std::unique_ptr<DB> db;
    Options large = options();
    large.pool_bytes = 200 * kMiB;
    ASSERT_TRUE(open_db(large, name, &db).ok());
    const uint64_t records = budget(2, 24, 60) * kMiB / (value_bytes + 60);
    put_all(db.get(), records, value_bytes);
    uint64_t copied = 0;
    ASSERT_EQ("OK", Checkpoint(db.get(), sized, asked_name(copy), nullptr, &copied).ToString());
    EXPECT_EQ(copied, records);
    EXPECT_GE(std::filesystem::file_size(copy), 64 * kMiB);
    EXPECT_LT(std::filesystem::file_size(copy), 160 * kMiB);
    ASSERT_TRUE(db->Close().ok());
    std::filesystem::remove(copy);
    SalvageReport report;
    ASSERT_EQ("OK", Salvage(asked_name(name), sized, asked_name(copy), &report).ToString());
    EXPECT_EQ(report.records, records);
    EXPECT_LT(std::filesystem::file_size(copy), 160 * kMiB);
    std::filesystem::remove(copy);
    std::filesystem::remove(name);
  }
}

// Sources filled to the brim: of them, too, the copy has room for everything.
TEST_F(BackupTest, ACopyOfAFullPoolHasRoomForIt) {
  Options sized = options();
  sized.pool_bytes = 0;
  for (const size_t value_bytes : {8U, 300U, 5'000U, 100'000U}) {
    const std::string name = folder_.file("full" + std::to_string(value_bytes)), copy = name + ".copy";
    std::unique_ptr<DB> db;
    Options small = options();
    small.stall_ms_max = 50;
    ASSERT_TRUE(open_db(small, name, &db).ok());
    uint64_t records = 0;
    while (db->Put(key_of(records), std::string(value_bytes, 'v')).ok()) ++records;
    uint64_t copied = 0;
    ASSERT_EQ("OK", Checkpoint(db.get(), sized, asked_name(copy), nullptr, &copied).ToString()) << value_bytes;
    EXPECT_EQ(copied, records);
    EXPECT_LT(std::filesystem::file_size(copy), 20 * kMiB) << value_bytes;
    ASSERT_TRUE(db->Close().ok());
    std::filesystem::remove(copy);
  }
}

// ---- salvage

// One end of a range as messages show it.
std::string key_in(std::string text) {
  for (size_t at = 0; (at = text.find("\\x00", at)) != std::string::npos;) text.replace(at, 4, 1, '\0');
  return text.substr(1, text.size() - 2);
}

bool covers(const Damage& lost, const std::string& key) {
  const std::string& range = lost.key_range;
  if (range[0] == '"') return key_in(range) == key;
  const size_t comma = range.find(", ");
  const std::string lo = range.substr(1, comma - 1), hi = range.substr(comma + 2, range.size() - comma - 3);
  return (lo == "first key" || key_in(lo) <= key) && (hi == "end" || key < key_in(hi));
}

bool is_of_the_log(const Damage& lost) { return lost.where.starts_with("log"); }

class SalvageTest : public BackupTest {
 protected:
  SalvageTest() { folder_.expect_damage(folder_.file("damaged")); }

  // Most records in dnodes, overwritten in part by later runs and by the log; some large values, some deletes.
  void make() {
    Options how = options();
    how.background_threads = 0;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(open_db(how, path_, &db).ok());
    const auto put = [&](uint64_t i, const std::string& value) {
      model_[key_of(i)] = value;
      ASSERT_TRUE(db->Put(key_of(i), value).ok());
    };
    for (uint64_t i = 0; i < 1500; ++i) put(i, "first" + std::to_string(i) + std::string(i % 30, 'f'));
    for (uint64_t i = 10; i < 1500; i += 300) put(i, std::string(20'000, 'L'));
    ASSERT_TRUE(db->Drain().ok());
    for (uint64_t i = 0; i < 1500; i += 40) put(i, "second");
    for (uint64_t i = 7; i < 1500; i += 90) {
      model_.erase(key_of(i));
      ASSERT_TRUE(db->Delete(key_of(i)).ok());
    }
    ASSERT_TRUE(db->Drain().ok());
    for (uint64_t i = 1; i < 1500; i += 50) put(i, "third");
    ASSERT_TRUE(db->Close().ok());
    bytes_.resize(std::filesystem::file_size(path_));
    std::ifstream(path_, std::ios::binary).read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }

  // Salvages a pool of these bytes and holds the copy against the model. Returns the number of lost places.
  std::optional<size_t> expect_salvaged(const std::string& bytes, const std::string& what) {
    const std::string damaged = folder_.file("damaged");
    std::ofstream(damaged, std::ios::binary) << bytes;
    std::filesystem::remove(copy_);
    SalvageReport report;
    const Status status = Salvage(asked_name(damaged), options(), asked_name(copy_), &report);
    if (!status.ok()) {
      EXPECT_FALSE(std::filesystem::exists(copy_)) << what;
      return std::nullopt;
    }
    const Content saved = content_of(copy_);
    EXPECT_EQ(saved.size(), report.records) << what;
    const bool log_lost = std::any_of(report.lost.begin(), report.lost.end(), is_of_the_log);
    for (const auto& [key, value] : model_) {
      const auto found = saved.find(key);
      if (found != saved.end() && found->second == value) continue;
      const auto lost = [&, &name = key](const auto& one) { return covers(one, name); };
      EXPECT_TRUE(std::any_of(report.lost.begin(), report.lost.end(), lost)) << what << ": nobody tells of " << key;
      EXPECT_TRUE(found == saved.end() || log_lost) << what << ": an older value of " << key;
    }
    for (const auto& [key, value] : saved) {
      EXPECT_TRUE(model_.count(key) != 0 || log_lost) << what << ": a deleted or foreign key " << key;
    }
    saved_ = saved.size();
    return report.lost.size();
  }

  Content model_;
  std::string bytes_;
  size_t saved_ = 0;
};

TEST_F(SalvageTest, ASoundPoolIsCopiedWhole) {
  make();
  EXPECT_EQ(expect_salvaged(bytes_, "sound"), 0U);
  EXPECT_EQ(saved_, model_.size());
}

TEST_F(SalvageTest, OneDamagedEntryCostsItsNeighbourhoodOnly) {
  make();
  const size_t at = bytes_.find("first700");
  ASSERT_NE(at, std::string::npos);
  std::string bytes = bytes_;
  for (size_t i = at; i != std::string::npos; i = bytes_.find("first700", i + 1)) bytes[i] ^= 1;  // in the log, too
  CheckReport report;
  std::ofstream(folder_.file("damaged"), std::ios::binary) << bytes;
  ASSERT_TRUE(Check(asked_name(folder_.file("damaged")), &report).ok());
  EXPECT_FALSE(report.ok());
  ASSERT_TRUE(expect_salvaged(bytes, "one entry"));
  EXPECT_EQ(saved_, model_.size() - 1) << "its key only";
}

TEST_F(SalvageTest, ADamagedLargeValueCostsItsKey) {
  make();
  std::string bytes = bytes_;
  bytes[bytes.find(std::string(10'000, 'L')) + 500] = 'X';
  EXPECT_EQ(expect_salvaged(bytes, "a large value"), 1U);
  EXPECT_EQ(saved_, model_.size() - 1);
}

TEST_F(SalvageTest, RandomDamageIsReportedByKeyRange) {
  make();
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  const int rounds = budget(10, 60, 3000);
  int reported = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = bytes_;
    const uint64_t pieces = 1 + random.below(4);
    for (uint64_t i = 0; i < pieces; ++i) {  // a bit, a word or a page, somewhere in what was written
      uint64_t at = random.below(bytes.size());
      while (bytes_[at] == '\0') at = random.below(bytes.size());
      const uint64_t length = uint64_t{1} << (random.below(2) * 3 + random.below(2) * 9);
      if (length == 1) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
      for (uint64_t j = 0; length > 1 && j < length && at + j < bytes.size(); ++j) bytes[at + j] ^= 0x5a;
    }
    const auto lost = expect_salvaged(bytes, "round " + std::to_string(round));
    reported += lost && *lost > 0 ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(reported, 0);
  add_figure("pools_salvaged", rounds);
}

TEST_F(SalvageTest, WhatIsNoPoolIsRefused) {
  make();
  std::string bytes = bytes_;
  bytes[64] ^= 1;
  EXPECT_EQ(expect_salvaged(bytes, "by the second superblock"), 0U);
  bytes[4096 + 64] ^= 1;
  EXPECT_EQ(expect_salvaged(bytes, "no superblock"), std::nullopt);
  SalvageReport report;
  EXPECT_TRUE(Salvage(asked_name(path_), options(), asked_name(path_), &report).IsInvalidArgument());
  Options small = options();
  small.pool_bytes = kPoolBytesMin;
  std::filesystem::remove(copy_);
  EXPECT_TRUE(Salvage(asked_name(path_), small, asked_name(copy_), &report).IsNoSpace());
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

}  // namespace
}  // namespace bonsai::testing
