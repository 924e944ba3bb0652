// SPDX-License-Identifier: Apache-2.0
// A fence that fails, at every place where one can: a store runs over a plain file whose n-th write-back fails, for
// each n. What was acknowledged stays readable, then and after a crash; nothing is acknowledged any more.
//
// The disk is modelled as the kernel treats it: a write-back that fails may have written any of its pages, and counts
// them as clean afterwards, so that no later one writes them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/nvm/file.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "store/db_impl.h"
#include "store/tiers.h"

namespace bonsai::testing {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{256} << 10;
constexpr size_t kPageBytes = 4096;

// What msync() writes to. One at a time, as FileMedium has no other way.
class Disk {
 public:
  Disk(std::vector<std::byte> content, uint64_t seed) : disk_(std::move(content)), cache_(disk_), random_(seed) {
    current = this;
  }
  ~Disk() { current = nullptr; }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void attach(const std::byte* view) { view_ = view; }
  void fail_sync(uint64_t n) { syncs_to_failure_ = n; }
  [[nodiscard]] bool has_failed() const { return failed_.load(); }

  static int sync(void* address, size_t bytes, int flags) { return current->write_back(address, bytes, flags); }

  // What a power cut leaves: the kernel may have written any page that is still dirty. A store's background threads may
  // write back meanwhile: the cut falls before or after each write-back.
  std::vector<std::byte> crash() {
    const std::lock_guard lock(mutex_);
    for (size_t at = 0; at < disk_.size(); at += kPageBytes) {
      if (random_.chance(1, 2)) write_page(at);
    }
    return disk_;
  }

 private:
  int write_back(void* address, size_t bytes, int flags) {
    EXPECT_EQ(flags, MS_SYNC);
    EXPECT_FALSE(busy_.exchange(true)) << "two write-backs at a time";
    const std::lock_guard lock(mutex_);
    const auto begin = static_cast<size_t>(static_cast<std::byte*>(address) - view_);
    const bool fails = syncs_to_failure_ != 0 && --syncs_to_failure_ == 0;
    for (size_t at = begin; at < begin + bytes; at += kPageBytes) {
      const bool written = !fails || random_.chance(1, 2);
      written ? write_page(at) : clean_page(at);
    }
    if (fails) failed_.store(true);
    busy_.store(false);
    errno = fails ? EIO : 0;
    return fails ? -1 : 0;
  }
  // Other threads write to the page meanwhile, as they do while a kernel writes it back.
  void write_page(size_t at) {
    std::vector<std::byte> page(kPageBytes);
    base::racy_load(page.data(), view_ + at, kPageBytes);
    if (std::memcmp(&cache_[at], page.data(), kPageBytes) == 0) return;
    std::memcpy(&disk_[at], page.data(), kPageBytes);
    std::memcpy(&cache_[at], page.data(), kPageBytes);
  }
  void clean_page(size_t at) { base::racy_load(&cache_[at], view_ + at, kPageBytes); }

  static inline Disk* current = nullptr;

  std::mutex mutex_;  // of a write-back and of the power cut
  std::vector<std::byte> disk_;
  std::vector<std::byte> cache_;  // what each page held when it last became clean
  base::Random random_;
  const std::byte* view_ = nullptr;
  uint64_t syncs_to_failure_ = 0;
  std::atomic<bool> failed_{false}, busy_{false};
};

using Content = std::map<std::string, std::string>;
// An update of some keys; no value: the key is deleted.
using Updates = std::vector<std::pair<std::string, std::optional<std::string>>>;

void apply(const Updates& updates, Content* content) {
  for (const auto& [key, value] : updates) {
    if (value) {
      (*content)[key] = *value;
    } else {
      content->erase(key);
    }
  }
}

// A store over a mapping that is backed by a disk.
class Machine {
 public:
  Machine(Disk* disk, const std::vector<std::byte>& content, const Options& options, bool create) : options_(options) {
    EXPECT_TRUE(base::Mapping::make_in_memory("the pool's file", kPoolBytes, &mapping_).ok());
    std::memcpy(mapping_->data(), content.data(), content.size());
    disk->attach(mapping_->data());
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    media.push_back(std::make_unique<base::FileMedium>(*mapping_, &Disk::sync));
    std::unique_ptr<store::Tiers> tiers;
    store::BackgroundThreads threads;
    if (options.background_threads > 0) opened_ = store::BackgroundThreads::reserve(options, &threads);
    if (opened_.ok()) opened_ = store::open_tiers_on(options_, std::move(media), create, &tiers);
    if (opened_.ok()) db_ = std::make_unique<store::DbImpl>(options_, std::move(tiers), std::move(threads));
  }
  [[nodiscard]] const Status& opened() const { return opened_; }
  [[nodiscard]] store::DbImpl* db() const { return db_.get(); }

