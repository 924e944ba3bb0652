// SPDX-License-Identifier: Apache-2.0
// Histogram logs, decoded again by a reader written from the description of the format: every bucket comes back, and
// the reader reports broken logs.
#include "bench/results/hdr_log.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"

namespace bonsai::bench {
namespace {

constexpr HdrInterval kInterval{.what = "bonsai, workload a, read", .start_wall_seconds = 1'000'000.5, .seconds = 2.25};

std::optional<std::string> from_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    size_t present = 0;
    for (size_t j = 0; j < 4; ++j) {
      const size_t digit = kDigits.find(text[i + j]);
      if (digit == std::string::npos && text[i + j] != '=') return std::nullopt;
      present += digit != std::string::npos ? 1 : 0;
      group = group << 6 | static_cast<uint32_t>(digit != std::string::npos ? digit : 0);
    }
    for (size_t j = 0; j + 1 < present; ++j) bytes += static_cast<char>(group >> (16 - 8 * j));
  }
  return bytes;
}

// Reads numbers off the front of bytes.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t big_endian(size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) value = value << 8 | byte();
    return value;
  }
  int64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint64_t next = byte();
      if (shift == 56) {  // the ninth byte
        value |= next << shift;
        break;
      }
      value |= (next & 0x7f) << shift;
      if (next < 0x80) break;
    }
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::string rest() const { return bytes_.substr(at_); }

 private:
  uint64_t byte() {
    if (at_end()) failed_ = true;
    return failed_ ? 0 : static_cast<uint8_t>(bytes_[at_++]);
  }

  std::string bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

// The last value of an HdrHistogram's bucket, with three significant digits and 1 as the lowest value: 2,048 places of
// one, then 1,024 each of two, four and so on.
uint64_t last_value(uint64_t place) {
  if (place < 2048) return place;
  const uint64_t turn = (place - 2048) / 1024 + 1, within = (place - 2048) % 1024 + 1024;
  return ((within + 1) << turn) - 1;
}

// {last value of the bucket: samples}; nothing when the text is no such histogram.
std::optional<std::map<uint64_t, uint64_t>> decoded(const std::string& text) {
  const std::optional<std::string> packed = from_base64(text);
  if (!packed) return std::nullopt;
  Reader outer(*packed);
  if (outer.big_endian(4) != 0x1c849314) return std::nullopt;
  const uint64_t bytes = outer.big_endian(4);
  if (bytes != outer.rest().size()) return std::nullopt;
  std::string plain(size_t{1} << 20, '\0');
  uLongf plain_bytes = plain.size();
  const std::string body = outer.rest();
  if (uncompress(reinterpret_cast<Bytef*>(plain.data()), &plain_bytes, reinterpret_cast<const Bytef*>(body.data()),
                 body.size()) != Z_OK) {
    return std::nullopt;
  }
  Reader inner(plain.substr(0, plain_bytes));
  if (inner.big_endian(4) != 0x1c849313) return std::nullopt;
  const uint64_t payload = inner.big_endian(4);
  EXPECT_EQ(inner.big_endian(4), 0U) << "normalizing index offset";
  EXPECT_EQ(inner.big_endian(4), 3U) << "significant digits";
  EXPECT_EQ(inner.big_endian(8), 1U) << "lowest value";
  EXPECT_EQ(inner.big_endian(8), Histogram::kNanosecondsMax);
  EXPECT_EQ(std::bit_cast<double>(inner.big_endian(8)), 1.0) << "ratio";
  EXPECT_EQ(inner.rest().size(), payload);
  std::map<uint64_t, uint64_t> counts;
  uint64_t place = 0;
  while (!inner.at_end()) {
    const int64_t number = inner.varint();
    if (inner.failed()) return std::nullopt;
    if (number > 0) counts[last_value(place)] = static_cast<uint64_t>(number);
    place += number < 0 ? static_cast<uint64_t>(-number) : 1;
  }
  return counts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string packed_of(const Histogram& histogram) {
  const std::string last = lines_of(hdr_log(histogram, kInterval)).back();
  return last.substr(last.rfind(',') + 1);
}

std::map<uint64_t, uint64_t> counts_of(const Histogram& histogram) {
  std::map<uint64_t, uint64_t> counts;
  for (size_t bucket = 0; bucket < histogram.buckets().size(); ++bucket) {
    if (histogram.buckets()[bucket] > 0) counts[Histogram::last_of(bucket)] = histogram.buckets()[bucket];
  }
  return counts;
}

TEST(HdrLog, SaysWhatWhenAndHowLong) {
  Histogram histogram;
  histogram.record(2'500'000);
  const std::vector<std::string> lines = lines_of(hdr_log(histogram, kInterval));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "#[Logging for: bonsai, workload a, read; values in ns]");
  EXPECT_EQ(lines[1], "#[Histogram log format version 1.3]");
  EXPECT_EQ(lines[2], "#[StartTime: 1000000.500 (seconds since epoch)]");
  EXPECT_EQ(lines[3], R"("StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram")");
  EXPECT_EQ(lines[4].rfind("0.000,2.250,2.500,", 0), 0U) << lines[4];
}

