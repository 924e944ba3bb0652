// SPDX-License-Identifier: Apache-2.0
// A pool with its log and its dnodes apart, of which one target is put back as it was before: earlier, or in the same
// opening. No such pool opens, Check says why, and a pool whose targets are of one moment opens with all that was
// acknowledged.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bonsai/db.h"
#include "testing/scratch.h"

namespace bonsai::store {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kKeys = 400;

std::string key_of(uint64_t i) { return "key " + std::to_string(i); }

class OldCopy : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr const char* kTargets[] = {"log", "dnodes"};
  static constexpr const char* kNames[] = {"before the opening", "early in it", "late in it"};

  std::string path() { return scratch_.file("log") + "?role=log," + scratch_.file("dnodes") + "?role=dnodes"; }
  static Options options() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{8} << 20;
    options.log_bytes = uint64_t{256} << 10;
    options.background_threads = 0;  // so that nothing is written while targets are copied
    return options;
  }
  void open() { ASSERT_EQ("OK", DB::Open(options(), path(), &db_).ToString()); }
  // As a node's snapshot takes it, amid the work of the store or after it.
  void copy(const std::string& to) {
    for (const char* target : kTargets) {
      fs::copy_file(scratch_.file(target), scratch_.file(to + "." + target), fs::copy_options::overwrite_existing);
    }
  }
  void restore(const std::string& from, const char* target) {
    fs::copy_file(scratch_.file(from + "." + target), scratch_.file(target), fs::copy_options::overwrite_existing);
  }
  void restore(const std::string& from) {
    for (const char* target : kTargets) restore(from, target);
  }
  void put_all(const std::string& value, std::map<std::string, std::string>* content) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string text = value + " of " + key_of(i) + std::string(200, '.');
      ASSERT_EQ("OK", db_->Put(key_of(i), text).ToString());
      (*content)[key_of(i)] = text;
    }
  }
  void expect_content(const std::map<std::string, std::string>& content) {
    open();
    std::string value;
    for (const auto& [key, expected] : content) {
      ASSERT_EQ("OK", db_->Get({}, key, &value).ToString()) << key;
      EXPECT_EQ(value, expected);
    }
    db_.reset();
  }
  void expect_refused(const std::string& what) {
    CheckReport report;
    const Status checked = Check(path(), &report);
    EXPECT_TRUE(!checked.ok() || !report.ok()) << what;
    const std::string says = checked.ok() && !report.ok() ? report.damages[0].what : checked.ToString();
    EXPECT_NE(says.find("old"), std::string::npos) << what << ": " << says;
    std::unique_ptr<DB> db;
    const Status opened = DB::Open(options(), path(), &db);
    EXPECT_FALSE(opened.ok()) << what;
    EXPECT_NE(opened.ToString().find("old"), std::string::npos) << what << ": " << opened.ToString();
  }

  testing::ScratchFolder scratch_;
  std::unique_ptr<DB> db_;
};

TEST_P(OldCopy, OfOneTargetIsRefusedAndOfAllIsAPool) {
  std::map<std::string, std::string> content, early;
  open();
  put_all("first", &content);
  ASSERT_EQ("OK", db_->Close().ToString());
  db_.reset();
  copy(kNames[0]);
  open();
  put_all("second", &content);
  copy(kNames[1]);
  early = content;
  put_all("third", &content);
  ASSERT_EQ("OK", db_->Drain().ToString());
  put_all("fourth", &content);
  copy(kNames[2]);
  put_all("fifth", &content);
  if (GetParam()) {
    ASSERT_EQ("OK", db_->Close().ToString());
    db_.reset();
  }
  copy("end");
  db_.reset();
  for (const char* name : kNames) {
    for (const char* target : kTargets) {
      restore("end");
      restore(name, target);
      expect_refused(std::string(target) + ", " + name);
    }
  }
  restore("end");
  expect_content(content);
  restore(kNames[1]);
  expect_content(early);
}

INSTANTIATE_TEST_SUITE_P(ClosedAndCrashed, OldCopy, ::testing::Bool(),
                         [](const auto& closed) { return closed.param ? "Closed" : "Crashed"; });

}  // namespace
}  // namespace bonsai::store
