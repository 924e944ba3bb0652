// SPDX-License-Identifier: Apache-2.0
// A store over shm whose bonsaid is killed and restarted, or stopped and continued, while clients work: operations are
// late, and none fails. An owner that is stopped meanwhile and replaced answers nothing more; `restart_test --owner
// POOL` is such an owner, also over rdma (scripts/testbed/testbed_test.py), and `--owner-without-lease POOL` one that
// does not look at its lease, by which these tests must fail.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/boot_clock.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "bonsai/db.h"
#include "bonsaid/testing/daemon_fixture.h"
#include "scale/testing/mutants.h"
#include "testing/scratch.h"

namespace bonsai::bonsaid {
namespace {

namespace fs = std::filesystem;

std::string value_of(uint64_t number) { return std::to_string(number) + std::string(number % 200, '.'); }

// Puts "k", then gets it and puts "mine" for ever, on a thread each, and prints for each call: 'g' or 'p', when it
// began (base::boot_ns()), the code of its status, and the value or the status. `stays_in_dram`: nothing is offloaded,
// so that "k" is answered without its node for as long as the log has room.
int own(const char* pool, bool stays_in_dram) {
  Options options = small_pool(60'000);
  if (stays_in_dram) options.background_threads = 0;
  const std::chrono::milliseconds pause(stays_in_dram ? 5 : 1);
  std::unique_ptr<DB> db;
  Status opened = DB::Open(options, pool, &db);
  if (opened.ok()) opened = db->Put("k", "old");
  if (!opened.ok()) std::printf("not open: %s\n", opened.ToString().c_str());
  const auto work = [&db, pause](char call) {
    for (uint64_t number = 1;; ++number) {
      const auto begin_ns = static_cast<unsigned long long>(base::boot_ns());
      std::string value;
      const Status status = call == 'g' ? db->Get("k", &value) : db->Put("mine", std::to_string(number));
      std::printf("%c %llu %d %s\n", call, begin_ns, static_cast<int>(status.code()),
                  status.ok() ? value.c_str() : status.ToString().c_str());
      std::fflush(stdout);
      std::this_thread::sleep_for(pause);
    }
  };
  if (!opened.ok()) return 1;
  std::thread puts(work, 'p');
  work('g');
  return 0;
}

class Restart : public DaemonFixture {};

// Threads that read and update, with what they have written and how long they have waited.
class Load {
 public:
  explicit Load(DB* db) {
    for (uint64_t i = 0; i < kThreads; ++i) threads_.emplace_back([this, db, i] { work(db, i); });
  }
  ~Load() { end(); }
  void end() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Returns when each thread has done `operations` further operations.
  void await(uint64_t operations) {
    for (uint64_t i = 0; i < kThreads; ++i) {
      const uint64_t until = done_[i].load() + operations;
      for (int tries = 0; done_[i].load() < until; ++tries) {
        ASSERT_LT(tries, 60'000) << "a thread stands: " << failure();
        ASSERT_EQ(failure(), "");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  std::string failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  // Two waits in milliseconds: the longest except for the `in_a_thousand` longest of a thousand, and the longest.
  // Requires: ended.
  [[nodiscard]] std::pair<uint64_t, uint64_t> waits(uint64_t in_a_thousand) const {
    std::vector<uint64_t> all;
    for (const std::vector<uint64_t>& mine : us_) all.insert(all.end(), mine.begin(), mine.end());
    std::sort(all.begin(), all.end());
    return {all[all.size() - 1 - all.size() * in_a_thousand / 1'000] / 1'000, all.back() / 1'000};
  }
  void expect_kept(DB* db) const {
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      for (uint64_t key = 0; key < kKeysEach; ++key) {
        std::string value;
        const Status status = db->Get(key_of(thread, key), &value);
        if (held_[thread][key] == 0) {
          EXPECT_TRUE(status.IsNotFound());
          continue;
        }
        EXPECT_EQ("OK", status.ToString());
        EXPECT_EQ(value, value_of(held_[thread][key])) << thread << " " << key;
      }
    }
  }

 private:
  static constexpr uint64_t kThreads = 3, kKeysEach = 200;

  static std::string key_of(uint64_t thread, uint64_t key) {
    return "t" + std::to_string(thread) + "k" + std::to_string(key);
  }
  void fail(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = what;
  }
  // Half reads and half updates of its own keys, and now and then a scan.
  void work(DB* db, uint64_t thread) {
    std::vector<uint64_t>& held = held_[thread];
    held.resize(kKeysEach);
    for (uint64_t number = 1; !stop_.load() && failure().empty(); ++number) {
      const uint64_t key = number * 7919 / 3 % kKeysEach;
      const auto begin = std::chrono::steady_clock::now();
      std::string value, expected = held[key] == 0 ? "" : value_of(held[key]);
      Status status;
      if (number % 64 == 0) {
        status = db->Scan(ScanOptions(), key_of(thread, 0), [&](std::string_view, std::string_view) { return true; });
      } else if (number % 2 == 0) {
        status = db->Put(key_of(thread, key), value_of(number));
        held[key] = number;
      } else {
        status = db->Get(key_of(thread, key), &value);
        if (status.IsNotFound()) status = Status::OK();
        if (value != expected) fail("a value that is not the last one: " + value);
      }
      if (!status.ok()) fail(status.ToString());
      us_[thread].push_back(static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count()));
      done_[thread].fetch_add(1);
    }
  }

  std::array<std::vector<uint64_t>, kThreads> held_, us_;
  std::array<std::atomic<uint64_t>, kThreads> done_{};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string failure_;
  std::vector<std::thread> threads_;
};

// The daemon is killed and restarted, and stopped and continued, under load: operations are late, and none fails.
TEST_F(Restart, DelaysOperationsAndFailsNone) {
  start();
  std::unique_ptr<DB> db;
  ASSERT_EQ("OK", DB::Open(small_pool(60'000), "shm://n/a", &db).ToString());
  const int rounds = testing::budget(3, 6, 20), stopped_ms = testing::budget(100, 300, 8'000);
  {
    Load load(db.get());
    load.await(200);
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      const std::unique_ptr<Iterator> iterator = db->NewIterator(ReadOptions());
      iterator->SeekToFirst();
      kill();
      std::this_thread::sleep_for(std::chrono::milliseconds(round % 2 * stopped_ms));
      start();
      load.await(50);
      uint64_t passed = 0;
      for (; iterator->Valid(); iterator->Next()) ++passed;
      EXPECT_EQ("OK", iterator->status().ToString());
      EXPECT_GT(passed, 0U);
      daemon_->signal(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(stopped_ms));
      daemon_->signal(SIGCONT);
      load.await(50);
    }
    load.end();
    EXPECT_EQ(load.failure(), "");
    const auto [usual_ms, longest_ms] = load.waits(1);
    std::printf("%d restarts, %d stops of %d ms: 0 failed operations; p99.9 %llu ms, longest %llu ms\n", rounds, rounds,
                stopped_ms, static_cast<unsigned long long>(usual_ms), static_cast<unsigned long long>(longest_ms));
    load.expect_kept(db.get());
    ASSERT_EQ("OK", db->Close().ToString());
    ASSERT_EQ("OK", DB::Open(small_pool(60'000), "shm://n/a", &db).ToString());
    load.expect_kept(db.get());
  }
  db.reset();
  CheckReport report;
  EXPECT_EQ("OK", Check("shm://n/a", &report).ToString());
  EXPECT_TRUE(report.ok());
}

// Beyond the bound updates fail for as long as the store is open. Reads come back when the daemon does.
TEST_F(Restart, BeyondTheBoundUpdatesAreUnavailableAndReadsComeBack) {
  start();
  std::unique_ptr<DB> db;
  ASSERT_EQ("OK", DB::Open(small_pool(3'000), "shm://n/a", &db).ToString());
  for (int i = 0; i < 500; ++i) ASSERT_EQ("OK", db->Put("key" + std::to_string(i), value_of(1'000)).ToString());
  ASSERT_EQ("OK", db->Drain().ToString());
  kill();
  const Status failed = db->Put("late", "v");
  EXPECT_TRUE(failed.IsUnavailable()) << failed.ToString();
  EXPECT_NE(failed.message().find("shm://n/a"), std::string::npos) << failed.ToString();
  start();
  for (int i = 0; i < 500; ++i) {
    std::string value;
    Status status = db->Get("key" + std::to_string(i), &value);
    for (int tries = 0; tries < 2'000 && status.IsUnavailable(); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      status = db->Get("key" + std::to_string(i), &value);
    }
    ASSERT_EQ("OK", status.ToString());
    ASSERT_EQ(value, value_of(1'000));
  }
  EXPECT_TRUE(db->Put("late", "v").IsUnavailable());
}

// For machines whose clocks may stand: what is in DRAM is not answered either while the node is silent.
TEST_F(Restart, WithACheckedLeaseEachReadAsksItsNode) {
  start();
  std::unique_ptr<DB> db;
  ASSERT_EQ("OK", DB::Open(small_pool(60'000), "shm://n/a?lease=checked", &db).ToString());
  Load load(db.get());
  load.await(100);
  kill();
  start();
  load.await(100);
  load.end();
  EXPECT_EQ(load.failure(), "");
  load.expect_kept(db.get());
  db.reset();
  ASSERT_EQ("OK", DB::Open(small_pool(2'000), "shm://n/a?lease=checked", &db).ToString());
  ASSERT_EQ("OK", db->Put("k", "v").ToString());
  std::string value;
  EXPECT_EQ("OK", db->Get("k", &value).ToString());
  daemon_->signal(SIGSTOP);
  const Status asked = db->Get("k", &value);
  EXPECT_TRUE(asked.IsUnavailable()) << asked.ToString();
  daemon_->signal(SIGCONT);
  for (int tries = 0; tries < 2'000 && !db->Get("k", &value).ok(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ("OK", db->Get("k", &value).ToString());
  EXPECT_TRUE(DB::Open(small_pool(100), scratch_.file("b") + "?lease=checked", &db).IsInvalidArgument());
}

// ---- two owners

// An owner in a process of its own, and what it has printed.
class Owner {
 public:
  struct Call {
    char call;
    uint64_t begin_ns;
    int code;
    std::string text;
  };

  // `how`: "--owner" or "--owner-without-lease".
  Owner(const std::string& folder, const std::string& how)
      : child_(folder, {fs::read_symlink("/proc/self/exe").string(), how, "shm://n/a"}) {}
  ~Owner() { child_.signal(SIGKILL); }

  void signal(int number) { child_.signal(number); }
  [[nodiscard]] std::vector<Call> calls() const {
    std::vector<Call> calls;
    std::istringstream lines(child_.out());
    for (std::string line; std::getline(lines, line) && !lines.eof();) {  // the last one may not be whole
      Call call{};
      std::istringstream words(line);
      words >> call.call >> call.begin_ns >> call.code;
      std::getline(words >> std::ws, call.text);
      calls.push_back(std::move(call));
    }
    return calls;
  }
  // Returns when it has done so many calls of each kind that began after that time.
  std::vector<Call> await(uint64_t after_ns, size_t each) const {
    for (int tries = 0; tries < 30'000; ++tries) {
      std::vector<Call> made = calls();
      std::erase_if(made, [after_ns](const Call& call) { return call.begin_ns <= after_ns; });
      const auto gets =
          static_cast<size_t>(std::ranges::count_if(made, [](const Call& call) { return call.call == 'g'; }));
      if (gets >= each && made.size() - gets >= each) return made;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ADD_FAILURE() << "the owner stands: " << child_.out() << child_.err();
    return {};
  }
  // Whether it has a file of that name mapped.
  [[nodiscard]] bool maps(const std::string& path) const {
    std::ifstream maps("/proc/" + std::to_string(child_.pid()) + "/maps");
    std::string line;
    while (std::getline(maps, line)) {
      if (line.find(path) != std::string::npos) return true;
    }
    return false;
  }

 private:
  Child child_;
};

class Replaced : public Restart {
 protected:
  // What became of an owner that was stopped.
  struct Outcome {
    bool replaced = false;           // else it still maps the pool, so that nobody else gets it
    bool changed = false;            // it has changed the next owner's pool
    std::vector<Owner::Call> calls;  // that began after the next owner's update, or refusal
  };
  // The daemon is killed, its owner stopped, the daemon restarted; another one opens the pool and updates it; the first
  // one goes on. `waits`: until it has noticed that its node is gone; soon after, it has given the lock back.
  Outcome stop_and_replace(const std::string& how, bool waits, uint64_t pause_ms) {
    Outcome outcome;
    Owner owner(new_folder("owner"), how);
    owner.await(0, 3);
    kill();
    for (int tries = 0; waits && owner.maps(pools_ + "/a"); ++tries) {
      if (tries == 10'000) return ADD_FAILURE() << "it does not notice that its node is gone", outcome;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    owner.signal(SIGSTOP);
    start();
    Options next = small_pool(60'000);
    next.background_threads = 0;
    std::unique_ptr<DB> db;
    const Status opened = DB::Open(next, "shm://n/a", &db);
    outcome.replaced = opened.ok();
    EXPECT_TRUE(opened.ok() || (opened.IsBusy() && !waits)) << opened.ToString();
    if (outcome.replaced) {
      EXPECT_EQ("OK", db->Put("k", "new").ToString());
    }
    const uint64_t after_ns = base::boot_ns();
    const std::string bytes = testing::read_file(pools_ + "/a");
    owner.signal(SIGCONT);
    outcome.calls = owner.await(after_ns, 10);
    outcome.changed = outcome.replaced && testing::read_file(pools_ + "/a") != bytes;
    owner.signal(SIGKILL);
    if (!outcome.replaced) return outcome;
    std::string value;
    EXPECT_EQ("OK", db->Get("k", &value).ToString());
    EXPECT_EQ(value, "new");
    EXPECT_EQ("OK", db->Close().ToString());
    return outcome;
  }
  static bool is_old_answer(const Owner::Call& call) { return call.code == static_cast<int>(Status::Code::kOk); }
};

// If the next owner gets the pool, the first one answers no call that begins after the next one's update, and changes
// nothing. If the first one still maps the pool, nobody gets it, and it goes on.
TEST_F(Replaced, AnOwnerThatWasStoppedAnswersNothingMore) {
  const int rounds = testing::budget(2, 4, 200);
  base::Random dice(base::seed_from_env_or(1));
  int replaced = 0;
  start();
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const bool waits = round % 2 == 0 || dice.below(2) == 0;
    const Outcome outcome = stop_and_replace("--owner", waits, 5 + dice.below(20));
    replaced += outcome.replaced ? 1 : 0;
    EXPECT_FALSE(outcome.changed) << "it has changed the pool";
    const std::string who = "has got another owner meanwhile: bonsaid_restart_";  // as much of this program's name
    for (const Owner::Call& call : outcome.calls) {
      EXPECT_NE(is_old_answer(call), outcome.replaced) << call.call << ": " << call.text;
      const bool says_who = call.call == 'p' || call.text.find(who) != std::string::npos;
      EXPECT_TRUE(says_who || !outcome.replaced) << call.text;
    }
  }
  std::printf("%d rounds: %d replaced owners, which answered nothing\n", rounds, replaced);
  EXPECT_GE(replaced, rounds / 2);
}

TEST_F(Replaced, WithoutLookingAtItsLeaseItWouldAnswer) {
  start();
  const Outcome outcome = stop_and_replace("--owner-without-lease", true, 50);
  EXPECT_TRUE(outcome.replaced);
  const auto old = std::ranges::find_if(outcome.calls, is_old_answer);
  ASSERT_NE(old, outcome.calls.end()) << "the test before cannot fail";
  EXPECT_EQ(old->call, 'g');
  EXPECT_EQ(old->text, "old");
}

}  // namespace
}  // namespace bonsai::bonsaid

int main(int argc, char** argv) {
  const std::string how = argc == 3 ? argv[1] : "";
  const bool has_no_lease = how == "--owner-without-lease";
  if (has_no_lease) {
    bonsai::testing::mutants_on.store(bonsai::scale::kLeaseNotChecked | bonsai::scale::kReplacedGoesOn);
  }
  if (how.starts_with("--owner")) return bonsai::bonsaid::own(argv[2], has_no_lease);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
