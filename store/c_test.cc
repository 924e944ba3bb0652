// SPDX-License-Identifier: Apache-2.0
// Corners of the C interface: error texts, NULLs, sizes, option setters, exceptions, tables of names.
// The ordinary uses are in c_api_test.c.
#include "bonsai/c.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "bonsai/stats_fields.h"
#include "store/c_types.h"
#include "store/testing/message.h"

namespace bonsai {
namespace {

using testing::Message;

class CInterface : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = bonsai_options_create();
    bonsai_options_set_create_if_missing(options_, 1);
    bonsai_options_set_pool_bytes(options_, uint64_t{64} << 20);
  }
  void TearDown() override {
    EXPECT_EQ(bonsai_close(db_, nullptr), BONSAI_OK);
    bonsai_options_destroy(options_);
  }
  [[nodiscard]] std::string path() const { return folder_.file("pool"); }
  int open(char** errptr) { return bonsai_open(options_, path().c_str(), &db_, errptr); }
  void must_open() {
    Message message;
    ASSERT_EQ(open(message.slot()), BONSAI_OK) << message.text();
  }
  int put(std::string_view key, std::string_view value, char** errptr = nullptr) {
    return bonsai_put(db_, key.data(), key.size(), value.data(), value.size(), errptr);
  }

  bonsai::testing::TempFolder folder_;
  bonsai_options_t* options_ = nullptr;
  bonsai_t* db_ = nullptr;
};

TEST_F(CInterface, FailureReplacesTheOldMessageAndSuccessLeavesIt) {
  must_open();
  Message message;
  EXPECT_EQ(put("", "v", message.slot()), BONSAI_INVALID_ARGUMENT);
  const std::string first = message.text();
  EXPECT_EQ(first.rfind("invalid argument: ", 0), 0u) << first;
  EXPECT_EQ(put("k", "v", message.slot()), BONSAI_OK);
  EXPECT_EQ(message.text(), first);
  EXPECT_EQ(put(std::string(1025, 'k'), "v", message.slot()), BONSAI_INVALID_ARGUMENT);
  EXPECT_NE(message.text(), first);
}

TEST_F(CInterface, NotFoundIsAnAnswerWithoutMessage) {
  must_open();
  Message message;
  char* value = nullptr;
  size_t bytes = 7;
  EXPECT_EQ(bonsai_get(db_, nullptr, "k", 1, &value, &bytes, message.slot()), BONSAI_NOT_FOUND);
  EXPECT_EQ(value, nullptr);
  EXPECT_EQ(bytes, 0u);
  EXPECT_FALSE(message.is_set());
}

