// SPDX-License-Identifier: Apache-2.0
// Stores whose data is striped over several targets: on files of this machine, on test media and on other nodes. What
// is asked for and cannot be is refused, and changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "bonsai/db.h"
#include "bonsai/testing.h"
#include "persist/format.h"
#include "store/db_impl.h"
#include "store/testing/island.h"
#include "testing/scratch.h"

namespace bonsai::store {
namespace {

namespace fs = std::filesystem;
using base::kKiB;
using base::kMiB;

struct Kind {
  const char* name;
  TestMedium medium;
  bool remote;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

std::string key_at(uint64_t i) { return "key " + std::to_string(1'000'000 + i * 7919 % 100'003); }

Options striped(uint64_t unit_bytes = 4096, LayoutChoice layout = LayoutChoice::kSoftware) {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = 4 * kMiB;
  options.layout = layout;
  options.stripe_unit_bytes = unit_bytes;
  options.stall_ms_max = 2'000;
  return options;
}

class Striped : public ::testing::Test {
 protected:
  [[nodiscard]] Status open(const std::string& path, const Options& options, TestMedium medium = TestMedium::kNone) {
    db_.reset();
    TestOptions test;
    test.medium = medium;
    return OpenForTest(options, test, path, &db_);
  }
  // The pool's targets, on files or on the node.
  [[nodiscard]] std::string pool(size_t targets, bool remote = false) {
    if (!remote) return scratch_.pool(targets);
    std::string path;
    for (size_t i = 0; i < targets; ++i) path += (i == 0 ? "" : ",") + ("near://node/pool." + std::to_string(i));
    return path;
  }
  // Small and large values, in dnodes and in the log.
  void fill() {
    for (uint64_t i = 0; i < kRecords; ++i) put(key_at(i), std::to_string(i) + std::string(i % 300, 'v'));
    for (uint64_t i = 0; i < 8; ++i) put("large " + std::to_string(i), std::string(30'000 + i * 10'000, 'a' + i));
    ASSERT_EQ("OK", db_->Drain().ToString());
    for (uint64_t i = 0; i < kRecords; i += 3) put(key_at(i), "again " + std::to_string(i));
    for (uint64_t i = 1; i < kRecords; i += 50) {
      ASSERT_TRUE(db_->Delete(key_at(i)).ok());
      model_.erase(key_at(i));
    }
  }
  void put(const std::string& key, const std::string& value) {
    const Status status = db_->Put(key, value);
    ASSERT_TRUE(status.ok()) << status.ToString();
    model_[key] = value;
  }
  void expect_model() {
    std::string value;
    for (const auto& [key, expected] : model_) {
      const Status status = db_->Get(key, &value);
      ASSERT_TRUE(status.ok()) << key << ": " << status.ToString();
      ASSERT_EQ(value, expected) << key;
    }
    auto next = model_.begin();
    const Status scanned = db_->Scan(ScanOptions(), "", [&](std::string_view key, std::string_view found) {
      if (next == model_.end() || key != next->first || found != next->second) return false;
      ++next;
      return true;
    });
    ASSERT_TRUE(scanned.ok()) << scanned.ToString();
    EXPECT_EQ(next, model_.end()) << "a scan has other records than gets";
  }
  static void expect_sound(const std::string& path) {
    CheckReport report;
    ASSERT_EQ("OK", Check(path, &report).ToString()) << path;
    EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
  }
  // Opening fails so, and leaves the files of the pool as they are.
  void expect_refused(const std::string& path, const Options& options, const std::string& says) {
    const auto before = contents();
    const Status status = open(path, options);
    EXPECT_TRUE(status.IsInvalidArgument() || status.IsIoError()) << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << status.ToString();
    EXPECT_TRUE(before == contents()) << path << ", refused for " << says << ", has changed";
  }

  static constexpr uint64_t kRecords = 3'000;
  testing::ScratchFolder scratch_;
  Island near_{"near"};
  std::map<std::string, std::string> model_;
  std::unique_ptr<DB> db_;

 private:
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all = near_.files();
    for (const auto& entry : fs::directory_iterator(fs::path(scratch_.file("x")).parent_path())) {
      std::ifstream file(entry.path(), std::ios::binary);
      all[entry.path()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return all;
  }
};

class StripedStore : public Striped, public ::testing::WithParamInterface<Kind> {};

TEST_P(StripedStore, HoldsWhatWasAcknowledged) {
  const std::string path = pool(3, GetParam().remote);
  for (const bool drained : {false, true}) {
    ASSERT_EQ("OK", open(path, striped(), GetParam().medium).ToString());
    fill();
    expect_model();
    if (drained) {
      ASSERT_EQ("OK", db_->Drain().ToString());
      expect_model();
    }
    ASSERT_EQ("OK", db_->Close().ToString());
    expect_sound(path);
    Options as_it_is;
    ASSERT_EQ("OK", open(path, as_it_is, GetParam().medium).ToString());
    expect_model();
    EXPECT_EQ(db_->GetStats().layout, LayoutChoice::kSoftware);
    EXPECT_EQ(db_->GetStats().stripe_unit_bytes, 4096u);
    ASSERT_EQ("OK", db_->Close().ToString());
  }
}

TEST_P(StripedStore, GrowsAndKeepsItsRecords) {
  const std::string path = pool(3, GetParam().remote);
  ASSERT_EQ("OK", open(path, striped(16 * kKiB), GetParam().medium).ToString());
  fill();
  Options growing;
  growing.grow_bytes = 6 * kMiB;
  const uint64_t before = db_->GetStats().data_bytes;
  ASSERT_EQ("OK", open(path, growing, GetParam().medium).ToString());
  EXPECT_GT(db_->GetStats().data_bytes, before + 5 * kMiB);
  expect_model();
  for (uint64_t i = 0; i < 60; ++i) put("more " + std::to_string(i), std::string(50'000 + i, 'm'));
  expect_model();
  ASSERT_EQ("OK", db_->Close().ToString());
  expect_sound(path);
}

INSTANTIATE_TEST_SUITE_P(Media, StripedStore,
                         ::testing::Values(Kind{"files", TestMedium::kNone, false},
                                           Kind{"shadow", TestMedium::kShadow, false},
                                           Kind{"emulator", TestMedium::kEmulator, false},
                                           Kind{"far", TestMedium::kFar, false}, Kind{"node", TestMedium::kNone, true}),
                         [](const auto& kind) { return kind.param.name; });

// Units of one value are on all targets, and what is addressed as one target's is not all there.
TEST_F(Striped, BytesAreSpreadOverAllTargets) {
  const std::string path = pool(4);
  ASSERT_EQ("OK", open(path, striped()).ToString());
  ASSERT_TRUE(db_->Put("large", std::string(400 * kKiB, 'L')).ok());
  ASSERT_EQ("OK", db_->Close().ToString());
  for (size_t i = 0; i < 4; ++i) {
    std::ifstream file(scratch_.file("pool." + std::to_string(i)), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const auto there = static_cast<uint64_t>(std::count(content.begin(), content.end(), 'L'));
    EXPECT_GE(there, 95 * kKiB) << i;
    EXPECT_LE(there, 105 * kKiB) << i;
  }
}

// Far targets are not mapped, so that units may be smaller than pages.
TEST_F(Striped, UnitsOfAFarPoolMayBeBlocks) {
  const std::string path = pool(3, /*remote=*/true);
  ASSERT_EQ("OK", open(path, striped(kStripeUnitMin)).ToString());
  fill();
  expect_model();
  ASSERT_EQ("OK", open(path, Options()).ToString());
  expect_model();
  ASSERT_EQ("OK", db_->Close().ToString());
}

// The log keeps to its own target, which is outside the ring.
TEST_F(Striped, TargetsHaveRoles) {
  std::string path = scratch_.file("log") + "?role=log";
  for (int i = 0; i < 3; ++i) path += "," + scratch_.file("data" + std::to_string(i)) + "?role=dnodes";
  ASSERT_EQ("OK", open(path, striped()).ToString());
  fill();
  ASSERT_EQ("OK", open(path, Options()).ToString());
  expect_model();
  ASSERT_EQ("OK", db_->Close().ToString());
}

// A unit of the default size is larger than the data of the smallest pool.
TEST_F(Striped, SmallestPoolAndDefaultUnit) {
  Options options = striped(0);
  options.pool_bytes = kPoolBytesMin;
  const std::string path = pool(2);
  ASSERT_EQ("OK", open(path, options).ToString());
  put("key", "value");
  EXPECT_EQ(db_->GetStats().stripe_unit_bytes, kStripeUnitDefault);
  ASSERT_EQ("OK", open(path, Options()).ToString());
  expect_model();
}

TEST_F(Striped, HardwareIsTheSameBytesHere) {
  const std::string path = pool(2);
  ASSERT_EQ("OK", open(path, striped(4096, LayoutChoice::kHardware)).ToString());
  fill();
  ASSERT_EQ("OK", open(path, Options()).ToString());
  EXPECT_EQ(db_->GetStats().layout, LayoutChoice::kHardware);
  expect_model();
}

TEST_F(Striped, WhatCannotBeStripedIsRefused) {
  for (const uint64_t unit : {1u, 128u, 4097u, 12'288u, 2u << 20}) {
    expect_refused(pool(2), striped(unit), "stripe_unit_bytes");
  }
  Options options = striped();
  options.layout = static_cast<LayoutChoice>(3);
  expect_refused(pool(2), options, "layout");
  expect_refused(pool(1), striped(), "two targets");
  expect_refused(scratch_.file("a") + "?role=log," + scratch_.file("b") + "?role=dnodes", striped(), "two targets");
  expect_refused(pool(2), striped(4096, LayoutChoice::kNone), "give a layout, too");
  expect_refused("near://node/a,near://node/b", striped(4096, LayoutChoice::kHardware), "layout software");
  expect_refused(scratch_.file("a") + ",near://node/b", striped(), "all of this machine");
  const Island other("other");
  expect_refused("near://node/a,other://node/b", striped(), "different ways");
  expect_refused(pool(2), striped(2048), "too small to map");
  options = striped();
  options.pool_bytes = 256 * kMiB;
  expect_refused(pool(2), options, "too small to map");
  options.medium = MediumChoice::kDram;
  options.durability = Durability::kVolatile;
  expect_refused(pool(2), options, "DRAM");
}

TEST_F(Striped, APoolHasOneLayout) {
  const std::string path = pool(2), plain = scratch_.pool(2, "plain");
  ASSERT_EQ("OK", open(path, striped()).ToString());
  ASSERT_EQ("OK", open(plain, striped(0, LayoutChoice::kNone)).ToString());
  db_.reset();
  expect_refused(path, striped(8192), "units of 4096");
  expect_refused(path, striped(0, LayoutChoice::kHardware), "layout=software");
  expect_refused(plain, striped(), "layout=none");
  expect_refused(scratch_.file("pool.0") + "," + scratch_.file("plain.1"), Options(), "another pool");
  expect_refused(scratch_.file("pool.1") + "," + scratch_.file("pool.0"), Options(), "order");
  expect_refused(scratch_.file("pool.0"), Options(), "one of 2 targets");
  EXPECT_EQ("OK", open(path, striped()).ToString());
}

// Growth keeps to the size that all targets have, as creation does.
TEST_F(Striped, TheSmallestTargetCounts) {
  const std::string path = pool(3);
  ASSERT_EQ("OK", open(path, striped()).ToString());
  fill();
  db_.reset();
  fs::resize_file(scratch_.file("pool.1"), 16 * kMiB);
  ASSERT_EQ("OK", open(path, Options()).ToString());
  EXPECT_EQ(db_->GetStats().pool_bytes, 12 * kMiB);
  Options growing;
  growing.grow_bytes = 6 * kMiB;
  ASSERT_EQ("OK", open(path, growing).ToString());
  EXPECT_EQ(db_->GetStats().pool_bytes, 18 * kMiB);
  expect_model();
}

}  // namespace
}  // namespace bonsai::store
