// SPDX-License-Identifier: Apache-2.0
// Many requests at once: order, groups, bounds, a full pool.
#include "server/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "server/testing/commands_fixture.h"

namespace bonsai::server {
namespace {

using ServerExecutor = CommandsFixture;

TEST_F(ServerExecutor, RepliesAreInOrder) {
  EXPECT_EQ(replies("SET a 1\r\nPING\r\nGET a\r\nFOO\r\nSET a 2\r\nGET a\r\nDEL a\r\nGET a\r\nDBSIZE\r\n"),
            "+OK +PONG $1 -ERR unknown command 'FOO', with args beginning with:  +OK $2 :1 null :0");
}

// A web page cannot have commands carried out: the request ends the connection at its first line, or at the second.
TEST_F(ServerExecutor, ARequestOfHttpIsNotCarriedOut) {
  const std::string headers = "Host: 127.0.0.1:6379\r\nContent-Type: text/plain\r\n\r\n";
  for (const char* const first : {"POST / HTTP/1.1\r\n", "post / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n"}) {
    Client client;
    send(&client, first + headers + "SET stolen 1\r\n");
    EXPECT_FALSE(executor_->run(&client));
    executor_->finish();
    EXPECT_NE(take(&client).find("this is a request of HTTP"), std::string::npos);
    EXPECT_TRUE(client.ending);
  }
  EXPECT_EQ(state_->counters.closed_broken.load(), 3U);
  EXPECT_EQ(replies("GET stolen\r\n"), "null");
}

// What several clients sent goes into one group, and shares its fence. A group may also replace a bnode, which has
// fences of its own, so the one with the fewest counts.
TEST_F(ServerExecutor, ClientsShareAGroup) {
  constexpr size_t kClients = 16;
  constexpr uint64_t kRounds = 8;
  std::vector<Client> clients(kClients);
  uint64_t fences_min = UINT64_MAX;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < kClients; ++i) send(&clients[i], request({"SET", "key" + std::to_string(i), "value"}));
    const uint64_t fences = db_->GetStats().nvm_fences;
    for (Client& client : clients) executor_->run(&client);
    executor_->finish();
    fences_min = std::min(fences_min, db_->GetStats().nvm_fences - fences);
    for (Client& client : clients) {
      EXPECT_EQ(take(&client), "+OK\r\n");
      client.in.trim();
    }
  }
  EXPECT_LE(fences_min, 2U);
  EXPECT_EQ(state_->counters.groups.load(), kRounds);
  EXPECT_EQ(state_->counters.operations.load(), kRounds * kClients);
}

// MSETs of several clients, and several of one, are one batch, with the fences of one MSET.
TEST_F(ServerExecutor, MsetsShareABatch) {
  constexpr uint64_t kRounds = 8;
  // The fewest fences of a round in which so many clients send two each.
  const auto fences_of = [&](size_t count) {
    std::vector<Client> clients(count);
    uint64_t fences_min = UINT64_MAX;
    for (uint64_t round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < count; ++i) {
        const std::string key = "key" + std::to_string(i);
        send(&clients[i], request({"MSET", key, "1", "shared", key}) + request({"MSET", key, "2", key + "+", "3"}));
      }
      const uint64_t fences = db_->GetStats().nvm_fences;
      for (Client& client : clients) executor_->run(&client);
      executor_->finish();
      fences_min = std::min(fences_min, db_->GetStats().nvm_fences - fences);
      for (Client& client : clients) {
        EXPECT_EQ(take(&client), "+OK\r\n+OK\r\n");
        EXPECT_EQ(client.joined, 0U);
        client.in.trim();
      }
    }
    return fences_min;
  };
  const uint64_t of_one = fences_of(1), of_many = fences_of(16);
  std::printf("fences: %llu of one client, %llu of 16\n", static_cast<unsigned long long>(of_one),
              static_cast<unsigned long long>(of_many));
  EXPECT_EQ(of_one, 1U);
  EXPECT_LE(of_many, 4U);  // what a batch has that fills a segment of so small a log
  EXPECT_EQ(state_->counters.groups.load(), 2 * kRounds);
  EXPECT_EQ(state_->counters.operations.load(), 2 * kRounds * 17);
  EXPECT_EQ(ask("MGET key0 key0+ key15 key15+ shared"), "*[$2 $3 $2 $3 $key15]");
}

