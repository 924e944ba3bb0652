// SPDX-License-Identifier: Apache-2.0
// A pool's place is a fresh directory that goes away, and what cannot be had is refused with the flag that helps.
#include "bench/engines/pool_place.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

std::string scratch() {
  const std::string folder = ::testing::TempDir() + "pool-place-" + std::to_string(::getpid());
  fs::create_directories(folder);
  return folder;
}

TEST(PoolPlace, IsAFreshDirectoryThatGoesAway) {
  const std::string parent = scratch();
  std::string first;
  {
    PoolPlace place, other;
    ASSERT_TRUE(place.make(parent, "", 1).ok());
    ASSERT_TRUE(other.make(parent, "", 1).ok());
    first = place.path();
    EXPECT_EQ(fs::path(first).parent_path(), fs::path(parent));
    EXPECT_NE(first, other.path());
    std::ofstream(first + "/file") << std::string(100'000, 'x');
    EXPECT_GE(place.bytes_of_files(), 100'000U);
    EXPECT_FALSE(place.medium_of_files().text.empty());
    EXPECT_LT(other.bytes_of_files(), 100'000U);
  }
  EXPECT_FALSE(fs::exists(first));
  fs::remove_all(parent);
}

TEST(PoolPlace, IsMadeAnewAndRemovedTwice) {
  const std::string parent = scratch();
  PoolPlace place;
  ASSERT_TRUE(place.make(parent, "", 1).ok());
  const std::string first = place.path();
  ASSERT_TRUE(place.make(parent, "", 1).ok());
  EXPECT_FALSE(fs::exists(first));
  const std::string second = place.path();
  place.remove();
  place.remove();
  EXPECT_TRUE(place.path().empty());
  EXPECT_FALSE(fs::exists(second));
  fs::remove_all(parent);
}

// The child makes a place there and is killed.
std::string abandoned_in(const std::string& parent) {
  const pid_t child = fork();
  if (child == 0) {
    PoolPlace place;
    if (place.make(parent, "", 1).ok()) std::ofstream(place.path() + "/pool") << "bytes";
    ::raise(SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  for (const auto& entry : fs::directory_iterator(parent)) {
    if (fs::exists(entry.path() / "pool")) return entry.path();
  }
  return {};
}

TEST(PoolPlace, OfADeadOwnerIsRemovedAndNothingElse) {
  const std::string parent = scratch();
  const std::string dead = abandoned_in(parent);
  ASSERT_NE(dead, "");
  PoolPlace live;
  ASSERT_TRUE(live.make(parent, "", 1).ok());
  // Paths that only look like an abandoned directory: a user's folder, a file, a link, a folder whose mark is a link.
  fs::create_directory(parent + "/bonsai-bench-latest");
  std::ofstream(parent + "/bonsai-bench-latest/mine") << "mine";
  std::ofstream(parent + "/bonsai-bench-filefl") << "mine";
  fs::create_directory(parent + "/other");
  std::ofstream(parent + "/other/.owner") << "";
  fs::create_directory_symlink(parent + "/other", parent + "/bonsai-bench-linked");
  fs::create_directory(parent + "/bonsai-bench-marked");
  fs::create_symlink(parent + "/other/.owner", parent + "/bonsai-bench-marked/.owner");
  EXPECT_EQ(PoolPlace::remove_abandoned(parent, ""), std::vector<std::string>{dead});
  EXPECT_FALSE(fs::exists(dead));
  for (const char* name : {"latest/mine", "filefl", "linked/.owner", "marked/.owner"})
    EXPECT_TRUE(fs::exists(parent + "/bonsai-bench-" + name)) << name;
  EXPECT_TRUE(fs::exists(live.path()));
  EXPECT_TRUE(PoolPlace::remove_abandoned(parent, "").empty());
  fs::remove_all(parent);
}

TEST(PoolPlace, WithoutAChoiceThoseOfTheFallbackAreRemoved) {
  const std::string parent = scratch();
  const std::string dead = abandoned_in(parent);
  EXPECT_TRUE(PoolPlace::remove_abandoned("shm://laptop", parent).empty());
  const std::vector<std::string> removed = PoolPlace::remove_abandoned("", parent);
  EXPECT_EQ(std::count(removed.begin(), removed.end(), dead), 1);
  fs::remove_all(parent);
}

TEST(PoolPlace, RefusesWhatItCannotHaveAndNamesTheFlag) {
  PoolPlace place;
  const Status missing = place.make("/nowhere/at/all", "", 1);
  EXPECT_TRUE(missing.IsIoError()) << missing.ToString();
  EXPECT_NE(missing.message().find("--pool-dir"), std::string_view::npos);
  const Status elsewhere = place.make("shm://laptop", "", 1);
  EXPECT_TRUE(elsewhere.IsInvalidArgument()) << elsewhere.ToString();
  EXPECT_NE(elsewhere.message().find("--pool-dir"), std::string_view::npos);
  const std::string parent = scratch();
  const Status full = place.make(parent, "", uint64_t{1} << 60);
  EXPECT_TRUE(full.IsNoSpace()) << full.ToString();
  EXPECT_NE(full.message().find("--pool-dir"), std::string_view::npos);
  EXPECT_TRUE(place.path().empty());
  EXPECT_TRUE(fs::is_empty(parent)) << "nothing stays";
  fs::remove_all(parent);
}

TEST(PoolPlace, WithoutAChoiceTheFallbackServesWhereMemoryDoesNot) {
  const std::string parent = scratch();
  PoolPlace place;
  const Status status = place.make("", parent, uint64_t{1} << 60);  // in no memory, and on no disk
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  EXPECT_NE(status.message().find(parent), std::string_view::npos) << status.ToString();
  ASSERT_TRUE(place.make("", parent, 1).ok());
  fs::remove_all(parent);
}

}  // namespace
}  // namespace bonsai::bench
