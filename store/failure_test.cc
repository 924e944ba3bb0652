// SPDX-License-Identifier: Apache-2.0
// Refusals of the machine: full disk, file size limit, failing mmap, read-only medium, a second process, a full log.
// Each is a clear error that names the fix, and nothing is lost.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/nvm/testing.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::nvm_testing::in_child;

using base::kMiB;
constexpr int kRecords = 50;

std::string key_of(int i) { return "key" + std::to_string(1000 + i); }

class FailureTest : public ::testing::Test {
 protected:
  static Options options(uint64_t pool_bytes = 4 * kMiB) {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = pool_bytes;
    return options;
  }
  static std::string try_open(const std::string& path, const Options& how) {
    std::unique_ptr<DB> db;
    const Status status = DB::Open(how, path, &db);
    return status.ok() ? db->Close().ToString() : status.ToString();
  }
  void make() {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options(), path_, &db).ok());
    for (int i = 0; i < kRecords; ++i) ASSERT_TRUE(db->Put(key_of(i), std::to_string(i)).ok());
    ASSERT_TRUE(db->Close().ok());
  }
  void expect_whole() {
    CheckReport report;
    ASSERT_TRUE(Check(path_, &report).ok());
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.records, static_cast<uint64_t>(kRecords));
    std::unique_ptr<DB> db;
    const Status status = DB::Open(Options(), path_, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    std::string value;
    for (int i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(db->Get(key_of(i), &value).ok());
      EXPECT_EQ(value, std::to_string(i));
    }
  }
  static void expect_says(const std::string& text, std::initializer_list<std::string> parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "': " << text;
  }
  [[nodiscard]] size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_.file("")), {}));
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
};

TEST_F(FailureTest, AFullDiskLeavesNothingBehind) {
  expect_says(try_open(folder_.pool(3), options(uint64_t{1} << 42)), {"no space", "bytes are free there", "smaller"});
  EXPECT_EQ(files(), 0U);
  const std::string limited = in_child([&] {
    const rlimit limit = {kMiB, kMiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return try_open(folder_.pool(2), options());
  });
  expect_says(limited, {"no space", "ulimit -f"});
  EXPECT_EQ(files(), 0U);
}

// The second target does not fit: the first, which was made, is taken away again.
TEST_F(FailureTest, ATargetThatCannotBeMadeTakesTheOthersAlong) {
  expect_says(try_open(path_ + "," + folder_.file("no/folder"), options()), {"I/O error", "mkdir -p"});
  EXPECT_EQ(files(), 0U);
}

// Sanitizers need address space of their own, so the limit would hit them first.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(FailureTest, AFailingMmapIsAnErrorAndChangesNothing) {
  make();
  const auto with_little_address_space = [](const std::function<std::string()>& body) {
    return in_child([&] {
      rlimit limit = {};
      std::ifstream statm("/proc/self/statm");
      statm >> limit.rlim_cur;  // pages in use
      limit.rlim_cur = limit.rlim_max = limit.rlim_cur * 4096 + 2 * kMiB;
      ::setrlimit(RLIMIT_AS, &limit);
      return body();
    });
  };
  expect_says(with_little_address_space([&] { return try_open(path_, Options()); }), {"ulimit -v"});
  expect_says(with_little_address_space([&] { return try_open(folder_.file("new"), options()); }), {"ulimit -v"});
  EXPECT_EQ(files(), 1U) << "what was made for the new pool is gone";
  expect_whole();
}
#endif

