// SPDX-License-Identifier: Apache-2.0
// Each system call of each operation that changes a pool fails once. Afterwards the pool opens in its state before the
// operation, or in its state after it, and the operation can be done again.
#include "base/nvm/testing/failing_calls.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "bonsai/db.h"
#include "testing/served.h"

namespace bonsai::testing {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{256} << 10;
constexpr int kRecords = 40;

// Where the pool is.
struct Place {
  const char* name;
  bool on_disk;
  size_t targets;
  bool remote;
};

class FailingCalls : public ::testing::TestWithParam<Place> {
 protected:
  using Content = std::map<std::string, std::string>;
  using Files = std::map<std::string, std::string>;  // bytes by name

  FailingCalls() {
    for (size_t i = 0; i < GetParam().targets; ++i) {
      const std::string file = folder_.file("p/pool" + std::to_string(i));
      path_ += (i == 0 ? "" : ",") + file;
    }
    std::filesystem::create_directories(folder_.file("p"));
    if (GetParam().remote) path_ = served(path_);
  }

  static Options options() {
    Options options;
    options.pool_bytes = kPoolBytes;
    options.background_threads = 0;
    options.any_key_format = true;
    return options;
  }
  static Options creating() {
    Options creating = options();
    creating.create_if_missing = true;
    return creating;
  }

  // A node's record of a pool's owner stays what it is: each life would wait for a lease that an older one names.
  static bool is_record(const std::filesystem::path& path) { return path.filename().string().front() == '.'; }

  [[nodiscard]] Files files() const {
    Files files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file("p"))) {
      if (is_record(entry.path())) continue;
      files[entry.path()] = read_file(entry.path());
    }
    return files;
  }
  void restore(const Files& files) const {
    std::filesystem::create_directories(folder_.file("p"));
    for (const auto& [name, bytes] : this->files()) std::filesystem::remove(name);
    for (const auto& [name, bytes] : files) std::ofstream(name, std::ios::binary) << bytes;
  }

  // Makes a pool, which was closed or whose owner ended at once.
  Files make(bool closed) {
    restore({});
    std::unique_ptr<DB> db;
    const Status status = DB::Open(creating(), path_, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    for (int i = 0; i < kRecords; ++i) put(db.get(), "key" + std::to_string(i), std::string(i % 7 * 10, 'v'));
    EXPECT_TRUE(db->Drain().ok());
    for (int i = 0; i < kRecords; i += 3) put(db.get(), "key" + std::to_string(i), "new");
    if (closed) {
      EXPECT_TRUE(db->Close().ok());
    }
    const Files made = files();
    db.reset();
    return made;
  }
  void put(DB* db, const std::string& key, const std::string& value) {
    EXPECT_TRUE(db->Put(key, value).ok());
    content_[key] = value;
  }

  static Status content_of(const std::string& path, Content* content) {
    std::unique_ptr<DB> db;
    Status status = DB::Open(options(), path, &db);
    if (!status.ok()) return status;
    content->clear();
    status = db->Scan({}, {}, [&](auto key, auto value) {
      content->emplace(key, value);
      return true;
    });
    return status.ok() ? db->Close() : status;
  }

  // Lets each call of `operation` fail, beginning with `before` each time, and then calls `judge`.
  void fail_each(const char* what, const Files& before, const std::function<Status()>& operation,
                 const std::function<void(const Status&)>& judge) {
    const uint64_t step = GetParam().remote ? budget<uint64_t>(7, 2, 1) : budget<uint64_t>(3, 1, 1);
    uint64_t failures = 0;
    for (uint64_t n = 1;; n += step) {
      restore(before);
      std::string failed;
      fail_call(folder_.path(), n);
      const Status status = operation();
      const uint64_t calls = end_failing(&failed);
      SCOPED_TRACE(std::string(what) + ", call " + std::to_string(n) + " of " + std::to_string(calls) + ", " + failed +
                   ": " + status.ToString());
      judge(status);
      if (calls < n || HasFailure()) break;
      ++failures;
    }
    add_figure("failed_calls", failures);
    EXPECT_GT(failures, 3U) << what;
  }

  void expect_whole() const {
    Content content;
    const Status status = content_of(path_, &content);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(content == content_);
  }

  const TempFolder folder_{GetParam().on_disk ? TempFolder::on_disk() : TempFolder::on_tmpfs()};
  std::string path_;
  Content content_;
};

