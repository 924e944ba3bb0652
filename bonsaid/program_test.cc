// SPDX-License-Identifier: Apache-2.0
// bonsaid as its users run it: one process serves, others own its pools over shm. Also the pools after one of these
// processes is killed. `program_test --writer POOL` is such an owner.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/nvm/os_file.h"
#include "base/testing/budget.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "bonsaid/testing/daemon_fixture.h"
#include "testing/scratch.h"

namespace bonsai::bonsaid {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kKeys = 300;
constexpr uint32_t kWaitMsMax = 5'000;

std::string key_of(uint64_t number) { return "key" + std::to_string(number % kKeys); }
std::string value_of(uint64_t number) { return std::to_string(number) + std::string(number % 200, '.'); }

// Puts the numbers 1, 2, 3, ... and prints each acknowledged one, until it is killed or an update fails. Then it prints
// the error and the time that the update took.
int write_numbers(const char* pool) {
  std::unique_ptr<DB> db;
  Status status = DB::Open(small_pool(kWaitMsMax), pool, &db);
  for (uint64_t number = 1; status.ok(); ++number) {
    const auto begin = std::chrono::steady_clock::now();
    status = db->Put(key_of(number), value_of(number));
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    if (!status.ok()) std::printf("failed after %lld ms\n", static_cast<long long>(passed.count()));
    if (status.ok()) std::printf("%llu\n", static_cast<unsigned long long>(number));
    std::fflush(stdout);
  }
  std::printf("%s\n", status.ToString().c_str());
  return 7;
}

// The last whole number that a writer printed; 0: none.
uint64_t last_number(const std::string& text) {
  uint64_t last = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const uint64_t number = std::strtoull(text.c_str() + begin, nullptr, 10);
    if (number != 0) last = number;
  }
  return last;
}