TEST(HdrLog, GivesEverySampleBack) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  base::Random random(seed);
  for (const uint64_t samples : {1, 2, 100, 5000}) {
    Histogram histogram;
    for (uint64_t i = 0; i < samples; ++i) {
      histogram.record(random.next() >> (22 + random.below(42)), 1 + random.below(1000));
    }
    const auto counts = decoded(packed_of(histogram));
    ASSERT_TRUE(counts.has_value());
    EXPECT_EQ(*counts, counts_of(histogram)) << samples;
  }
}

// The cases of the encoding: no zeros, one, a run of them; counts of one byte up to nine.
TEST(HdrLog, EncodesEveryShape) {
  const std::vector<std::vector<std::pair<uint64_t, uint64_t>>> shapes = {
      {},
      {{0, 1}},
      {{0, 1}, {1, 1}, {2, 1}},
      {{1, 1}},
      {{0, 1}, {2, 1}},
      {{0, 63}, {3, 64}, {4, 8191}, {5, 8192}},
      {{2047, 7}, {2048, 7}, {2049, 7}, {4096, 7}},
      {{Histogram::kNanosecondsMax, 1}},
      {{UINT64_MAX, 3}},
      {{10, uint64_t{1} << 40}, {20, uint64_t{1} << 55}, {30, (uint64_t{1} << 62) - 1}}};
  for (const auto& shape : shapes) {
    Histogram histogram;
    for (const auto& [ns, samples] : shape) histogram.record(ns, samples);
    const auto counts = decoded(packed_of(histogram));
    ASSERT_TRUE(counts.has_value());
    EXPECT_EQ(*counts, counts_of(histogram));
  }
}

// The buckets are those of an HdrHistogram; the reader computes their bounds independently.
TEST(HdrLog, PlacesAreThoseOfAnHdrHistogram) {
  for (uint64_t place = 0; place < 40'000; ++place) ASSERT_EQ(Histogram::last_of(place), last_value(place)) << place;
}

TEST(HdrLog, AReaderNoticesDamage) {
  Histogram histogram;
  for (uint64_t ns = 1; ns < 100'000; ns += 7) histogram.record(ns);
  const std::string sound = packed_of(histogram);
  ASSERT_TRUE(decoded(sound).has_value());
  for (const size_t at : {size_t{0}, sound.size() / 2}) {
    std::string broken = sound;
    broken[at] = broken[at] == 'A' ? 'B' : 'A';
    const auto counts = decoded(broken);
    EXPECT_TRUE(!counts || *counts != counts_of(histogram)) << at;
  }
  EXPECT_FALSE(decoded(sound.substr(0, sound.size() - 4)).has_value());
  EXPECT_FALSE(decoded("no base64!").has_value());
}

}  // namespace
}  // namespace bonsai::bench
