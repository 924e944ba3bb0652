// SPDX-License-Identifier: Apache-2.0
// Bytes on NVM that change under an open store, after they were read and verified. Every operation that uses them
// reports the damage. No operation returns them, or copies them to a place where they would get a new, valid checksum.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "persist/format.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;
constexpr uint64_t kRecords = 2'000;
constexpr size_t kLargeBytes = 20'000;
constexpr size_t kHeadBytes = 10;  // of an entry, before its key
using Content = std::map<std::string, std::string>;
using Records = std::vector<std::pair<std::string, std::string>>;

std::string key_of(uint64_t i) { return "key" + std::to_string(1'000'000 + i); }

// The bytes of a pool that another process has open, to be changed unnoticed.
class PoolBytes {
 public:
  explicit PoolBytes(const std::string& path) : bytes_(std::filesystem::file_size(path)) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    BONSAI_CHECK(file >= 0 && at != MAP_FAILED);
    ::close(file);
    at_ = static_cast<char*>(at);
  }
  ~PoolBytes() { ::munmap(at_, bytes_); }
  PoolBytes(const PoolBytes&) = delete;
  PoolBytes& operator=(const PoolBytes&) = delete;

  // Where `text` stands in the data area.
  [[nodiscard]] std::vector<char*> places_of(const std::string& text) const {
    persist::Superblock superblock;
    std::memcpy(&superblock, at_, sizeof superblock);
    std::vector<char*> places;
    for (char* at = at_ + superblock.data_offset;; ++at) {
      at = static_cast<char*>(::memmem(at, static_cast<size_t>(at_ + bytes_ - at), text.data(), text.size()));
      if (at == nullptr) return places;
      places.push_back(at);
    }
  }

 private:
  const size_t bytes_;
  char* at_;
};

class OpenDamageTest : public ::testing::Test {
 protected:
  OpenDamageTest() : random_(seed()) { folder_.expect_damage(path_); }

