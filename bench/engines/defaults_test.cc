// SPDX-License-Identifier: Apache-2.0
// Properties on which the harness relies for every engine of this build: the defaults of engine.h, and that an engine
// does what it declares.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/engines/bonsai.h"
#include "bench/engines/engine.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

// Records the calls, and answers as it is set to.
class Listening final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override { return Status::OK(); }
  Status insert(std::string_view key, std::string_view value) override {
    return note("insert " + std::string(key) + "=" + std::string(value));
  }
  Status read(std::string_view key, std::string* value) override {
    *value = "old " + std::string(key);
    return key == "absent" ? Status::NotFound() : note("read " + std::string(key));
  }
  Status remove(std::string_view key) override { return note("remove " + std::string(key)); }

  std::vector<std::string> calls_;
  std::string refuses_;  // the call that fails

 private:
  Status note(const std::string& call) {
    calls_.push_back(call);
    return call == refuses_ ? Status::NoSpace("full") : Status::OK();
  }
};

// The two variants that experiments compare: a store that was drained, and a store whose user never calls Drain.
TEST(BonsaiEngine, SettlesAsItsVariantSays) {
  for (const bool drains : {true, false}) {
    const auto engine = make_bonsai_engine(
        {.change = [](StoreOptions* options) { options->background_threads = 0; }, .drains = drains});
    EngineOptions options;
    options.records_max = 1000;
    ASSERT_TRUE(engine->open(options).ok());
    ASSERT_TRUE(engine->insert("eightkey", "a value").ok());
    ASSERT_TRUE(engine->settle().ok());
    std::string value;
    ASSERT_TRUE(engine->read("eightkey", &value).ok());
    EXPECT_EQ(engine->nvm()->gets, 1U);
    EXPECT_EQ(engine->nvm()->gets_answered, drains ? 1U : 0U) << "by its dnode, or from the buffer of updates";
    ASSERT_TRUE(engine->close().ok());
  }
}