TEST_F(FailureTest, AReadOnlyMediumIsRefusedAndCanBeChecked) {
  make();
  const auto as_nobody = [&](const std::function<std::string()>& body) {
    return in_child([&]() -> std::string {
      if (::geteuid() == 0 && ::setuid(65534) != 0) return "cannot change user";
      return body();
    });
  };
  ASSERT_EQ(::chmod(folder_.file("").c_str(), 0555), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0444), 0);
  expect_says(as_nobody([&] { return try_open(path_, Options()); }), {"I/O error", path_, "chmod"});
  expect_says(as_nobody([&] { return try_open(folder_.file("new"), options()); }), {"I/O error", "chmod"});
  EXPECT_EQ(as_nobody([&] {
              CheckReport report;
              const Status status = Check(path_, &report);
              return status.ok() && report.ok() ? std::to_string(report.records) : status.ToString();
            }),
            std::to_string(kRecords));
  ASSERT_EQ(::chmod(folder_.file("").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  expect_whole();
}

TEST_F(FailureTest, ASecondProcessIsBusyAndTheFirstGoesOn) {
  make();
  const std::string text = in_child([&] {
    std::unique_ptr<DB> owner;
    if (!DB::Open(Options(), path_, &owner).ok()) return std::string("cannot open");
    Options without_threads;  // which ThreadSanitizer does not allow in such a child
    without_threads.background_threads = 0;
    const std::string second = in_child([&] { return try_open(path_, without_threads); });
    return owner->Put(key_of(0), "0").ok() && owner->Close().ok() ? second : "the owner was disturbed";
  });
  expect_says(text, {"busy", path_, "another process"});
  expect_whole();
}

TEST_F(FailureTest, AFullPoolGrowsOnRequestAndAGrowthThatFailsChangesNothing) {
  make();
  Options more;
  more.grow_bytes = uint64_t{1} << 42;
  expect_says(try_open(path_, more), {"no space", "bytes are free there"});
  more.grow_bytes = 80 * kMiB;
  expect_says(try_open(path_, more), {"invalid argument", "at most", "checkpoint"});
  EXPECT_EQ(std::filesystem::file_size(path_), 4 * kMiB);
  expect_whole();
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(Options(), path_, &db).ok());
  const auto fill = [&] {
    Status status;
    uint64_t i = 0;
    for (; status.ok(); ++i) status = db->Put("fill" + std::to_string(100'000 + i), std::string(3000, 'f'));
    EXPECT_TRUE(status.IsNoSpace());
    return i - 1;
  };
  const uint64_t first = fill();
  ASSERT_TRUE(db->Close().ok());
  more.grow_bytes = 8 * kMiB;
  ASSERT_TRUE(DB::Open(more, path_, &db).ok());
  EXPECT_EQ(db->GetStats().pool_bytes, 8 * kMiB);
  EXPECT_GT(fill(), first * 3 / 2);
  ASSERT_TRUE(db->Close().ok());
  ASSERT_TRUE(DB::Open(Options(), path_, &db).ok()) << "it stays so";
  EXPECT_EQ(db->GetStats().pool_bytes, 8 * kMiB);
  std::string value;
  EXPECT_TRUE(db->Get(key_of(7), &value).ok());
  ASSERT_TRUE(db->Close().ok());
  CheckReport report;
  ASSERT_TRUE(Check(path_, &report).ok());
  EXPECT_TRUE(report.ok());
}

// Forks while a store is open and kills the parent after more updates; the child ends in the meantime, and with it what
// it has inherited.
TEST_F(FailureTest, AForkedChildTouchesNothing) {
  make();
  constexpr int kAfter = 20;
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    static std::unique_ptr<DB> db;  // exit() destroys it
    Options here;
    here.persistence_domain = PersistenceDomain::kAdr;
    if (!DB::Open(here, path_, &db).ok()) ::_exit(1);
    const pid_t child = ::fork();
    if (child == 0) {
      std::string value;
      const bool refused = db->Put("child", "x").IsNotSupported() && db->Delete(key_of(0)).IsNotSupported() &&
                           db->Get(key_of(1), &value).IsNotSupported() && db->Drain().IsNotSupported();
      if (!refused) ::_exit(2);
      db.reset();
      ::_exit(0);
    }
    const auto put = [&](int i) { return db->Put("after" + std::to_string(i), "x").ok(); };
    for (int i = 0; i < kAfter / 2; ++i) {
      if (!put(i)) ::_exit(3);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) ::_exit(4);
    for (int i = kAfter / 2; i < kAfter; ++i) {
      if (!put(i)) ::_exit(5);
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  ASSERT_TRUE(WIFSIGNALED(status)) << "step " << WEXITSTATUS(status);
  std::unique_ptr<DB> db;
  const Status opened = DB::Open(Options(), path_, &db);
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  std::string value;
  for (int i = 0; i < kAfter; ++i) EXPECT_TRUE(db->Get("after" + std::to_string(i), &value).ok()) << i;
  EXPECT_TRUE(db->Get("child", &value).IsNotFound());
}

// Runs a child in a file system of its own, with room for `bytes`, which ends with the child. Returns "skipped: ..."
// with the reason if this process may not mount one.
std::string in_small_disk(const std::string& folder, uint64_t bytes, const std::function<std::string()>& body) {
  return in_child([&]() -> std::string {
    const auto refused = [](const char* what) { return std::string("skipped: ") + what + ": " + std::strerror(errno); };
    const bool alone = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWNS | CLONE_NEWUSER) == 0;
    if (!alone) return refused("no mounts of its own");
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return refused("no private mounts");
    std::filesystem::create_directory(folder);
    const std::string size = "size=" + std::to_string(bytes);
    if (::mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) return refused("no tmpfs may be mounted");
    return body();
  });
}

// Copies a file without its blocks of zeros.
void copy_sparsely(const std::string& from_path, const std::string& to_path) {
  std::ifstream from(from_path, std::ios::binary);
  std::ofstream to(to_path, std::ios::binary);
  std::string block(4096, '\0');
  for (uint64_t at = 0; from.read(block.data(), 4096); at += 4096) {
    if (block.find_first_not_of('\0') == std::string::npos) continue;
    to.seekp(static_cast<std::streamoff>(at));
    to.write(block.data(), 4096);
  }
  to.close();
  std::filesystem::resize_file(to_path, std::filesystem::file_size(from_path));
}

// Takes all room of a file system but the last `left` bytes.
void fill_disk(const std::string& folder, uint64_t left) {
  const uint64_t room = std::filesystem::space(folder).available;
  std::ofstream(folder + "/filler", std::ios::binary) << std::string(room - left, 'f');
}

// Every block of the copy is a hole at first, and none may be left to be filled while the store is used.
TEST_F(FailureTest, ASparseCopyIsFilledWhenItIsOpened) {
  make();
  const std::string copy = folder_.file("copy");
  copy_sparsely(path_, copy);
  struct stat info = {};
  ASSERT_EQ(::stat(copy.c_str(), &info), 0);
  ASSERT_LT(info.st_blocks * 512, static_cast<int64_t>(4 * kMiB)) << "it is no sparse copy";
  EXPECT_EQ(try_open(copy, Options()), "OK");
  ASSERT_EQ(::stat(copy.c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, static_cast<int64_t>(4 * kMiB));
}

// A process that touches a hole there dies of SIGBUS; so opening, reading only and checking report the missing space.
TEST_F(FailureTest, ASparseCopyOnAFullDiskIsRefused) {
  make();
  const std::string disk = folder_.file("disk"), copy = disk + "/pool";
  const auto copied = [&](uint64_t left, const std::function<std::string()>& body) {
    return in_small_disk(disk, 8 * kMiB, [&] {
      copy_sparsely(path_, copy);
      fill_disk(disk, left);
      const std::string text = body();
      return std::filesystem::file_size(copy) == 4 * kMiB ? text : "its size changed: " + text;
    });
  };
  const std::string refused = copied(256 << 10, [&] { return try_open(copy, Options()); });
  if (refused.starts_with("skipped")) GTEST_SKIP() << refused;
  expect_says(refused, {"no space", "sparse copy", copy, "free some there"});
  expect_says(copied(0,
                     [&] {
                       CheckReport report;
                       return Check(copy, &report).ToString();
                     }),
              {"no space", "sparse copy"});
  expect_says(copied(0, [&] { return Salvage(copy, options(), folder_.file("saved"), nullptr).ToString(); }),
              {"no space", "sparse copy"});
  EXPECT_EQ(copied(4 * kMiB, [&] { return try_open(copy, Options()); }), "OK") << "where there is room, it is filled";
}

// The pool is to have 6 MiB; it has 4 already, and 3 are free. Only the 2 missing ones need room, not the whole.
TEST_F(FailureTest, APoolGrowsIntoRoomThatIsSmallerThanItself) {
  make();
  const std::string disk = folder_.file("disk"), copy = disk + "/pool";
  const auto grown_to = [&](uint64_t bytes) {
    return in_small_disk(disk, 8 * kMiB, [&] {
      std::filesystem::copy_file(path_, copy);
      fill_disk(disk, 3 * kMiB);
      Options more;
      more.grow_bytes = bytes;
      std::unique_ptr<DB> db;
      const Status status = DB::Open(more, copy, &db);
      if (!status.ok()) return status.ToString() + ", " + std::to_string(std::filesystem::file_size(copy));
      std::string value;
      const bool whole = db->Get(key_of(7), &value).ok() && db->Put("new", "value").ok() && db->Close().ok();
      return whole ? "OK, " + std::to_string(std::filesystem::file_size(copy)) : "it lost records";
    });
  };
  const std::string text = grown_to(6 * kMiB);
  if (text.starts_with("skipped")) GTEST_SKIP() << text;
  EXPECT_EQ(text, "OK, " + std::to_string(6 * kMiB));
  expect_says(grown_to(8 * kMiB), {"no space", ", " + std::to_string(4 * kMiB)});
}

// The exception ends the visitor's scan, and the session does not run it again.
TEST_F(FailureTest, AVisitorThatThrowsInASessionIsRunOnce) {
  make();
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(Options(), path_, &db).ok());
  int calls = 0;
  Status status;
  {
    const std::unique_ptr<Session> session = db->NewSession(4);
    session->Scan(
        ScanOptions(), "",
        [&](std::string_view, std::string_view) -> bool {
          ++calls;
          throw std::runtime_error("of the visitor");
        },
        &status);
    EXPECT_THROW(session->Wait(), std::runtime_error);
    session->Wait();
  }
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(db->Put(key_of(0), "0").ok()) << "the store works on";
  ASSERT_TRUE(db->Close().ok());
}

// With a stall bound of 0, a writer that finds the log full gets an error instead of waiting for the background.
TEST_F(FailureTest, AFullLogIsAnAnswerAndNothingIsLost) {
  Options impatient = options();
  impatient.log_bytes = 32 << 10;
  impatient.stall_ms_max = 0;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(impatient, path_, &db).ok());
  const auto value_of = [](int i) { return std::to_string(i) + std::string(300, 'v'); };
  const auto patiently = [](const std::function<Status()>& call) {  // the store waits for nothing, so the test does
    Status last = call();
    for (int i = 0; i < 1000 && !last.ok(); ++i) {
      base::sleep_ms(1);
      last = call();
    }
    return last;
  };
  Status status;
  int put = 0;
  for (; put < budget(100'000, 1'000'000, 1'000'000); ++put) {
    const auto once = [&] { return db->Put("new" + std::to_string(put % 1000), value_of(put)); };
    status = once();
    if (status.IsUnavailable()) status = patiently(once);  // it was begun, so its outcome is unknown
    if (!status.ok()) break;
  }
  if (status.ok()) GTEST_SKIP() << "the pauses kept the writer from ever filling the log";
  ASSERT_TRUE(status.IsNoSpace()) << status.ToString();
  expect_says(status.ToString(), {"log is full", "log_bytes"});
  EXPECT_GT(db->GetStats().stalls, 0U);
  status = patiently([&] { return db->Delete("absent"); });
  EXPECT_TRUE(status.ok()) << status.ToString();
  status = patiently([&] { return db->Drain(); });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(patiently([&] { return db->Put("after", "the log is free again"); }).ok());
  std::string value;
  for (int i = std::max(0, put - 1000); i < put; ++i) {
    ASSERT_TRUE(db->Get("new" + std::to_string(i % 1000), &value).ok());
    ASSERT_EQ(value, value_of(i));
  }
  ASSERT_TRUE(db->Close().ok());
  CheckReport report;
  ASSERT_TRUE(Check(path_, &report).ok());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.records, static_cast<uint64_t>(std::min(put, 1000)) + 1);
}

}  // namespace
}  // namespace bonsai::testing