// In the order of the client's requests, whatever they become.
TEST_F(ServerExecutor, AnMsetKeepsItsPlace) {
  EXPECT_EQ(replies("SET a 1\r\nMSET a 2 b 2\r\nGET a\r\nMSET a 3 b 3\r\nMSET b 4\r\nSET a 5\r\nMGET a b\r\nINCR b\r\n"
                    "MSET a 6\r\nDEL a\r\nMSET b 7\r\nINCR b\r\nMSET b 8\r\nDBSIZE\r\nGET b\r\n"),
            "+OK +OK $2 +OK +OK +OK *[$5 $4] :5 +OK :1 +OK :8 +OK :1 $8");
}

// What one of them has wrong is no fault of the others.
TEST_F(ServerExecutor, AWrongMsetIsWrongAlone) {
  const std::string reply =
      replies(request({"MSET", "a", "1", "b", "1"}) + request({"MSET", "a", "2", std::string(1'025, 'k'), "2"}) +
              request({"MSET", "b", "3"}) + request({"MGET", "a", "b"}));
  EXPECT_TRUE(reply.starts_with("+OK -ERR invalid argument: ")) << reply;
  EXPECT_TRUE(reply.ends_with(" +OK *[$1 $3]")) << reply;
  EXPECT_EQ(state_->counters.errors.load(), 1U);
}

// More than one batch takes: by keys, and by bytes.
TEST_F(ServerExecutor, JoinedUpdatesHaveBounds) {
  const std::string large(size_t{40} << 10, 'x');
  EXPECT_EQ(replies(request({"MSET", "a", large}) + request({"MSET", "b", large}) + request({"STRLEN", "a"})),
            "+OK +OK :40960");
  EXPECT_EQ(state_->counters.groups.load(), 3U);
  std::vector<std::string> words = {"MSET"};
  for (size_t i = 0; i < Executor::kJoinedMax; ++i) words.insert(words.end(), {"key" + std::to_string(i), "1"});
  EXPECT_EQ(replies(request({"MSET", "a", "1"}) + request(words) + request({"MSET", "b", "1"})), "+OK +OK +OK");
  EXPECT_EQ(state_->counters.groups.load(), 6U);
  EXPECT_EQ(ask("DBSIZE"), ":" + std::to_string(Executor::kJoinedMax + 2));
}

// Random pipelines of random clients, cut at random, against a map. Each client has keys of its own, so that the
// expected replies are known.
TEST_F(ServerExecutor, PipelinesActAsOneByOne) {
  base::Random random(20'261'129);
  constexpr size_t kClients = 5;
  std::vector<Client> clients(kClients);
  std::vector<std::map<std::string, std::string>> stored(kClients);
  std::vector<std::string> expected(kClients), unsent(kClients);
  const int rounds = testing::budget(60, 200, 5'000);
  for (int round = 0; round < rounds; ++round) {
    for (size_t c = 0; c < kClients; ++c) {
      for (uint64_t left = random.below(60); left > 0; --left) {
        const std::string key = std::to_string(c) + ":" + std::to_string(random.below(8));
        auto& map = stored[c];
        std::string& replies = expected[c];
        const auto value_of = [&] { return map.contains(key) ? "$" + map[key] : std::string("null"); };
        const std::string value = std::to_string(random.next());
        switch (random.below(8)) {
          case 0:
            unsent[c] += request({"SET", key, value}), replies += " +OK", map[key] = value;
            break;
          case 1:
            unsent[c] += request({"DEL", key}), replies += map.erase(key) != 0 ? " :1" : " :0";
            break;
          case 2:
            unsent[c] += request({"MGET", key, key}), replies += " *[" + value_of() + " " + value_of() + "]";
            break;
          case 3:
            unsent[c] += request({"EXISTS", key}), replies += map.contains(key) ? " :1" : " :0";
            break;
          case 4:
            unsent[c] += request({"MSET", key, value}), replies += " +OK", map[key] = value;
            break;
          case 5:
            unsent[c] += request({"SETNX", key, value}), replies += map.contains(key) ? " :0" : " :1";
            map.try_emplace(key, value);
            break;
          case 6:
            unsent[c] += request({"GETSET", key, value}), replies += " " + value_of(), map[key] = value;
            break;
          default:
            unsent[c] += request({"GET", key}), replies += " " + value_of();
        }
      }
      const size_t piece = random.below(unsent[c].size() + 1);
      send(&clients[c], unsent[c].substr(0, piece));
      unsent[c].erase(0, piece);
    }
    for (Client& client : clients) executor_->run(&client);
    executor_->finish();
    for (Client& client : clients) client.in.trim();
  }
  for (size_t c = 0; c < kClients; ++c) {
    send(&clients[c], unsent[c]);
    executor_->run(&clients[c]);
    executor_->finish();
    EXPECT_EQ(" " + show_replies(take(&clients[c])), expected[c]);
    EXPECT_EQ(clients[c].pending, 0U);
  }
}

// Threads with an executor each count, take one lock, and append, at one time; nothing is lost or done twice.
TEST_F(ServerExecutor, UpdatesByWhatWasThereAreAtomic) {
  constexpr int kThreads = 3;
  const int rounds = testing::budget(60, 300, 5'000);
  std::atomic<int> taken{0};
  const auto work = [&] {
    const std::unique_ptr<Executor> executor = Executor::make(&*state_);
    ASSERT_NE(executor, nullptr);
    Client client;
    const auto ask_alone = [&](const std::string& line) {
      send(&client, line + "\r\n");
      executor->run(&client);
      executor->finish();
      client.in.trim();
      return take(&client);
    };
    for (int round = 0; round < rounds; ++round) {
      EXPECT_EQ(ask_alone("INCRBY hits 2").substr(0, 1), ":");
      if (ask_alone("SET lock" + std::to_string(round) + " me NX") == "+OK\r\n") ++taken;
      EXPECT_EQ(ask_alone("APPEND list x").substr(0, 1), ":");
    }
  };
  {
    std::vector<base::Thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back("client", work);
  }
  EXPECT_EQ(taken.load(), rounds);
  EXPECT_EQ(ask("GET hits"), "$" + std::to_string(2 * kThreads * rounds));
  EXPECT_EQ(ask("STRLEN list"), ":" + std::to_string(kThreads * rounds));
}

// A client that takes no replies is not served beyond a bound.
TEST_F(ServerExecutor, UnsentRepliesHoldAClientBack) {
  ask_words({"SET", "k", std::string(100'000, 'v')});
  std::string bytes;
  for (int i = 0; i < 1'000; ++i) bytes += "GET k\r\n";
  send(&client_, bytes);
  EXPECT_TRUE(executor_->run(&client_));
  executor_->finish();
  EXPECT_LT(client_.unsent(), Executor::kUnsentMax + (Executor::kDepth + 1) * 100'100);
  const size_t held = client_.unsent();
  EXPECT_TRUE(executor_->run(&client_));
  executor_->finish();
  EXPECT_EQ(client_.unsent(), held);
  size_t all = 0;
  for (bool more = true; more || client_.unsent() != 0;) {
    all += take(&client_).size();
    more = executor_->run(&client_);
    executor_->finish();
  }
  EXPECT_EQ(all, 1'000U * 100'011);
}

TEST_F(ServerExecutor, AfterBrokenBytesNothingIsExecuted) {
  EXPECT_EQ(replies("SET a 1\r\n*1\r\n!\r\nSET a 2\r\n").substr(0, 41), "+OK -ERR Protocol error: expected '$', go");
  EXPECT_TRUE(client_.ending);
  Client other;
  EXPECT_EQ(ask("GET a", &other), "$1");
}

TEST_F(ServerExecutor, AbandonedClientsAreLost) {
  Client other;
  send(&client_, "SET a 1\r\n");
  executor_->run(&client_);
  executor_->abandon();
  EXPECT_TRUE(client_.lost);
  EXPECT_EQ(client_.out, "");
  EXPECT_FALSE(other.lost);
  EXPECT_EQ(ask("GET a", &other), "$1");  // it was done; its reply is what there was no memory for
}

// A full pool says so with the code that clients of Redis know, still answers, and takes deletes.
TEST_F(ServerExecutor, AFullPoolTakesDeletes) {
  pool_ = "small";
  ASSERT_NO_FATAL_FAILURE(start({}, std::nullopt, 4 << 20));
  int stored = 0;
  std::string reply;
  while ((reply = ask_words({"SET", "key" + std::to_string(stored), std::string(20'000, 'v')})) == "+OK") ++stored;
  EXPECT_EQ(reply.substr(0, 25), "-OOM command not allowed:");
  ASSERT_GT(stored, 20);
  EXPECT_EQ(ask("STRLEN key0"), ":20000");
  EXPECT_EQ(ask("EXISTS key" + std::to_string(stored)), ":0");
  for (int i = 0; i < stored / 2; ++i) EXPECT_EQ(ask("DEL key" + std::to_string(i)), ":1");
  EXPECT_EQ(ask_words({"SET", "again", std::string(20'000, 'v')}), "+OK");
  EXPECT_EQ(ask("STRLEN key" + std::to_string(stored - 1)), ":20000");
}

}  // namespace
}  // namespace bonsai::server
