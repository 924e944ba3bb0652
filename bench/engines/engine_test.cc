// SPDX-License-Identifier: Apache-2.0
// The contract of engine.h, held against every engine of this build that keeps data.
#include "bench/engines/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

struct Form {
  std::string engine;
  RecordShape shape;
};

std::vector<Form> forms() {
  std::vector<Form> all;
  for (const EngineEntry& entry : engine_list()) {
    if (!entry.make()->capabilities().keeps_data) continue;
    all.push_back({std::string(entry.name), {KeyForm::kFixed8, true, 1, 8}});
    if (entry.make()->capabilities().words_only) continue;
    all.push_back({std::string(entry.name), {KeyForm::kFixed8, true, 1, 100}});
    all.push_back({std::string(entry.name), {KeyForm::kString, true, 20, 100}});
    all.push_back({std::string(entry.name), {KeyForm::kString, true, 1, 0}});
    all.push_back({std::string(entry.name), {KeyForm::kString, false, 8, 1000}});
  }
  return all;
}

std::string name_of(const Form& form) {
  return form.engine + "_" + std::string(key_form_name(form.shape.key_form)) + "_" +
         std::to_string(form.shape.value_bytes);
}

class EngineContract : public ::testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    engine_ = find_engine(GetParam().engine)->make();
    options_ = {.shape = GetParam().shape,
                .records_max = 20'000,
                .buffered = false,
                .pool_dir = "",
                .out_dir = ::testing::TempDir()};
    const Status status = engine_->open(options_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void TearDown() override { EXPECT_TRUE(engine_->close().ok()); }

  std::string key(uint64_t number) const {
    std::string room(options_.shape.key_bytes_max(), '\0');
    return std::string(encode_key(options_.shape, options_.shape.id(number), room.data()));
  }
  std::string value(uint64_t number, uint32_t stamp) const {
    std::string made(options_.shape.value_bytes, '\0');
    fill_value(options_.shape.id(number), stamp, made.data(), made.size());
    return made;
  }

  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(EngineContract, AnswersAsAModelDoes) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  base::Random random(seed);
  std::map<std::string, std::string> model;
  std::string read;
  for (uint32_t turn = 0; turn < 4000; ++turn) {
    const uint64_t number = random.below(300);
    const std::string at = key(number);
    const std::string fresh = value(number, turn);
    const auto known = model.find(at);
    switch (random.below(5)) {
      case 0:
        ASSERT_TRUE(engine_->insert(at, fresh).ok());
        model[at] = fresh;
        break;
      case 1:
        if (known == model.end()) break;
        ASSERT_TRUE(engine_->update(at, fresh).ok());
        known->second = fresh;
        break;
      case 2: {
        const Status status = engine_->read_modify_write(at, fresh, &read);
        ASSERT_EQ(status.IsNotFound(), known == model.end());
        if (known == model.end()) break;
        ASSERT_EQ(read, known->second);
        known->second = fresh;
        break;
      }
      case 3:
        if (random.below(3) != 0) break;
        ASSERT_TRUE(engine_->remove(at).ok());
        model.erase(at);
        break;
      default: {
        const Status status = engine_->read(at, &read);
        ASSERT_EQ(status.IsNotFound(), known == model.end());
        if (known != model.end()) {
          ASSERT_EQ(read, known->second);
        }
      }
    }
    if (turn == 2000) {
      ASSERT_TRUE(engine_->settle().ok());
    }
  }
  if (!engine_->capabilities().scan) return;
  std::map<std::string, std::string> scanned;
  ASSERT_TRUE(engine_
                  ->scan(std::string(key(0).size(), '\1'), 1000,
                         [&](std::string_view k, std::string_view v) {
                           scanned.emplace(k, v);
                           return true;
                         })
                  .ok());
  const std::string lowest(key(0).size(), '\1');
  EXPECT_EQ(scanned, (std::map<std::string, std::string>(model.lower_bound(lowest), model.end())));
}

