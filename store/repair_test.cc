// SPDX-License-Identifier: Apache-2.0
// Read-repair and scrubbing: bytes of members of a group are flipped and zeroed while the store is under load. What is
// read is right, and the damage is repaired, by scrubbing also where nobody reads. Where no member has the bytes whole,
// nothing is served, and keys are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/nvm/medium.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "bonsai/groups.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::store {
namespace {

using testing::budget;

constexpr uint64_t kRepairBytes = uint64_t{8} << 20, kRecords = 3'000, kLargeOneIn = 100, kMarginBytes = 16 << 10;

class GroupRepair : public ::testing::Test {
 protected:
  explicit GroupRepair(size_t members = 3) : nodes_("repair", members) {}

  static std::string key_of(uint64_t i) { return "key " + std::to_string(10'000 + i); }
  // Some large, most not.
  static std::string value_of(uint64_t i) {
    return i % kLargeOneIn == 0 ? std::string(6'000, static_cast<char>('a' + i / kLargeOneIn % 26))
                                : "value " + std::to_string(i);
  }
  void SetUp() override {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = kRepairBytes;
    options.fabric_wait_ms_max = 20'000;
    options.scrub_bytes_per_s = 0;  // on request
    options.log_sink = [this](char, std::string_view text) {
      if (text.find("had damage between bytes") != std::string_view::npos) told_.fetch_add(1);
    };
    ASSERT_EQ("OK", DB::Open(options, nodes_.group("p"), &db_).ToString());
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_EQ("OK", db_->Put(key_of(i), value_of(i)).ToString());
    ASSERT_EQ("OK", db_->Drain().ToString());
  }
  // Damages so many blocks that are not zero, on these nodes alike: zeroed, or one bit flipped. Of `every` blocks that
  // are side by side only that one.
  void damage(const std::vector<size_t>& nodes, uint64_t count, uint64_t every = 1, uint64_t that = 0) {
    const std::string before = nodes_.bytes_of(nodes[0], "p");
    for (uint64_t done = 0; done < count;) {
      constexpr uint64_t kBytes = base::kMediaBlockBytes;
      const uint64_t number = random_.below((kRepairBytes - kMarginBytes) / kBytes / every) * every + that;
      const uint64_t at = kMarginBytes + number * kBytes;
      std::string block = before.substr(at, kBytes);
      if (block.find_first_not_of('\0') == std::string::npos) continue;
      if (random_.below(4) == 0) {
        block.assign(kBytes, '\0');
        write(nodes, at, block);
      } else {
        const uint64_t byte = random_.below(kBytes);
        write(nodes, at + byte, std::string(1, static_cast<char>(block[byte] ^ (1 << random_.below(8)))));
      }
      ++done;
    }
  }
  void write(const std::vector<size_t>& nodes, uint64_t at, const std::string& bytes) {
    for (const size_t node : nodes) {
      std::fstream file(nodes_.file(node, "p"), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(at)).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      ASSERT_TRUE(file.good());
    }
  }
  // Reads all records one by one; wrong ones were served.
  void read_all(uint64_t* wrong, uint64_t* refused) {
    std::string value;
    for (uint64_t i = 0; i < kRecords; ++i) {
      const Status status = db_->Get(key_of(i), &value);
      if (status.ok()) {
        *wrong += value == value_of(i) ? 0 : 1;
      } else {
        *wrong += status.IsCorruption() ? 0 : 1;
        ++*refused;
        refusal_ = status.ToString();
      }
    }
  }
  void scan_all(uint64_t* wrong, uint64_t* refused) {
    const std::unique_ptr<Iterator> at(db_->NewIterator(ReadOptions()));
    uint64_t i = 0;
    for (at->SeekToFirst(); at->Valid() && i < kRecords; at->Next(), ++i) {
      *wrong += at->key() == key_of(i) && at->value() == value_of(i) ? 0 : 1;
    }
    *refused += at->status().ok() && i == kRecords ? 0 : 1;
    if (!at->status().ok()) refusal_ = at->status().ToString();
  }
  uint64_t repaired(size_t member) { return GetGroups(*db_).at(0).members.at(member).repaired_bytes; }

  // Writes the same values again, so that dnodes are merged from runs with damage, too, until `over`.
  base::Thread load(const std::atomic<bool>* over) {
    return base::Thread("load", [this, over] {
      for (uint64_t i = 1; !over->load(); i = (i + 7) % kRecords) {
        if (const Status status = db_->Put(key_of(i), value_of(i)); !status.ok()) ADD_FAILURE() << status.ToString();
      }
    });
  }
  // Media blocks that a member's pool does not hold as the first one's does.
  [[nodiscard]] std::vector<uint64_t> differing_blocks(size_t member) const {
    const std::string first = nodes_.bytes_of(0, "p"), other = nodes_.bytes_of(member, "p");
    EXPECT_EQ(first.size(), other.size());
    std::vector<uint64_t> differing;
    for (uint64_t at = 0; at < first.size(); at += base::kMediaBlockBytes) {
      if (first.compare(at, base::kMediaBlockBytes, other, at, base::kMediaBlockBytes) != 0) differing.push_back(at);
    }
    return differing;
  }
  // Each member's pool by itself is sound. Closes the store.
  void expect_sound_members(size_t members) {
    ASSERT_EQ("OK", db_->Close().ToString());
    db_.reset();
    for (size_t member = 0; member < members; ++member) {
      CheckReport report;
      ASSERT_EQ("OK", Check(nodes_.file(member, "p"), &report).ToString()) << member;
      EXPECT_TRUE(report.damages.empty()) << member << ": " << report.damages.front().what;
      EXPECT_EQ(report.records, kRecords) << member;
    }
  }

  scale::ServingNodes nodes_;
  base::Random random_{base::seed_from_env_or(42)};
  std::atomic<uint64_t> told_{0};
  std::string refusal_;
  std::unique_ptr<DB> db_;
};

TEST_F(GroupRepair, DamageOfOneMemberIsRepairedAndNeverServed) {
  constexpr uint64_t kEach = 50;
  const auto rounds = static_cast<uint64_t>(budget(2, 20, 200));
  uint64_t wrong = 0, refused = 0;
  std::atomic<bool> over{false};
  base::Thread writing = load(&over);
  for (uint64_t round = 0; round < rounds; ++round) {
    damage({0}, kEach);
    read_all(&wrong, &refused);
    scan_all(&wrong, &refused);
  }
  over.store(true);
  writing.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(refused, 0U) << refusal_;
  EXPECT_GT(repaired(0), 0U);
  EXPECT_EQ(repaired(1) + repaired(2), 0U);
  EXPECT_GT(told_.load(), 0U);
  EXPECT_NE(GroupText(GetGroups(*db_).at(0)).find("damaged bytes were repaired"), std::string::npos);
  testing::add_figure("damaged_blocks", rounds * kEach);
  testing::add_figure("damage_served", wrong);
}

// Shows that the damage above meets what is read.
TEST_F(GroupRepair, WhatIsDamagedOnAllMembersIsReported) {
  uint64_t wrong = 0, refused = 0;
  damage({0, 1, 2}, 200);
  read_all(&wrong, &refused);
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(refused, 0U);
  EXPECT_NE(refusal_.find("fail their checksum"), std::string::npos) << refusal_;
  EXPECT_EQ(repaired(0) + repaired(1) + repaired(2), 0U);
  EXPECT_EQ(told_.load(), 0U);
}

// In each place one member is damaged, and nothing is read.
TEST_F(GroupRepair, ScrubbingRepairsWhatNobodyReads) {
  constexpr uint64_t kEach = 50;
  const auto rounds = static_cast<uint64_t>(budget(2, 10, 70));
  std::atomic<bool> over{false};
  base::Thread writing = load(&over);
  for (uint64_t round = 0; round < rounds; ++round) {
    for (const size_t member : {0, 1, 2}) damage({member}, kEach, 3, member);
    ASSERT_EQ("OK", ScrubGroups(*db_).ToString());
  }
  over.store(true);
  writing.join();
  ASSERT_EQ("OK", db_->Drain().ToString());
  ASSERT_EQ("OK", ScrubGroups(*db_).ToString());
  const GroupInfo group = GetGroups(*db_).at(0);
  EXPECT_EQ(group.scrub_passes, rounds + 1);
  EXPECT_EQ(group.scrub_unsettled_bytes + group.scrub_missed_bytes, 0U);
  for (size_t member = 0; member < 3; ++member) EXPECT_GT(repaired(member), 0U) << member;
  EXPECT_NE(GroupText(group).find("scrubbing: "), std::string::npos);
  expect_sound_members(3);
  // Also where nobody uses the bytes: free space, closed log segments, the rest of a block behind a run.
  for (size_t member = 1; member < 3; ++member) EXPECT_EQ(differing_blocks(member), std::vector<uint64_t>()) << member;
  testing::add_figure("damaged_blocks", rounds * 3 * kEach);
}

// Checks say of most that two members hold differently who is right.
class PairRepair : public GroupRepair {
 protected:
  PairRepair() : GroupRepair(2) {}
};

TEST_F(PairRepair, ScrubbingGoesByTheChecksOfTwoMembers) {
  const auto rounds = static_cast<uint64_t>(budget(10, 50, 1'000));
  for (uint64_t round = 0; round < rounds; ++round) {
    for (const size_t member : {0, 1}) damage({member}, 2, 2, member);  // so that few combinations are to be tried
    ASSERT_EQ("OK", ScrubGroups(*db_).ToString());
  }
  for (size_t member = 0; member < 2; ++member) EXPECT_GT(repaired(member), 0U) << member;
  const uint64_t before = repaired(0) + repaired(1);
  uint64_t wrong = 0, refused = 0;
  read_all(&wrong, &refused);
  scan_all(&wrong, &refused);
  EXPECT_EQ(wrong + refused, 0U) << refusal_;
  EXPECT_EQ(repaired(0) + repaired(1), before) << "a reader met damage that scrubbing had left";
  const uint64_t unsettled = GetGroups(*db_).at(0).scrub_unsettled_bytes;
  expect_sound_members(2);
  EXPECT_LE(differing_blocks(1).size() * base::kMediaBlockBytes, unsettled) << "what differs is counted";
}

}  // namespace
}  // namespace bonsai::store
