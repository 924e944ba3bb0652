// SPDX-License-Identifier: Apache-2.0
// Stores that are opened read-only: what they answer, that no byte of the pool changes, and who excludes whom.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "base/nvm/testing.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/testing.h"

namespace bonsai {
namespace {

using base::kMiB;
using base::nvm_testing::in_child;
using testing::read_file;
using testing::TempFolder;
using Records = std::map<std::string, std::string>;

Options creating(uint64_t bytes = 8 * kMiB) {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = bytes;
  return options;
}

Options reading() {
  Options options;
  options.read_only = true;
  return options;
}

std::string key_of(int i) { return "key" + std::to_string(10'000 + i); }

void fill(DB* db, int begin, int end, const std::string& value) {
  for (int i = begin; i < end; ++i) ASSERT_TRUE(db->Put(key_of(i), value + std::to_string(i)).ok());
}

Records records_of(DB* db) {
  Records records;
  const Status status = db->Scan({}, {}, [&](std::string_view key, std::string_view value) {
    records.emplace(key, value);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return records;
}

std::unique_ptr<DB> open(const Options& options, const std::string& path) {
  std::unique_ptr<DB> db;
  const Status status = DB::Open(options, path, &db);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return db;
}

// The descriptors and mappings of the file that this process has: none of them could change it.
void expect_no_way_to_write(const std::string& path) {
  int descriptors = 0, mappings = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != path) continue;
    ++descriptors;
    EXPECT_EQ(::fcntl(std::stoi(entry.path().filename()), F_GETFL) & O_ACCMODE, O_RDONLY);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(path)) continue;
    ++mappings;
    std::istringstream words(line);
    std::string range, permissions;
    words >> range >> permissions;
    EXPECT_EQ(permissions[3], 'p') << line;
  }
  EXPECT_GE(descriptors, 1);
  EXPECT_GE(mappings, 1);
}

class ReadOnly : public ::testing::TestWithParam<bool> {
 protected:
  // A pool whose records are in dnodes of several runs, in updates and in large values. Not closed: a copy of its file
  // is what a killed process leaves.
  void make(const std::string& path, Records* records) {
    const std::string live = path + ".live";
    Options quiet = creating();
    quiet.background_threads = 0;  // nothing is written while the file is copied
    const std::unique_ptr<DB> db = open(quiet, live);
    fill(db.get(), 0, 3'000, "first");
    ASSERT_TRUE(db->Put("large", std::string(40'000, 'x')).ok());
    ASSERT_TRUE(db->Drain().ok());
    fill(db.get(), 500, 1'500, "second");
    ASSERT_TRUE(db->Delete(key_of(7)).ok());
    *records = records_of(db.get());
    if (crashed()) std::filesystem::copy_file(live, path);
    ASSERT_TRUE(db->Close().ok());
    if (!crashed()) std::filesystem::copy_file(live, path);
  }
  [[nodiscard]] static bool crashed() { return GetParam(); }
  [[nodiscard]] std::string pool() const { return folder_.file("pool"); }

  const TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Pools, ReadOnly, ::testing::Values(false, true),
                         [](const auto& crashed) { return crashed.param ? "Crashed" : "Closed"; });

TEST_P(ReadOnly, EveryReadAnswersAndNoByteChanges) {
  Records records;
  make(pool(), &records);
  std::filesystem::permissions(pool(), std::filesystem::perms::owner_read);
  const std::string before = read_file(pool());
  const auto written = std::filesystem::last_write_time(pool());
  {
    const std::unique_ptr<DB> db = open(reading(), pool());
    ASSERT_NE(db, nullptr);
    expect_no_way_to_write(pool());
    EXPECT_EQ(records_of(db.get()), records);
    std::vector<std::string> values(2);
    std::vector<Status> statuses(2);
    const std::vector<std::string_view> keys = {"large", "none"};
    db->MultiGet({}, keys, values, statuses);
    EXPECT_EQ(values[0], std::string(40'000, 'x'));
    EXPECT_TRUE(statuses[1].IsNotFound());
    std::string value;
    EXPECT_TRUE(db->Get(key_of(7), &value).IsNotFound());
    for (int round = 0; round < 300; ++round) {  // enough for reads to ask for compaction
      EXPECT_TRUE(db->Get(key_of(600 + round), &value).ok());
      EXPECT_EQ(value, "second" + std::to_string(600 + round));
      EXPECT_EQ(records_of(db.get()).size(), records.size());
    }
    std::shared_ptr<const Snapshot> snapshot;
    ASSERT_TRUE(db->GetSnapshot(&snapshot).ok());
    uint64_t count = 0;
    EXPECT_TRUE(db->Count({.snapshot = snapshot.get()}, {}, &count).ok());
    EXPECT_EQ(count, records.size());
    snapshot.reset();
    std::unique_ptr<Iterator> iterator = db->NewIterator({});
    iterator->SeekToLast();
    EXPECT_EQ(iterator->key(), "large");
    iterator.reset();
    const Stats stats = db->GetStats();
    EXPECT_TRUE(stats.medium.ends_with(", read-only")) << stats.medium;
    EXPECT_EQ(stats.nvm_bytes_stored + stats.nvm_fences + stats.compactions + stats.offloads, 0U)
        << "reading writes nothing, not even to the copy in memory";
    uint64_t copied = 0;
    EXPECT_TRUE(Checkpoint(db.get(), creating(), folder_.file("copy"), nullptr, &copied).ok());
    EXPECT_EQ(copied, records.size());
    EXPECT_TRUE(db->Close().ok());
  }
  EXPECT_TRUE(read_file(pool()) == before);
  EXPECT_EQ(std::filesystem::last_write_time(pool()), written);
  std::filesystem::permissions(pool(), std::filesystem::perms::owner_all);
  EXPECT_EQ(records_of(open(Options(), pool()).get()), records) << "it can be opened for updates as before";
  EXPECT_EQ(records_of(open(reading(), folder_.file("copy")).get()), records);
}

TEST_P(ReadOnly, AUserWhoMayOnlyReadCanLookAtIt) {
  Records records;
  make(pool(), &records);
  std::filesystem::permissions(pool(), std::filesystem::perms{0444});
  std::filesystem::permissions(folder_.path(), std::filesystem::perms{0555});
  const auto as_nobody = [&](const Options& options) {
    return in_child([&]() -> std::string {
      if (::geteuid() == 0 && ::setuid(65'534) != 0) return "cannot change user";
      std::unique_ptr<DB> db;
      const Status status = DB::Open(options, pool(), &db);
      return status.ok() && records_of(db.get()) == records ? "all is read" : status.ToString();
    });
  };
  EXPECT_EQ(as_nobody(reading()), "all is read");
  EXPECT_NE(as_nobody(Options()).find("Permission denied"), std::string::npos);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms{0755});
}

TEST_P(ReadOnly, UpdatesAreRefusedInEveryWay) {
  Records records;
  make(pool(), &records);
  const std::string before = read_file(pool());
  {
    const std::unique_ptr<DB> db = open(reading(), pool());
    ASSERT_NE(db, nullptr);
    const auto expect_refused = [](const Status& status, const char* what) {
      EXPECT_TRUE(status.IsNotSupported()) << what << ": " << status.ToString();
      EXPECT_NE(status.message().find("open it without read_only"), std::string_view::npos) << what;
    };
    expect_refused(db->Put("a", "1"), "put");
    expect_refused(db->Put("a", std::string(100'000, 'v')), "large put");
    expect_refused(db->Delete(key_of(1)), "delete");
    std::vector<Status> statuses(2);
    const std::vector<std::string_view> two = {"a", "b"};
    db->MultiPut(two, two, statuses);
    expect_refused(statuses[0], "multi-put");
    expect_refused(statuses[1], "multi-put");
    WriteBatch batch;
    batch.Put("a", "1");
    expect_refused(db->Write(batch), "batch");
    expect_refused(db->PutIf(Condition::Absent(), "a", "1"), "put if");
    expect_refused(db->DeleteIf(Condition::Present(), key_of(1)), "delete if");
    int64_t sum = 0;
    expect_refused(db->Increment("a", 1, &sum), "increment");
    expect_refused(db->Drain(), "drain");
    {
      Status put;
      std::unique_ptr<Session> session = db->NewSession(4);
      session->Put("a", "1", &put);
      session->Wait();
      expect_refused(put, "put of a session");
    }
    EXPECT_TRUE(db->Sync().ok()) << "there is nothing to wait for";
    EXPECT_EQ(records_of(db.get()), records);
    EXPECT_TRUE(db->Close().ok());
  }
  EXPECT_TRUE(read_file(pool()) == before);
}

TEST_P(ReadOnly, ReadersShareAPoolAndExcludeAWriter) {
  Records records;
  make(pool(), &records);
  const std::unique_ptr<DB> one = open(reading(), pool());
  ASSERT_NE(one, nullptr);
  const std::string two = in_child([&] {
    const std::unique_ptr<DB> db = open(reading(), pool());
    return std::string(db != nullptr && records_of(db.get()) == records ? "read" : "failed");
  });
  EXPECT_EQ(two, "read");
  const std::string writer = in_child([&] {
    std::unique_ptr<DB> db;
    return DB::Open(Options(), pool(), &db).ToString();
  });
  EXPECT_NE(writer.find("busy"), std::string::npos) << writer;
  EXPECT_NE(writer.find("[" + std::to_string(::getpid()) + "]"), std::string::npos) << writer;
  EXPECT_NE(writer.find("which only reads it"), std::string::npos) << writer;
  EXPECT_TRUE(Remove(pool()).IsBusy()) << "nor does anybody remove it";
}

TEST_P(ReadOnly, AnOwnerExcludesReadersAndIsNamed) {
  Records records;
  make(pool(), &records);
  const std::unique_ptr<DB> owner = open(Options(), pool());
  const std::string reader = in_child([&] {
    std::unique_ptr<DB> db;
    return DB::Open(reading(), pool(), &db).ToString();
  });
  EXPECT_NE(reader.find("busy"), std::string::npos) << reader;
  EXPECT_NE(reader.find("[" + std::to_string(::getpid()) + "], started "), std::string::npos) << reader;
  EXPECT_EQ(reader.find("only reads"), std::string::npos) << reader;
}

TEST(ReadOnlyOptions, WhatWouldChangeThePoolIsRefused) {
  const TempFolder folder;
  static_cast<void>(open(creating(), folder.file("pool")));
  std::vector<Options> refused(4, reading());
  refused[0].create_if_missing = true;
  refused[1].error_if_exists = true;
  refused[2].grow_bytes = 64 * kMiB;
  refused[3].medium = MediumChoice::kDram;
  refused[3].durability = Durability::kVolatile;
  for (size_t i = 0; i < refused.size(); ++i) {
    std::unique_ptr<DB> db;
    const Status status = DB::Open(refused[i], folder.file("pool"), &db);
    EXPECT_TRUE(status.IsInvalidArgument()) << i << ": " << status.ToString();
  }
  std::unique_ptr<DB> db;
  EXPECT_TRUE(DB::Open(reading(), folder.file("none"), &db).IsIoError());
  EXPECT_FALSE(std::filesystem::exists(folder.file("none")));
  Options other_keys = reading();
  other_keys.key_format = KeyFormat::kFixed8;
  EXPECT_TRUE(DB::Open(other_keys, folder.file("pool"), &db).IsInvalidArgument());
  EXPECT_TRUE(DB::Open(reading(), "shm://no-node/pool", &db).IsNotSupported()) << "no node is asked";
}

TEST(ReadOnlyOptions, StripedPoolsAreNotSupported) {
  const TempFolder folder;
  Options options = creating();
  options.layout = LayoutChoice::kSoftware;
  const std::string path = folder.file("a") + "," + folder.file("b");
  static_cast<void>(open(options, path));
  std::unique_ptr<DB> db;
  const Status status = DB::Open(reading(), path, &db);
  EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
  EXPECT_NE(status.message().find("striped"), std::string_view::npos) << status.ToString();
}

TEST(ReadOnlyOptions, SeveralTargetsOnDiskAreReadAndStayAsTheyAre) {
  const TempFolder folder = TempFolder::on_disk();
  const std::string a = folder.file("a"), b = folder.file("b"), path = a + "," + b;
  Options buffered = creating();
  buffered.durability = Durability::kBuffered;
  {
    const std::unique_ptr<DB> db = open(buffered, path);
    fill(db.get(), 0, 300, "v");
  }
  const std::string before_a = read_file(a), before_b = read_file(b);
  for (int i = 0; i < 2; ++i) {
    const std::unique_ptr<DB> db = open(reading(), path);
    ASSERT_NE(db, nullptr);
    EXPECT_EQ(records_of(db.get()).size(), 300U);
    expect_no_way_to_write(a);
    expect_no_way_to_write(b);
  }
  EXPECT_TRUE(read_file(a) == before_a && read_file(b) == before_b) << "an opening leaves no mark";
}

TEST(ReadOnlyOptions, DamageIsReportedAndNotRead) {
  const TempFolder folder;
  const std::string path = folder.file("pool");
  {
    const std::unique_ptr<DB> db = open(creating(), path);
    fill(db.get(), 0, 2'000, "v");
    ASSERT_TRUE(db->Drain().ok());
  }
  std::string bytes = read_file(path);
  size_t places = 0;  // in the log, too
  for (size_t at = bytes.find("v1234"); at != std::string::npos; at = bytes.find("v1234", at), ++places) bytes[at] ^= 1;
  ASSERT_GE(places, 1U);
  folder.write("pool", bytes);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(reading(), path, &db).ok()) << "a record is verified when it is read";
  std::string value;
  EXPECT_TRUE(db->Get(key_of(1'234), &value).IsCorruption());
  db.reset();
  for (const size_t i : {64, 4'096 + 64}) bytes[i] ^= 1;  // both superblocks
  folder.write("pool", bytes);
  EXPECT_TRUE(DB::Open(reading(), path, &db).IsCorruption());
}

// Writers are killed amid offloading, splitting and merging. What a reader recovers in memory is what an owner recovers
// afterwards, and all that was acknowledged.
TEST(ReadOnlyOptions, WhatKilledWritersLeaveIsReadAsItIsRecovered) {
  auto* const acknowledged =
      static_cast<std::atomic<int>*>(::mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(acknowledged), MAP_FAILED);
  const int rounds = testing::budget(5, 25, 200);
  for (int round = 0; round < rounds; ++round) {
    const TempFolder folder;
    const std::string path = folder.file("pool");
    new (acknowledged) std::atomic<int>(0);
    const pid_t child = ::fork();
    if (child == 0) {
      std::unique_ptr<DB> db;
      if (!DB::Open(creating(2 * kMiB), path, &db).ok()) ::_exit(1);
      for (int i = 0;; ++i) {
        if (!db->Put(key_of(i % 900), "v" + std::to_string(i)).ok()) ::_exit(1);
        acknowledged->store(i + 1);
      }
    }
    base::BoundedWait wait("a writer", 60'000);
    while (acknowledged->load() < 2'000 + 997 * round && !wait.expired()) wait.pause();
    ::kill(child, SIGKILL);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended)) << "the writer failed";
    const std::string before = read_file(path);
    const Records read = records_of(open(reading(), path).get());
    EXPECT_TRUE(read_file(path) == before);
    const int last = acknowledged->load() - 1;
    for (int i = std::max(0, last - 899); i <= last; ++i) {
      const auto found = read.find(key_of(i % 900));
      ASSERT_NE(found, read.end()) << i;
      EXPECT_GE(std::stoi(found->second.substr(1)), i);
    }
    EXPECT_EQ(records_of(open(Options(), path).get()), read) << "an owner recovers the same";
  }
  testing::add_figure("read_only_kill_rounds", static_cast<uint64_t>(rounds));
  ::munmap(acknowledged, 4'096);
}

}  // namespace
}  // namespace bonsai