 private:
  const Options options_;
  std::unique_ptr<base::Mapping> mapping_;
  std::unique_ptr<store::DbImpl> db_;
  Status opened_;
};

Options options_of(Durability durability, uint32_t threads) {
  Options options;
  options.pool_bytes = kPoolBytes;
  options.log_bytes = kPoolBytes / 8;
  options.background_threads = threads;
  options.durability = durability;
  options.stall_ms_max = 2000;
  return options;
}

Content all_of(DB* db) {
  Content content;
  const Status status = db->Scan(ScanOptions(), {}, [&](std::string_view key, std::string_view value) {
    content[std::string(key)] = value;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return content;
}

// One sitting: random updates until a write-back fails or they are done; then a crash.
class Sitting {
 public:
  Sitting(Durability durability, uint64_t seed, uint64_t fails_at)
      : options_(options_of(durability, 0)), random_(seed), disk_(std::vector<std::byte>(kPoolBytes), seed) {
    disk_.fail_sync(fails_at);
  }

  // False: nothing failed, the sitting was too short.
  bool run() {
    std::vector<std::byte> left, left_by_close;
    {
      Machine machine(&disk_, std::vector<std::byte>(kPoolBytes), options_, true);
      if (!machine.opened().ok()) {
        EXPECT_TRUE(disk_.has_failed() && machine.opened().IsIoError()) << machine.opened().ToString();
        return true;  // there is no pool, or an empty one
      }
      for (int i = 0; i < kOperations && !disk_.has_failed(); ++i) operate(machine.db());
      if (disk_.has_failed()) expect_fail_stop(machine.db());
      left = disk_.crash();
      const Status closed = machine.db()->Close();
      EXPECT_EQ(closed.ok(), !disk_.has_failed()) << closed.ToString();
      left_by_close = disk_.crash();
    }
    expect_recovered(left);
    expect_recovered(left_by_close);
    return disk_.has_failed();
  }

 private:
  static constexpr int kOperations = 400;

  std::string any_key() { return "key" + std::to_string(random_.below(40)); }
  std::string any_value() {
    return std::string(random_.chance(1, 12) ? 1100 : random_.below(220), static_cast<char>('a' + random_.below(26)));
  }

  void operate(DB* db) {
    const uint64_t what = random_.below(40);
    if (what == 0) return settle(db->Drain());
    if (what == 1) return settle(db->Sync());
    if (what < 6) return update(db, {{any_key(), std::nullopt}});
    if (what > 8) return update(db, {{any_key(), any_value()}});
    std::map<std::string, std::optional<std::string>> each;
    for (int i = 0; i < 3; ++i) each[any_key()] = std::string(random_.below(60), 'b');
    update(db, Updates(each.begin(), each.end()));
  }

  static Status carry_out(DB* db, const Updates& updates) {
    const auto& [key, value] = updates.front();
    if (updates.size() == 1) return value ? db->Put(key, *value) : db->Delete(key);
    WriteBatch batch;
    for (const auto& [each, text] : updates) batch.Put(each, *text);
    return db->Write(batch);
  }

  void update(DB* db, const Updates& updates) {
    const Status status = carry_out(db, updates);
    if (status.ok()) {
      apply(updates, &acknowledged_);
      history_.push_back(updates);
    } else if (!status.IsNoSpace()) {
      EXPECT_TRUE(disk_.has_failed() && status.IsIoError()) << status.ToString();
      in_flight_ = updates;
    }
  }

  // Drained or synced.
  void settle(const Status& status) {
    if (!status.ok()) {
      EXPECT_TRUE(disk_.has_failed() && status.IsIoError()) << status.ToString();
    } else if (options_.durability == Durability::kBuffered && !disk_.has_failed()) {
      settled_ = acknowledged_;
      history_.clear();
    }
  }

  void expect_fail_stop(DB* db) {
    EXPECT_EQ(all_of(db), acknowledged_) << "reads go on, and see nothing that was not acknowledged";
    for (const Updates& updates :
         {Updates{{any_key(), "v"}}, Updates{{any_key(), std::nullopt}}, Updates{{"key1", "a"}, {"key2", "b"}},
          Updates{{any_key(), std::string(1100, 'l')}}}) {
      const Status status = carry_out(db, updates);
      EXPECT_TRUE(status.IsIoError()) << status.ToString();
      EXPECT_NE(status.message().find("the pool's file"), std::string::npos) << status.ToString();
    }
    EXPECT_TRUE(db->Drain().IsIoError());
    EXPECT_TRUE(db->Sync().IsIoError());
    EXPECT_EQ(all_of(db), acknowledged_);
  }

  // What was acknowledged, and perhaps what failed; in mode buffered a prefix of it that has what was synced.
  [[nodiscard]] bool allowed(const Content& content) const {
    if (options_.durability == Durability::kBuffered) {
      Content prefix = settled_;
      if (prefix == content) return true;
      for (const Updates& updates : history_) {
        apply(updates, &prefix);
        if (prefix == content) return true;
      }
    }
    Content with = acknowledged_;
    if (with == content) return true;
    apply(in_flight_, &with);
    return with == content;
  }

  void expect_recovered(const std::vector<std::byte>& left) {
    Disk disk(left, random_.next());
    const Machine machine(&disk, left, options_, false);
    ASSERT_TRUE(machine.opened().ok()) << machine.opened().ToString();
    const Content content = all_of(machine.db());
    EXPECT_TRUE(allowed(content)) << content.size() << " records of " << acknowledged_.size();
    EXPECT_TRUE(machine.db()->Put("after", "it works again").ok());
    EXPECT_TRUE(machine.db()->Drain().ok());
    EXPECT_TRUE(machine.db()->Close().ok());
  }

  const Options options_;
  base::Random random_;
  Disk disk_;
  Content acknowledged_, settled_;
  std::vector<Updates> history_;  // since settled_
  Updates in_flight_;
};

void fail_each_fence(Durability durability) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const uint64_t stride = budget<uint64_t>(7, 1, 1);
  uint64_t failures = 0;
  for (uint64_t round = 0; round < budget<uint64_t>(1, 10, 200); ++round) {
    for (uint64_t n = 1 + round; !::testing::Test::HasFailure(); n += stride, ++failures) {
      SCOPED_TRACE("write-back " + std::to_string(n) + " fails, seed " + std::to_string(seed + round));
      if (!Sitting(durability, seed + round, n).run()) break;
    }
  }
  EXPECT_GT(failures, 100 / stride);
  add_figure("fence_failures", failures);
}

TEST(FenceFailure, AtAnyFenceLosesNothingThatWasAcknowledged) { fail_each_fence(Durability::kDurable); }
TEST(FenceFailure, AtAnyFenceLosesNothingThatWasSynced) { fail_each_fence(Durability::kBuffered); }

void expect_drained_or_failed(DB* db) {
  const Status status = db->Drain();
  EXPECT_TRUE(status.ok() || status.IsIoError()) << status.ToString();
}

// Writers with keys of their own, and offloading beside them; one of them drains now and then.
TEST(FenceFailure, BetweenThreadsLosesNothingThatWasAcknowledged) {
  constexpr int kWriters = 3;
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  for (int round = 0; round < budget(4, 40, 1000) && !HasFailure(); ++round) {
    Disk disk(std::vector<std::byte>(kPoolBytes), random.next());
    std::array<Content, kWriters> acknowledged;
    std::array<std::string, kWriters> in_flight;
    std::vector<std::byte> left;
    {
      Machine machine(&disk, std::vector<std::byte>(kPoolBytes), options_of(Durability::kDurable, 2), true);
      ASSERT_TRUE(machine.opened().ok());
      disk.fail_sync(1 + random.below(600));
      std::vector<base::Thread> writers;
      for (int w = 0; w < kWriters; ++w) {
        writers.emplace_back("writer", [&, w] {
          for (int i = 0; i < 1500; ++i) {
            const std::string key = std::to_string(w) + "key" + std::to_string(i % 60);
            const std::string value = std::to_string(i) + std::string(60, 'v');
            const Status status = machine.db()->Put(key, value);
            if (status.ok()) {
              acknowledged[w][key] = value;
              if (w == 0 && i % 100 == 99) expect_drained_or_failed(machine.db());
              continue;
            }
            EXPECT_TRUE(status.IsIoError()) << status.ToString();
            in_flight[w] = key;
            return;
          }
        });
      }
      writers.clear();
      Content all;
      for (const Content& each : acknowledged) all.insert(each.begin(), each.end());
      EXPECT_EQ(all_of(machine.db()), all);
      left = disk.crash();
      EXPECT_EQ(machine.db()->Close().ok(), !disk.has_failed());
    }
    const Machine again(&disk, left, options_of(Durability::kDurable, 0), false);
    ASSERT_TRUE(again.opened().ok()) << again.opened().ToString();
    const Content content = all_of(again.db());
    for (int w = 0; w < kWriters; ++w) {
      for (const auto& [key, value] : acknowledged[w]) {
        const auto it = content.find(key);
        ASSERT_TRUE(it != content.end()) << key;
        EXPECT_TRUE(key == in_flight[w] || it->second == value) << key;
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::testing
