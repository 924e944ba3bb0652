// SPDX-License-Identifier: Apache-2.0
// Groups with equal keys, while other threads cause replacements of the same ranges. Each key ends with the group's
// last update of it, and each read of a session returns the last update of its key that was begun before it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

// Divides the number of calls: a sanitizer makes them slower.
constexpr uint64_t kSlower = BONSAI_SCALABLE_MEMORY != 0 ? 1 : 12;

// A writer whose keys no other thread writes. They are in the same ranges as the keys of others.
class Writer {
 public:
  Writer(DB* db, uint32_t number, uint32_t writers, uint64_t seed)
      : db_(db), session_(db->NewSession(kGroupMax)), number_(number), writers_(writers), random_(seed), last_(kKeys) {}

  // Makes `calls` calls, or ends at the first wrong group. Returns the fault; empty: none.
  std::string run(uint64_t calls) {
    for (uint64_t i = 0; i < calls && wrong_.empty(); ++i) call();
    return wrong_;
  }
  [[nodiscard]] uint64_t judged() const { return judged_; }

 private:
  static constexpr size_t kGroupMax = 40;  // beyond what one log record holds
  static constexpr size_t kKeys = 1'000;

  struct Update {
    size_t key;
    std::optional<uint64_t> value;
  };
  // A read that was begun before updates_[before]: of one key, or of `scanned` records from that key on.
  struct Read {
    size_t key, before;
    size_t scanned;  // 0: no scan
    std::string value = "absent";
    Status status = {};
    std::vector<std::pair<std::string, std::string>> records = {};
  };

  [[nodiscard]] std::string name_of(size_t key) const {
    char text[16];
    std::snprintf(text, sizeof text, "%06zu", key * writers_ + number_);
    return text;
  }

  void call() {
    const size_t distinct = 1 + random_.below(random_.chance(1, 8) ? 8 : 2);
    const size_t n = distinct + 1 + random_.below(random_.chance(1, 32) ? kGroupMax - distinct : 3);
    const bool in_session = random_.chance(1, 2);
    updates_.clear();
    const size_t first = random_.below(kKeys);
    for (size_t i = 0; i < n; ++i) {
      const size_t key = (first + random_.below(distinct)) % kKeys;
      const bool deletes = in_session && random_.chance(1, 3);
      updates_.push_back({key, deletes ? std::nullopt : std::optional(++value_)});
    }
    statuses_.assign(n, Status::OK());
    reads_.clear();
    for (size_t i = 0; in_session && i < n + 1; ++i) {
      if (random_.chance(1, 2)) continue;
      const size_t scanned = random_.chance(1, 6) ? 1 + random_.below(random_.chance(1, 2) ? 1 : 40) : 0;
      reads_.push_back({.key = (first + random_.below(distinct)) % kKeys, .before = i, .scanned = scanned});
    }
    in_session ? write_in_session() : write_at_once();
    size_t read = 0;
    for (size_t i = 0; i <= n; ++i) {
      for (; read < reads_.size() && reads_[read].before == i; ++read) expect(reads_[read]);
      if (i == n || statuses_[i].IsNoSpace()) continue;  // changed nothing
      if (!statuses_[i].ok()) wrong_ = statuses_[i].ToString();
      last_[updates_[i].key] = updates_[i].value;
    }
    for (size_t i = 0; i < distinct; ++i) expect((first + i) % kKeys);
    ++judged_;
  }

  void write_at_once() {
    std::vector<std::string_view> key_views, value_views;
    text_of_updates();
    for (size_t i = 0; i < updates_.size(); ++i) {
      key_views.push_back(names_[i]);
      value_views.push_back(values_[i]);
    }
    db_->MultiPut(key_views, value_views, statuses_);
  }

  void write_in_session() {
    text_of_updates();
    size_t read = 0;
    for (size_t i = 0; i <= updates_.size(); ++i) {
      for (; read < reads_.size() && reads_[read].before == i; ++read) begin(&reads_[read]);
      if (i == updates_.size()) break;
      if (updates_[i].value) {
        session_->Put(names_[i], values_[i], &statuses_[i]);
      } else {
        session_->Delete(names_[i], &statuses_[i]);
      }
    }
    session_->Wait();
  }