TEST_P(FailingCalls, Create) {
  fail_each(
      "create", {},
      [&] {
        std::unique_ptr<DB> db;
        return DB::Open(creating(), path_, &db);
      },
      [&](const Status&) {
        std::unique_ptr<DB> db;
        const Status again = DB::Open(creating(), path_, &db);
        EXPECT_TRUE(again.ok()) << "it cannot be made now: " << again.ToString();
        EXPECT_TRUE(!again.ok() || db->Close().ok());
        expect_whole();
      });
}

TEST_P(FailingCalls, OpenAndRecover) {
  for (const bool closed : {true, false}) {
    const Files before = make(closed);
    fail_each(
        closed ? "open" : "recover", before,
        [&] {
          std::unique_ptr<DB> db;
          return DB::Open(options(), path_, &db);
        },
        [&](const Status&) { expect_whole(); });
  }
}

TEST_P(FailingCalls, Grow) {
  const Files before = make(true);
  fail_each(
      "grow", before,
      [&] {
        Options growing = options();
        growing.grow_bytes = 2 * kPoolBytes;
        std::unique_ptr<DB> db;
        return DB::Open(growing, path_, &db);
      },
      [&](const Status&) {
        expect_whole();
        Options growing = options();
        growing.grow_bytes = 2 * kPoolBytes;
        std::unique_ptr<DB> db;
        const Status again = DB::Open(growing, path_, &db);
        ASSERT_TRUE(again.ok()) << again.ToString();
        EXPECT_EQ(db->GetStats().pool_bytes, 2 * kPoolBytes * GetParam().targets);
      });
}

TEST_P(FailingCalls, Close) {
  const Files before = make(true);
  fail_each(
      "close", before,
      [&] {
        std::unique_ptr<DB> db;
        Status status = DB::Open(options(), path_, &db);
        if (status.ok()) status = db->Close();
        return status;
      },
      [&](const Status&) { expect_whole(); });
}

TEST_P(FailingCalls, Remove) {
  const Files before = make(true);
  fail_each(
      "remove", before, [&] { return Remove(path_, options()); },
      [&](const Status& removed) {
        Content content;
        const bool is_there = content_of(path_, &content).ok();
        EXPECT_TRUE(!is_there || content == content_);
        EXPECT_FALSE(is_there && removed.ok());
        if (!removed.ok()) {
          const Status again = Remove(path_, options());
          EXPECT_TRUE(again.ok() || files().empty()) << again.ToString();
        }
        std::unique_ptr<DB> db;
        const Status made = DB::Open(creating(), path_, &db);
        EXPECT_TRUE(made.ok()) << "its name is not free: " << made.ToString();
      });
}

// The pool that is copied is as it was; the copy is whole or not there, and its name not taken by anything else.
TEST_P(FailingCalls, CheckpointAndSalvage) {
  const Files before = make(true);
  const std::string copy = folder_.file("copy");
  for (const bool salvage : {false, true}) {
    std::unique_ptr<DB> db;
    fail_each(
        salvage ? "salvage" : "checkpoint", before,
        [&] {
          SalvageReport report;
          if (salvage) return Salvage(path_, options(), copy, &report);
          Status status = DB::Open(options(), path_, &db);
          if (status.ok()) status = Checkpoint(db.get(), options(), copy);
          db.reset();
          return status;
        },
        [&](const Status& status) {
          expect_whole();
          Content content;
          if (std::filesystem::exists(copy)) {
            const Status opened = content_of(copy, &content);
            EXPECT_TRUE(opened.ok()) << opened.ToString();
            EXPECT_TRUE(content == content_);
          } else {
            EXPECT_FALSE(status.ok());
          }
          std::filesystem::remove(copy);
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Places, FailingCalls,
                         ::testing::Values(Place{"OneFile", true, 1, false}, Place{"TwoFiles", true, 2, false},
                                           Place{"TwoOnTmpfs", false, 2, false}, Place{"TwoRemote", true, 2, true}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace bonsai::testing
