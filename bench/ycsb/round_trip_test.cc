// SPDX-License-Identifier: Apache-2.0
// Text that is written in one form and read in another, over random cases: keys and values, properties of a workload,
// traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "bench/ycsb/drawer.h"
#include "bench/ycsb/keys.h"
#include "bench/ycsb/properties.h"
#include "bench/ycsb/trace.h"
#include "bench/ycsb/values.h"
#include "bench/ycsb/workload.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

using bonsai::testing::budget;

class RoundTrips : public ::testing::Test {
 protected:
  RoundTrips() { std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed_)); }
  const uint64_t seed_ = base::seed_from_env_or(base::fresh_seed());
  base::Random random_{seed_};
};

std::string key_of(const RecordShape& shape, uint64_t id) {
  std::string room(shape.key_bytes_max() + 1, '#');
  const std::string key(encode_key(shape, id, room.data()));
  EXPECT_LE(key.size(), shape.key_bytes_max());
  EXPECT_EQ(room.back(), '#') << "beyond its room";
  return key;
}

TEST_F(RoundTrips, OfKeys) {
  for (int i = 0; i < budget(2'000, 20'000, 1'000'000); ++i) {
    const uint64_t id = random_.next() >> random_.below(64), other = random_.next() >> random_.below(64);
    const RecordShape words{KeyForm::kFixed8, true, 1, 8};
    const std::string key = key_of(words, id);
    ASSERT_EQ(key.size(), 8U);
    uint64_t back = 0;
    for (const char byte : key) back = back << 8 | static_cast<uint8_t>(byte);
    EXPECT_EQ(back, id);
    EXPECT_EQ(key < key_of(words, other), id < other) << "keys are in order of their ids";
    const RecordShape text{KeyForm::kString, true, static_cast<uint32_t>(1 + random_.below(30)), 8};
    const std::string name = key_of(text, id);
    EXPECT_EQ(name.substr(0, 4), "user");
    EXPECT_EQ(std::stoull(name.substr(4)), id);
    EXPECT_EQ(name.size(), 4 + std::max<size_t>(text.zero_padding, std::to_string(id).size()));
  }
}

TEST_F(RoundTrips, OfValues) {
  for (int i = 0; i < budget(2'000, 20'000, 1'000'000); ++i) {
    const uint64_t id = random_.next();
    const auto stamp = static_cast<uint32_t>(random_.next());
    const size_t bytes = random_.below(200);
    std::string value(bytes, '\0');
    fill_value(id, stamp, value.data(), bytes);
    ASSERT_TRUE(value_is_of(id, value, bytes));
    if (bytes >= 8) {
      EXPECT_EQ(value_stamp(value), stamp);
    }
    EXPECT_FALSE(value_is_of(id, value, bytes + 1));
    EXPECT_FALSE(value_is_of(id, value + "x", bytes));
    if (bytes < 8) continue;
    EXPECT_FALSE(value_is_of(id + 1 + random_.below(1000), value, bytes)) << "another record's";
    std::string wrong = value;
    wrong[random_.below(4)] ^= 1;
    EXPECT_FALSE(value_is_of(id, wrong, bytes)) << "its tag is damaged";
    if (bytes < 16) continue;
    fill_value(id, stamp + 1, value.data(), bytes / 16 * 8);
    EXPECT_FALSE(value_is_of(id, value, bytes)) << "mixed of two writes";
  }
}

// A property as a person might type it: with white space, separators, continued lines and escapes.
std::string typed(const std::string& name, const std::string& value, base::Random* random) {
  const char* const before[] = {"", " ", "\t", "  "};
  const char* const separators[] = {"=", ":", " = ", " :", "\t", " "};
  std::string line = before[random->below(4)] + name + separators[random->below(6)];
  for (size_t i = 0; i < value.size(); ++i) {
    if (i > 0 && random->below(8) == 0) line += "\\\n   ";
    line += value[i];
  }
  return line + (random->below(2) == 0 ? "\n" : "\r\n");
}

TEST_F(RoundTrips, OfProperties) {
  const testing::ScratchFolder folder;
  for (int round = 0; round < budget(100, 1'000, 20'000); ++round) {
    std::map<std::string, std::string> wanted;
    std::string text;
    const uint64_t lines = random_.below(20);
    for (uint64_t line = 0; line < lines; ++line) {
      if (random_.below(4) == 0) text += random_.below(2) == 0 ? "# a comment = 1\n" : "\n";
      const std::string name = "name" + std::to_string(random_.below(12));
      std::string value;
      for (uint64_t i = 1 + random_.below(12); i > 0; --i) value += static_cast<char>('0' + random_.below(10));
      wanted[name] = value;
      text += typed(name, value, &random_);
    }
    const std::string path = folder.file("properties");
    std::ofstream(path) << text;
    Properties properties;
    const Status status = properties.read_file(path);
    ASSERT_TRUE(status.ok()) << status.ToString() << "\n" << text;
    for (const auto& [name, value] : wanted) {
      const Property* found = properties.find(name);
      ASSERT_NE(found, nullptr) << name << " in\n" << text;
      EXPECT_EQ(found->value, value) << name << " in\n" << text;
    }
    EXPECT_EQ(properties.find("a"), nullptr) << "of a comment";
  }
}

