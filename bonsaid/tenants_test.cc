// SPDX-License-Identifier: Apache-2.0
// Stores of several processes on one bonsaid over shm: YCSB A through outages of the daemon, tenants beside one that is
// stopped, owners that come and are killed. Times are printed, and judge nothing.
//
// `tenants_test --owner POOL` opens the pool, puts, prints "owns" and goes on until it is killed.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/testing/sanitized.h"
#include "bonsai/db.h"
#include "bonsaid/testing/daemon_fixture.h"
#include "testing/scratch.h"

namespace bonsai::bonsaid {
namespace {

namespace fs = std::filesystem;
using testing::budget;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

constexpr uint32_t kWaitMsMax = 60'000;

int own(const char* pool) {
  std::unique_ptr<DB> db;
  const Status opened = DB::Open(small_pool(kWaitMsMax), pool, &db);
  std::printf("%s\n", opened.ok() && db->Put("k", "v").ok() ? "owns" : opened.ToString().c_str());
  std::fflush(stdout);
  for (uint64_t n = 0; opened.ok(); ++n) static_cast<void>(db->Put("k" + std::to_string(n % 100), "v"));
  return 1;
}

// The text after `name` in a file of JSON, from the last `"workload": "a"` on, up to the next comma or bracket.
std::string number_of_a(const std::string& json, const std::string& name) {
  const size_t run = json.rfind("\"workload\": \"a\"");
  const size_t at = run == std::string::npos ? run : json.find('"' + name + "\": ", run);
  if (at == std::string::npos) return "none";
  const size_t begin = at + name.size() + 4;
  return json.substr(begin, json.find_first_of(",}\n", begin) - begin);
}

class Tenants : public DaemonFixture {
 protected:
  // A process that runs YCSB A on a store of its own, verifies what it reads, and ends after so many seconds.
  struct Ycsb {
    std::string folder;
    std::unique_ptr<Child> process;

