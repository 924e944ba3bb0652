// SPDX-License-Identifier: Apache-2.0
// Copies that race for one name: the first that is complete has it, and holds its own source; nothing else is removed,
// renamed or replaced.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/nvm/mapping.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "store/new_pool.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;
namespace fs = std::filesystem;

constexpr int kRecordsOfSource = 300;

Options creating() {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = kMiB;
  options.background_threads = 0;
  return options;
}

class Copies : public ::testing::Test {
 protected:
  // A pool whose records name it.
  std::string make_source(const std::string& name) {
    std::unique_ptr<DB> db;
    EXPECT_TRUE(DB::Open(creating(), folder_.file(name), &db).ok());
    fill(db.get(), name);
    EXPECT_TRUE(db->Close().ok());
    return folder_.file(name);
  }
  static void fill(DB* db, const std::string& name) {
    for (int i = 0; i < kRecordsOfSource; ++i) ASSERT_TRUE(db->Put("key" + std::to_string(i), name).ok());
  }
  // The source whose records the pool has: all of one source.
  static std::string source_of(const std::string& path) {
    std::unique_ptr<DB> db;
    const Status status = DB::Open({}, path, &db);
    if (!status.ok()) return status.ToString();
    std::map<std::string, int> sources;
    EXPECT_TRUE(db->Scan({}, {}, [&](auto, auto value) { return ++sources[std::string(value)] > 0; }).ok());
    if (sources.size() != 1 || sources.begin()->second != kRecordsOfSource) return "a mixture";
    return sources.begin()->first;
  }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.file(""))) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  ScratchFolder folder_;
  const std::string copy_ = folder_.file("copy");
};

TEST_F(Copies, TheFirstThatIsCompleteHasTheName) {
  folder_.expect_damage(folder_.file("copy.partial"));
  std::ofstream(copy_ + ".partial") << "of somebody";
  store::NewPool first, second;
  ASSERT_EQ("OK", first.create(creating(), copy_).ToString());
  fill(&first.db(), "first");
  ASSERT_EQ("OK", second.create(creating(), copy_).ToString());
  fill(&second.db(), "second");
  {
    store::NewPool third;
    ASSERT_EQ("OK", third.create(creating(), copy_).ToString());
    fill(&third.db(), "third");
  }
  EXPECT_EQ(files(), std::vector<std::string>{"copy.partial"}) << "what is not complete has no name";
  ASSERT_EQ("OK", first.complete().ToString());
  const Status late = second.complete();
  EXPECT_TRUE(late.IsBusy()) << late.ToString();
  EXPECT_NE(late.message().find(copy_), std::string::npos) << late.ToString();
  EXPECT_EQ(source_of(copy_), "first");
  store::NewPool later;
  EXPECT_TRUE(later.create(creating(), copy_).IsInvalidArgument());
  EXPECT_EQ(text_of(copy_ + ".partial"), "of somebody");
  EXPECT_EQ(files(), (std::vector<std::string>{"copy", "copy.partial"}));
}

TEST_F(Copies, AllTargetsGetTheirNamesOrNone) {
  const std::string path = folder_.pool(3, "copy");
  const auto text = [](int i) { return "of somebody " + std::to_string(i); };
  for (int taken = 0; taken < 3; ++taken) {
    store::NewPool pool;
    ASSERT_EQ("OK", pool.create(creating(), path).ToString());
    fill(&pool.db(), "pool");
    const std::string name = "copy." + std::to_string(taken);
    std::ofstream(folder_.file(name)) << text(taken);
    EXPECT_TRUE(pool.complete().IsBusy());
    EXPECT_EQ(files(), std::vector<std::string>{name});
    EXPECT_EQ(text_of(folder_.file(name)), text(taken));
    fs::remove(folder_.file(name));
  }
  fs::create_symlink(folder_.file("nowhere"), folder_.file("copy.1"));
  store::NewPool pool;
  const Status dangling = pool.create(creating(), path);
  EXPECT_TRUE(dangling.IsIoError()) << dangling.ToString();
  EXPECT_NE(dangling.message().find("is a link to " + folder_.file("nowhere")), std::string::npos)
      << dangling.ToString();
  EXPECT_EQ(files(), std::vector<std::string>{"copy.1"});
}

