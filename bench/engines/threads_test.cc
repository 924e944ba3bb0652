// SPDX-License-Identifier: Apache-2.0
// Engines under several threads at once, each compared with a map. Every thread has records of its own, so that the
// expected result of a read is known; in the end the store holds the records of all threads. An engine that takes one
// thread only runs the same test on one.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "bench/engines/testing/faulty_engine.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

using bonsai::testing::budget;

constexpr unsigned kThreads = 3;
constexpr uint64_t kRecords = 120;  // of each thread
constexpr size_t kMany = 16;
const RecordShape kShape{KeyForm::kFixed8, true, 1, 8};

using Model = std::map<std::string, std::string>;

std::string key_of(uint64_t number) {
  std::string room(kShape.key_bytes_max(), '\0');
  return std::string(encode_key(kShape, kShape.id(number), room.data()));
}

std::string value_of(uint64_t number, uint32_t stamp) {
  std::string value(kShape.value_bytes, '\0');
  fill_value(kShape.id(number), stamp, value.data(), value.size());
  return value;
}

// One thread's work; stops at the first answer that its map does not have.
class Worker {
 public:
  Worker(Engine* engine, unsigned thread, uint64_t seed)
      : engine_(*engine), first_(thread * kRecords), random_(base::splitmix64(seed) + thread) {}

  void run(uint32_t turns) {
    for (uint32_t turn = 1; turn <= turns && wrong_.empty(); ++turn) {
      const uint64_t number = first_ + random_.below(kRecords);
      switch (random_.below(8)) {
        case 0:
          remove(number);
          break;
        case 1:
          read_modify_write(number, turn);
          break;
        case 2:
          read_many();
          break;
        case 3:
          write_many(turn);
          break;
        case 4:
          scan(number);
          break;
        case 5:
          write(number, turn);
          break;
        default:
          read(number);
      }
    }
  }
  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  void expect(bool holds, const char* what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  [[nodiscard]] bool as_known(const std::string& key, const Status& status, const std::string& value) const {
    const auto known = model_.find(key);
    return known == model_.end() ? status.IsNotFound() : status.ok() && value == known->second;
  }

  void write(uint64_t number, uint32_t turn) {
    const std::string key = key_of(number), value = value_of(number, turn);
    const bool known = model_.contains(key);
    expect((known ? engine_.update(key, value) : engine_.insert(key, value)).ok(), "a write failed");
    model_[key] = value;
  }
  void remove(uint64_t number) {
    expect(engine_.remove(key_of(number)).ok(), "a removal failed");
    model_.erase(key_of(number));
  }
  void read(uint64_t number) {
    std::string value;
    const Status status = engine_.read(key_of(number), &value);
    expect(as_known(key_of(number), status, value), "a read");
  }
  void read_modify_write(uint64_t number, uint32_t turn) {
    std::string old;
    const Status status = engine_.read_modify_write(key_of(number), value_of(number, turn), &old);
    expect(as_known(key_of(number), status, old), "a read-modify-write");
    if (status.ok()) model_[key_of(number)] = value_of(number, turn);
  }
  void read_many() {
    std::vector<std::string> keys, values(kMany, "stale");
    for (size_t i = 0; i < kMany; ++i) keys.push_back(key_of(first_ + random_.below(kRecords)));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<Status> statuses(kMany);
    engine_.read_many(views, values, statuses);
    for (size_t i = 0; i < kMany; ++i) expect(as_known(keys[i], statuses[i], values[i]), "one of many reads");
  }
  void write_many(uint32_t turn) {
    std::vector<std::string> keys, values;
    for (size_t i = 0; i < kMany; ++i) {
      const uint64_t number = first_ + random_.below(kRecords);
      keys.push_back(key_of(number));
      values.push_back(value_of(number, turn * kMany + static_cast<uint32_t>(i)));
      model_[keys.back()] = values.back();
    }
    const std::vector<std::string_view> key_views(keys.begin(), keys.end());
    const std::vector<std::string_view> value_views(values.begin(), values.end());
    std::vector<Status> statuses(kMany, Status::NotFound());
    engine_.write_many(key_views, value_views, statuses);
    for (const Status& status : statuses) expect(status.ok(), "one of many writes");
  }
  // The concurrent updates of other threads are unknown. Still, keys rise, values belong to their keys, and this
  // thread's own records between the first and the last key are all there.
  void scan(uint64_t number) {
    if (!engine_.capabilities().scan) return;
    const std::string from = key_of(number);
    std::string last;
    Model mine;
    const Status status = engine_.scan(from, 50, [&](std::string_view key, std::string_view value) {
      expect(last.empty() ? key >= from : key > last, "the order of a scan");
      last = key;
      uint64_t id;
      std::memcpy(&id, key.data(), sizeof id);
      expect(value_is_of(__builtin_bswap64(id), value, kShape.value_bytes), "a scanned value");
      if (model_.contains(last)) mine.emplace(key, value);
      return true;
    });
    expect(status.ok(), "a scan failed");
    if (last.empty() || last < from) return;
    const Model known(model_.lower_bound(from), model_.upper_bound(last));
    expect(mine == known, "the records of a scan");
  }

  Engine& engine_;
  const uint64_t first_;
  base::Random random_;
  Model model_;
  std::string wrong_;
};

// The first fault found; empty: none.
std::string judge(Engine* engine, uint64_t seed, uint32_t turns) {
  const unsigned threads = engine->capabilities().threads ? kThreads : 1;
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned thread = 0; thread < threads; ++thread) {
    workers.push_back(std::make_unique<Worker>(engine, thread, seed));
  }
  {
    std::vector<base::Thread> running;
    for (const auto& worker : workers) running.emplace_back("worker", [&worker, turns] { worker->run(turns); });
  }
  if (!engine->settle().ok()) return "settling failed";
  for (unsigned thread = 0; thread < threads; ++thread) {
    if (!workers[thread]->wrong().empty()) return workers[thread]->wrong();
    for (uint64_t number = thread * kRecords; number < (thread + 1) * kRecords; ++number) {
      std::string value;
      const Status status = engine->read(key_of(number), &value);
      const auto known = workers[thread]->model().find(key_of(number));
      if (known == workers[thread]->model().end() ? !status.IsNotFound() : !status.ok() || value != known->second) {
        return "what was left";
      }
    }
  }
  return {};
}

