// SPDX-License-Identifier: Apache-2.0
// Pools that an earlier build has written (store/golden/). Every later build that supports their format version opens
// them, finds no fault and reads all their records. So a change of the bytes without a change of the version fails.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bonsai/db.h"
#include "persist/format.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using Records = std::map<std::string, std::string>;
const std::string kFolder = BONSAI_SOURCE_DIR "/store/golden/";
constexpr uint64_t kPoolBytes = uint64_t{128} << 10;

// ---- the contents of the pools; a change here requires new golden pools

struct State {
  const char* name;
  Durability durability;
  bool closed;
  bool several_runs = false;  // of one dnode: it was offloaded to in rounds
};
constexpr State kStates[] = {{"crashed-durable", Durability::kDurable, false},
                             {"crashed-buffered", Durability::kBuffered, false},
                             {"closed", Durability::kDurable, true},
                             {"several-runs", Durability::kDurable, false, true}};
constexpr int kRounds = 3;

std::string number(const char* prefix, int i) { return prefix + std::to_string(1000 + i); }

// Makes records of all forms, in dnodes and then in the log, and says which.
Records fill(DB* db) {
  Records records;
  const auto put = [&](const std::string& key, const std::string& value) {
    EXPECT_TRUE(db->Put(key, value).ok());
    records[key] = value;
  };
  const auto remove = [&](const std::string& key) {
    EXPECT_TRUE(db->Delete(key).ok());
    records.erase(key);
  };
  for (int i = 0; i < 60; ++i) put(number("key.", i), number("val.", i));  // 8 + 8 bytes: a uniform run
  EXPECT_TRUE(db->Drain().ok());
  for (int i = 0; i < 12; ++i) put(number("of other sizes ", i), std::string(static_cast<size_t>(i), 'v'));
  for (int i = 0; i < 60; i += 7) remove(number("key.", i));  // tombstones
  for (int i = 0; i < 30; ++i) put(number((std::string(130, 'l') + "ong ").c_str(), i), "fence keys that lie apart");
  put("large", std::string(1300, 'L'));
  EXPECT_TRUE(db->Drain().ok());

  put("key.2000", "val.2000");
  put("key.1001", "another value");
  remove("key.1002");
  for (const int updates : {3, 140}) {  // one record of the log, and several shares
    WriteBatch batch;
    for (int i = 0; i < updates; ++i) {
      const std::string key = number("batch ", i), value = std::to_string(updates) + " " + std::string(10, 'b');
      batch.Put(key, value);
      records[key] = value;
    }
    batch.Delete("key.1003");
    records.erase("key.1003");
    EXPECT_TRUE(db->Write(batch).ok());
  }
  EXPECT_TRUE(db->Sync().ok());
  return records;
}

// Then offloads a few updates at a time, which a dnode appends as runs; some stay in the log.
void fill_in_rounds(DB* db, Records* records) {
  EXPECT_TRUE(db->Drain().ok());
  for (int round = 0; round <= kRounds; ++round) {
    for (int i = 0; i < 6; ++i) {
      const std::string key = number("key.", 20 + i), value = number("new.", 10 * round + i);
      EXPECT_TRUE(db->Put(key, value).ok());
      (*records)[key] = value;
    }
    const std::string gone = number("key.", 40 + round);
    EXPECT_TRUE(db->Delete(gone).ok());
    records->erase(gone);
    EXPECT_TRUE(round == kRounds || db->Drain().ok());
  }
  EXPECT_TRUE(db->Sync().ok());
}

// Makes a pool in that state at `path`. A crashed pool is a copy of the file while the store is open.
Records make_pool(const State& state, const ScratchFolder& folder, const std::string& path) {
  Options options;
  options.create_if_missing = options.error_if_exists = true;
  options.pool_bytes = kPoolBytes;
  options.log_bytes = kPoolBytes / 4;
  options.durability = state.durability;
  options.background_threads = 0;
  const std::string working = folder.file("working");
  std::filesystem::remove(working);
  std::unique_ptr<DB> db;
  const Status status = DB::Open(options, working, &db);
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (!status.ok()) return {};
  Records records = fill(db.get());
  if (state.several_runs) fill_in_rounds(db.get(), &records);
  EXPECT_TRUE(!state.closed || db->Close().ok());
  std::filesystem::copy_file(working, path, std::filesystem::copy_options::overwrite_existing);
  return records;
}

// ---- the files

std::string bytes_of(const std::string& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// Pools are mostly zeros: golden ones are kept as gzip files.
std::string unpacked(const std::string& path) {
  std::string bytes(kPoolBytes, '\0');
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  const int read = file == nullptr ? 0 : gzread(file.get(), bytes.data(), static_cast<unsigned>(bytes.size()));
  bytes.resize(static_cast<size_t>(std::max(read, 0)));
  return bytes;
}

void pack(const std::string& bytes, const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "wb9"), gzclose);
  ASSERT_NE(file, nullptr) << path;
  ASSERT_EQ(gzwrite(file.get(), bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
}

std::string golden_file(const State& state, uint64_t version) {
  return kFolder + "v" + std::to_string(version) + "-" + state.name + ".gz";
}

// The forms of dnodes in the pool, retired ones included.
struct Forms {
  bool uniform_run = false, variable_run = false, long_fences = false, retired = false;
  size_t runs_max = 0;  // of one dnode
};
Forms forms_of(const std::string& bytes) {
  Forms forms;
  for (size_t at = 0; at < bytes.size(); at += persist::kDnodeHeaderBytes) {
    persist::DnodeHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.magic != persist::kDnodeMagic) continue;
    for (size_t i = 0; i < header.runs_count; ++i) {
      (header.runs[i].key_bytes == persist::kVariableRun ? forms.variable_run : forms.uniform_run) = true;
    }
    if (header.mark % 2 == 1) forms.runs_max = std::max<size_t>(forms.runs_max, header.runs_count);
    forms.long_fences = forms.long_fences || header.fence_addr != 0;
    forms.retired = forms.retired || header.mark % 2 == 0;
  }
  return forms;
}