  void begin(Read* read) {
    read_names_[read->key] = name_of(read->key);
    const std::string& name = read_names_[read->key];
    if (read->scanned == 0) return session_->Get(name, &read->value, &read->status);
    session_->Scan(
        {.limit = read->scanned}, name,
        [read](std::string_view key, std::string_view value) {
          read->records.emplace_back(key, value);
          return true;
        },
        &read->status);
  }

  void text_of_updates() {
    names_.resize(updates_.size());
    values_.resize(updates_.size());
    for (size_t i = 0; i < updates_.size(); ++i) {
      names_[i] = name_of(updates_[i].key);
      values_[i] = std::to_string(updates_[i].value.value_or(0));
    }
  }

  void expect(size_t key) {
    std::string value;
    const Status status = db_->Get(name_of(key), &value);
    expect(key, status, value, updates_.size());
  }
  void expect(const Read& read) {
    if (read.scanned == 0) return expect(read.key, read.status, read.value, read.before);
    // All of the writer's keys up to the last record that was read; those of others may be anything.
    auto record = read.records.begin();
    for (size_t key = read.key; key < kKeys && wrong_.empty(); ++key) {
      const std::string name = name_of(key);
      while (record != read.records.end() && record->first < name) ++record;
      if (record == read.records.end() && read.records.size() == read.scanned) return;
      const bool found = record != read.records.end() && record->first == name;
      const Status status = !read.status.ok() ? read.status : found ? Status::OK() : Status::NotFound("by a scan");
      expect(key, status, found ? record->second : std::string(), read.before);
    }
  }

  void expect(size_t key, const Status& status, const std::string& value, size_t before) {
    const std::string wanted = last_[key] ? std::to_string(*last_[key]) : "absent";
    const std::string seen = status.ok() ? value : status.IsNotFound() ? "absent" : status.ToString();
    if (seen == wanted) return;
    wrong_ = "key " + name_of(key) + " is " + seen + " after " + std::to_string(before) + " updates of the group of";
    for (const Update& update : updates_) {
      wrong_ += " " + name_of(update.key) + "=" + (update.value ? std::to_string(*update.value) : "absent");
    }
  }

  DB* const db_;
  const std::unique_ptr<Session> session_;
  const uint32_t number_, writers_;
  base::Random random_;
  std::vector<std::optional<uint64_t>> last_;  // what each key holds
  std::vector<Update> updates_;
  std::vector<Read> reads_;
  std::map<size_t, std::string> read_names_;
  std::vector<Status> statuses_;
  std::vector<std::string> names_, values_;
  uint64_t value_ = 0;
  uint64_t judged_ = 0;
  std::string wrong_;
};

struct Case {
  const char* name;
  uint32_t threads;
  uint64_t log_bytes;  // the smaller, the more ranges are replaced
};

class Groups : public ::testing::TestWithParam<Case> {};

TEST_P(Groups, OfEqualKeysEndInTheOrderOfTheCalls) {
  const Case& what = GetParam();
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const uint64_t calls = budget<uint64_t>(120'000, 800'000, 12'000'000) / kSlower / what.threads;
  const ScratchFolder folder;
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{64} << 20;
  options.log_bytes = what.log_bytes;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options, folder.file("pool"), &db).ok());
  std::atomic<uint64_t> judged{0};
  std::vector<std::string> wrong(what.threads);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < what.threads; ++t) {
    threads.emplace_back([&, t] {
      Writer writer(db.get(), t, what.threads, seed + t);
      wrong[t] = writer.run(calls);
      judged += writer.judged();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : wrong) EXPECT_EQ(each, "");
  const Stats stats = db->GetStats();
  std::printf("%llu calls, %llu offloads, %llu replacements by writers\n", static_cast<unsigned long long>(judged),
              static_cast<unsigned long long>(stats.offloads), static_cast<unsigned long long>(stats.replacements));
  EXPECT_GT(stats.offloads, calls / 1'000);
  add_figure("equal_key_calls", judged);
}

INSTANTIATE_TEST_SUITE_P(, Groups,
                         ::testing::Values(Case{"TwoThreads", 2, 0}, Case{"TwoThreadsSmallLog", 2, uint64_t{1} << 16},
                                           Case{"EightThreads", 8, 0},
                                           Case{"EightThreadsSmallLog", 8, uint64_t{1} << 16}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace bonsai::testing
