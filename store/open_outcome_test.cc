// SPDX-License-Identifier: Apache-2.0
// Updates whose outcome is open: a write-back fails under threads that update in every way. Until the pool is opened
// again, reads show the state without these updates. After that each of them is there as a whole or not at all, and a
// power cut changes nothing about it.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "bonsai/c.h"
#include "store/c_types.h"
#include "store/testing/failing_disk.h"

namespace bonsai::testing {
namespace {

constexpr size_t kWriters = 3;
using Held = std::map<std::string, std::string>;
using Unit = std::map<std::string, std::optional<std::string>>;  // no value: deleted

Held held_by(DB* db) {
  Held content;
  const Status status = db->Scan(ScanOptions(), {}, [&](std::string_view key, std::string_view value) {
    content[std::string(key)] = value;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return content;
}

// A thread with keys of its own, which stops at its first update with an open outcome.
class OpenWriter {
 public:
  OpenWriter(size_t number, uint64_t seed) : number_(number), random_(seed) {}

  void run(DB* db) {
    bonsai_t handle{std::unique_ptr<DB>(db)};
    for (int i = 0; i < 400 && open_.empty(); ++i) update(db, &handle);
    static_cast<void>(handle.db.release());
  }

  [[nodiscard]] const Held& acknowledged() const { return acknowledged_; }
  // Whether the open updates are each there or not, and the rest as acknowledged.
  [[nodiscard]] bool allows(const Held& all) const {
    Held expected = acknowledged_;
    for (const Unit& unit : open_) {
      if (holds(all, unit)) apply(unit, &expected);
    }
    Held mine;
    for (const auto& [key, value] : all) {
      if (key[0] == name()[0]) mine[key] = value;
    }
    return mine == expected;
  }

 private:
  [[nodiscard]] std::string name() const { return std::to_string(number_); }
  static bool holds(const Held& all, const Unit& unit) {
    for (const auto& [key, value] : unit) {
      const auto found = all.find(key);
      if (value.has_value() != (found != all.end()) || (value && *value != found->second)) return false;
    }
    return true;
  }
  static void apply(const Unit& unit, Held* content) {
    for (const auto& [key, value] : unit) {
      if (value) {
        (*content)[key] = *value;
      } else {
        content->erase(key);
      }
    }
  }

  void update(DB* db, bonsai_t* handle) {
    const uint64_t what = random_.below(6);
    Unit updates;
    for (uint64_t i = what < 3 ? 1 : 2 + random_.below(5); i > 0; --i) {
      const size_t bytes = random_.chance(1, 20) ? 1100 : 20 + random_.below(60);
      std::string value = std::to_string(++values_);
      value.resize(bytes, 'v');
      std::optional<std::string>& update = updates[name() + "key" + std::to_string(random_.below(60))];
      if (what == 0 || (what > 3 && random_.chance(1, 4))) continue;  // a delete
      update = value;
    }
    if (what == 4) return note(updates, batch(db, updates));
    const std::vector<Status> statuses = carry_out(db, handle, what, updates);
    size_t i = 0;
    for (const auto& [key, value] : updates) note({{key, value}}, statuses[i++]);
  }

  static std::vector<Status> carry_out(DB* db, bonsai_t* handle, uint64_t what, const Unit& updates) {
    const auto& [key, value] = *updates.begin();
    if (what == 0) return {db->Delete(key)};
    if (what == 1) return {db->Put(key, *value)};
    if (what == 2) {
      const int code = bonsai_put(handle, key.data(), key.size(), value->data(), value->size(), nullptr);
      return {code == BONSAI_OK ? Status::OK() : code == BONSAI_NO_SPACE ? Status::NoSpace("C") : Status::IoError("C")};
    }
    std::vector<Status> statuses(updates.size());
    if (what == 3) {
      std::vector<std::string_view> keys, values;
      for (const auto& [each, text] : updates) keys.push_back(each), values.push_back(*text);
      db->MultiPut(keys, values, statuses);
    } else {
      const auto session = db->NewSession(4);
      size_t i = 0;
      for (const auto& [each, text] : updates) {
        text ? session->Put(each, *text, &statuses[i]) : session->Delete(each, &statuses[i]);
        ++i;
      }
      session->Wait();
    }
    return statuses;
  }
  static Status batch(DB* db, const Unit& updates) {
    WriteBatch batch;
    for (const auto& [key, value] : updates) value ? batch.Put(key, *value) : batch.Delete(key);
    return db->Write(batch);
  }

  void note(const Unit& unit, const Status& status) {
    if (status.ok()) return apply(unit, &acknowledged_);
    if (status.IsNoSpace()) return;
    EXPECT_TRUE(status.IsIoError()) << status.ToString();
    open_.push_back(unit);
  }

  const size_t number_;
  base::Random random_;
  uint64_t values_ = 0;
  Held acknowledged_;
  std::vector<Unit> open_;  // of the first call that did not succeed
};

// The contents of the pool when it is opened over `memory`, and once more after a power cut.
Held settled(Disk* disk, const std::vector<std::byte>& memory, const Options& options) {
  std::vector<std::byte> cut;
  Held content;
  {
    disk->reopen();
    const Machine again(disk, memory, options, false);
    EXPECT_TRUE(again.opened().ok()) << again.opened().ToString();
    if (!again.opened().ok()) return {};
    content = held_by(again.db());
    cut = disk->crash();
  }
  Disk after(cut, 1);
  const Machine machine(&after, cut, options, false);
  EXPECT_TRUE(machine.opened().ok()) << machine.opened().ToString();
  if (machine.opened().ok()) {
    EXPECT_EQ(held_by(machine.db()), content) << "a power cut has changed what reopening had settled";
    EXPECT_TRUE(machine.db()->Put("0after", "it works again").ok());
  }
  return content;
}

// False: the life ended before the write-back that was to fail. *late: reopening has brought something back.
bool live_once(Durability durability, uint64_t seed, uint64_t fails_at, bool* late) {
  Disk disk(std::vector<std::byte>(kPoolBytes), seed);
  const Options options = options_of(durability, 2);
  std::vector<OpenWriter> writers;
  for (size_t w = 0; w < kWriters; ++w) writers.emplace_back(w, seed + w);
  std::vector<std::byte> memory;
  Held acknowledged;
  {
    Machine machine(&disk, std::vector<std::byte>(kPoolBytes), options, true);
    EXPECT_TRUE(machine.opened().ok());
    disk.fail_sync(fails_at);
    {
      std::vector<base::Thread> threads;
      for (OpenWriter& writer : writers) threads.emplace_back("writer", [&] { writer.run(machine.db()); });
    }
    if (!disk.has_failed()) return false;
    for (const OpenWriter& writer : writers) {
      acknowledged.insert(writer.acknowledged().begin(), writer.acknowledged().end());
    }
    EXPECT_EQ(held_by(machine.db()), acknowledged) << "until the pool is opened again reads are without open updates";
    EXPECT_TRUE(machine.db()->Close().IsIoError());
    memory = machine.memory();
  }
  const Held content = settled(&disk, memory, options_of(durability, 0));
  *late = content != acknowledged;
  // In mode buffered the last window may be lost.
  for (const OpenWriter& writer : writers) EXPECT_TRUE(durability == Durability::kBuffered || writer.allows(content));
  return true;
}

void fail_everywhere(Durability durability) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const uint64_t lives = budget<uint64_t>(40, 400, 5000);
  uint64_t failed = 0, late = 0;
  for (uint64_t n = 0; n < lives && !::testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("write-back " + std::to_string(1 + n * 7 % 300) + " fails, seed " + std::to_string(seed + n));
    bool came_back = false;
    failed += live_once(durability, seed + n, 1 + n * 7 % 300, &came_back) ? 1 : 0;
    late += came_back ? 1 : 0;
  }
  std::printf("%llu lives, %llu with a failure, in %llu of them reopening settled differently than reads before\n",
              static_cast<unsigned long long>(lives), static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(late));
  EXPECT_GT(failed, lives / 4);
}

TEST(OpenOutcome, IsSettledByReopeningForGood) { fail_everywhere(Durability::kDurable); }
TEST(OpenOutcome, IsSettledByReopeningForGoodInModeBuffered) { fail_everywhere(Durability::kBuffered); }

}  // namespace
}  // namespace bonsai::testing
