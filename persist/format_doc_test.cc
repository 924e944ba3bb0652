// SPDX-License-Identifier: Apache-2.0
// docs/format.md says what format.h says: each table of a structure has its fields, offsets and sizes, in order and
// without gaps, and each place or magic number that the page names is the constant's.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "persist/format.h"

namespace bonsai::persist {
namespace {

struct Field {
  size_t offset = 0, bytes = 0;
  std::string name;
  bool operator==(const Field&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Field& field) {
  return out << field.offset << " | " << field.bytes << " | " << field.name;
}
#define FIELD(type, name) \
  Field { offsetof(type, name), sizeof(type::name), #name }

using Cells = std::vector<std::string>;

// The cells of "| a | b |", without blanks and back quotes; none if the line is no row.
Cells cells_of(std::string_view line) {
  Cells cells;
  if (!line.starts_with('|')) return cells;
  for (size_t begin = 1; begin < line.size();) {
    const size_t end = std::min(line.find('|', begin), line.size());
    std::string cell;
    for (const char c : line.substr(begin, end - begin)) {
      if (c != ' ' && c != '`') cell += c;
    }
    cells.push_back(cell);
    begin = end + 1;
  }
  return cells;
}

// The rows of the first table below a heading that begins with `heading`, without its head.
std::vector<Cells> table(const std::string& page, const std::string& heading) {
  std::istringstream lines(page);
  std::vector<Cells> rows;
  bool below = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) below = !below && line.substr(line.find(' ') + 1).starts_with(heading);
    if (!below) continue;
    const Cells cells = cells_of(line);
    if (!cells.empty()) rows.push_back(cells);
    if (cells.empty() && !rows.empty()) break;
  }
  if (rows.size() < 2) return {};
  return {rows.begin() + 2, rows.end()};
}

std::vector<Field> fields_of(const std::vector<Cells>& rows) {
  std::vector<Field> fields;
  for (const Cells& row : rows) {
    if (row.size() < 3) continue;
    fields.push_back({std::stoul(row[0]), std::stoul(row[1]), row[2]});
  }
  return fields;
}

// Fields that are side by side and fill `bytes`; a structure that grew a field fails it.
bool is_gapless(const std::vector<Field>& fields, size_t bytes) {
  size_t end = 0;
  for (const Field& field : fields) {
    if (field.offset != end) return false;
    end += field.bytes;
  }
  return end == bytes;
}

class FormatPage : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(BONSAI_SOURCE_DIR "/docs/format.md");
    std::stringstream text;
    text << file.rdbuf();
    page_ = text.str();
    ASSERT_FALSE(page_.empty());
  }
  void expect_table(const std::string& structure, size_t bytes, const std::vector<Field>& fields) {
    const std::string heading = structure + " (" + std::to_string(bytes) + " bytes";
    EXPECT_EQ(fields_of(table(page_, heading)), fields) << "the table below '" << heading << "'";
    EXPECT_TRUE(is_gapless(fields, bytes)) << structure << ": this test does not list all of its fields";
  }
  void expect_place(const std::string& heading, const std::string& what, uint64_t offset) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%04llx", static_cast<unsigned long long>(offset));
    for (const Cells& row : table(page_, heading)) {
      if (row.size() < 2 || (row[0] != what && row[1].find(what) == std::string::npos)) continue;
      EXPECT_TRUE((row[0] + row[1]).find(text) != std::string::npos) << what << " is at " << text;
      return;
    }
    ADD_FAILURE() << "'" << heading << "' has no row of " << what;
  }
  void expect_text(const std::string& text) { EXPECT_NE(page_.find(text), std::string::npos) << text; }

  std::string page_;
};