// Connects to the socket `times` times, and keeps the connections.
void knock(const std::string& where, size_t times, std::vector<base::OsFile>* knocks) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  where.copy(address.sun_path, sizeof address.sun_path - 1);
  for (int tries = 0; times > 0; ++tries) {
    ASSERT_LT(tries, 10'000) << "nobody listens at " << where;
    base::OsFile file(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(file.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      knocks->push_back(std::move(file));
      --times;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

class Daemon : public DaemonFixture {
 protected:
  std::unique_ptr<Child> start_writer(const std::string& pool, uint64_t numbers) {
    char self[4096];
    const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    auto writer = std::make_unique<Child>(new_folder(), std::vector<std::string>{self, "--writer", pool});
    EXPECT_TRUE(writer->prints("\n" + std::to_string(numbers) + "\n")) << writer->out() << writer->err();
    return writer;
  }
  static Ran bonsai(const std::string& command, std::vector<std::string> rest) {
    rest.insert(rest.begin(), {BONSAI_PROGRAM, command});
    return run(rest);
  }
  // Expects the records of one writer that has put 1 to M, with M >= acknowledged.
  static void expect_written(const std::string& pool, uint64_t acknowledged) {
    CheckReport report;
    Status checked = Check(pool, &report);
    for (int i = 0; i < 100 && checked.IsBusy(); ++i) {  // until bonsaid has noticed that the last owner is gone
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      checked = Check(pool, &report);
    }
    ASSERT_EQ("OK", checked.ToString());
    EXPECT_TRUE(report.ok());
    std::unique_ptr<DB> db;
    Options options;
    ASSERT_EQ("OK", DB::Open(options, pool, &db).ToString());
    std::vector<uint64_t> held(kKeys, 0);
    uint64_t last = 0;
    for (uint64_t key = 0; key < kKeys; ++key) {
      std::string value;
      const Status status = db->Get(key_of(key), &value);
      if (status.IsNotFound()) continue;
      ASSERT_EQ("OK", status.ToString());
      held[key] = std::strtoull(value.c_str(), nullptr, 10);
      ASSERT_EQ(value, value_of(held[key])) << "a value that nobody wrote";
      last = std::max(last, held[key]);
    }
    EXPECT_GE(last, acknowledged) << "acknowledged and lost";
    for (uint64_t key = 0; key < kKeys; ++key) {
      ASSERT_EQ(held[key], last >= key ? last - (last - key) % kKeys : 0) << "of key " << key << ", up to " << last;
    }
  }
};

TEST_F(Daemon, ServesPoolsStopsInOrderAndServesThemAgain) {
  start();
  const std::string pool = "--pool=shm://n/fruit";
  Ran ran = bonsai("put", {pool, "--create", "--bytes=4M", "apple", "red"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(fs::exists(pools_ + "/fruit"));
  EXPECT_EQ(bonsai("get", {pool, "apple"}).out, "red\n");
  EXPECT_EQ(bonsai("scan", {pool}).out, "apple\tred\n");
  ran = bonsai("stat", {pool});
  EXPECT_NE(ran.out.find("over shm"), std::string::npos) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("fabric_round_trips"), std::string::npos) << ran.out;
  ran = bonsai("check", {pool});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  ran = bonsai("checkpoint", {pool, "shm://n/copy"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(bonsai("doctor", {pool}).out.find("ok       pool    shm://n/fruit"), std::string::npos);
  ran = bonsai("doctor", {"--pool=shm://nobody/fruit", "--fabric_wait_ms_max=100"});
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_NE(ran.out.find("start bonsaid"), std::string::npos) << ran.out;
  EXPECT_TRUE(daemon_->prints("copy (free), fruit (free)")) << daemon_->err();
  {  // an owner that stays for longer than bonsaid takes between two looks
    const auto owner = start_writer("shm://n/held", 100);
    EXPECT_TRUE(daemon_->prints("held (owned over shm by ")) << daemon_->err();
    owner->signal(SIGKILL);
    EXPECT_EQ(owner->wait(), 128 + SIGKILL);
  }
  stop();
  EXPECT_NE(daemon_->err().find("stopping on SIGTERM"), std::string::npos) << daemon_->err();
  EXPECT_EQ(bonsai("get", {"--pool=" + pools_ + "/fruit", "apple"}).out, "red\n") << "a pool like any other";
  start();
  EXPECT_EQ(bonsai("get", {"--pool=shm://n/copy", "apple"}).out, "red\n");
  daemon_->signal(SIGINT);
  EXPECT_EQ(daemon_->wait(), 0);
}

TEST_F(Daemon, PoolsMixFilesAndAddresses) {
  start({"--listen=shm://n,shm://m"});
  const std::string pool = "--pool=" + scratch_.file("local") + ",shm://n/a,shm://m/b";
  Ran ran = bonsai("put", {pool, "--create", "--bytes=4M", "k", "v"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(bonsai("get", {pool, "k"}).out, "v\n");
  ran = bonsai("check", {pool});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("targets               3"), std::string::npos) << ran.out;
}

// The owner dies during a write. Its pool is soon free for others, and has all acknowledged updates.
TEST_F(Daemon, AnOwnerThatIsKilledLosesNothingThatWasAcknowledged) {
  start();
  uint64_t acknowledged = 0;
  for (int round = 0; round < testing::budget(2, 4, 40); ++round) {
    fs::remove(pools_ + "/a");
    const auto writer = start_writer("shm://n/a", 500 + 700 * static_cast<uint64_t>(round % 3));
    std::unique_ptr<DB> db;
    EXPECT_TRUE(DB::Open({}, "shm://n/a", &db).IsBusy()) << "it has an owner";
    writer->signal(SIGKILL);
    EXPECT_EQ(writer->wait(), 128 + SIGKILL);
    acknowledged = last_number(writer->out());
    expect_written("shm://n/a", acknowledged);
  }
  EXPECT_GT(acknowledged, 500u);
}

// The node's process dies during an owner's write.
TEST_F(Daemon, ThatIsKilledIsUnavailableAndLosesNothingThatWasAcknowledged) {
  start();
  const auto writer = start_writer("shm://n/a", 800);
  kill();
  EXPECT_EQ(writer->wait(), 7) << writer->out();
  const std::string out = writer->out();
  EXPECT_NE(out.find("unavailable"), std::string::npos) << out.substr(out.size() - 300);
  EXPECT_NE(out.find("shm://n/a"), std::string::npos) << "it names the target";
  const size_t failed = out.find("failed after ");
  ASSERT_NE(failed, std::string::npos);
  EXPECT_LE(std::strtoull(out.c_str() + failed + 13, nullptr, 10), 5 * kWaitMsMax);
  const uint64_t acknowledged = last_number(out.substr(0, failed));
  EXPECT_GE(acknowledged, 800u);
  const Ran ran = bonsai("stat", {"--pool=shm://n/a", "--fabric_wait_ms_max=300"});
  EXPECT_EQ(ran.exit_code, 3) << ran.err;
  EXPECT_NE(ran.err.find("start bonsaid"), std::string::npos) << ran.err;
  start();
  expect_written("shm://n/a", acknowledged);
  stop();
  expect_written(pools_ + "/a", acknowledged);
}

// The owner is stopped, not dead. It still has the pool mapped, so no other process may own it; continued, the owner
// goes on with it.
TEST_F(Daemon, ThatIsRestartedDoesNotGiveAwayThePoolOfAStoppedOwner) {
  start();
  for (int round = 0; round < testing::budget(1, 2, 100); ++round) {
    fs::remove(pools_ + "/a");
    const auto writer = start_writer("shm://n/a", 300);
    writer->signal(SIGSTOP);
    const uint64_t before = last_number(writer->out());
    kill();
    start();
    std::unique_ptr<DB> db;
    for (const std::string& pool : {std::string("shm://n/a"), pools_ + "/a"}) {
      const Status taken = DB::Open(small_pool(kWaitMsMax), pool, &db);
      ASSERT_TRUE(taken.IsBusy()) << pool << ": " << taken.ToString();
    }
    EXPECT_EQ(bonsai("put", {"--pool=shm://n/b", "--create", "--bytes=4M", "k", "v"}).exit_code, 0) << "others are";
    writer->signal(SIGCONT);
    EXPECT_TRUE(writer->prints("\n" + std::to_string(before + 100) + "\n"))
        << writer->out().substr(writer->out().size() - std::min<size_t>(writer->out().size(), 400)) << writer->err();
    writer->signal(SIGKILL);
    EXPECT_EQ(writer->wait(), 128 + SIGKILL);
    expect_written("shm://n/a", last_number(writer->out()));
  }
  stop();
}

TEST_F(Daemon, APoolOfALiveOwnerIsTakenOverByCommand) {
  start();
  const auto writer = start_writer("shm://n/a", 300);
  const Ran busy = bonsai("get", {"--pool=shm://n/a", "key1"});
  EXPECT_NE(busy.exit_code, 0);
  EXPECT_NE(busy.err.find("has an owner: bonsaid_program"), std::string::npos) << busy.err;
  EXPECT_NE(busy.err.find("--take-over"), std::string::npos) << busy.err;
  const Ran taken = bonsai("get", {"--pool=shm://n/a", "--take-over", "key1"});
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_NE(taken.err.find("has an owner: bonsaid_program"), std::string::npos) << "it says from whom: " << taken.err;
  EXPECT_EQ(writer->wait(), 7) << "its updates are not acknowledged any more";
  const std::string out = writer->out();
  expect_written("shm://n/a", last_number(out.substr(0, out.find("failed after"))));
  stop();
}

TEST_F(Daemon, StopsUnderAnOwnerThatWrites) {
  start();
  const auto writer = start_writer("shm://n/a", 300);
  stop();
  EXPECT_EQ(writer->wait(), 7);
  const std::string out = writer->out();
  start();
  expect_written("shm://n/a", last_number(out.substr(0, out.find("failed after"))));
}

// Processes that connect and send nothing, before and after the daemon is ready, have no effect: it starts, serves
// others, and stops.
TEST_F(Daemon, StartsServesAndStopsWhileSomebodyKnocks) {
  daemon_.emplace(new_folder(), words({"--litmus_ms=100"}));
  std::vector<base::OsFile> knocks;
  const std::string where = meeting_ + "/n";
  knock(where, 2, &knocks);  // during the litmus tests: the address exists before them
  ASSERT_EQ(knocks.size(), 2u);
  EXPECT_EQ(::send(knocks[1].fd(), "nonsense", 8, MSG_NOSIGNAL), 8);
  ASSERT_TRUE(daemon_->prints("ready: serves ")) << daemon_->err();
  knock(where, 300, &knocks);  // more than the bound on connections without a greeting
  const Ran ran = bonsai("put", {"--pool=shm://n/a", "--create", "--bytes=4M", "k", "v"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  knock(where, 10, &knocks);
  daemon_->signal(SIGTERM);
  knocks.resize(knocks.size() / 2);  // these close while it stops
  EXPECT_EQ(daemon_->wait(), 0) << daemon_->err();
  start();
  EXPECT_EQ(bonsai("get", {"--pool=shm://n/a", "k"}).out, "v\n");
}

// The next owner gets an error with the cause, the log has it, too, and the present owners continue.
TEST_F(Daemon, AtItsLimitOfDescriptorsItRefusesTheNextOwnerAlone) {
  std::vector<std::string> limited = {"/bin/sh", "-c", "ulimit -n 100; exec \"$0\" \"$@\""};
  for (const std::string& word : words()) limited.push_back(word);
  daemon_.emplace(new_folder(), limited);
  ASSERT_TRUE(daemon_->prints("ready: serves ")) << daemon_->err();
  std::vector<std::unique_ptr<DB>> owners;
  Status status;
  for (std::unique_ptr<DB> db; owners.size() < 20; owners.push_back(std::move(db))) {
    status = DB::Open(small_pool(kWaitMsMax), "shm://n/p" + std::to_string(owners.size()), &db);
    if (!status.ok()) break;
  }
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  EXPECT_NE(status.message().find("limit of open files"), std::string::npos) << status.ToString();
  EXPECT_GE(owners.size(), 2u);
  EXPECT_TRUE(daemon_->prints("limit of open files")) << daemon_->err();
  for (const auto& db : owners) EXPECT_EQ("OK", db->Put("k", "v").ToString());
  owners.pop_back();
  std::unique_ptr<DB> next;
  for (int tries = 0; tries < 500 && next == nullptr; ++tries) {  // until the descriptors of the last owner are free
    status = DB::Open(small_pool(kWaitMsMax), "shm://n/next", &next);
    if (!status.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ("OK", status.ToString());
}

TEST_F(Daemon, AdmitsWhoKnowsTheSecret) {
  const std::string secret = scratch_.file("secret"), other = scratch_.file("other");
  for (const auto& [file, digit] : {std::pair(secret, 'a'), std::pair(other, 'b')}) {
    std::ofstream(file) << std::string(64, digit);
    fs::permissions(file, fs::perms::owner_read);
  }
  start({"--secret_file=" + secret});
  const std::vector<std::string> put = {"--pool=shm://n/a", "--create", "--bytes=4M", "k", "v"};
  const auto put_with = [&](const std::string& file) {
    std::vector<std::string> with = put;
    with.push_back("--secret_file=" + file);
    return bonsai("put", with);
  };
  EXPECT_EQ(bonsai("put", put).exit_code, 2);
  const Ran wrong = put_with(other);
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("secret"), std::string::npos) << wrong.err;
  EXPECT_FALSE(fs::exists(pools_ + "/a"));
  EXPECT_EQ(put_with(secret).exit_code, 0);
  ::setenv("BONSAI_SECRET_FILE", secret.c_str(), 1);
  EXPECT_EQ(bonsai("get", {"--pool=shm://n/a", "k"}).out, "v\n");
  EXPECT_EQ(bonsai("check", {"--pool=shm://n/a"}).exit_code, 0);
  ::unsetenv("BONSAI_SECRET_FILE");
  EXPECT_TRUE(daemon_->prints("was refused: the connecting node does not have the secret, or meant another node"));
  const std::string log = daemon_->err();
  const std::string from = " of user " + std::to_string(::getuid()) + " was refused: ";
  size_t refused = 0;
  for (size_t at = log.find(from); at != std::string::npos; at = log.find(from, at + 1)) ++refused;
  EXPECT_EQ(refused, 2u) << "without a secret, and with a wrong one; the others are not logged\n" << log;
}

TEST_F(Daemon, AHangupReloadsTheSecretAndOwnersGoOn) {
  const std::string secret = scratch_.file("secret"), conf = scratch_.file("conf");
  const auto write_secret = [&](char digit) {
    fs::remove(secret);
    std::ofstream(secret) << std::string(64, digit);
    fs::permissions(secret, fs::perms::owner_read);
  };
  const auto write_conf = [&](const std::string& more) {
    std::ofstream(conf) << "secret_file = '" << secret << "'\n" << more;
  };
  write_secret('a');
  write_conf("");
  start({"--config=" + conf});
  Options with_secret = small_pool(kWaitMsMax);
  with_secret.fabric_secret_file = secret;
  std::unique_ptr<DB> owner;
  ASSERT_EQ("OK", DB::Open(with_secret, "shm://n/owned", &owner).ToString());
  const auto lists = [&] { return bonsai("list", {"shm://n", "--secret_file=" + secret}).exit_code == 0; };
  EXPECT_TRUE(lists());
  write_secret('b');
  EXPECT_FALSE(lists()) << "bonsaid does not know it yet";
  daemon_->signal(SIGHUP);
  ASSERT_TRUE(daemon_->prints("reloaded: with the secret of " + secret)) << daemon_->err();
  EXPECT_TRUE(lists());
  EXPECT_EQ("OK", owner->Put("k", "v").ToString()) << "who is connected stays";

  write_conf("colour = 'red'\n");
  daemon_->signal(SIGHUP);
  ASSERT_TRUE(daemon_->prints("not reloaded, all stays as it was: ")) << daemon_->err();
  EXPECT_NE(daemon_->err().find("colour"), std::string::npos) << daemon_->err();
  EXPECT_TRUE(lists());
  write_conf("litmus_ms = 7\n");
  fs::permissions(secret, fs::perms::others_read, fs::perm_options::add);
  daemon_->signal(SIGHUP);
  ASSERT_TRUE(daemon_->prints("umask 077")) << daemon_->err();
  write_secret('c');
  write_conf("folder = '/elsewhere'\n");  // a flag wins over it
  daemon_->signal(SIGHUP);
  for (int tries = 0; tries < 3'000 && !lists(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(lists());
  EXPECT_EQ(daemon_->err().find("only after a restart"), std::string::npos) << daemon_->err();
  owner.reset();
  stop();
}

TEST_F(Daemon, AHangupNamesWhatNeedsARestart) {
  const std::string conf = scratch_.file("conf");
  std::ofstream(conf) << "folder = '" << pools_ << "'\nlisten = ['shm://n']\ndomain = 'adr'\nlitmus_ms = 5\n";
  daemon_.emplace(new_folder(), std::vector<std::string>{BONSAID_PROGRAM, "--config=" + conf});
  ASSERT_TRUE(daemon_->prints("ready: serves ")) << daemon_->err();
  std::ofstream(conf) << "folder = '/elsewhere'\nlisten = ['shm://m']\ndomain = 'eadr'\nlitmus_ms = 6\n";
  daemon_->signal(SIGHUP);
  EXPECT_TRUE(daemon_->prints("changed, but in force only after a restart: folder, listen, domain, litmus_ms"))
      << daemon_->err();
  EXPECT_EQ(bonsai("put", {"--pool=shm://n/a", "--create", "--bytes=4M", "k", "v"}).exit_code, 0) << "as before";
  stop();
}

TEST_F(Daemon, ShowsTheMembersOfAGroup) {
  start({"--listen=shm://n,shm://second"});
  const std::string pool = "--pool=shm://n/a|shm://second/b";
  ASSERT_EQ(bonsai("put", {pool, "--create", "--bytes=4M", "k", "v"}).exit_code, 0);
  for (const char* command : {"stat", "groups"}) {
    Ran ran = bonsai(command, {pool});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    for (const char* text : {"2 of 2 members in sync, 2 needed: none may be lost", "\n  in sync  shm://second/b\n"}) {
      EXPECT_NE(ran.out.find(text), std::string::npos) << ran.out;
    }
    ran = bonsai(command, {pool, "--json"});
    EXPECT_NE(ran.out.find("\"state\": \"in_sync\""), std::string::npos) << ran.out;
  }
  const Ran scrubbed = bonsai("scrub", {pool});
  EXPECT_EQ(scrubbed.exit_code, 0) << scrubbed.err;
  EXPECT_NE(scrubbed.out.find("scrubbing: 1 pass"), std::string::npos) << scrubbed.out;
  EXPECT_NE(bonsai("groups", {"--pool=shm://n/a"}).out.find("\n  in sync  member 2\n"), std::string::npos);
  EXPECT_NE(bonsai("groups", {"--pool=shm://n/none"}).out.find("no target of it"), std::string::npos);
  EXPECT_EQ(bonsai("groups", {}).exit_code, 2);
  stop();
}

TEST_F(Daemon, ListsItsPoolsAndTheirOwners) {
  start({"--listen=shm://n,shm://second"});
  const Ran none = bonsai("list", {"shm://n"});
  EXPECT_EQ(none.exit_code, 0) << none.err;
  EXPECT_EQ(none.out.find("POOL"), 0u) << none.out;
  std::unique_ptr<DB> owner;
  ASSERT_EQ("OK", DB::Open(small_pool(kWaitMsMax), "shm://second/owned", &owner).ToString());
  EXPECT_EQ(bonsai("put", {"--pool=shm://n/closed", "--create", "--bytes=4M", "k", "v"}).exit_code, 0);
  for (const std::string place : {"shm://n", "shm://second", pools_.c_str()}) {
    const Ran ran = bonsai("list", {place});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    const size_t closed = ran.out.find("\nclosed "), owned = ran.out.find("\nowned ");
    ASSERT_NE(closed, std::string::npos) << ran.out;
    ASSERT_NE(owned, std::string::npos) << ran.out;
    EXPECT_LT(closed, owned);
    EXPECT_NE(ran.out.find("none\n", closed), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("[" + std::to_string(::getpid()) + "] on ", owned), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find(", seen 0 s ago\n", owned) != std::string::npos, place != pools_) << ran.out;
  }
  const Ran json = bonsai("list", {"shm://n", "--json"});
  EXPECT_NE(json.out.find("\"name\": \"closed\""), std::string::npos) << json.out;
  EXPECT_NE(json.out.find("\"bytes\": 4194304"), std::string::npos) << json.out;
  EXPECT_NE(json.out.find("\"owner\": \"\""), std::string::npos) << json.out;
  EXPECT_EQ(bonsai("list", {}).exit_code, 2);
  EXPECT_EQ(bonsai("list", {"shm://"}).exit_code, 2);
  EXPECT_EQ(bonsai("list", {"shm://nobody", "--fabric_wait_ms_max=50"}).exit_code, 3);
  const Ran missing = bonsai("list", {scratch_.file("none")});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_EQ(missing.err.find("create"), std::string::npos) << missing.err;
  const Ran unnamed = bonsai("list", {""});
  EXPECT_EQ(unnamed.exit_code, 2);
  EXPECT_NE(unnamed.err.find("give a folder"), std::string::npos) << unnamed.err;
}

TEST_F(Daemon, RefusesWhatItCannotServeAndSaysWhy) {
  start();
  const auto expect_refused = [&](const std::vector<std::string>& more, int code, const std::string& says) {
    const Ran ran = run(words(more));
    EXPECT_EQ(ran.exit_code, code) << says << ": " << ran.err;
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  };
  expect_refused({}, 3, "shm://n");  // taken
  expect_refused({"--listen=shm://m", "--folder=" + scratch_.file("none/deeper")}, 3, "make it");
  expect_refused({"--listen=shm://m", "--folder=" + std::string(BONSAID_PROGRAM)}, 3, "is no folder");
  expect_refused({"--domain=unknown"}, 2, "declare adr");
  expect_refused({"--domain=nonsense"}, 2, "adr-direct");
  expect_refused({"--listen=rdma://127.0.0.1:7471"}, 2, "--secret_file");
  expect_refused({"--listen=carrier://pigeon", "--open_to_all"}, 3, "shm://");
  expect_refused({"--secret_file=" + scratch_.file("none")}, 3, "none");
  expect_refused({"--config=" + scratch_.file("none")}, 3, "conf/bonsaid.toml");
  expect_refused({"--colour=red"}, 2, "known here: --config");
  expect_refused({"serve"}, 2, "--help");
  std::ofstream(scratch_.file("conf")) << "folder = 7\n";
  expect_refused({"--config=" + scratch_.file("conf")}, 2, "line 1");
  std::ofstream(scratch_.file("open")) << std::string(64, 'a');
  fs::permissions(scratch_.file("open"), fs::perms::owner_read | fs::perms::others_read);
  expect_refused({"--secret_file=" + scratch_.file("open")}, 2, "umask 077");
  const Ran undeclared = run({BONSAID_PROGRAM, "--folder=" + pools_, "--listen=shm://m"});
  EXPECT_EQ(undeclared.exit_code, 2);
  EXPECT_NE(undeclared.err.find("--domain=adr"), std::string::npos) << undeclared.err;
  EXPECT_EQ(bonsai("put", {"--pool=shm://n/a", "--create", "--bytes=4M", "k", "v"}).exit_code, 0)
      << "the first goes on";
}

TEST_F(Daemon, TheExampleConfigurationServes) {
  daemon_.emplace(new_folder(),
                  std::vector<std::string>{BONSAID_PROGRAM, "--config", BONSAI_SOURCE_DIR "/conf/bonsaid.toml",
                                           "--folder", pools_, "--litmus-ms=5"});
  ASSERT_TRUE(daemon_->prints("ready: serves " + pools_)) << daemon_->err();
  EXPECT_EQ(bonsai("put", {"--pool=shm://laptop/a", "--create", "--bytes=4M", "k", "v"}).exit_code, 0);
  stop();
}

TEST_F(Daemon, TheFolderIsMadeWithALineThatSaysSo) {
  const std::string missing = scratch_.file("fresh");
  daemon_.emplace(new_folder(), std::vector<std::string>{BONSAID_PROGRAM, "--folder=" + missing,
                                                         "--listen=shm://laptop", "--domain=adr", "--litmus-ms=5"});
  ASSERT_TRUE(daemon_->prints("made the folder " + missing)) << daemon_->err();
  ASSERT_TRUE(daemon_->prints("ready: serves " + missing)) << daemon_->err();
  EXPECT_EQ(bonsai("put", {"--pool=shm://laptop/a", "--create", "--bytes=4M", "k", "v"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(missing + "/a"));
  stop();
}

TEST(Version, IsOfOneFormInBothPrograms) {
  for (const char* form : {"version", "--version"}) {
    EXPECT_EQ(run({BONSAID_PROGRAM, form}).out, "bonsaid " BONSAI_VERSION_STRING "\n");
    EXPECT_EQ(run({BONSAI_PROGRAM, form}).out, "bonsai " BONSAI_VERSION_STRING "\n");
  }
}

TEST(Output, ThatDidNotArriveIsAnError) {
  for (const char* form : {"--help", "version", "--version"}) {
    const Ran ran = run({"/bin/sh", "-c", std::string(BONSAID_PROGRAM) + " " + form + " >/dev/full"});
    EXPECT_EQ(ran.exit_code, 3) << form;
    EXPECT_NE(ran.err.find("standard output cannot be written"), std::string::npos) << ran.err;
  }
}

TEST(Help, Teaches) {
  const Ran ran = run({BONSAID_PROGRAM, "--help"});
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* word : {"--folder", "--listen", "--domain", "shm://laptop/fruit", "openssl rand", "SIGTERM"}) {
    EXPECT_NE(ran.out.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(run({BONSAID_PROGRAM, "version"}).exit_code, 0);
  const Ran bare = run({BONSAID_PROGRAM});
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_NE(bare.err.find("--folder=FOLDER"), std::string::npos) << bare.err;
}

}  // namespace
}  // namespace bonsai::bonsaid

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--writer") return bonsai::bonsaid::write_numbers(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