TEST_P(EngineContract, ScansFromAKeyUpToALimitAndStopsWhenAsked) {
  if (!engine_->capabilities().scan) {
    EXPECT_EQ(engine_->scan(key(0), 1, [](auto, auto) { return true; }).code(), Status::Code::kNotSupported);
    return;
  }
  std::map<std::string, std::string> model;
  for (uint64_t number = 0; number < 500; ++number) {
    model[key(number)] = value(number, 1);
    ASSERT_TRUE(engine_->insert(key(number), value(number, 1)).ok());
  }
  const auto middle = std::next(model.begin(), 250);
  for (const uint32_t limit : {0U, 1U, 100U, 1000U}) {
    auto expected = middle;
    uint32_t seen = 0;
    const Status status = engine_->scan(middle->first, limit, [&](std::string_view k, std::string_view v) {
      EXPECT_EQ(k, expected->first);
      EXPECT_EQ(v, expected->second);
      ++expected;
      ++seen;
      return true;
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(seen, std::min<uint32_t>(limit, 250));
  }
  uint32_t seen = 0;
  ASSERT_TRUE(
      engine_->scan(middle->first, 100, [&seen](std::string_view, std::string_view) { return ++seen < 7; }).ok());
  EXPECT_EQ(seen, 7U);
}

TEST_P(EngineContract, ReadsManyEachForItself) {
  for (uint64_t number = 0; number < 64; number += 2) ASSERT_TRUE(engine_->insert(key(number), value(number, 3)).ok());
  std::vector<std::string> keys;
  for (uint64_t number = 0; number < 64; ++number) keys.push_back(key(number));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<std::string> values(64, "stale");
  std::vector<Status> statuses(64);
  engine_->read_many(views, values, statuses);
  for (uint64_t number = 0; number < 64; ++number) {
    EXPECT_EQ(statuses[number].IsNotFound(), number % 2 == 1) << number;
    if (number % 2 == 0) {
      EXPECT_EQ(values[number], value(number, 3));
    }
  }
}

TEST_P(EngineContract, WritesManyInOrderAndEachForItself) {
  ASSERT_TRUE(engine_->insert(key(5), value(5, 1)).ok());
  std::vector<std::string> keys, contents;
  for (uint64_t i = 0; i < 100; ++i) {  // every key twice
    keys.push_back(key(i / 2));
    contents.push_back(value(i / 2, static_cast<uint32_t>(2 + i % 2)));
  }
  const std::vector<std::string_view> key_views(keys.begin(), keys.end());
  const std::vector<std::string_view> value_views(contents.begin(), contents.end());
  std::vector<Status> statuses(keys.size(), Status::NotFound());
  engine_->write_many(key_views, value_views, statuses);
  for (uint64_t number = 0; number < 50; ++number) {
    EXPECT_TRUE(statuses[2 * number].ok() && statuses[2 * number + 1].ok()) << number;
    std::string read;
    ASSERT_TRUE(engine_->read(key(number), &read).ok()) << number;
    EXPECT_EQ(read, value(number, 3)) << number;
  }
}

TEST_P(EngineContract, OpensEmptyAfterClose) {
  ASSERT_TRUE(engine_->insert(key(1), value(1, 1)).ok());
  ASSERT_TRUE(engine_->close().ok());
  ASSERT_TRUE(engine_->close().ok());
  ASSERT_TRUE(engine_->open(options_).ok());
  std::string read;
  EXPECT_TRUE(engine_->read(key(1), &read).IsNotFound());
}

TEST_P(EngineContract, MemoryGrowsWithRecords) {
  auto used = [this] {
    const MemoryUse memory = engine_->memory();
    return memory.dram_bytes.value_or(0) + memory.nvm_bytes.value_or(0);
  };
  if (!engine_->memory().dram_bytes && !engine_->memory().nvm_bytes) return;  // it does not know: null in the results
  const uint64_t before = used();
  for (uint64_t number = 0; number < 10'000; ++number) {
    ASSERT_TRUE(engine_->insert(key(number), value(number, 1)).ok());
  }
  ASSERT_TRUE(engine_->settle().ok());
  // Files may be compressed (RocksDB's are), memory is not.
  const uint64_t least = engine_->memory().dram_bytes ? 10'000 * (8 + options_.shape.value_bytes) : 0;
  const bool has_room = GetParam().engine == "libcuckoo";  // for 2^18 records from the beginning
  EXPECT_GT(used() - (has_room ? 0 : before), least);
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineContract, ::testing::ValuesIn(forms()),
                         [](const auto& form) { return name_of(form.param); });

// sparsehash's maps mark places by two keys; storing one would break the map, so they are refused.
TEST(SparsehashEngines, RefuseTheKeysThatTheyReserve) {
  for (const char* name : {"dense_hash", "sparse_hash"}) {
    const EngineEntry* entry = find_engine(name);
    if (entry == nullptr) continue;  // not in this build
    const auto engine = entry->make();
    ASSERT_TRUE(engine->open(EngineOptions()).ok());
    for (const uint64_t id : {UINT64_MAX, UINT64_MAX - 1, uint64_t{0}, UINT64_MAX / 2}) {
      const std::string_view key(reinterpret_cast<const char*>(&id), 8);
      const bool reserved = id > UINT64_MAX / 2;
      EXPECT_EQ(engine->insert(key, "12345678").IsInvalidArgument(), reserved) << name;
      std::string value;
      EXPECT_EQ(engine->read(key, &value).IsNotFound(), reserved) << name;
      EXPECT_TRUE(engine->remove(key).ok()) << name;
    }
  }
}

TEST(EngineList, FindsByNameOnly) {
  EXPECT_NE(find_engine("dummy"), nullptr);
  EXPECT_EQ(find_engine("dumm"), nullptr);
  EXPECT_EQ(find_engine(""), nullptr);
  EXPECT_TRUE(find_engine("dummy")->make()->capabilities().scan);
}

}  // namespace
}  // namespace bonsai::bench