    [[nodiscard]] std::string json() const { return testing::read_file(folder + "/results/results.json"); }
  };
  Ycsb start_ycsb(int threads, int seconds, int records) {
    Ycsb ycsb{new_folder("ycsb"), nullptr};
    ycsb.process = std::make_unique<Child>(
        ycsb.folder, std::vector<std::string>{
                         BENCH_PROGRAM, "run", "--engines=bonsai", "--workloads=load,a", "--latency=all",
                         "--records=" + std::to_string(records), "--threads=" + std::to_string(threads),
                         "--seconds=" + std::to_string(seconds), "--pool-dir=shm://n",
                         "--wait-ms=600000",  // hundreds of threads share the processors
                         "--workload-dir=" BONSAI_SOURCE_DIR "/conf/workloads", "--out=" + ycsb.folder + "/results"});
    return ycsb;
  }
  static void expect_no_failure(const Ycsb& ycsb) {
    EXPECT_EQ(ycsb.process->wait(900'000), 0) << ycsb.process->out() << ycsb.process->err();
    EXPECT_EQ(number_of_a(ycsb.json(), "failures"), "0") << ycsb.process->out();
    EXPECT_EQ(number_of_a(ycsb.json(), "first_failure"), "null");
    EXPECT_EQ(number_of_a(ycsb.json(), "complete"), "true");
  }
  static void print_waits(const Ycsb& ycsb) {
    const std::string json = ycsb.json();
    for (const char* kind : {"read", "update"}) {
      const size_t at = json.find('"' + std::string(kind) + "\": {", json.rfind("\"workload\": \"a\""));
      ASSERT_NE(at, std::string::npos) << "the results have no latencies";
      const std::string part = "\"workload\": \"a\"" + json.substr(at);
      std::printf("  %s: p99.9 %s us, longest %s us\n", kind, number_of_a(part, "p999").c_str(),
                  number_of_a(part, "max").c_str());
    }
  }
};

TEST_F(Tenants, YcsbAFailsNoOperationThroughKillsAndStopsOfTheDaemon) {
  const int rounds = budget(1, 2, 20), stopped_ms = budget(200, 500, 8'000), seconds = budget(4, 6, 600);
  start();
  const Ycsb ycsb = start_ycsb(2, seconds, budget(2'000, 2'000, 20'000));
  const int rest_ms = (seconds * 1'000 - rounds * stopped_ms) / (2 * rounds + 1);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    sleep_ms(rest_ms);
    kill();
    start();
    sleep_ms(rest_ms);
    daemon_->signal(SIGSTOP);
    sleep_ms(stopped_ms);
    daemon_->signal(SIGCONT);
  }
  expect_no_failure(ycsb);
  std::printf("YCSB A for %d s, %d restarts, %d stops of %d ms: %s failed operations, %s op/s\n", seconds, rounds,
              rounds, stopped_ms, number_of_a(ycsb.json(), "failures").c_str(),
              number_of_a(ycsb.json(), "throughput_ops_per_s").c_str());
  print_waits(ycsb);
}

// Eight stores, of which one process is stopped for most of the time, in which the others fail nothing.
TEST_F(Tenants, OneThatIsStoppedFailsNothingOfTheOthers) {
  const int stores = 8, threads = budget(16, 16, 64), seconds = budget(4, 6, 90), stopped_s = budget(1, 2, 60);
  start();
  for (const bool stops : {false, true}) {
    std::vector<Ycsb> tenants;
    for (int i = 0; i < stores; ++i) tenants.push_back(start_ycsb(threads, seconds, 500));
    if (stops) {
      sleep_ms(seconds * 1'000 / 3);
      tenants[0].process->signal(SIGSTOP);
      sleep_ms(stopped_s * 1'000);
      tenants[0].process->signal(SIGCONT);
    }
    double others = 0;
    for (const Ycsb& each : tenants) {
      expect_no_failure(each);
      if (&each != tenants.data()) others += std::atof(number_of_a(each.json(), "throughput_ops_per_s").c_str());
    }
    std::printf("%d stores of %d threads, %s: the %d others make %.0f op/s together\n", stores, threads,
                stops ? "one stopped for a while" : "all run", stores - 1, others);
  }
}

struct Use {
  size_t descriptors;
  long resident_kib;
};

Use use_of(const Child& process) {
  const std::string proc = "/proc/" + std::to_string(process.pid());
  Use use{};
  for ([[maybe_unused]] const auto& each : fs::directory_iterator(proc + "/fd")) ++use.descriptors;
  std::ifstream status(proc + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) use.resident_kib = std::atol(line.c_str() + 6);
  }
  return use;
}

bool maps(const Child& process, const std::string& path) {
  std::ifstream maps("/proc/" + std::to_string(process.pid()) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) return true;
  }
  return false;
}

void print_spread(const char* what, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  std::printf("%s, %zu times: least %.0f ms, median %.0f ms, nine of ten %.0f ms, longest %.0f ms\n", what, ms.size(),
              ms.front(), ms[ms.size() / 2], ms[ms.size() * 9 / 10], ms.back());
}

// The daemon's memory and descriptors are the same after many openings and killed owners.
TEST_F(Tenants, OpeningsAndKilledOwnersLeaveNothingInTheDaemon) {
  const int openings = budget(50, 100, 1'000), killed = budget(3, 6, 200);
  start();
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<double> ms;
  const auto work = [&](int opens, int kills) {
    for (int i = 0; i < opens && !HasFailure(); ++i) {
      std::unique_ptr<DB> db;
      ASSERT_EQ("OK", DB::Open(small_pool(kWaitMsMax), "shm://n/opened", &db).ToString());
      ASSERT_EQ("OK", db->Put("k", std::to_string(i)).ToString());
      ASSERT_EQ("OK", db->Close().ToString());
    }
    for (int i = 0; i < kills && !HasFailure(); ++i) {
      Child owner(new_folder("owner"), {self, "--owner", "shm://n/killed"});
      ASSERT_TRUE(owner.prints("owns")) << owner.out() << owner.err();
      owner.signal(SIGKILL);
      const double begin = base::now_seconds();
      std::unique_ptr<DB> db;
      ASSERT_EQ("OK", DB::Open(small_pool(kWaitMsMax), "shm://n/killed", &db).ToString());
      ms.push_back((base::now_seconds() - begin) * 1e3);
      std::string value;
      ASSERT_EQ("OK", db->Get("k", &value).ToString());
      ASSERT_EQ("OK", db->Close().ToString());
    }
  };
  work(openings / 4, 2);  // what the daemon keeps for as long as it runs
  const Use before = use_of(*daemon_);
  ms.clear();
  work(openings, killed);
  if (HasFailure()) return;
  Use after = use_of(*daemon_);
  for (int tries = 0; tries < 5'000 && after.descriptors > before.descriptors; ++tries) {  // connections end later
    sleep_ms(1);
    after = use_of(*daemon_);
  }
  std::printf("%d openings, %d killed owners: %zu descriptors before, %zu after; %ld KiB before, %ld after\n", openings,
              killed, before.descriptors, after.descriptors, before.resident_kib, after.resident_kib);
  EXPECT_LE(after.descriptors, before.descriptors);
  if (!bonsai::testing::kSanitized) {  // else what was freed is kept
    EXPECT_LE(after.resident_kib, before.resident_kib + 8 * 1'024);
  }
  print_spread("from an owner's SIGKILL to its successor", ms);
}

// An owner whose connections have ended and that is stopped then: its successor waits for the end of the lease.
TEST_F(Tenants, AnOwnerThatWasCutOffAndStoppedIsReplaced) {
  const int rounds = budget(2, 3, 100);
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<double> ms;
  start();
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    Child owner(new_folder("owner"), {self, "--owner", "shm://n/stopped"});
    ASSERT_TRUE(owner.prints("owns")) << owner.out() << owner.err();
    kill();
    for (int tries = 0; maps(owner, pools_); ++tries) {
      ASSERT_LT(tries, 10'000) << "it does not notice that its node is gone";
      sleep_ms(1);
    }
    owner.signal(SIGSTOP);
    start();
    const double begin = base::now_seconds();
    std::unique_ptr<DB> db;
    ASSERT_EQ("OK", DB::Open(small_pool(kWaitMsMax), "shm://n/stopped", &db).ToString());
    ms.push_back((base::now_seconds() - begin) * 1e3);
    ASSERT_EQ("OK", db->Put("k", "next").ToString());
    ASSERT_EQ("OK", db->Close().ToString());
    owner.signal(SIGKILL);
  }
  if (!ms.empty()) print_spread("from the daemon's start to the successor of a stopped owner", ms);
}

}  // namespace
}  // namespace bonsai::bonsaid

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--owner") return bonsai::bonsaid::own(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
