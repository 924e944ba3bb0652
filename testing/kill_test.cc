// SPDX-License-Identifier: Apache-2.0
// No data is lost: writers on the shadow medium are killed at random moments, and the recovered state is compared with
// the acknowledged updates. With the shadow, stores reach the pool file only by flush and fence, so that SIGKILL is a
// power cut. With flushes switched off the same rounds must find a loss.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/far.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "bonsai/testing.h"
#include "testing/client.h"
#include "testing/crash_check.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

// Words of the recorder's shared memory.
enum Mark : size_t { kOpened, kSyncedAt, kOffloads, kMerges, kQuietClients };

constexpr int kExitFailed = 3;
constexpr int kExitNotKilled = 4;
constexpr uint64_t kOpenMsMax = 20'000;

struct Setup {
  Durability durability = Durability::kDurable;
  size_t targets = 1;
  KeyFormat key_format = KeyFormat::kBytes;
  bool drops_flushes = false;
  bool stops_before_the_kill = false;  // the writers fall silent for longer than any loss window
};

ClientOptions clients_of(const Setup& setup, uint64_t generation) {
  ClientOptions options;
  options.clients = 3;
  options.keys = 1600;
  options.key_format = setup.key_format;
  options.value_bytes_max = 400;
  options.batch_count_max = generation % 2 == 0 ? 5 : 40;  // 40 updates take several segments of the log
  options.generation = generation;
  options.tide = 2'000;
  options.mix = {.put = 60, .del = 10, .batch = 12, .get = 6, .multi_get = 2, .scan = 2, .snapshot = 1, .iterator = 1};
  options.mix.conditional = 16;
  options.mix.drain = generation % 2;
  options.mix.sync = setup.durability == Durability::kBuffered ? 1 : 0;
  return options;
}

Options db_options(const Setup& setup) {
  Options options;
  options.create_if_missing = true;
  options.key_format = setup.key_format;
  options.pool_bytes = (uint64_t{24} << 20) / setup.targets;
  options.log_bytes = uint64_t{1} << 20;                 // small, so that the log is drained all the time
  options.persistence_domain = PersistenceDomain::kAdr;  // the shadow acts as ADR, also on a machine that has eADR
  options.durability = setup.durability;
  return options;
}

[[noreturn]] void child_fails(const std::string& why) {
  std::fprintf(stderr, "the writer failed: %s\n", why.c_str());
  std::fflush(stderr);
  _exit(kExitFailed);
}

void raise_to(std::atomic<uint64_t>* word, uint64_t value) {
  uint64_t seen = word->load();
  while (seen < value && !word->compare_exchange_weak(seen, value)) continue;
}

void run_client(DB* db, const Setup& setup, const ClientOptions& options, uint32_t number, uint64_t seed,
                Recorder* recorder) {
  constexpr uint64_t kQuietAfter = 400;
  Client client(db, options, number, seed, recorder);
  for (uint64_t i = 0; !(setup.stops_before_the_kill && i == kQuietAfter) && client.step(); ++i) {
    raise_to(&recorder->mark(kSyncedAt), client.synced_at());
    if (number != 0 || i % 64 != 0) continue;
    const Stats stats = db->GetStats();
    recorder->mark(kOffloads).store(stats.offloads);
    recorder->mark(kMerges).store(stats.merges);
  }
  if (!client.error().empty()) child_fails(client.error());
  recorder->mark(kQuietClients).fetch_add(1);
}