std::vector<std::string> engines() {
  std::vector<std::string> names;
  for (const EngineEntry& entry : engine_list()) {
    if (entry.make()->capabilities().keeps_data) names.emplace_back(entry.name);
  }
  return names;
}

EngineOptions options() {
  return {.shape = kShape, .records_max = 10'000, .buffered = false, .pool_dir = "", .out_dir = ::testing::TempDir()};
}

class EngineOnThreads : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Engines, EngineOnThreads, ::testing::ValuesIn(engines()),
                         [](const auto& engine) { return engine.param; });

TEST_P(EngineOnThreads, HoldsWhatEachOfThemWrote) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const std::unique_ptr<Engine> engine = find_engine(GetParam())->make();
  for (const bool buffered : {false, true}) {
    EngineOptions each = options();
    each.buffered = buffered;
    const Status opened = engine->open(each);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    for (const bool sessions : {false, true}) {
      engine->use_sessions(sessions);
      for (uint64_t number = 0; sessions && number < kThreads * kRecords; ++number) {
        ASSERT_TRUE(engine->remove(key_of(number)).ok());  // the workers' maps are empty
      }
      EXPECT_EQ(judge(engine.get(), seed, budget<uint32_t>(500, 3000, 50'000)), "") << "BONSAI_SEED=" << seed;
    }
    EXPECT_TRUE(engine->close().ok());
    if (!engine->capabilities().durability) break;
  }
}

TEST(EngineJudge, FindsEachFault) {
  for (const Fault fault : {Fault::kNone, Fault::kLosesKeys, Fault::kMixesValues, Fault::kShortValues,
                            Fault::kKeepsOldValues, Fault::kScanSkips, Fault::kScanBackwards, Fault::kScanTwice,
                            Fault::kRefuses, Fault::kForgetsRemovals, Fault::kManyAreOne}) {
    FaultyEngine engine(fault);
    EXPECT_EQ(judge(&engine, 1, 2000).empty(), fault == Fault::kNone) << "fault " << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace bonsai::bench