TEST(BonsaiEngine, WaitsAsLongAsItIsTold) {
  static StoreOptions opened;
  for (const uint32_t wait_ms_max : {0U, 77'000U}) {
    const auto engine = make_bonsai_engine({.change = [](StoreOptions* options) { opened = *options; }});
    EngineOptions options;
    options.records_max = 1000;
    options.wait_ms_max = wait_ms_max;
    ASSERT_TRUE(engine->open(options).ok());
    EXPECT_EQ(opened.stall_ms_max, wait_ms_max != 0 ? wait_ms_max : Options().stall_ms_max);
    EXPECT_EQ(opened.fabric_wait_ms_max, wait_ms_max != 0 ? wait_ms_max : Options().fabric_wait_ms_max);
    ASSERT_TRUE(engine->close().ok());
  }
}

TEST(EngineDefaults, ManyAreOneByOneInTheirOrder) {
  Listening engine;
  engine.refuses_ = "insert b=2";
  const std::vector<std::string_view> keys = {"a", "b", "a"}, values = {"1", "2", "3"};
  std::vector<Status> statuses(3);
  engine.write_many(keys, values, statuses);
  EXPECT_EQ(engine.calls_, (std::vector<std::string>{"insert a=1", "insert b=2", "insert a=3"}));
  EXPECT_TRUE(statuses[0].ok() && statuses[2].ok());
  EXPECT_EQ(statuses[1].code(), Status::Code::kNoSpace) << "one that fails takes no other along";
  engine.calls_.clear();
  engine.refuses_ = "read b";
  const std::vector<std::string_view> wanted = {"a", "absent", "b"};
  std::vector<std::string> read(3);
  engine.read_many(wanted, read, statuses);
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_EQ(read[0], "old a");
  EXPECT_TRUE(statuses[1].IsNotFound());
  EXPECT_EQ(statuses[2].code(), Status::Code::kNoSpace);
  engine.write_many({}, {}, {});
  engine.read_many({}, {}, {});
  EXPECT_EQ(engine.calls_.size(), 2U);
}

TEST(EngineDefaults, AnUpdateIsAnInsertAndAChangeReadsFirst) {
  Listening engine;
  std::string old;
  EXPECT_TRUE(engine.update("a", "1").ok());
  EXPECT_TRUE(engine.read_modify_write("b", "2", &old).ok());
  EXPECT_EQ(old, "old b");
  EXPECT_TRUE(engine.read_modify_write("absent", "3", &old).IsNotFound());
  EXPECT_EQ(engine.calls_, (std::vector<std::string>{"insert a=1", "read b", "insert b=2"}))
      << "what is absent is not written";
  engine.refuses_ = "insert c=4";
  EXPECT_EQ(engine.read_modify_write("c", "4", &old).code(), Status::Code::kNoSpace);
}

TEST(EngineDefaults, WithoutAScanAllScansSaySo) {
  Listening engine;
  const auto nothing = [](std::string_view, std::string_view) {
    ADD_FAILURE() << "a record of a scan that there is not";
    return true;
  };
  Status first, second;
  const std::vector<ScanJob> jobs = {{"a", 1, nothing, &first}, {"b", 2, nothing, &second}};
  engine.scan_many(jobs);
  for (const Status& status : {first, second, engine.scan("a", 1, nothing), engine.scan_rows("a", 1, [](const Rows&) {
                                 ADD_FAILURE() << "rows of a scan that there is not";
                                 return true;
                               })}) {
    EXPECT_EQ(status.code(), Status::Code::kNotSupported);
    EXPECT_NE(status.message().find("no ordered scan"), std::string::npos);
  }
  EXPECT_FALSE(engine.memory().dram_bytes || engine.memory().nvm_bytes || engine.nvm() || engine.fabric() ||
               engine.medium())
      << "what an engine does not report is absent";
  EXPECT_TRUE(engine.settle().ok());
}

// ---- every engine

class EachEngine : public ::testing::TestWithParam<std::string> {
 protected:
  EachEngine()
      : engine_(find_engine(GetParam())->make()), can_(engine_->capabilities()), shape_{KeyForm::kFixed8, true, 1, 8} {}
  void open() {
    const Status status = engine_->open(
        {.shape = shape_, .records_max = 5'000, .buffered = false, .pool_dir = "", .out_dir = ::testing::TempDir()});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  ~EachEngine() override { EXPECT_TRUE(engine_->close().ok()); }

  [[nodiscard]] std::string key(uint64_t number) const {
    std::string room(8, '\0');
    return std::string(encode_key(shape_, shape_.id(number), room.data()));
  }
  [[nodiscard]] std::string value(uint64_t number) const {
    std::string made(shape_.value_bytes, '\0');
    fill_value(shape_.id(number), 1, made.data(), made.size());
    return made;
  }

  const std::unique_ptr<Engine> engine_;
  const Capabilities can_;
  const RecordShape shape_;
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const EngineEntry& entry : engine_list()) all.emplace_back(entry.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Engines, EachEngine, ::testing::ValuesIn(names()),
                         [](const auto& engine) { return engine.param; });

TEST_P(EachEngine, MayBeClosedBeforeItIsOpened) {
  EXPECT_TRUE(engine_->close().ok());
  EXPECT_TRUE(engine_->close().ok());
}

TEST_P(EachEngine, AnswersForWhatIsNotThere) {
  open();
  std::string read = "untouched";
  if (can_.keeps_data) {
    EXPECT_TRUE(engine_->read(key(1), &read).IsNotFound());
    EXPECT_TRUE(engine_->read_modify_write(key(1), value(1), &read).IsNotFound());
    EXPECT_TRUE(engine_->read(key(1), &read).IsNotFound()) << "a change of what is absent writes nothing";
  }
  EXPECT_TRUE(engine_->remove(key(1)).ok()) << "a removal of what is absent";
  if (!can_.scan) return;
  unsigned seen = 0;
  EXPECT_TRUE(engine_->scan(key(1), 10, [&](auto, auto) { return ++seen < 10; }).ok());
  EXPECT_EQ(seen, 0U);
}

TEST_P(EachEngine, ScansTheSameInEveryForm) {
  if (!can_.scan || !can_.keeps_data) return;
  open();
  for (uint64_t number = 0; number < 300; ++number) ASSERT_TRUE(engine_->insert(key(number), value(number)).ok());
  ASSERT_TRUE(engine_->settle().ok());
  for (uint64_t number = 0; number < 300; number += 37) {
    for (const uint32_t limit : {0U, 1U, 7U, 1000U}) {
      std::vector<std::string> one_by_one, by_rows, of_many;
      const std::string from = key(number);
      const auto add_to = [](std::vector<std::string>* list) {
        return [list](std::string_view at, std::string_view with) {
          list->push_back(std::string(at) + "=" + std::string(with));
          return true;
        };
      };
      ASSERT_TRUE(engine_->scan(from, limit, add_to(&one_by_one)).ok());
      ASSERT_TRUE(engine_
                      ->scan_rows(from, limit,
                                  [&](const Rows& rows) {
                                    EXPECT_GT(rows.count, 0U);
                                    for (size_t i = 0; i < rows.count; ++i)
                                      add_to (&by_rows)(rows.key(i), rows.value(i));
                                    return true;
                                  })
                      .ok());
      Status status = Status::NotFound();
      const std::vector<ScanJob> jobs = {{from, limit, add_to(&of_many), &status}};
      engine_->scan_many(jobs);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_LE(one_by_one.size(), limit);
      EXPECT_EQ(by_rows, one_by_one);
      EXPECT_EQ(of_many, one_by_one);
    }
  }
}

// An engine that keeps its records when the power fails says on what; one that does not says nothing of it.
TEST_P(EachEngine, ReportsWhatItDeclares) {
  open();
  for (uint64_t number = 0; number < 100; ++number) ASSERT_TRUE(engine_->insert(key(number), value(number)).ok());
  ASSERT_TRUE(engine_->settle().ok());
  EXPECT_EQ(engine_->medium().has_value(), can_.durability) << "the medium";
  if (const auto medium = engine_->medium()) {
    EXPECT_FALSE(medium->text.empty());
  }
  if (const auto nvm = engine_->nvm()) {
    EXPECT_GE(nvm->bytes_stored, 100U * 16);
    EXPECT_GT(nvm->fences, 0U);
    EXPECT_GE(nvm->gets, nvm->gets_answered);
  }
  EXPECT_FALSE(engine_->fabric().has_value()) << "nothing here is on another node";
  EXPECT_FALSE(can_.always_buffered && !can_.durability) << "buffered, but not durable";
  const MemoryUse memory = engine_->memory();
  EXPECT_LE(memory.log_bytes.value_or(0), memory.reserved_bytes.value_or(UINT64_MAX));
}

TEST(EngineList, IsSortedByGroupAndName) {
  std::set<std::string_view> seen;
  const EngineEntry* before = nullptr;
  for (const EngineEntry& entry : engine_list()) {
    EXPECT_TRUE(seen.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.what.empty()) << entry.name;
    EXPECT_EQ(find_engine(entry.name), &entry);
    EXPECT_EQ(entry.name.find_first_of(" ,-/"), std::string_view::npos) << entry.name << " must fit into --engines";
    if (before != nullptr) {
      EXPECT_LE(before->group, entry.group) << entry.name;
      EXPECT_TRUE(before->group != entry.group || before->name < entry.name) << entry.name;
    }
    before = &entry;
  }
}

}  // namespace
}  // namespace bonsai::bench