TEST_F(CInterface, NullWithALengthIsRefusedAndNullWithoutIsEmpty) {
  must_open();
  Message message;
  EXPECT_EQ(bonsai_put(db_, nullptr, 3, "v", 1, message.slot()), BONSAI_INVALID_ARGUMENT);
  EXPECT_NE(message.text().find("NULL"), std::string::npos);
  EXPECT_EQ(bonsai_put(db_, "k", 1, nullptr, 3, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_put(db_, "k", 1, nullptr, 0, nullptr), BONSAI_OK);
  EXPECT_EQ(bonsai_delete(db_, nullptr, 3, nullptr), BONSAI_INVALID_ARGUMENT);
  bonsai_writebatch_t* batch = bonsai_writebatch_create();
  EXPECT_EQ(bonsai_writebatch_put(batch, nullptr, 1, "", 0, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_writebatch_delete(batch, nullptr, 1, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_writebatch_count(batch), 0u);
  bonsai_writebatch_destroy(batch);

  char* value = nullptr;
  size_t bytes = 7;
  EXPECT_EQ(bonsai_get(db_, nullptr, "k", 1, &value, &bytes, nullptr), BONSAI_OK);
  EXPECT_NE(value, nullptr) << "an empty value is not a missing one";
  EXPECT_EQ(bytes, 0u);
  bonsai_free(value);
}

TEST_F(CInterface, DestroyingNullDoesNothing) {
  bonsai_options_destroy(nullptr);
  bonsai_readoptions_destroy(nullptr);
  bonsai_writebatch_destroy(nullptr);
  bonsai_snapshot_release(nullptr);
  bonsai_iter_destroy(nullptr);
  bonsai_stats_destroy(nullptr);
  bonsai_check_report_destroy(nullptr);
  bonsai_free(nullptr);
  EXPECT_EQ(bonsai_close(nullptr, nullptr), BONSAI_OK);
}

TEST_F(CInterface, KeysAndValuesHoldAnyByte) {
  must_open();
  const std::string key("\0\xff\n", 3), value("\0v\0", 3);
  ASSERT_EQ(put(key, value), BONSAI_OK);
  char* got = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(bonsai_get(db_, nullptr, key.data(), key.size(), &got, &bytes, nullptr), BONSAI_OK);
  EXPECT_EQ(std::string(got, bytes), value);
  EXPECT_EQ(got[bytes], '\0');
  bonsai_free(got);
}

TEST_F(CInterface, GetIntoSaysHowMuchRoomAValueNeeds) {
  must_open();
  const std::string value(3 << 20, 'x');  // above the size up to which a thread keeps its read buffer
  ASSERT_EQ(put("k", value), BONSAI_OK);
  std::vector<char> small(8, '-');
  size_t bytes = 0;
  Message message;
  EXPECT_EQ(bonsai_get_into(db_, nullptr, "k", 1, small.data(), small.size(), &bytes, message.slot()),
            BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, value.size());
  EXPECT_NE(message.text().find("larger buffer"), std::string::npos);
  EXPECT_EQ(std::string(small.begin(), small.end()), "--------");
  std::vector<char> room(bytes);
  EXPECT_EQ(bonsai_get_into(db_, nullptr, "k", 1, room.data(), room.size(), &bytes, nullptr), BONSAI_OK);
  EXPECT_EQ(std::string(room.begin(), room.end()), value);
  ASSERT_EQ(put("e", ""), BONSAI_OK);
  EXPECT_EQ(bonsai_get_into(db_, nullptr, "e", 1, nullptr, 0, &bytes, nullptr), BONSAI_OK);
}

TEST_F(CInterface, MultiGetFillsEveryArrayAlsoWhenOneKeyIsBad) {
  must_open();
  ASSERT_EQ(put("a", "1"), BONSAI_OK);
  const std::string long_key(1025, 'k');
  std::array<const char*, 3> keys = {"a", long_key.data(), "z"};
  std::array<size_t, 3> lengths = {1, long_key.size(), 1};
  std::array<char*, 3> values;
  std::array<size_t, 3> sizes;
  std::array<int, 3> codes;
  Message message;
  EXPECT_EQ(bonsai_multi_get(db_, nullptr, 3, keys.data(), lengths.data(), values.data(), sizes.data(), codes.data(),
                             message.slot()),
            BONSAI_INVALID_ARGUMENT);
  EXPECT_TRUE(message.is_set());
  EXPECT_EQ(codes, (std::array<int, 3>{BONSAI_OK, BONSAI_INVALID_ARGUMENT, BONSAI_NOT_FOUND}));
  EXPECT_EQ(std::string(values[0], sizes[0]), "1");
  EXPECT_EQ(values[1], nullptr);
  EXPECT_EQ(sizes[2], 0u);
  bonsai_free(values[0]);

  keys[1] = nullptr;
  EXPECT_EQ(bonsai_multi_get(db_, nullptr, 3, keys.data(), lengths.data(), values.data(), sizes.data(), codes.data(),
                             nullptr),
            BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(codes, (std::array<int, 3>{BONSAI_INVALID_ARGUMENT, BONSAI_INVALID_ARGUMENT, BONSAI_INVALID_ARGUMENT}));
  EXPECT_EQ(bonsai_multi_get(db_, nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), BONSAI_OK);
}

TEST_F(CInterface, MultiPutFillsEveryCodeAlsoWhenOneKeyIsBad) {
  must_open();
  const std::string long_key(1025, 'k');
  std::array<const char*, 4> keys = {"a", long_key.data(), "z", "a"};
  const std::array<size_t, 4> lengths = {1, long_key.size(), 1, 1};
  const std::array<const char*, 4> values = {"first", "x", "", "second"};
  const std::array<size_t, 4> sizes = {5, 1, 0, 6};
  std::array<int, 4> codes;
  Message message;
  EXPECT_EQ(
      bonsai_multi_put(db_, 4, keys.data(), lengths.data(), values.data(), sizes.data(), codes.data(), message.slot()),
      BONSAI_INVALID_ARGUMENT);
  EXPECT_TRUE(message.is_set());
  EXPECT_EQ(codes, (std::array<int, 4>{BONSAI_OK, BONSAI_INVALID_ARGUMENT, BONSAI_OK, BONSAI_OK}));
  char* value = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(bonsai_get(db_, nullptr, "a", 1, &value, &bytes, nullptr), BONSAI_OK);
  EXPECT_EQ(std::string(value, bytes), "second");
  bonsai_free(value);

  keys[0] = nullptr;
  EXPECT_EQ(bonsai_multi_put(db_, 4, keys.data(), lengths.data(), values.data(), sizes.data(), codes.data(), nullptr),
            BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(codes[3], BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_multi_put(db_, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), BONSAI_OK);
}

struct Seen {
  std::string keys;
  size_t stop_after;
};

unsigned char collect(void* arg, const char* key, size_t key_bytes, const char*, size_t) {
  auto* seen = static_cast<Seen*>(arg);
  seen->keys.append(key, key_bytes);
  return seen->keys.size() < seen->stop_after ? 1 : 0;
}

TEST_F(CInterface, ScanKeepsFromEndLimitAndTheVisitorsWord) {
  must_open();
  for (const char* key : {"a", "b", "c", "d", "e"}) ASSERT_EQ(put(key, "v"), BONSAI_OK);
  const auto scan = [&](std::string_view from, std::string_view end, uint64_t limit, size_t stop_after) {
    Seen seen{"", stop_after};
    EXPECT_EQ(
        bonsai_scan(db_, nullptr, from.data(), from.size(), end.data(), end.size(), limit, collect, &seen, nullptr),
        BONSAI_OK);
    return seen.keys;
  };
  EXPECT_EQ(scan("", "", UINT64_MAX, 99), "abcde");
  EXPECT_EQ(scan("b", "e", UINT64_MAX, 99), "bcd");
  EXPECT_EQ(scan("b", "", 2, 99), "bc");
  EXPECT_EQ(scan("b", "", UINT64_MAX, 3), "bcd");
  EXPECT_EQ(bonsai_scan(db_, nullptr, nullptr, 1, nullptr, 0, 1, collect, nullptr, nullptr), BONSAI_INVALID_ARGUMENT);
  Message message;
  EXPECT_EQ(bonsai_scan(db_, nullptr, nullptr, 0, nullptr, 0, 1, nullptr, nullptr, message.slot()),
            BONSAI_INVALID_ARGUMENT);
  EXPECT_NE(message.text().find("visitor is NULL"), std::string::npos);
}

unsigned char collect_rows(void* arg, const bonsai_rows_t* rows) {
  auto* seen = static_cast<Seen*>(arg);
  for (size_t i = 0; i < rows->count; ++i) {
    seen->keys.append(rows->keys + i * rows->stride_bytes, rows->key_bytes);
    seen->keys.append(rows->values + i * rows->stride_bytes, rows->value_bytes);
  }
  return seen->keys.size() < seen->stop_after ? 1 : 0;
}

TEST_F(CInterface, RowsAreTheRecordsOfAScan) {
  must_open();
  for (const char* key : {"a", "b", "c", "d", "e"}) ASSERT_EQ(put(key, "v"), BONSAI_OK);
  ASSERT_EQ(put("c2", "longer"), BONSAI_OK);
  ASSERT_EQ(put("c3", std::string(100'000, 'x')), BONSAI_OK);  // by itself, as a large value
  const auto scan = [&](std::string_view from, std::string_view end, uint64_t limit, size_t stop_after) {
    Seen seen{"", stop_after};
    EXPECT_EQ(bonsai_scan_rows(db_, nullptr, from.data(), from.size(), end.data(), end.size(), limit, collect_rows,
                               &seen, nullptr),
              BONSAI_OK);
    return seen.keys;
  };
  for (int drained = 0; drained < 2; ++drained) {
    EXPECT_EQ(scan("", "c2", UINT64_MAX, 99), "avbvcv");
    EXPECT_EQ(scan("b", "c3", UINT64_MAX, 99), "bvcvc2longer");
    EXPECT_EQ(scan("b", "", 2, 99), "bvcv");
    EXPECT_EQ(scan("", "", UINT64_MAX, 1).substr(0, 2), "av");
    EXPECT_EQ(scan("c3", "", UINT64_MAX, 999'999), "c3" + std::string(100'000, 'x') + "dvev");
    ASSERT_EQ(bonsai_drain(db_, nullptr), BONSAI_OK);
  }
  EXPECT_EQ(bonsai_scan_rows(db_, nullptr, nullptr, 1, nullptr, 0, 1, collect_rows, nullptr, nullptr),
            BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_scan_rows(db_, nullptr, nullptr, 0, nullptr, 0, 1, nullptr, nullptr, nullptr),
            BONSAI_INVALID_ARGUMENT);
}

TEST_F(CInterface, IteratorSeeksBothWays) {
  must_open();
  for (const char* key : {"a", "c", "e"}) ASSERT_EQ(put(key, "v"), BONSAI_OK);
  std::unique_ptr<bonsai_iterator_t, decltype(&bonsai_iter_destroy)> it(bonsai_iter_create(db_, nullptr),
                                                                        &bonsai_iter_destroy);
  const auto key = [&] {
    size_t bytes = 0;
    return bonsai_iter_valid(it.get()) != 0 ? std::string(bonsai_iter_key(it.get(), &bytes), 1) : std::string("end");
  };
  bonsai_iter_seek_to_first(it.get());
  EXPECT_EQ(key(), "a");
  bonsai_iter_seek(it.get(), "d", 1);
  EXPECT_EQ(key(), "e");
  bonsai_iter_seek_for_prev(it.get(), "d", 1);
  EXPECT_EQ(key(), "c");
  bonsai_iter_next(it.get());
  EXPECT_EQ(key(), "e");
  bonsai_iter_next(it.get());
  EXPECT_EQ(key(), "end");
}

TEST_F(CInterface, UnknownOptionValuesAreRefusedAtOpenAndMakeNoFile) {
  const std::vector<std::pair<void (*)(bonsai_options_t*, int), std::string>> setters = {
      {bonsai_options_set_key_format, "key format"},
      {bonsai_options_set_medium, "medium"},
      {bonsai_options_set_layout, "layout"},
      {bonsai_options_set_persistence_domain, "persistence domain"},
      {bonsai_options_set_durability, "durability"}};
  for (const auto& [set, name] : setters) {
    for (const int value : {-1, 77}) {
      bonsai_options_t* options = bonsai_options_create();
      bonsai_options_set_create_if_missing(options, 1);
      set(options, value);
      Message message;
      bonsai_t* db = nullptr;
      EXPECT_EQ(bonsai_open(options, path().c_str(), &db, message.slot()), BONSAI_INVALID_ARGUMENT);
      EXPECT_NE(message.text().find(name + " " + std::to_string(value)), std::string::npos) << message.text();
      EXPECT_EQ(db, nullptr);
      EXPECT_FALSE(std::filesystem::exists(path()));
      bonsai_options_destroy(options);
    }
  }
}

TEST_F(CInterface, SettersReachTheOptions) {
  bonsai_options_set_error_if_exists(options_, 1);
  bonsai_options_set_key_format(options_, BONSAI_KEY_FIXED8);
  bonsai_options_set_any_key_format(options_, 1);
  bonsai_options_set_log_bytes(options_, 12345);
  bonsai_options_set_layout(options_, BONSAI_LAYOUT_SOFTWARE);
  bonsai_options_set_stripe_unit_bytes(options_, 8192);
  bonsai_options_set_medium(options_, BONSAI_MEDIUM_DRAM);
  bonsai_options_set_persistence_domain(options_, BONSAI_PERSISTENCE_DOMAIN_EADR);
  bonsai_options_set_durability(options_, BONSAI_VOLATILE);
  bonsai_options_set_buffered_window_ms(options_, 11);
  bonsai_options_set_background_threads(options_, 12);
  bonsai_options_set_stall_ms_max(options_, 13);
  bonsai_options_set_recovery_threads(options_, 2);
  bonsai_options_set_grow_bytes(options_, 1 << 16);
  bonsai_options_set_snapshots_max(options_, 14);
  bonsai_options_set_metadata_upload(options_, 0);
  bonsai_options_set_fabric_secret_file(options_, "a secret");
  bonsai_options_set_fabric_wait_ms_max(options_, 15);
  bonsai_options_set_fabric_workers(options_, 16);
  bonsai_options_set_take_over(options_, 1);
  bonsai_options_set_read_only(options_, 1);
  std::string logged;
  bonsai_options_set_log_sink(
      options_,
      [](void* arg, char severity, const char* message, size_t bytes) {
        *static_cast<std::string*>(arg) = severity + std::string(message, bytes);
      },
      &logged);
  const Options& set = options_->options;
  EXPECT_TRUE(set.create_if_missing && set.error_if_exists && set.any_key_format);
  EXPECT_FALSE(set.metadata_upload);
  EXPECT_EQ(set.key_format, KeyFormat::kFixed8);
  EXPECT_EQ(set.medium, MediumChoice::kDram);
  EXPECT_EQ(set.persistence_domain, PersistenceDomain::kEadr);
  EXPECT_EQ(set.durability, Durability::kVolatile);
  EXPECT_EQ(set.pool_bytes, uint64_t{64} << 20);
  EXPECT_EQ(set.log_bytes, 12345u);
  EXPECT_EQ(set.layout, LayoutChoice::kSoftware);
  EXPECT_EQ(set.stripe_unit_bytes, 8192u);
  EXPECT_EQ(set.fabric_secret_file, "a secret");
  EXPECT_EQ(set.fabric_wait_ms_max, 15u);
  EXPECT_EQ(set.fabric_workers, 16u);
  EXPECT_TRUE(set.take_over && set.read_only);
  bonsai_options_set_fabric_secret_file(options_, nullptr);
  EXPECT_EQ(set.fabric_secret_file, "");
  EXPECT_EQ(set.buffered_window_ms, 11u);
  EXPECT_EQ(set.background_threads, 12u);
  EXPECT_EQ(set.stall_ms_max, 13u);
  EXPECT_EQ(set.recovery_threads, 2u);
  EXPECT_EQ(set.grow_bytes, 1u << 16);
  EXPECT_EQ(set.snapshots_max, 14u);
  set.log_sink('W', "slow");
  EXPECT_EQ(logged, "Wslow");
  bonsai_options_set_log_sink(options_, nullptr, nullptr);
  EXPECT_FALSE(set.log_sink);
}

TEST_F(CInterface, NullPathsAreRefused) {
  Message message;
  bonsai_check_report_t* report = nullptr;
  char* text = nullptr;
  EXPECT_EQ(bonsai_open(options_, nullptr, &db_, message.slot()), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_check(nullptr, nullptr, nullptr, &report, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_describe_medium(nullptr, &text, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_describe_pool_groups(nullptr, &text, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(report, nullptr);
  EXPECT_EQ(text, nullptr);
}

TEST_F(CInterface, CheckReportsProgressAndMissingPools) {
  must_open();
  ASSERT_EQ(bonsai_close(db_, nullptr), BONSAI_OK);
  db_ = nullptr;
  double done = -1;
  bonsai_check_report_t* report = nullptr;
  const auto progress = [](void* arg, double share) { *static_cast<double*>(arg) = share; };
  ASSERT_EQ(bonsai_check(path().c_str(), progress, &done, &report, nullptr), BONSAI_OK);
  EXPECT_GE(done, 0.0);
  EXPECT_LE(done, 1.0);
  uint64_t count = 0;
  EXPECT_EQ(bonsai_check_report_find(report, "records", &count), BONSAI_OK);
  EXPECT_EQ(count, 0u);
  done = -1;
  bonsai_options_set_open_progress(options_, progress, &done);
  must_open();
  EXPECT_EQ(done, 1.0);
  bonsai_options_set_open_progress(options_, nullptr, nullptr);
  EXPECT_EQ(bonsai_check_report_find(report, "nonsense", &count), BONSAI_NOT_FOUND);
  EXPECT_EQ(bonsai_check_report_find(report, nullptr, &count), BONSAI_NOT_FOUND);
  bonsai_check_report_destroy(report);
  Message message;
  EXPECT_NE(bonsai_check(folder_.file("none").c_str(), nullptr, nullptr, &report, message.slot()), BONSAI_OK);
  EXPECT_EQ(report, nullptr);
  EXPECT_TRUE(message.is_set());
}

TEST_F(CInterface, CheckpointAndSalvageMakePools) {
  must_open();
  ASSERT_EQ(bonsai_put(db_, "k", 1, "v", 1, nullptr), BONSAI_OK);
  bonsai_snapshot_t* snapshot = nullptr;
  ASSERT_EQ(bonsai_snapshot_create(db_, &snapshot, nullptr), BONSAI_OK);
  ASSERT_EQ(bonsai_put(db_, "later", 5, "v", 1, nullptr), BONSAI_OK);
  bonsai_options_set_pool_bytes(options_, 1 << 20);
  uint64_t records = 0;
  const std::string copy = folder_.file("copy"), saved = folder_.file("saved");
  EXPECT_EQ(bonsai_checkpoint(db_, options_, copy.c_str(), snapshot, &records, nullptr), BONSAI_OK);
  EXPECT_EQ(records, 1u);
  EXPECT_EQ(bonsai_checkpoint(db_, options_, copy.c_str(), nullptr, nullptr, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_checkpoint(db_, options_, nullptr, nullptr, nullptr, nullptr), BONSAI_INVALID_ARGUMENT);
  bonsai_snapshot_release(snapshot);
  bonsai_check_report_t* report = nullptr;
  double done = -1;
  const auto progress = [](void* arg, double share) { *static_cast<double*>(arg) = share; };
  ASSERT_EQ(bonsai_salvage(copy.c_str(), options_, saved.c_str(), progress, &done, &report, nullptr), BONSAI_OK);
  EXPECT_EQ(done, 1.0);
  EXPECT_EQ(bonsai_check_report_damages(report), 0u);
  EXPECT_EQ(bonsai_check_report_find(report, "records", &records), BONSAI_OK);
  EXPECT_EQ(records, 1u);
  bonsai_check_report_destroy(report);
  EXPECT_EQ(bonsai_salvage(nullptr, options_, saved.c_str(), nullptr, nullptr, &report, nullptr),
            BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_salvage(path().c_str(), options_, saved.c_str(), nullptr, nullptr, &report, nullptr), BONSAI_BUSY);
  EXPECT_EQ(report, nullptr);
}

TEST(CDamageTexts, LiveInTheReportAndEndInNull) {
  bonsai_check_report_t report;
  report.report.damages.push_back({"dnode 7", "checksum", "[a, b)"});
  EXPECT_EQ(bonsai_check_report_damages(&report), 1u);
  EXPECT_STREQ(bonsai_check_report_where(&report, 0), "dnode 7");
  EXPECT_STREQ(bonsai_check_report_what(&report, 0), "checksum");
  EXPECT_STREQ(bonsai_check_report_key_range(&report, 0), "[a, b)");
  EXPECT_EQ(bonsai_check_report_key_range(&report, 1), nullptr);
}

TEST(CGuard, TurnsExceptionsIntoCodes) {
  Message message;
  EXPECT_EQ(c::guarded(message.slot(), []() -> Status { throw std::bad_alloc(); }), BONSAI_NO_SPACE);
  EXPECT_NE(message.text().find("out of memory"), std::string::npos);
  EXPECT_EQ(c::guarded(message.slot(), []() -> Status { throw std::length_error("x"); }), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(c::guarded(nullptr, [] { return Status::Busy("x"); }), BONSAI_BUSY);
}

TEST(CFixed8, EncodesInNumericOrder) {
  const std::vector<uint64_t> numbers = {0, 1, 255, 256, 1ull << 32, (1ull << 63) - 1, 1ull << 63, UINT64_MAX};
  std::string previous;
  for (const uint64_t number : numbers) {
    std::string key(8, '?');
    bonsai_fixed8_encode(number, key.data());
    EXPECT_EQ(bonsai_fixed8_decode(key.data()), number);
    EXPECT_LT(previous, key);
    previous = key;
  }
}

TEST(StatsFields, NameEveryCounterOnce) {
  std::set<std::string_view> names;
  for (const StatsField& field : kStatsFields) EXPECT_TRUE(names.insert(field.name).second) << field.name;
  // Stats is a string, a bool, a key format, a layout and otherwise 8-byte counters.
  constexpr size_t kOthers = sizeof(std::string) + 2 * sizeof(uint64_t);
  static_assert(sizeof(Stats) == kOthers + std::size(kStatsFields) * sizeof(uint64_t),
                "a counter was added to Stats: add it to kStatsFields too");
  Stats stats;
  uint64_t next = 1;
  for (const StatsField& field : kStatsFields) stats.*field.member = next++;
  next = 1;
  for (const StatsField& field : kStatsFields) EXPECT_EQ(stats.*field.member, next++) << "two names, one member";
}

TEST(StatsFields, ReachCByNameAndIndex) {
  bonsai_stats_t stats;
  stats.stats.dnodes = 42;
  uint64_t value = 0;
  EXPECT_EQ(bonsai_stats_find(&stats, "dnodes", &value), BONSAI_OK);
  EXPECT_EQ(value, 42u);
  size_t seen = 0;
  for (size_t i = 0; i < bonsai_stats_count(&stats); ++i) {
    if (std::string_view(bonsai_stats_name(&stats, i)) == "dnodes") seen += bonsai_stats_value(&stats, i);
  }
  EXPECT_EQ(seen, 42u);
  EXPECT_EQ(bonsai_stats_value(&stats, 1000), 0u);
}

// Each read of a session sees the updates of its key that were begun before it, and none after it.
TEST_F(CInterface, SessionKeepsTheOrderOfAKey) {
  must_open();
  bonsai_session_t* session = nullptr;
  ASSERT_EQ(bonsai_session_create(db_, 8, &session, nullptr), BONSAI_OK);
  std::array<std::array<char, 1>, 3> got{};
  std::array<bonsai_result_t, 8> results;
  std::string scanned;
  const auto visit = [](void* arg, const char*, size_t, const char* value, size_t value_bytes) -> unsigned char {
    static_cast<std::string*>(arg)->append(value, value_bytes);
    return 1;
  };
  bonsai_session_get(session, "k", 1, got[0].data(), 1, &results[0]);
  bonsai_session_put(session, "k", 1, "1", 1, &results[1]);
  bonsai_session_get(session, "k", 1, got[1].data(), 1, &results[2]);
  bonsai_session_scan(session, nullptr, "", 0, "", 0, 10, visit, &scanned, &results[3]);
  bonsai_session_put(session, "k", 1, "2", 1, &results[4]);
  bonsai_session_get(session, "k", 1, got[2].data(), 1, &results[5]);
  bonsai_session_delete(session, "k", 1, &results[6]);
  bonsai_session_get(session, "k", 1, got[0].data(), 1, &results[7]);
  EXPECT_EQ(bonsai_session_wait(session, nullptr), BONSAI_OK);
  EXPECT_EQ(results[0].code, BONSAI_NOT_FOUND);
  EXPECT_EQ(got[1][0], '1');
  EXPECT_EQ(scanned, "1");
  EXPECT_EQ(got[2][0], '2');
  EXPECT_EQ(results[7].code, BONSAI_NOT_FOUND);
  bonsai_session_destroy(session);
}

// NULL with a length, or an array with a count, is a refusal wherever bytes or arrays are taken, and changes nothing.
TEST_F(CInterface, NullWithALengthIsInvalidEverywhere) {
  must_open();
  ASSERT_EQ(put("k", "v"), BONSAI_OK);
  bonsai_iterator_t* it = bonsai_iter_create(db_, nullptr);
  for (const auto seek :
       {&bonsai_iter_seek, &bonsai_iter_seek_for_prev, &bonsai_iter_seek_after, &bonsai_iter_seek_before}) {
    bonsai_iter_seek_to_first(it);
    EXPECT_EQ(bonsai_iter_valid(it), 1);
    seek(it, nullptr, 5);
    EXPECT_EQ(bonsai_iter_valid(it), 0);
    Message message;
    EXPECT_EQ(bonsai_iter_status(it, message.slot()), BONSAI_INVALID_ARGUMENT);
    EXPECT_TRUE(message.is_set());
    seek(it, nullptr, 0);
    EXPECT_EQ(bonsai_iter_status(it, nullptr), BONSAI_OK);
  }
  bonsai_iter_destroy(it);
  size_t bytes = 0;
  EXPECT_EQ(bonsai_get_into(db_, nullptr, "k", 1, nullptr, 5, &bytes, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_get_into(db_, nullptr, "k", 1, nullptr, 0, &bytes, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, 1U) << "no room, and how much is needed";
  const char* keys[] = {"k"};
  size_t sizes[] = {1};
  char* values[] = {nullptr};
  int codes[] = {-1};
  EXPECT_EQ(bonsai_multi_get(db_, nullptr, 1, nullptr, sizes, values, sizes, codes, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_multi_get(db_, nullptr, 1, keys, nullptr, values, sizes, codes, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_multi_get(db_, nullptr, 1, keys, sizes, values, sizes, nullptr, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_multi_get(db_, nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), BONSAI_OK);
  EXPECT_EQ(bonsai_multi_put(db_, 1, keys, sizes, nullptr, sizes, codes, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_multi_put(db_, 1, keys, sizes, keys, sizes, nullptr, nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(bonsai_multi_put(db_, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), BONSAI_OK);
}

}  // namespace
}  // namespace bonsai
