// SPDX-License-Identifier: Apache-2.0
// A fence that fails, at every place where one can: a store runs over a plain file whose n-th write-back fails, for
// each n. Acknowledged updates stay readable, then and after a crash; no update is acknowledged any more.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "store/testing/failing_disk.h"

namespace bonsai::testing {
namespace {

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

  // The allowed contents: all acknowledged updates, with or without the failed one; in mode buffered, a prefix of them
  // that includes all synced updates.
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

// Writers with keys of their own, while offloading runs; one of them drains now and then.
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