// The process that will be killed. With `only_open` it does nothing but recover.
[[noreturn]] void write_until_killed(const Setup& setup, const std::string& pool, uint64_t generation, uint64_t seed,
                                     bool only_open, Recorder* recorder) {
  TestOptions shadow;
  shadow.medium = far_asked() ? TestMedium::kFar : TestMedium::kShadow;
  shadow.shadow_drops_flushes = setup.drops_flushes;
  shadow.shadow_eviction_seed = seed % 2 == 0 ? seed : 0;
  std::unique_ptr<DB> db;
  if (Status status = OpenForTest(db_options(setup), shadow, pool, &db); !status.ok())
    child_fails("open: " + status.ToString());
  if (!only_open) {
    const ClientOptions clients = clients_of(setup, generation);
    std::vector<base::Thread> threads;
    for (uint32_t number = 0; number < clients.clients; ++number) {
      threads.emplace_back("client", [&, number] { run_client(db.get(), setup, clients, number, seed, recorder); });
    }
    recorder->mark(kOpened).store(1);
    threads.clear();
  }
  recorder->mark(kOpened).store(1);
  base::sleep_ms(60'000);
  _exit(kExitNotKilled);
}

void spin_us(uint64_t us) {
  const uint64_t end = base::now_ns() + us * base::kNsPerUs;
  while (base::now_ns() < end) base::yield_thread();
}

// One pool through several crashes.
class Rig {
 public:
  Rig(const Setup& setup, uint64_t seed) : setup_(setup), random_(seed), pool_(folder_.pool(setup.targets)) {
    std::unique_ptr<DB> db;
    const Status status = DB::Open(db_options(setup), pool_, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (status.ok()) {
      EXPECT_TRUE(db->Close().ok());
    }
    for (uint64_t key = 0; key < clients_of(setup, 0).keys; ++key) held_.push_back({key, kAbsent});
  }

  // Runs the writers, kills them, recovers and compares. The next call goes on with the recovered state.
  Verdict crash_once() {
    ++generation_;
    const std::string log = folder_.file("log." + std::to_string(generation_));
    const auto recorder =
        Recorder::create_file(log, {.lanes = 3, .operations_max = uint64_t{1} << 17, .cells_max = uint64_t{1} << 20});
    std::filesystem::remove(log);  // the mapping stays
    if (!killed(false, recorder.get())) return Verdict::wrong("the writer ended by itself: " + ended_);
    if (random_.chance(1, 4) && !killed(true, recorder.get()))
      return Verdict::wrong("recovery ended by itself: " + ended_);

    const History history = recorder->history();
    acknowledged_ += static_cast<uint64_t>(std::count_if(history.operations.begin(), history.operations.end(),
                                                         [](const Operation& op) { return op.ret != kOpen; }));
    offloads_ += recorder->mark(kOffloads).load();
    merges_ += recorder->mark(kMerges).load();
    std::vector<Cell> recovered;
    if (Verdict verdict = recover(&recovered); !verdict.ok) return verdict;
    const bool all = setup_.durability == Durability::kDurable || setup_.stops_before_the_kill;
    const CrashCase what{all ? Durability::kDurable : Durability::kBuffered, held_, recovered,
                         recorder->mark(kSyncedAt).load()};
    const ClientOptions clients = clients_of(setup_, generation_);
    const Verdict verdict = check_crash(history, what, [&](uint64_t key) { return clients.one_writer(key); });
    held_ = recovered;
    return verdict;
  }

  [[nodiscard]] uint64_t acknowledged() const { return acknowledged_; }
  [[nodiscard]] uint64_t offloads() const { return offloads_; }
  [[nodiscard]] uint64_t merges() const { return merges_; }

 private:
  // Starts a process and kills it: sometimes while it opens the pool, else while it works. False if it ended before.
  bool killed(bool only_open, Recorder* recorder) {
    const uint64_t seed = random_.next();
    const bool early = only_open || (!setup_.stops_before_the_kill && generation_ > 1 && random_.chance(1, 6));
    const uint64_t delay_us = random_.below(early ? 8'000 : 120'000);
    recorder->mark(kOpened).store(0);
    recorder->mark(kQuietClients).store(0);
    const pid_t child = fork();
    if (child == 0) write_until_killed(setup_, pool_, generation_, seed, only_open, recorder);
    EXPECT_GT(child, 0);
    if (!early) wait_until_busy(child, recorder);
    spin_us(delay_us);
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    ended_ = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                 : "exit code " + std::to_string(WEXITSTATUS(status));
    return false;
  }

  // Waits until the writers work. If they stop before the kill, waits until they have been silent for a second.
  void wait_until_busy(pid_t child, Recorder* recorder) {
    const uint64_t end = base::now_ns() + kOpenMsMax * base::kNsPerMs;
    const auto& mark = recorder->mark(setup_.stops_before_the_kill ? kQuietClients : kOpened);
    const uint64_t wanted = setup_.stops_before_the_kill ? clients_of(setup_, 0).clients : 1;
    siginfo_t info{};
    while (mark.load() < wanted && base::now_ns() < end) {
      if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == child)
        return;
      base::sleep_ms(1);
    }
    EXPECT_GE(mark.load(), wanted) << "the writer did not get to work in time";
    if (setup_.stops_before_the_kill) base::sleep_ms(1000);
  }

  Verdict check_pool(bool must_be_clean) {
    CheckReport report;
    if (Status status = Check(pool_, &report); !status.ok()) return Verdict::wrong("check: " + status.ToString());
    if (must_be_clean && !report.clean) return Verdict::wrong("a closed pool is not clean");
    if (report.ok()) return {};
    const auto& damage = report.damages[0];
    return Verdict::wrong("damage: " + damage.where + ": " + damage.what + " (keys " + damage.key_range + ")");
  }

  // Opens the pool by the normal medium at either level and reads it in several ways.
  Verdict recover(std::vector<Cell>* recovered) {
    if (Verdict verdict = check_pool(false); !verdict.ok) return verdict;
    Options options = db_options(setup_);
    options.create_if_missing = false;
    options.durability = random_.chance(1, 2) ? Durability::kDurable : Durability::kBuffered;
    std::unique_ptr<DB> db;
    if (Status status = DB::Open(options, pool_, &db); !status.ok()) {
      return Verdict::wrong("recovery: " + status.ToString());
    }
    if (Verdict verdict = read_all(db.get(), recovered); !verdict.ok) return verdict;
    if (random_.chance(1, 3)) {
      if (Status status = db->Drain(); !status.ok()) return Verdict::wrong("drain: " + status.ToString());
      std::vector<Cell> drained;
      if (Verdict verdict = read_all(db.get(), &drained); !verdict.ok) return verdict;
      for (size_t i = 0; i < drained.size(); ++i) {
        if (drained[i].value != (*recovered)[i].value) return Verdict::wrong("draining changed what was recovered");
      }
    }
    if (Status status = db->Close(); !status.ok()) return Verdict::wrong("close: " + status.ToString());
    return check_pool(true);
  }

  Verdict read_all(DB* db, std::vector<Cell>* cells) {
    const KeyCodec codec(setup_.key_format);
    *cells = held_;
    for (Cell& cell : *cells) {
      std::string value;
      const Status status = db->Get(codec.key_of(cell.key), &value);
      if (!status.ok() && !status.IsNotFound()) return Verdict::wrong("get: " + status.ToString());
      cell.value = status.ok() ? decode_value(value) : kAbsent;
    }
    std::vector<Cell> scanned = held_;
    for (Cell& cell : scanned) cell.value = kAbsent;
    bool foreign = false;
    const Status status = db->Scan(ScanOptions(), {}, [&](std::string_view key, std::string_view value) {
      const auto number = codec.number_of(key);
      foreign = !number || *number >= scanned.size();
      if (!foreign) scanned[*number].value = decode_value(value);
      return !foreign;
    });
    if (foreign) return Verdict::wrong("a key that nobody wrote was recovered");
    if (!status.ok()) return Verdict::wrong("scan: " + status.ToString());
    for (size_t i = 0; i < scanned.size(); ++i) {
      if (scanned[i].value != (*cells)[i].value) {
        return Verdict::wrong("after recovery gets and scans differ on key " + std::to_string(i));
      }
    }
    return {};
  }

  const Setup setup_;
  base::Random random_;
  ScratchFolder folder_;
  const std::string pool_;
  std::string ended_;  // how a process ended that should have been killed
  uint64_t generation_ = 0;
  std::vector<Cell> held_;
  uint64_t acknowledged_ = 0;
  uint64_t offloads_ = 0;
  uint64_t merges_ = 0;
};

constexpr int kCrashesPerPool = 4;

void run_rounds(const Setup& setup, int rounds) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  uint64_t acknowledged = 0;
  uint64_t offloads = 0;
  uint64_t merges = 0;
  for (int round = 0; round < rounds;) {
    Rig rig(setup, seed + static_cast<uint64_t>(round));
    for (int crash = 0; crash < kCrashesPerPool && round < rounds; ++crash, ++round) {
      const Verdict verdict = rig.crash_once();
      add_figure("kill_rounds", 1);
      add_figure("acknowledged_lost", verdict.ok ? 0 : 1);
      ASSERT_TRUE(verdict.ok) << "round " << round << ", seed " << seed << ": " << verdict.text;
    }
    acknowledged += rig.acknowledged();
    offloads += rig.offloads();
    merges += rig.merges();
  }
  // A run in which hardly anything happened would prove nothing. A single kill may come at once.
  if (rounds >= kCrashesPerPool) {
    EXPECT_GT(acknowledged, static_cast<uint64_t>(rounds) * 50);
    EXPECT_TRUE(offloads > 0 || setup.stops_before_the_kill);
  }
  std::printf("%d rounds, %llu operations, %llu offloads, %llu merges\n", rounds,
              static_cast<unsigned long long>(acknowledged), static_cast<unsigned long long>(offloads),
              static_cast<unsigned long long>(merges));
  add_figure("kill_acknowledged", acknowledged);
}