uint64_t version_of(const std::string& bytes) {
  persist::Superblock superblock;
  std::memcpy(&superblock, bytes.data(), sizeof superblock);
  return superblock.version;
}

// ---- the tests

class GoldenPool : public ::testing::Test {
 protected:
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  void expect_sound(const State& state) {
    CheckReport report;
    const Status status = Check(path_, &report);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (const Damage& damage : report.damages) ADD_FAILURE() << damage.where << ": " << damage.what;
    EXPECT_EQ(report.clean, state.closed);
    EXPECT_EQ(report.large_values, 1U);
    EXPECT_GT(report.dnodes, 3U);
    EXPECT_GT(report.log_records, 4U);
  }

  void expect_records(const Records& records) {
    std::unique_ptr<DB> db;
    const Status status = DB::Open({}, path_, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    Records found;
    const auto visit = [&](std::string_view key, std::string_view value) { return found.emplace(key, value), true; };
    ASSERT_TRUE(db->Scan({}, {}, visit).ok());
    EXPECT_EQ(found, records);
    std::string value;
    for (const auto& [key, expected] : records) {
      ASSERT_TRUE(db->Get(key, &value).ok()) << key;
      EXPECT_EQ(value, expected) << key;
    }
    EXPECT_TRUE(db->Get("key.1003", &value).IsNotFound());
    ASSERT_TRUE(db->Put("key.1003", "of today").ok());
    ASSERT_TRUE(db->Drain().ok());
    ASSERT_TRUE(db->Close().ok());
  }

  void expect_golden(const State& state, uint64_t version) {
    const std::string bytes = unpacked(golden_file(state, version));
    ASSERT_EQ(bytes.size(), kPoolBytes) << "it is missing; docs/format.md, Versions, says how to make it";
    EXPECT_EQ(version_of(bytes), version);
    const Records records = make_pool(state, folder_, folder_.file("today"));
    ASSERT_GT(records.size(), 200U);
    const Forms forms = forms_of(bytes);
    EXPECT_TRUE(forms.uniform_run) << "a run of entries of one size";
    EXPECT_TRUE(forms.variable_run) << "a run of entries of all sizes";
    EXPECT_TRUE(forms.long_fences) << "fence keys that do not fit into the header";
    EXPECT_TRUE(forms.retired) << "a retired dnode";
    EXPECT_GE(forms.runs_max, state.several_runs ? 2U : 1U) << "runs of one dnode";
    write(bytes);
    expect_sound(state);
    EXPECT_EQ(version_of(bytes_of(path_)), version) << "who only reads changes nothing";
    expect_records(records);
    EXPECT_EQ(version_of(bytes_of(path_)), persist::kFormatVersion) << "who opens it makes it one of today";
    CheckReport report;
    ASSERT_TRUE(Check(path_, &report).ok());
    EXPECT_TRUE(report.ok() && report.clean);
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("golden");
};

TEST_F(GoldenPool, IsOpenedCheckedAndRead) {
  for (uint64_t version = persist::kFormatVersionMin; version <= persist::kFormatVersion; ++version) {
    for (const State& state : kStates) {
      SCOPED_TRACE(golden_file(state, version));
      expect_golden(state, version);
    }
  }
}

TEST_F(GoldenPool, OneThatIsMadeTodayIsTheSameToItsReaders) {
  for (const State& state : kStates) {
    SCOPED_TRACE(state.name);
    const Records records = make_pool(state, folder_, folder_.file("today"));
    const std::string bytes = bytes_of(folder_.file("today")), packed = folder_.file("packed");
    pack(bytes, packed);
    EXPECT_LT(std::filesystem::file_size(packed), 16'384U);
    EXPECT_EQ(unpacked(packed), bytes);
    write(bytes);
    expect_sound(state);
    expect_records(records);
  }
}

TEST_F(GoldenPool, OfAnotherVersionIsRefused) {
  for (const uint64_t version : {uint64_t{1}, uint64_t{2}, persist::kFormatVersion + 1}) {
    std::string bytes = unpacked(golden_file(kStates[0], persist::kFormatVersion));
    for (uint64_t copy = 0; copy < persist::kSuperblockCopies; ++copy) {
      persist::Superblock superblock;
      std::memcpy(&superblock, bytes.data() + copy * persist::kPageBytes, sizeof superblock);
      superblock.version = version;
      superblock.seal();
      std::memcpy(bytes.data() + copy * persist::kPageBytes, &superblock, sizeof superblock);
    }
    write(bytes);
    CheckReport report;
    std::unique_ptr<DB> db;
    for (const Status& status : {DB::Open({}, path_, &db), Check(path_, &report)}) {
      EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
      const bool older = version < persist::kFormatVersion;
      for (const std::string& says : {"format version " + std::to_string(version),
                                      std::string(older ? "create a new pool" : "open it with a newer Bonsai")}) {
        EXPECT_NE(status.message().find(says), std::string::npos) << status.ToString();
      }
    }
    EXPECT_EQ(bytes_of(path_), bytes) << "nothing may change";
  }
}

// To be run after a change of the format: docs/format.md, Versions.
TEST_F(GoldenPool, DISABLED_MakeTheGoldenPool) {
  for (const State& state : kStates) {
    make_pool(state, folder_, folder_.file("today"));
    pack(bytes_of(folder_.file("today")), golden_file(state, persist::kFormatVersion));
  }
}

}  // namespace
}  // namespace bonsai::testing
