// SPDX-License-Identifier: Apache-2.0
// Damage that opening repairs from other copies of the data: the check names the place and says that opening repairs
// it, opening does, and the check then finds nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "base/testing/temp_folder.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "persist/format.h"

namespace bonsai::testing {
namespace {

class RepairsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kPoolBytes = uint64_t{1} << 20;

  [[nodiscard]] std::string file(size_t i) const { return folder_.file(std::to_string(i)); }
  [[nodiscard]] std::string path(size_t targets) const { return targets == 1 ? file(0) : file(0) + "," + file(1); }

  void make(size_t targets) {
    for (size_t i = 0; i < targets; ++i) std::filesystem::remove(file(i));
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = kPoolBytes;
    std::unique_ptr<DB> db;
    ASSERT_EQ("OK", DB::Open(options, path(targets), &db).ToString());
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(db->Put("key" + std::to_string(i), "value").ok());
    ASSERT_TRUE(db->Drain().ok());
    ASSERT_TRUE(db->Close().ok());
  }
  static persist::Superblock superblock_of(const std::string& bytes) {
    persist::Superblock sb;
    std::memcpy(&sb, bytes.data() + persist::kPageBytes, sizeof sb);
    return sb;
  }

  // `damage` changes bytes of one target after the other.
  void expect_repaired(size_t targets, const std::string& where, const std::function<bool(std::string*)>& damage) {
    size_t damaged = 0;
    for (size_t i = 0; i < targets; ++i) {
      SCOPED_TRACE(where + " of target " + std::to_string(i) + " of " + std::to_string(targets));
      make(targets);
      std::string bytes = read_file(file(i));
      if (!damage(&bytes)) continue;
      folder_.write(std::to_string(i), bytes);
      ++damaged;
      CheckReport report;
      ASSERT_EQ("OK", Check(path(targets), &report).ToString());
      EXPECT_TRUE(report.ok());
      ASSERT_EQ(report.repairs.size(), 1U);
      EXPECT_NE(report.repairs[0].where.find(where + " at target " + std::to_string(i)), std::string::npos)
          << report.repairs[0].where;
      EXPECT_TRUE(read_file(file(i)) == bytes) << "the check changes nothing";
      std::unique_ptr<DB> db;
      ASSERT_EQ("OK", DB::Open(Options(), path(targets), &db).ToString());
      std::string value;
      for (int k = 0; k < 100; ++k) EXPECT_TRUE(db->Get("key" + std::to_string(k), &value).ok());
      ASSERT_TRUE(db->Close().ok());
      ASSERT_EQ("OK", Check(path(targets), &report).ToString());
      EXPECT_TRUE(report.ok() && report.repairs.empty()) << "opening has not repaired it";
    }
    EXPECT_GT(damaged, 0U) << where;
  }

  const TempFolder folder_;
};

TEST_F(RepairsTest, AreReportedAndMade) {
  for (const size_t targets : {size_t{1}, size_t{2}}) {
    for (const uint64_t copy : {0, 1}) {
      const std::string where = copy == 0 ? "first superblock" : "second superblock";
      const uint64_t page = copy * persist::kPageBytes;
      expect_repaired(targets, where, [&](std::string* bytes) {
        std::memset(bytes->data() + page, 0, persist::kPageBytes);
        return true;
      });
      for (const size_t at : {0U, 40U, 150U, 200U, 255U}) {
        expect_repaired(targets, where, [&](std::string* bytes) {
          (*bytes)[page + at] ^= 1;
          return true;
        });
      }
    }
    expect_repaired(targets, "extent table", [](std::string* bytes) {
      (*bytes)[superblock_of(*bytes).extent_table_offset] ^= 1;
      return true;
    });
    expect_repaired(targets, "extent table", [](std::string* bytes) {
      const persist::Superblock sb = superblock_of(*bytes);
      (*bytes)[sb.extent_table_offset + 8 * (sb.extents - 1)] ^= 1;
      return true;
    });
    expect_repaired(targets, "dnode header", [](std::string* bytes) {
      const std::string mark(reinterpret_cast<const char*>(&persist::kFreeSlotMagic), sizeof(uint64_t));
      const size_t at = bytes->find(mark, superblock_of(*bytes).data_offset);
      if (at != std::string::npos) (*bytes)[at] ^= 1;
      return at != std::string::npos;
    });
  }
  // This word is on the log's home alone, and is not read while the targets agree.
  make(2);
  std::string bytes = read_file(file(0));
  bytes[persist::kStateNextOpeningOffset] ^= 1;
  folder_.write("0", bytes);
  CheckReport report;
  ASSERT_EQ("OK", Check(path(2), &report).ToString());
  ASSERT_TRUE(report.ok() && report.repairs.size() == 1);
  EXPECT_NE(report.repairs[0].where.find("next opening at target 0"), std::string::npos);
}

TEST_F(RepairsTest, OfACrashedGrowthAreReported) {
  make(1);
  std::string bytes = read_file(file(0));
  persist::Superblock sb = superblock_of(bytes);
  sb.target_bytes += sb.extent_bytes;
  ++sb.extents;
  sb.seal();
  std::memcpy(bytes.data(), &sb, sizeof sb);
  bytes.resize(sb.target_bytes);
  folder_.write("0", bytes);
  CheckReport report;
  ASSERT_EQ("OK", Check(file(0), &report).ToString());
  ASSERT_FALSE(report.repairs.empty());
  EXPECT_NE(report.repairs[0].where.find("second superblock"), std::string::npos);
  EXPECT_NE(report.repairs[0].what.find("earlier size"), std::string::npos);
}

TEST_F(RepairsTest, OfTheCInterface) {
  make(1);
  std::string bytes = read_file(file(0));
  bytes[0] ^= 1;
  folder_.write("0", bytes);
  bonsai_check_report_t* report = nullptr;
  char* error = nullptr;
  ASSERT_EQ(bonsai_check(file(0).c_str(), nullptr, nullptr, &report, &error), BONSAI_OK);
  EXPECT_EQ(bonsai_check_report_damages(report), 0U);
  ASSERT_EQ(bonsai_check_report_repairs(report), 1U);
  EXPECT_NE(std::string(bonsai_check_report_repair_where(report, 0)).find("first superblock"), std::string::npos);
  EXPECT_NE(std::string(bonsai_check_report_repair_what(report, 0)).find("counts"), std::string::npos);
  EXPECT_EQ(bonsai_check_report_repair_where(report, 1), nullptr);
  bonsai_check_report_destroy(report);
}

}  // namespace
}  // namespace bonsai::testing
