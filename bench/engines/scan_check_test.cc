// SPDX-License-Identifier: Apache-2.0
// The check of scans accepts the results of a sound store, and reports every fault that it names.
#include "bench/engines/scan_check.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace bonsai::bench {
namespace {

using Records = std::vector<std::pair<std::string, std::string>>;

std::string key_of(const RecordShape& shape, uint64_t id) {
  std::array<char, 64> room{};
  return std::string(encode_key(shape, id, room.data()));
}

std::string value_of(const RecordShape& shape, uint64_t id, uint32_t stamp = 7) {
  std::string value(shape.value_bytes, '\0');
  fill_value(id, stamp, value.data(), value.size());
  return value;
}

RecordShape shape_of(KeyForm form, size_t value_bytes = 8) {
  RecordShape shape;
  shape.key_form = form;
  shape.zero_padding = 12;  // else strings do not rise as ids do
  shape.value_bytes = value_bytes;
  return shape;
}

Records sound_records(const RecordShape& shape) {
  Records records;
  for (const uint64_t id : {100, 103, 250, 251, 7'000}) records.emplace_back(key_of(shape, id), value_of(shape, id));
  return records;
}

struct Verdict {
  bool wrong;
  uint64_t count;
  std::string last;
};

Verdict judged(const RecordShape& shape, const Records& records, const std::string& from, bool start_may_miss,
               bool thoroughly) {
  std::string room;
  ScanCheck check(shape, from, start_may_miss, &room);
  for (const auto& [key, value] : records) {
    EXPECT_TRUE(thoroughly ? check.visit_thoroughly(key, value) : check.visit_lightly(key, value));
  }
  return {check.wrong(), check.count(), check.count() == 0 ? "" : std::string(check.last_key())};
}

class ScanCheckOf : public ::testing::TestWithParam<KeyForm> {
 protected:
  const RecordShape shape_ = shape_of(GetParam());
  const Records sound_ = sound_records(shape_);

  [[nodiscard]] bool wrong(const Records& records, bool thoroughly) const {
    return judged(shape_, records, sound_[0].first, false, thoroughly).wrong;
  }
};

TEST_P(ScanCheckOf, AcceptsASoundScan) {
  for (const bool thoroughly : {false, true}) {
    const Verdict verdict = judged(shape_, sound_, sound_[0].first, false, thoroughly);
    EXPECT_FALSE(verdict.wrong);
    EXPECT_EQ(verdict.count, sound_.size());
    EXPECT_EQ(verdict.last, sound_.back().first);
  }
}

TEST_P(ScanCheckOf, AcceptsNothing) { EXPECT_FALSE(judged(shape_, {}, sound_[0].first, false, true).wrong); }

TEST_P(ScanCheckOf, NoticesAScanThatDoesNotBeginAtItsStart) {
  const Records later(sound_.begin() + 1, sound_.end());
  for (const bool thoroughly : {false, true}) EXPECT_TRUE(wrong(later, thoroughly));
}

TEST_P(ScanCheckOf, AStartThatMayMissLetsLaterOnesPassAndNotEarlierOnes) {
  const Records later(sound_.begin() + 1, sound_.end());
  EXPECT_FALSE(judged(shape_, later, sound_[0].first, true, true).wrong);
  EXPECT_TRUE(judged(shape_, sound_, sound_[1].first, true, true).wrong);
}

TEST_P(ScanCheckOf, NoticesKeysThatDoNotRise) {
  Records swapped = sound_;
  std::swap(swapped[2], swapped[3]);
  EXPECT_TRUE(wrong(swapped, true));
  Records twice = sound_;
  twice.insert(twice.begin() + 2, twice[1]);
  EXPECT_TRUE(wrong(twice, true));
}

TEST_P(ScanCheckOf, NoticesAValueOfAnotherSize) {
  for (const bool thoroughly : {false, true}) {
    Records longer = sound_;
    longer[3].second += "x";
    EXPECT_TRUE(wrong(longer, thoroughly));
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ScanCheckOf, ::testing::Values(KeyForm::kFixed8, KeyForm::kString),
                         [](const auto& param_info) { return std::string(key_form_name(param_info.param)); });

TEST(ScanCheck, NoticesAnotherRecordsValue) {
  const RecordShape shape = shape_of(KeyForm::kFixed8);
  Records records = sound_records(shape);
  records[2].second = records[1].second;
  EXPECT_TRUE(judged(shape, records, records[0].first, false, true).wrong);
  EXPECT_FALSE(judged(shape, records, records[0].first, false, false).wrong) << "a light look does not read values";
}

// Rows of fixed-size records side by side, as a scan by rows hands them out.
struct Block {
  explicit Block(const Records& records) {
    for (const auto& [key, value] : records) bytes += key + value;
    const auto key_bytes = static_cast<uint32_t>(records[0].first.size());
    const auto value_bytes = static_cast<uint32_t>(records[0].second.size());
    rows = {bytes.data(), bytes.data() + key_bytes, records.size(), key_bytes + value_bytes, key_bytes, value_bytes};
  }
  std::string bytes;
  Rows rows;
};

bool rows_are_wrong(const RecordShape& shape, const Records& records) {
  std::string room;
  const std::string from = sound_records(shape)[0].first;
  ScanCheck check(shape, from, false, &room);
  const Block block(records);
  check.visit_thoroughly(block.rows);
  EXPECT_EQ(check.count(), records.size());
  EXPECT_EQ(check.last_key(), records.back().first);
  return check.wrong();
}

TEST(ScanCheck, JudgesRowsAsItJudgesRecords) {
  for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
    const RecordShape shape = shape_of(form, 24);
    Records sound = sound_records(shape);
    EXPECT_FALSE(rows_are_wrong(shape, sound));
    Records swapped = sound;
    std::swap(swapped[2], swapped[3]);
    EXPECT_TRUE(rows_are_wrong(shape, swapped));
    EXPECT_TRUE(rows_are_wrong(shape, {sound.begin() + 1, sound.end()}));
  }
  const RecordShape shape = shape_of(KeyForm::kFixed8, 24);
  Records mixed = sound_records(shape);
  mixed[4].second.replace(16, 8, value_of(shape, 7'000, 8).substr(16));  // of two writes
  EXPECT_TRUE(rows_are_wrong(shape, mixed));
}

TEST(Values, NameTheirKeyAndTheirWrite) {
  for (const size_t bytes : {1U, 3U, 4U, 8U, 9U, 16U, 100U}) {
    RecordShape shape = shape_of(KeyForm::kFixed8, bytes);
    const std::string value = value_of(shape, 42, 99);
    EXPECT_TRUE(value_is_of(42, value, bytes)) << bytes;
    EXPECT_FALSE(value_is_of(42, value + "x", bytes)) << bytes;
    EXPECT_TRUE(bytes < 4 || !value_is_of(43, value, bytes)) << bytes;
    EXPECT_TRUE(bytes < 8 || value_stamp(value) == 99U) << bytes;
  }
}

}  // namespace
}  // namespace bonsai::bench