  static uint64_t seed() {
    const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
    std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
    return seed;
  }
  static Options options() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 4 * kMiB;
    options.background_threads = 0;  // work is done when the test says so
    options.stall_ms_max = 1'000;
    return options;
  }

  void put(uint64_t i, const std::string& value) {
    const Status status = db_->Put(key_of(i), value);
    ASSERT_TRUE(status.ok()) << status.ToString();
    content_[key_of(i)] = value;
  }

  // Runs of one size and of many, runs over runs, deletions, large values, updates that are not in dnodes; all of it
  // read once.
  void make() {
    db_.reset();
    bytes_.reset();
    std::filesystem::remove(path_);
    content_.clear();
    ASSERT_TRUE(DB::Open(options(), path_, &db_).ok());
    bytes_ = std::make_unique<PoolBytes>(path_);
    for (uint64_t i = 0; i < kRecords; ++i) {
      put(i, "<v" + std::to_string(10'000 + i) + (i < kRecords / 2 ? ">" : std::string(random_.below(40), 'v') + ">"));
    }
    for (uint64_t i = 11; i < kRecords; i += 450) put(i, "large" + std::to_string(i) + std::string(kLargeBytes, 'L'));
    ASSERT_TRUE(db_->Drain().ok());
    for (uint64_t i = 0; i < kRecords; i += 9) put(i, "<w" + std::to_string(10'000 + i) + ">");
    for (uint64_t i = 1; i < kRecords; i += 40) {
      ASSERT_TRUE(db_->Delete(key_of(i)).ok());
      content_.erase(key_of(i));
    }
    ASSERT_TRUE(db_->Drain().ok());
    for (uint64_t i = 2; i < kRecords; i += 70) put(i, "<u" + std::to_string(10'000 + i) + ">");
    ASSERT_EQ(read_all(true), Reported::kNothing);
  }

  // Flips a bit of an entry or of a large value. Returns the number of a key that is near.
  uint64_t flip() {
    const uint64_t i = random_.below(kRecords);
    const bool large = random_.chance(1, 8);
    const uint64_t of = large ? 11 + 450 * random_.below((kRecords - 11 + 449) / 450) : i;
    const std::vector<char*> places = bytes_->places_of(large ? "large" + std::to_string(of) + "LLL" : key_of(of));
    if (places.empty()) return flip();  // it was never in a dnode
    char* const place = places[random_.below(places.size())];
    flipped_ = large ? place + random_.below(kLargeBytes) : place - kHeadBytes + random_.below(kHeadBytes + 18);
    mask_ = static_cast<char>(1U << random_.below(8));
    *flipped_ ^= mask_;
    return of;
  }
  void flip_back() { *flipped_ ^= mask_; }

  enum class Reported { kNothing, kDamage };

  // The records that a reader has returned, from `from` on, must be those of the pool: all of them, or the first ones
  // if the reader got a report of damage.
  void judge(const char* who, const Status& status, const Records& seen, const std::string& from, uint64_t limit) {
    reported_ |= !status.ok();
    EXPECT_TRUE(status.ok() || status.IsCorruption()) << who << ": " << status.ToString();
    auto wanted = content_.lower_bound(from);
    for (const auto& [key, value] : seen) {
      const bool right = wanted != content_.end() && wanted->first == key && wanted->second == value;
      wrong_ += right ? 0 : 1;
      if (!right) {
        what_ = std::string(who) + " shows " + std::string(key) + " = " + value.substr(0, 40);
        return;
      }
      ++wanted;
    }
    const bool all = seen.size() == limit || wanted == content_.end();
    wrong_ += status.ok() && !all ? 1 : 0;
    if (status.ok() && !all) what_ = std::string(who) + " ends after " + std::to_string(seen.size());
  }

  void scan(const std::string& from, uint64_t limit, bool verify) {
    ScanOptions options;
    options.limit = limit;
    options.verify_checksums = verify;
    Records seen;
    const Status status = db_->Scan(options, from, [&](auto key, auto value) {
      seen.emplace_back(key, value);
      return true;
    });
    judge("Scan", status, seen, from, limit);
  }
  void scan_rows(const std::string& from, uint64_t limit, bool verify) {
    ScanOptions options;
    options.limit = limit;
    options.verify_checksums = verify;
    Records seen;
    const Status status = db_->ScanRows(options, from, [&](const Rows& rows) {
      for (size_t i = 0; i < rows.count; ++i) seen.emplace_back(rows.key(i), rows.value(i));
      return true;
    });
    judge("ScanRows", status, seen, from, limit);
  }
  void scan_in_session(const std::string& from, uint64_t limit, bool verify) {
    constexpr size_t kScans = 3;
    ScanOptions options;
    options.limit = limit;
    options.verify_checksums = verify;
    std::array<Records, kScans> seen;
    std::array<Status, kScans> statuses;
    const auto session = db_->NewSession();
    for (size_t i = 0; i < kScans; ++i) {
      const auto visit = [&records = seen[i]](std::string_view key, std::string_view value) {
        records.emplace_back(key, value);
        return true;
      };
      session->Scan(options, from, visit, &statuses[i]);
    }
    session->Wait();
    for (size_t i = 0; i < kScans; ++i) judge("a session's scan", statuses[i], seen[i], from, limit);
  }
  void iterate(const std::string& from, uint64_t limit, bool verify) {
    ReadOptions options;
    options.verify_checksums = verify;
    const auto iterator = db_->NewIterator(options);
    Records seen;
    for (iterator->Seek(from); iterator->Valid() && seen.size() < limit; iterator->Next())
      seen.emplace_back(iterator->key(), iterator->value());
    judge("an iterator", iterator->status(), seen, from, limit);
  }
  void iterate_back(bool verify) {
    ReadOptions options;
    options.verify_checksums = verify;
    const auto iterator = db_->NewIterator(options);
    Records seen;
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev())
      seen.emplace_back(iterator->key(), iterator->value());
    const std::string from = seen.empty() ? std::string(1, '\xff') : seen.back().first;
    judge("an iterator backwards", iterator->status(), Records(seen.rbegin(), seen.rend()), from, UINT64_MAX);
    const bool all = seen.size() == content_.size();
    wrong_ += iterator->status().ok() && !all ? 1 : 0;
  }
  void get() {
    std::vector<std::string> keys(kRecords), values(kRecords);
    std::vector<std::string_view> views(kRecords);
    std::vector<Status> statuses(kRecords);
    for (uint64_t i = 0; i < kRecords; ++i) views[i] = keys[i] = key_of(i);
    db_->MultiGet(ReadOptions(), views, values, statuses);
    for (uint64_t i = 0; i < kRecords; ++i) {
      const auto wanted = content_.find(keys[i]);
      const bool there = wanted != content_.end();
      const bool right = statuses[i].ok() ? there && values[i] == wanted->second : !statuses[i].IsNotFound() || !there;
      reported_ |= statuses[i].IsCorruption();
      wrong_ += right ? 0 : 1;
      if (!right) what_ = "MultiGet: " + keys[i] + " " + statuses[i].ToString() + " " + values[i].substr(0, 40);
    }
  }

  // All ways to read. `near`: where the damage is, for short scans.
  Reported read_all(bool verify, uint64_t near = 0) {
    reported_ = false;
    const std::string before = key_of(near - std::min<uint64_t>(near, random_.below(60)));
    scan({}, UINT64_MAX, verify);
    scan(before, 1 + random_.below(400), verify);
    scan_rows({}, UINT64_MAX, verify);
    scan_rows(before, 1 + random_.below(100), verify);
    scan_in_session(before, 1 + random_.below(100), verify);
    iterate({}, UINT64_MAX, verify);
    iterate(before, 1 + random_.below(100), verify);
    iterate_back(verify);
    if (verify) get();
    return reported_ ? Reported::kDamage : Reported::kNothing;
  }

  // A checkpoint is whole and right, or there is none.
  void checkpoint() {
    const std::string copy = folder_.file("copy");
    const Status status = Checkpoint(db_.get(), options(), copy);
    ASSERT_EQ(status.ok(), std::filesystem::exists(copy)) << status.ToString();
    if (!status.ok()) {
      reported_ = true;
      ASSERT_TRUE(status.IsCorruption()) << status.ToString();
      return;
    }
    std::unique_ptr<DB> opened;
    ASSERT_TRUE(DB::Open(Options(), copy, &opened).ok());
    Content copied;
    ASSERT_TRUE(opened->Scan({}, {}, [&](auto key, auto value) { return copied.emplace(key, value).second; }).ok());
    wrong_ += copied == content_ ? 0 : 1;
    if (copied != content_) what_ = "a checkpoint's copy differs";
    ASSERT_TRUE(opened->Close().ok());
    std::filesystem::remove(copy);
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
  base::Random random_;
  std::unique_ptr<PoolBytes> bytes_;
  std::unique_ptr<DB> db_;
  Content content_;
  char* flipped_ = nullptr;
  char mask_ = 0;
  bool reported_ = false;
  uint64_t wrong_ = 0;
  std::string what_;  // the last wrong answer
};

TEST_F(OpenDamageTest, NoReaderAndNoCheckpointAnswersWithIt) {
  const int tries = budget(40, 200, 4'000);
  ASSERT_NO_FATAL_FAILURE(make());
  int reported = 0, sampled_reported = 0;
  uint64_t sampled_wrong = 0;
  for (int i = 0; i < tries; ++i) {
    const uint64_t near = flip();
    reported += read_all(true, near) == Reported::kDamage ? 1 : 0;
    if (i % 4 == 0) {
      ASSERT_NO_FATAL_FAILURE(checkpoint());
    }
    ASSERT_EQ(wrong_, 0U) << "try " << i << ", near " << near << ": " << what_;
    sampled_reported += read_all(false, near) == Reported::kDamage ? 1 : 0;
    sampled_wrong += std::exchange(wrong_, 0);
    flip_back();
  }
  EXPECT_GT(reported, tries / 5) << "the rest was hidden, or nobody's any more";
  EXPECT_EQ(read_all(true), Reported::kNothing);
  EXPECT_EQ(wrong_, 0U) << what_;
  EXPECT_GT(sampled_wrong, 0U) << "readers who did not want it verified must have seen some of it";
  std::printf("%d of %d damages reported; unverified %d, and %llu wrong answers\n", reported, tries, sampled_reported,
              static_cast<unsigned long long>(sampled_wrong));
}

// Offloading rewrites what it finds in the ranges that have updates. One damage in three is in its way: it goes on
// until one was.
TEST_F(OpenDamageTest, OffloadingDoesNotCopyIt) {
  const int tries = budget(5, 40, 1'000);
  constexpr int kTriesMax = 60;
  int reported = 0;
  for (int i = 0; i < tries || (reported == 0 && i < kTriesMax); ++i) {
    ASSERT_NO_FATAL_FAILURE(make());
    const uint64_t near = flip();
    for (int rounds = 0; rounds < 3 && !reported_; ++rounds) {
      for (uint64_t n = 0; n < 150; ++n) {
        const uint64_t number = near - std::min<uint64_t>(near, 60) + random_.below(120);
        put(std::min(number, kRecords - 1), "<x" + std::to_string(10'000 + n) + ">");
      }
      const Status status = db_->Drain();
      reported_ = !status.ok();
      ASSERT_TRUE(status.ok() || status.IsCorruption()) << status.ToString();
    }
    const bool refused = std::exchange(reported_, false);
    reported += refused ? 1 : 0;
    read_all(true, near);
    ASSERT_EQ(wrong_, 0U) << "try " << i << ", near " << near << ": " << what_;
    if (!refused) continue;  // what was there may have been rewritten by updates, and its place be another's
    flip_back();
    ASSERT_TRUE(db_->Drain().ok());
    ASSERT_EQ(read_all(true, near), Reported::kNothing);
    ASSERT_EQ(wrong_, 0U) << what_;
  }
  std::printf("%d damages kept offloading from rewriting\n", reported);
  EXPECT_GT(reported, 0);
}

}  // namespace
}  // namespace bonsai::testing