TEST_F(Copies, OnlyTheFileThatWasOpenedIsRemoved) {
  const std::string pool = make_source("a"), link = folder_.file("link"), other = folder_.file("other");
  fs::create_symlink(pool, link);
  ASSERT_EQ("OK", Remove(link).ToString());
  EXPECT_TRUE(files().empty()) << "the pool, and the link that would lead nowhere";
  const std::string again = make_source("a");
  std::unique_ptr<base::Mapping> mapping;
  ASSERT_TRUE(base::Mapping::open(again, {}, &mapping).ok());
  fs::rename(again, other);
  std::ofstream(again) << "of somebody";
  const Status replaced = mapping->remove();
  EXPECT_TRUE(replaced.IsIoError()) << replaced.ToString();
  EXPECT_EQ(text_of(again), "of somebody");
  EXPECT_TRUE(fs::exists(other));
}

// Each racer copies a pool of its own to the same name, again and again; some are killed.
TEST_F(Copies, RacersAndKillsLeaveOneWholeCopyOrNothing) {
  constexpr int kRacers = 4;
  std::ofstream(copy_ + ".partial") << "of somebody";
  folder_.expect_damage(copy_ + ".partial");
  std::vector<std::string> sources;
  for (int i = 0; i < kRacers; ++i) sources.push_back(make_source("source" + std::to_string(i)));
  const std::vector<std::string> before = files();
  base::Random random(base::seed_from_env_or(base::fresh_seed()));
  int won = 0, lost = 0, killed = 0;
  for (int round = 0; round < budget(15, 60, 1000); ++round) {
    std::vector<pid_t> racers;
    for (int i = 0; i < kRacers; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        std::unique_ptr<DB> db;
        Options options;
        options.background_threads = 0;
        Status status = DB::Open(options, sources[static_cast<size_t>(i)], &db);
        if (status.ok()) status = Checkpoint(db.get(), creating(), copy_);
        ::_exit(status.ok() ? 0 : (status.IsBusy() || status.IsInvalidArgument()) ? 1 : 2);
      }
      racers.push_back(child);
    }
    base::sleep_us(random.below(8'000));
    for (const pid_t racer : racers) {
      if (random.below(3) == 0) ::kill(racer, SIGKILL);
    }
    int winner = -1;
    bool any_killed = false;
    for (int i = 0; i < kRacers; ++i) {
      int status = 0;
      ASSERT_EQ(::waitpid(racers[static_cast<size_t>(i)], &status, 0), racers[static_cast<size_t>(i)]);
      any_killed = any_killed || WIFSIGNALED(status);
      killed += WIFSIGNALED(status) ? 1 : 0;
      if (!WIFEXITED(status)) continue;
      EXPECT_LT(WEXITSTATUS(status), 2);
      lost += WEXITSTATUS(status) == 1 ? 1 : 0;
      if (WEXITSTATUS(status) != 0) continue;
      EXPECT_EQ(winner, -1) << "two have made the one name";
      winner = i;
      ++won;
    }
    EXPECT_TRUE(winner >= 0 || any_killed);
    if (fs::exists(copy_)) {
      const std::string source = source_of(copy_);
      EXPECT_TRUE(winner < 0 ? source.starts_with("source") : source == "source" + std::to_string(winner)) << source;
      fs::remove(copy_);
    } else {
      EXPECT_EQ(winner, -1);
    }
    EXPECT_EQ(files(), before);
    EXPECT_EQ(text_of(copy_ + ".partial"), "of somebody");
    if (HasFailure()) break;
  }
  std::printf("%d copies won, %d lost, %d were killed\n", won, lost, killed);
  EXPECT_GT(won, 0);
  add_figure("copies_raced", won + lost + killed);
}

}  // namespace
}  // namespace bonsai::testing