TEST_F(FormatPage, TablesOfStructures) {
  expect_table("Superblock", sizeof(Superblock),
               {FIELD(Superblock, magic),         FIELD(Superblock, version),
                FIELD(Superblock, pool_id),       FIELD(Superblock, target_index),
                FIELD(Superblock, target_count),  FIELD(Superblock, key_format),
                FIELD(Superblock, reserved),      FIELD(Superblock, target_bytes),
                FIELD(Superblock, extent_bytes),  FIELD(Superblock, extent_table_offset),
                FIELD(Superblock, extents),       FIELD(Superblock, log_offset),
                FIELD(Superblock, segment_bytes), FIELD(Superblock, segments),
                FIELD(Superblock, data_offset),   FIELD(Superblock, log_table_offset),
                FIELD(Superblock, crc),           FIELD(Superblock, roles),
                FIELD(Superblock, layout),        FIELD(Superblock, unit_bytes),
                FIELD(Superblock, replicas),      FIELD(Superblock, check)});
  expect_table("Entry of the log table", sizeof(SegmentEntry),
               {FIELD(SegmentEntry, end), FIELD(SegmentEntry, sequence)});
  expect_table("Segment header", sizeof(SegmentHeader),
               {FIELD(SegmentHeader, sequence), FIELD(SegmentHeader, magic), FIELD(SegmentHeader, reserved)});
  expect_table("Large reference", sizeof(LargeRef),
               {FIELD(LargeRef, addr), FIELD(LargeRef, value_bytes), FIELD(LargeRef, crc)});
  expect_table("Dnode header", sizeof(DnodeHeader),
               {FIELD(DnodeHeader, magic), FIELD(DnodeHeader, crc), FIELD(DnodeHeader, writes), FIELD(DnodeHeader, gen),
                FIELD(DnodeHeader, lo_bytes), FIELD(DnodeHeader, hi_bytes), FIELD(DnodeHeader, runs_count),
                FIELD(DnodeHeader, flags), FIELD(DnodeHeader, runs), FIELD(DnodeHeader, fence_addr),
                FIELD(DnodeHeader, fences), FIELD(DnodeHeader, mark)});
  expect_table("Run descriptor", sizeof(RunDesc),
               {FIELD(RunDesc, addr), FIELD(RunDesc, bytes), FIELD(RunDesc, count), FIELD(RunDesc, birth),
                FIELD(RunDesc, key_bytes), FIELD(RunDesc, value_bytes)});
}

// The characters of a magic number, as a hex dump shows them.
std::string letters(uint64_t magic) {
  std::string text(sizeof magic, '\0');
  std::memcpy(text.data(), &magic, sizeof magic);
  return text;
}

TEST_F(FormatPage, PlacesAndNumbers) {
  expect_text("format version " + std::to_string(kFormatVersion) + "\n");
  expect_text("| `version` | format version: " + std::to_string(kFormatVersion) + " |");
  expect_place("A target", "copyofthesuperblock", kPageBytes);
  expect_place("A target", "statepage", kStateOffset);
  expect_place("A target", "extenttable", kExtentTableOffset);
  expect_place("Checked words", "runstate", kStateRunOffset);
  expect_place("Checked words", "closedepoch", kStateEpochOffset);
  expect_place("Checked words", "opening", kStateOpeningOffset);
  expect_place("Checked words", "nextopening", kStateNextOpeningOffset);
  expect_place("Checked words", "begun", kStateBegunOffset);
  expect_place("Checked words", "opened", kStateOpenedOffset);
  expect_text("| `roles` | " + std::to_string(kRoleLog) + " log, " + std::to_string(kRoleDnodes) + " dnodes, ");
  expect_text("The first " + std::to_string(kSuperblockBytesV3) + " bytes are the same in every version");
  expect_text("A pool of version " + std::to_string(kFormatVersionMin) + " is opened, too");
  for (const uint64_t magic : {kSuperblockMagic, kSegmentMagic, kDnodeMagic, kFreeSlotMagic}) {
    expect_text("`" + letters(magic) + "`");
  }
  expect_text("number of runs, 0 to " + std::to_string(kRunsMax) + ",");
  expect_text("number of entries, at most " + std::to_string(kRunEntriesMax));
  expect_text("(1 put, 2 delete, 3 batch, 4 epoch, 5 share of a batch)");
  static_assert(static_cast<int>(RecordKind::kPut) == 1 && static_cast<int>(RecordKind::kDel) == 2 &&
                static_cast<int>(RecordKind::kBatch) == 3 && static_cast<int>(RecordKind::kEpoch) == 4 &&
                static_cast<int>(RecordKind::kShare) == 5);
}

// A page that is wrong in one number is not taken for right.
TEST_F(FormatPage, AWrongTableIsSeen) {
  const std::vector<Field> right = fields_of(table(page_, "Run descriptor"));
  ASSERT_FALSE(right.empty());
  const std::string row = "| 12 | 4 | `count` |";
  const size_t at = page_.find(row);
  ASSERT_NE(at, std::string::npos);
  for (const char* wrong : {"| 14 | 4 | `count` |", "| 12 | 2 | `count` |", "| 12 | 4 | `counts` |"}) {
    std::string page = page_;
    EXPECT_NE(fields_of(table(page.replace(at, row.size(), wrong), "Run descriptor")), right) << wrong;
  }
  EXPECT_FALSE(is_gapless(right, sizeof(RunDesc) + 8));
  EXPECT_FALSE(is_gapless({right.begin() + 1, right.end()}, sizeof(RunDesc)));
}

}  // namespace
}  // namespace bonsai::persist
