// SPDX-License-Identifier: Apache-2.0
// Many requests at once: order, groups, bounds, a full pool.
#include "server/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
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
        switch (random.below(6)) {
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
