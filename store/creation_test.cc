// SPDX-License-Identifier: Apache-2.0
// Pools that come into being: a creation may be killed at any moment, and what it left is no obstacle; a checkpoint
// that was answered keeps its name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "persist/format.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

// A record of the syncs and names of this program, while it is switched on.
std::vector<std::string> noted;
bool noting = false;
bool folders_fail = false;  // to be synced

std::string path_of(int fd) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored).string();
}

using base::kMiB;

Options creating(uint64_t pool_bytes) {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = pool_bytes;
  return options;
}

Status use(const std::string& path, const Options& options) {
  std::unique_ptr<DB> db;
  Status status = DB::Open(options, path, &db);
  if (status.ok()) status = db->Put("key", "value");
  return status.ok() ? db->Close() : status;
}

void write_word(const std::string& path, uint64_t at, uint64_t word) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(reinterpret_cast<const char*>(&word), sizeof word);
}

TEST(Creation, ThatIsKilledLeavesNothingInTheWay) {
  const ScratchFolder folder;
  base::Random random(base::seed_from_env_or(base::fresh_seed()));
  int unfinished = 0;
  for (int round = 0; round < budget(20, 60, 1000); ++round) {
    const std::string path = folder.file("pool" + std::to_string(round));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const Status status = use(path, creating(64 * kMiB));
      ::_exit(status.ok() ? 0 : 1);
    }
    base::sleep_us(random.below(20'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (std::filesystem::exists(path)) {
      std::ifstream file(path, std::ios::binary);
      uint64_t word = 0;
      file.read(reinterpret_cast<char*>(&word), sizeof word);
      unfinished += word == persist::kCreatingMagic ? 1 : 0;
    }
    const Status again = use(path, creating(kMiB));
    EXPECT_TRUE(again.ok()) << "round " << round << ": " << again.ToString();
    std::filesystem::remove(path);
  }
  std::printf("%d creations were not finished\n", unfinished);
}

TEST(Creation, OnlyWhatHoldsNothingIsReplaced) {
  const ScratchFolder folder;
  const std::string path = folder.file("pool");
  ASSERT_TRUE(use(path, creating(kMiB)).ok());
  const auto first_words = [&] {
    std::ifstream file(path, std::ios::binary);
    std::string bytes(2 * persist::kPageBytes, ' ');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  // One superblock gives way to an older state of its page: the other one says that there is a pool.
  write_word(path, 0, persist::kCreatingMagic);
  ASSERT_TRUE(use(path, creating(kMiB)).ok());
  EXPECT_EQ(std::filesystem::file_size(path), kMiB);
  std::unique_ptr<DB> db;
  std::string value;
  ASSERT_TRUE(DB::Open(Options(), path, &db).ok());
  EXPECT_TRUE(db->Get("key", &value).ok());
  ASSERT_TRUE(db->Close().ok());
  db.reset();

  std::filesystem::remove(path);
  std::ofstream(path) << std::string(kMiB, '\0');
  write_word(path, 0, persist::kCreatingMagic);
  const std::string before = first_words();
  Status status = use(path, Options());
  EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
  EXPECT_NE(status.message().find("interrupted"), std::string::npos) << status.ToString();
  EXPECT_EQ(first_words(), before);
  Options exclusive = creating(kMiB);
  exclusive.error_if_exists = true;
  EXPECT_TRUE(use(path, exclusive).ok());

  // Part of a superblock below the mark, as a creation leaves it that is killed while it writes it.
  std::filesystem::remove(path);
  ASSERT_TRUE(use(path, creating(kMiB)).ok());
  write_word(path, 0, persist::kCreatingMagic);
  for (uint64_t at = persist::kPageBytes; at < 2 * persist::kPageBytes; at += 8) write_word(path, at, 0);
  write_word(path, 64, 0);
  EXPECT_TRUE(use(path, exclusive).ok());

  std::filesystem::remove(path);
  std::ofstream(path) << "12345678";
  EXPECT_FALSE(use(path, creating(kMiB)).ok()) << "a short file of somebody";
  write_word(path, 0, persist::kCreatingMagic);
  EXPECT_EQ(std::filesystem::file_size(path), sizeof(uint64_t)) << "killed between its name and its size";
  status = use(path, creating(kMiB));
  EXPECT_TRUE(status.ok()) << status.ToString();

  std::ofstream(path) << std::string(kMiB, '\0');
  status = use(path, creating(kMiB));
  EXPECT_TRUE(status.IsNotSupported()) << "a file of zeros is somebody's: " << status.ToString();
}

TEST(Creation, AnAnsweredCheckpointKeepsItsName) {
  const ScratchFolder folder;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(creating(kMiB), folder.file("pool"), &db).ok());
  ASSERT_TRUE(db->Put("key", "value").ok());
  noted.clear();
  noting = true;
  const Status status = Checkpoint(db.get(), creating(kMiB), folder.file("copy"), nullptr, nullptr);
  noting = false;
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::string named = "linkat " + folder.file("copy");
  const auto renamed = std::find(noted.begin(), noted.end(), named);
  ASSERT_NE(renamed, noted.end());
  const std::string synced = "fsync " + std::filesystem::path(folder.file("copy")).parent_path().string();
  EXPECT_NE(std::find(renamed, noted.end(), synced), noted.end()) << "the name was not made durable";
}

// A name that may not be durable is taken back, so that what failed can be repeated.
TEST(Creation, AFolderThatCannotBeSyncedLeavesNothing) {
  const ScratchFolder folder;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(creating(kMiB), folder.file("pool"), &db).ok());
  ASSERT_TRUE(db->Put("key", "value").ok());
  const std::string copy = folder.pool(2, "copy");
  const auto checkpoint = [&] { return Checkpoint(db.get(), creating(kMiB), copy); };
  const auto salvage = [&] {
    SalvageReport report;
    return Salvage(folder.file("source"), creating(kMiB), copy, &report);
  };
  const auto create = [&] { return use(copy, creating(kMiB)); };
  ASSERT_TRUE(use(folder.file("source"), creating(kMiB)).ok());
  const std::vector<std::function<Status()>> all = {checkpoint, salvage, create};
  for (size_t i = 0; i < all.size(); ++i) {
    folders_fail = true;
    const Status failed = all[i]();
    folders_fail = false;
    EXPECT_TRUE(failed.IsIoError()) << i << failed.ToString();
    EXPECT_FALSE(std::filesystem::exists(folder.file("copy.0"))) << i;
    EXPECT_FALSE(std::filesystem::exists(folder.file("copy.1"))) << i;
    EXPECT_EQ("OK", all[i]().ToString()) << i;
    for (const char* name : {"copy.0", "copy.1"}) std::filesystem::remove(folder.file(name));
  }
}

}  // namespace
}  // namespace bonsai::testing

// In place of the library's: they note, and do the same.
extern "C" int fsync(int fd) {
  if (bonsai::testing::noting) bonsai::testing::noted.push_back("fsync " + bonsai::testing::path_of(fd));
  if (bonsai::testing::folders_fail && std::filesystem::is_directory(bonsai::testing::path_of(fd))) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  if (bonsai::testing::noting) bonsai::testing::noted.push_back(std::string("linkat ") + to);
  return static_cast<int>(::syscall(SYS_linkat, from_folder, from, to_folder, to, flags));
}