// The description of a workload, read from its properties: the shares that were written, in any order.
TEST_F(RoundTrips, OfWorkloads) {
  const std::vector<std::pair<const char*, OpKind>> kinds = {{"readproportion", OpKind::kRead},
                                                             {"updateproportion", OpKind::kUpdate},
                                                             {"insertproportion", OpKind::kInsert},
                                                             {"scanproportion", OpKind::kScan},
                                                             {"readmodifywriteproportion", OpKind::kReadModifyWrite}};
  for (int round = 0; round < budget(200, 2'000, 50'000); ++round) {
    Properties properties;
    double left = 1;
    std::map<OpKind, double> shares;
    for (const auto& [name, kind] : kinds) {
      const bool last = kind == kinds.back().second;
      const double share = last ? left : std::min(left, static_cast<double>(random_.below(5)) / 8);
      left -= share;
      shares[kind] = share;
      ASSERT_TRUE(properties.set(std::string(name) + "=" + std::to_string(share), "a test").ok());
    }
    Workload workload;
    std::vector<std::string> notes;
    const Status status = make_workload("mine", properties, &workload, &notes);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (const auto& [kind, share] : shares) EXPECT_DOUBLE_EQ(workload.share(kind), share);
    EXPECT_EQ(workload.writes(), shares[OpKind::kUpdate] + shares[OpKind::kReadModifyWrite] > 0);
    EXPECT_EQ(workload.changes_keys(), shares[OpKind::kInsert] > 0);
    EXPECT_TRUE(notes.empty());
  }
}

// For every distribution and mix, requests have kinds and keys of the workload, and one seed always draws the same
// ones.
TEST_F(RoundTrips, OfRequestsFromTheirSeed) {
  for (const Distribution requests :
       {Distribution::kUniform, Distribution::kZipfian, Distribution::kLatest, Distribution::kHotspot,
        Distribution::kExponential, Distribution::kPlainZipf, Distribution::kSequential}) {
    for (const RecordShape& shape :
         {RecordShape{KeyForm::kFixed8, true, 1, 8}, RecordShape{KeyForm::kString, false, 6, 8}}) {
      Workload workload;
      workload.requests = requests;
      workload.shares = {0.3, 0.2, 0.1, 0.2, 0.1, 0.1};
      workload.scan_length_min = 3;
      workload.scan_length_max = 9;
      const uint64_t records = 1 + random_.below(500), turns = 2'000;
      std::set<uint64_t> loaded;
      for (uint64_t number = 0; number < records; ++number) loaded.insert(shape.id(number));
      const Choosers choosers(workload, records, turns);
      const DrawerPart part{.records = records, .threads = 3, .thread = 1};
      Drawer drawer(workload, shape, part, seed_, choosers), again(workload, shape, part, seed_, choosers);
      Drawer other(workload, shape, part, seed_ + 1, choosers);
      uint64_t inserts = 0, same_as_other = 0;
      for (uint64_t turn = 0; turn < turns; ++turn) {
        const Request request = drawer.next();
        ASSERT_EQ(request, again.next()) << "turn " << turn;
        same_as_other += request == other.next();
        EXPECT_EQ(request.source == KeySource::kNew, request.kind == OpKind::kInsert);
        inserts += request.kind == OpKind::kInsert;
        const bool scans = request.kind == OpKind::kScan;
        EXPECT_TRUE(scans ? request.scan_length >= 3 && request.scan_length <= 9 : request.scan_length == 0);
        if (request.source == KeySource::kReady) {
          EXPECT_TRUE(loaded.contains(request.key)) << "a key that nobody loaded";
        }
        if (request.source == KeySource::kBehindNewest) {
          EXPECT_LT(request.key, records + 3 * (inserts + 1));
        }
        if (request.source == KeySource::kIfInserted) {
          EXPECT_GE(request.key, records);
          EXPECT_LT(request.key, records + 3 * (inserts + 1));
        }
      }
      EXPECT_NEAR(static_cast<double>(inserts), 0.1 * turns, 0.04 * turns);
      EXPECT_LT(same_as_other, turns / 2) << "another seed draws other requests";
    }
  }
}

}  // namespace
}  // namespace bonsai::bench
