// SPDX-License-Identifier: Apache-2.0
// bonsai-server as its users run it: start and stop, limits, bad clients.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "server/testing/server_fixture.h"

namespace bonsai::server {
namespace {

using ServerProgram = ServerFixture;
using testing::Ran;

TEST_F(ServerProgram, ServesBothProtocolsOverTcpAndUnixSockets) {
  ASSERT_NO_FATAL_FAILURE(start());
  TestConnection tcp = connect(), local("unix:" + socket_);
  EXPECT_EQ(tcp.ask({"SET", "apple", "red"}), "+OK");
  EXPECT_EQ(local.ask({"GET", "apple"}), "$red");
  EXPECT_EQ(local.ask({"HELLO", "3"}).substr(0, 2), "%[");
  EXPECT_EQ(local.ask({"GET", "pear"}), "null");
  EXPECT_TRUE(local.send("PING\r\nPING\r\nQUIT\r\nPING\r\n"));
  for (const char* const reply : {"+PONG", "+PONG", "+OK", "closed"}) EXPECT_EQ(local.next(), reply);
  EXPECT_EQ(tcp.ask({"RANGE", "-", "+"}), "*[$apple $red]");
  stop();
  EXPECT_FALSE(std::filesystem::exists(socket_));
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_EQ(connect().ask({"GET", "apple"}), "$red");
  stop();
}

// What it has replied to is there; what it has read is replied to; then it closes.
TEST_F(ServerProgram, StopsCleanlyUnderLoad) {
  ASSERT_NO_FATAL_FAILURE(start());
  std::vector<std::atomic<int>> replied(4);
  std::vector<base::Thread> clients;
  for (size_t c = 0; c < replied.size(); ++c) {
    clients.emplace_back("client", [&, c] {
      TestConnection connection = connect();
      constexpr int kPipelined = 20;
      for (int i = 0;; i += kPipelined) {
        std::string bytes;
        for (int j = i; j < i + kPipelined; ++j) {
          bytes += request({"SET", std::to_string(c) + "." + std::to_string(j), "v"});
        }
        if (!connection.send(bytes)) return;
        for (int j = 0; j < kPipelined; ++j, ++replied[c]) {
          if (connection.next() != "+OK") return;
        }
      }
    });
  }
  const auto some_of_each = [&] { return std::ranges::all_of(replied, [](const auto& count) { return count > 0; }); };
  for (int ms = 0; ms < 60'000 && !some_of_each(); ms += 10) base::sleep_ms(10);
  base::sleep_ms(100);
  stop();
  clients.clear();
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(Options(), pool_, &db).ok());
  for (size_t c = 0; c < replied.size(); ++c) {
    EXPECT_GT(replied[c], 0);
    for (int i = 0; i < replied[c]; ++i) {
      EXPECT_TRUE(db->Exists(std::to_string(c) + "." + std::to_string(i)).ok()) << c << "." << i;
    }
  }
}

// Starts the program in a way that it refuses, and returns what it prints.
std::string refusal(const std::vector<std::string>& words, int exit_code) {
  const Ran ran = testing::run(words);
  EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
  return ran.err;
}

TEST_F(ServerProgram, RefusalsNameTheRemedy) {
  EXPECT_NE(refusal({BONSAI_SERVER_PROGRAM}, 2).find("add --pool=PATH"), std::string::npos);
  EXPECT_NE(refusal({BONSAI_SERVER_PROGRAM, "--pool=" + pool_}, 3).find("bonsai create --pool=" + pool_),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(pool_));
  EXPECT_NE(refusal(words({"--listen=0.0.0.0:0"}), 2).find("add --password_file=FILE"), std::string::npos);
  EXPECT_NE(refusal(words({"--slowlog_entries_max=10001"}), 2).find("must be 10000 or less"), std::string::npos);
  EXPECT_NE(refusal(words({"--snapshots_max=10001"}), 2).find("must be 10000 or less"), std::string::npos);
  EXPECT_NE(refusal(words({"--listen=here"}), 2).find("--listen: 'here' is no address"), std::string::npos);
  EXPECT_NE(refusal(words({"--durability=maybe"}), 2).find("give one of: durable, buffered"), std::string::npos);
  EXPECT_NE(refusal(words({"--password_file=" + scratch_.file("none")}), 3).find("make it: (umask"), std::string::npos);
  EXPECT_NE(refusal(words({"--port=1"}), 2).find("--port"), std::string::npos);
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string busy = refusal({BONSAI_SERVER_PROGRAM, "--pool=" + pool_, "--listen=127.0.0.1:0"}, 3);
  EXPECT_TRUE(busy.find("bonsai-server[") != std::string::npos || busy.find("fuser -v " + pool_) != std::string::npos)
      << busy;
  const std::string other = scratch_.file("other");
  EXPECT_NE(refusal({BONSAI_SERVER_PROGRAM, "--pool=" + other, "--create", "--bytes=4M", "--listen=" + tcp_}, 3)
                .find("another program listens on " + tcp_),
            std::string::npos);
  EXPECT_NE(refusal({BONSAI_SERVER_PROGRAM, "--pool=" + other, "--create", "--bytes=4M", "--listen=unix:" + socket_}, 3)
                .find("another program listens on unix:" + socket_),
            std::string::npos);
  EXPECT_NE(refusal({BONSAI_SERVER_PROGRAM, "--pool=" + other, "--create", "--bytes=4M", "--metrics=" + tcp_}, 3)
                .find("another program listens on " + tcp_ + "; give the metrics another port"),
            std::string::npos);
  EXPECT_NE(refusal({BONSAI_SERVER_PROGRAM, "--pool=" + other, "--create", "--bytes=4M", "--metrics=here"}, 2)
                .find("'here' is no address for metrics"),
            std::string::npos);
  EXPECT_EQ(connect().ask({"PING"}), "+PONG");  // it was not disturbed
  stop();
}

TEST_F(ServerProgram, HelpAndVersion) {
  EXPECT_EQ(testing::run({BONSAI_SERVER_PROGRAM, "--version"}).out, "bonsai-server " BONSAI_VERSION_STRING "\n");
  const Ran help = testing::run({BONSAI_SERVER_PROGRAM, "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* const part : {"redis-cli set apple red", "--listen=", "--password_file=", "Exit code 0"}) {
    EXPECT_NE(help.out.find(part), std::string::npos) << part;
  }
}

TEST_F(ServerProgram, WrongPasswordsAreRefusedAndOthersServed) {
  const std::string file = scratch_.file("password");
  std::ofstream(file) << "secret\n";
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  ASSERT_NO_FATAL_FAILURE(start({"--password_file=" + file}));
  TestConnection right = connect(), wrong = connect();
  EXPECT_EQ(right.ask({"GET", "a"}), "-NOAUTH Authentication required.");
  EXPECT_EQ(right.ask({"AUTH", "secret"}), "+OK");
  EXPECT_EQ(wrong.ask({"AUTH", "wrong"}).substr(0, 10), "-WRONGPASS");
  EXPECT_EQ(wrong.ask({"GET", "a"}), "-NOAUTH Authentication required.");
  EXPECT_EQ(right.ask({"GET", "a"}), "null");
  EXPECT_TRUE(program_->prints("1 wrong passwords"));
  EXPECT_EQ(program_->err().find("secret\n"), std::string::npos);
  stop();
}

TEST_F(ServerProgram, BufferedSaysWhatOkMeans) {
  ASSERT_NO_FATAL_FAILURE(start({"--durability=buffered"}));
  EXPECT_NE(connect().ask({"INFO", "persistence"}).find("ok_means:applied; a crash may lose"), std::string::npos);
  stop();
}

// Nobody asks for it any more.
TEST_F(ServerProgram, SnapshotsEndByThemselves) {
  ASSERT_NO_FATAL_FAILURE(start({"--snapshots_max=1"}));
  TestConnection one = connect(), other = connect();
  EXPECT_EQ(one.ask({"SET", "a", "1"}), "+OK");
  EXPECT_EQ(one.ask({"SNAPSHOT", "CREATE", "s", "EX", "100"}), "+OK");
  EXPECT_EQ(other.ask({"SET", "a", "2"}), "+OK");
  EXPECT_EQ(other.ask({"RANGE", "-", "+", "SNAPSHOT", "s"}), "*[$a $1]");
  EXPECT_EQ(other.ask({"SNAPSHOT", "CREATE", "t", "PX", "1"}).substr(0, 5), "-ERR ");
  EXPECT_EQ(other.ask({"SNAPSHOT", "DROP", "s"}), ":1");
  EXPECT_EQ(other.ask({"SNAPSHOT", "CREATE", "t", "PX", "50"}), "+OK");
  const auto is_there = [&] { return one.ask({"INFO", "clients"}).find("named_snapshots:0\r\n") == std::string::npos; };
  for (base::BoundedWait wait("the end of a snapshot", 10'000); is_there() && !wait.expired(); wait.pause()) continue;
  EXPECT_FALSE(is_there());
  EXPECT_EQ(one.ask({"SNAPSHOT", "CREATE", "u", "EX", "100"}), "+OK");
  stop();  // also with one
}

// ---- limits

TEST_F(ServerProgram, TooManyConnectionsAreRefused) {
  ASSERT_NO_FATAL_FAILURE(start({"--connections_max=2"}));
  {
    TestConnection first = connect(), second = connect();
    EXPECT_EQ(first.ask({"PING"}), "+PONG");
    EXPECT_EQ(second.ask({"PING"}), "+PONG");
    EXPECT_EQ(connect().next(), "-ERR max number of clients reached");
    EXPECT_EQ(first.ask({"PING"}), "+PONG");
  }
  std::string reply;  // the server learns of the closing a moment later
  for (base::BoundedWait wait("room for a connection", 10'000); reply != "+PONG" && !wait.expired(); wait.pause()) {
    reply = connect().ask({"PING"});
  }
  EXPECT_EQ(reply, "+PONG");
  stop();
}

TEST_F(ServerProgram, ManyIdleConnections) {
  ASSERT_NO_FATAL_FAILURE(start());
  std::vector<TestConnection> all;
  const int count = testing::budget(100, 400, 800);
  for (int i = 0; i < count; ++i) {
    all.push_back(connect());
    ASSERT_TRUE(all.back().is_open());
  }
  for (int i = 0; i < count; i += 7) EXPECT_EQ(all[static_cast<size_t>(i)].ask({"PING"}), "+PONG");
  EXPECT_NE(all[0].ask({"INFO", "clients"}).find("connected_clients:" + std::to_string(count)), std::string::npos);
  stop();
}

TEST_F(ServerProgram, IdleConnectionsAreClosed) {
  ASSERT_NO_FATAL_FAILURE(start({"--idle_s=1"}));
  TestConnection idle = connect();
  EXPECT_EQ(idle.ask({"PING"}), "+PONG");
  EXPECT_TRUE(idle.is_closed_within(TestConnection::kReplyMsMax));
  EXPECT_NE(connect().ask({"INFO", "clients"}).find("closed_idle:1"), std::string::npos);
  stop();
}

// The memory that a program allocated itself and touched: all that is anonymous, less what a sanitizer keeps of it,
// whose shadow lies below where Linux maps programs, heaps and stacks (from 0x5500'0000'0000 up).
size_t own_bytes(int pid) {
  constexpr uint64_t kProgramsFrom = uint64_t{0x5500} << 32;
  std::ifstream in("/proc/" + std::to_string(pid) + "/smaps");
  size_t sum_kib = 0;
  bool is_own = false;
  for (std::string line; std::getline(in, line);) {
    unsigned long long from = 0, to = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2) {
      is_own = from >= kProgramsFrom;
    } else if (is_own && std::sscanf(line.c_str(), "Anonymous: %llu kB", &kib) == 1) {
      sum_kib += kib;
    }
  }
  return sum_kib << 10;
}

// AddressSanitizer keeps freed memory for a while, by default 256 MB of it: from now on 1 MB in programs that start.
void keep_little_freed_memory() {
  const char* const options = std::getenv("ASAN_OPTIONS");
  const std::string before = options == nullptr ? "" : std::string(options) + ":";
  ::setenv("ASAN_OPTIONS", (before + "quarantine_size_mb=1").c_str(), 1);
}

// A client that asks for 4 GB and reads nothing takes some MB, and is closed; others are served.
TEST_F(ServerProgram, ASlowReaderTakesLittleMemory) {
  keep_little_freed_memory();
  ASSERT_NO_FATAL_FAILURE(start({"--slow_s=1"}));
  TestConnection other = connect();
  EXPECT_EQ(other.ask({"SET", "large", std::string(1 << 20, 'v')}), "+OK");
  EXPECT_EQ(other.ask({"STRLEN", "large"}), ":1048576");
  const size_t before = own_bytes(program_->pid());
  TestConnection slow(tcp_, 4'096);
  std::string requests;
  for (int i = 0; i < 4'000; ++i) requests += "GET large\r\n";
  for (int i = 0; i < 20; ++i) {
    slow.send_some(requests);
    EXPECT_EQ(other.ask({"PING"}), "+PONG");
    base::sleep_ms(10);
  }
  constexpr size_t kReplies = (size_t{64} + 1) << 20;  // one group of operations, and the bound on what is unsent
  EXPECT_LT(own_bytes(program_->pid()), before + 3 * kReplies);
  EXPECT_TRUE(program_->prints("1 connections closed: they took none of their replies"));
  EXPECT_EQ(other.ask({"PING"}), "+PONG");
  stop();
}

// ---- bad clients

TEST_F(ServerProgram, BadRequestsEndTheirConnectionOnly) {
  ASSERT_NO_FATAL_FAILURE(start({"--request_bytes_max=64K"}));
  TestConnection good = connect();
  EXPECT_EQ(good.ask({"SET", "a", "1"}), "+OK");
  const auto answer_to = [this](const std::string& bytes) {
    TestConnection bad = connect();
    bad.send(bytes);
    const std::string reply = bad.next();
    EXPECT_TRUE(bad.is_closed_within(TestConnection::kReplyMsMax)) << bytes.substr(0, 40);
    return reply.substr(0, 20);
  };
  EXPECT_EQ(answer_to("*1000000000\r\n"), "-ERR Protocol error:");
  EXPECT_EQ(answer_to("*1\r\n$100000000\r\n"), "-ERR Protocol error:");
  EXPECT_EQ(answer_to("*2\r\n$3\r\nGET\r\n*1\r\n"), "-ERR Protocol error:");
  EXPECT_EQ(answer_to(std::string(100'000, 'x')), "-ERR Protocol error:");
  EXPECT_EQ(answer_to(request({"SET", "a", std::string(100'000, 'x')})), "-ERR Protocol error:");
  TestConnection half = connect();
  half.send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nab");
  base::Random random(3);
  for (int i = testing::budget(20, 100, 2'000); i > 0; --i) {
    TestConnection random_bytes = connect();
    std::string bytes(random.below(500) + 1, '\0');
    for (char& c : bytes) c = "*$\r\n0123 abSETGET\x80"[random.below(19)];
    random_bytes.send(bytes);
  }
  EXPECT_EQ(good.ask({"GET", "a"}), "$1");
  half.send("cde\r\n");
  EXPECT_EQ(half.next(), "+OK");
  EXPECT_EQ(good.ask({"GET", "a"}), "$abcde");
  stop();
}

}  // namespace
}  // namespace bonsai::server