TEST(Kill, Durable) { run_rounds({}, budget(3, 16, 300)); }
TEST(Kill, DurableFixed8) { run_rounds({.key_format = KeyFormat::kFixed8}, budget(1, 8, 150)); }
TEST(Kill, DurableTwoTargets) { run_rounds({.targets = 2}, budget(2, 8, 150)); }
TEST(Kill, Buffered) { run_rounds({.durability = Durability::kBuffered}, budget(2, 12, 300)); }
TEST(Kill, BufferedTwoTargets) { run_rounds({.durability = Durability::kBuffered, .targets = 2}, budget(1, 6, 150)); }

TEST(Kill, BufferedKeepsAllThatIsOlderThanItsWindow) {
  run_rounds({.durability = Durability::kBuffered, .stops_before_the_kill = true}, budget(1, 2, 40));
}

// The canary: a store that does not flush loses data, and these rounds must show it.
void expect_violation(Setup setup) {
  constexpr uint64_t kRoundsMax = 10;
  setup.drops_flushes = true;
  Verdict verdict;
  uint64_t round = 0;
  while (verdict.ok && round++ < kRoundsMax) {
    Rig rig(setup, round);
    for (int crash = 0; crash < 2 && verdict.ok; ++crash) verdict = rig.crash_once();
  }
  EXPECT_FALSE(verdict.ok) << "no loss was noticed in " << kRoundsMax << " rounds without flushes";
  std::printf("canary, round %llu: %s\n", static_cast<unsigned long long>(round), verdict.text.substr(0, 300).c_str());
}

TEST(KillCanary, DurableWithoutFlushesIsCaught) { expect_violation({}); }
TEST(KillCanary, BufferedWithoutFlushesIsCaught) {
  expect_violation({.durability = Durability::kBuffered, .stops_before_the_kill = true});
}

}  // namespace
}  // namespace bonsai::testing
