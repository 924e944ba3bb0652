// SPDX-License-Identifier: Apache-2.0
// MULTI, EXEC and WATCH: replies, isolation, limits.
#include "server/transaction.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "server/commands.h"
#include "server/stage.h"
#include "server/testing/commands_fixture.h"

namespace bonsai::server {
namespace {

class ServerTransaction : public CommandsFixture {
 protected:
  // The reply to EXEC of these commands; each must have been queued.
  std::string in_transaction(const std::string& lines, Client* client = nullptr) {
    EXPECT_EQ(ask("MULTI", client), "+OK");
    const std::string queued = replies(lines, client);
    EXPECT_EQ(queued.find('-'), std::string::npos) << queued;
    return ask("EXEC", client);
  }
  [[nodiscard]] uint64_t snapshots() const { return state_->watchers.load(); }

  const std::string aborted_ = "-EXECABORT Transaction discarded because of previous errors.";
};

TEST_F(ServerTransaction, QueuesAndCarriesOut) {
  Client other;
  EXPECT_EQ(replies("MULTI\r\nSET a 1\r\nINCR a\r\nGET a\r\n"), "+OK +QUEUED +QUEUED +QUEUED");
  EXPECT_EQ(ask("GET a", &other), "null");
  EXPECT_EQ(ask("EXEC"), "*[+OK :2 $2]");
  EXPECT_EQ(ask("GET a", &other), "$2");
  EXPECT_EQ(in_transaction(""), "*[]");
  EXPECT_EQ(in_transaction("PING\r\nECHO x\r\nSELECT 0\r\nUNWATCH\r\nCLIENT SETNAME me\r\n"),
            "*[+PONG $x +OK +OK +OK]");
  EXPECT_EQ(replies("SET b 1\r\nMULTI\r\nGET b\r\nEXEC\r\nDEL b\r\n"), "+OK +OK +QUEUED *[$1] :1");
  ask("HELLO 3");
  EXPECT_EQ(in_transaction("GET none\r\nCONFIG GET save\r\nMGET a none\r\n"), "*[null %[$save $] *[$2 null]]");
}

TEST_F(ServerTransaction, IsDiscarded) {
  EXPECT_EQ(replies("MULTI\r\nSET a 1\r\nDISCARD\r\nGET a\r\n"), "+OK +QUEUED +OK null");
  EXPECT_EQ(replies("MULTI\r\nSET a 1\r\nRESET\r\nEXEC\r\n"), "+OK +QUEUED +RESET -ERR EXEC without MULTI");
  EXPECT_EQ(replies("MULTI\r\nSET a 1\r\nQUIT\r\n"), "+OK +QUEUED +OK");
  client_ = Client();
  EXPECT_EQ(ask("GET a"), "null");
}

TEST_F(ServerTransaction, WhatCannotBeQueuedAbortsIt) {
  EXPECT_EQ(ask("EXEC"), "-ERR EXEC without MULTI");
  EXPECT_EQ(ask("DISCARD"), "-ERR DISCARD without MULTI");
  const auto aborts = [this](const std::string& line) {
    EXPECT_EQ(replies("MULTI\r\nSET a 1\r\n"), "+OK +QUEUED");
    const std::string reply = ask(line);
    EXPECT_EQ(replies("SET a 2\r\nEXEC\r\nGET a\r\n"), "+QUEUED " + aborted_ + " null");
    return reply;
  };
  EXPECT_EQ(aborts("GET"), "-ERR wrong number of arguments for 'get' command");
  EXPECT_EQ(aborts("LPUSH a b").substr(0, 28), "-ERR unknown command 'LPUSH'");
  for (const Command& command : commands()) {
    if ((command.flags & kNotQueued) == 0) continue;
    const char* const arguments = command.arity == 1 ? "" : command.arity == -3 ? " - +" : " a";
    EXPECT_EQ(aborts(std::string(command.name) + arguments).substr(0, 48),
              "-ERR Command not allowed inside a transaction: i")
        << command.name;
  }
  // These are errors, and harm nothing, as in Redis.
  EXPECT_EQ(replies("MULTI\r\nMULTI\r\nWATCH a\r\nSET a 1\r\nEXEC\r\n"),
            "+OK -ERR MULTI calls can not be nested -ERR WATCH inside MULTI is not allowed +QUEUED *[+OK]");
}

// As Redis: a command that fails when it is carried out does not keep the others from it.
TEST_F(ServerTransaction, ErrorsOfSingleCommandsKeepTheOthers) {
  EXPECT_EQ(ask("SET word red"), "+OK");
  EXPECT_EQ(in_transaction("SET a 1\r\nINCR word\r\nMSET b 2 c\r\nRENAME none x\r\nINCR a\r\n"),
            "*[+OK -ERR value is not an integer or out of range -ERR wrong number of "
            "arguments for 'mset' command -ERR no such key :2]");
  ask("MULTI");
  EXPECT_EQ(ask_words({"SET", "", "x"}), "+QUEUED");
  EXPECT_EQ(ask_words({"MSET", "d", "1", std::string(1'025, 'k'), "2"}), "+QUEUED");
  EXPECT_EQ(ask_words({"DEL", ""}), "+QUEUED");
  EXPECT_EQ(ask("INCR a"), "+QUEUED");
  const std::string reply = ask("EXEC");
  EXPECT_EQ(reply.substr(0, 24), "*[-ERR invalid argument:");
  EXPECT_TRUE(reply.ends_with(" :3]")) << reply;
  EXPECT_EQ(ask("MGET a b c d word"), "*[$3 null null null $red]");
}

// Each command in transactions of random lengths is what it is by itself: the same replies, the same state.
TEST_F(ServerTransaction, CommandsAreWhatTheyAreOutside) {
  base::Random random(20'261'130);
  const std::vector<std::string> commands = {"SET # @",
                                             "SET # @ NX",
                                             "SET # @ XX",
                                             "SET # @ GET",
                                             "GET #",
                                             "MGET # #",
                                             "MSET # @ # @",
                                             "MSETNX # @ # @",
                                             "DEL # #",
                                             "EXISTS # #",
                                             "STRLEN #",
                                             "GETRANGE # 0 1",
                                             "TYPE #",
                                             "SETNX # @",
                                             "GETSET # @",
                                             "GETDEL #",
                                             "APPEND # @",
                                             "SETRANGE # 2 @",
                                             "INCR #",
                                             "DECRBY # 7",
                                             "RENAME # #",
                                             "RENAMENX # #",
                                             "UNLINK #",
                                             "INCRBY # 9223372036854775800",
                                             "EXPIREAT # 99999999999",
                                             "EXPIRETIME #",
                                             "PERSIST #",
                                             "EXPIREAT # 1",
                                             "GETEX # PERSIST"};
  const int rounds = testing::budget(60, 200, 5'000);
  for (int round = 0; round < rounds; ++round) {
    std::string inside, outside;
    for (uint64_t left = random.below(12) + 1; left > 0; --left) {
      std::string one, other;
      for (const char c : commands[random.below(commands.size())]) {
        const std::string word = c == '#' ? std::to_string(random.below(5)) : std::to_string(random.below(100));
        one += c == '#' ? "in:" + word : c == '@' ? word : std::string(1, c);
        other += c == '#' ? "out:" + word : c == '@' ? word : std::string(1, c);
      }
      inside += one + "\r\n", outside += other + "\r\n";
    }
    EXPECT_EQ(in_transaction(inside), "*[" + replies(outside) + "]") << inside;
    EXPECT_EQ(ask("MGET in:0 in:1 in:2 in:3 in:4"), ask("MGET out:0 out:1 out:2 out:3 out:4")) << inside;
  }
}

TEST_F(ServerTransaction, AWatchedKeyThatWasUpdatedStopsIt) {
  Client other;
  const auto outcome_after = [&](const std::string& update, Client* client) {
    ask("MSET a 1 b 1");
    EXPECT_EQ(ask("WATCH b a"), "+OK");
    replies(update, client);
    const std::string reply = in_transaction("SET a 2\r\n");
    EXPECT_EQ(ask("GET a"), reply == "null" ? ask("GET a") : "$2");
    return reply;
  };
  EXPECT_EQ(outcome_after("SET c 1\r\nGET a\r\n", &other), "*[+OK]");
  EXPECT_EQ(outcome_after("SET a 5\r\n", &other), "null");
  EXPECT_EQ(outcome_after("SET a 5\r\nSET a 1\r\n", &other), "null");  // not even to the same value
  EXPECT_EQ(outcome_after("SET b 1\r\n", &other), "null");
  EXPECT_EQ(outcome_after("DEL b\r\n", &other), "null");
  EXPECT_EQ(outcome_after("SET a 5\r\n", &client_), "null");  // by itself, too
  EXPECT_EQ(outcome_after("SET a 5\r\nUNWATCH\r\n", &client_), "*[+OK]");
  EXPECT_EQ(outcome_after("SET a 5\r\nMULTI\r\nDISCARD\r\n", &client_), "*[+OK]");
  EXPECT_EQ(outcome_after("SET a 5\r\nMULTI\r\nEXEC\r\n", &client_), "*[+OK]");
  EXPECT_EQ(replies("WATCH a\r\nSET a 5\r\nMULTI\r\nGET a\r\nEXEC\r\n"), "+OK +OK +OK +QUEUED null");
  ask("WATCH a");
  send(&client_, "MULTI\r\nEXEC\r\n");
  ask("SET a 6", &other);
  executor_->run(&client_);
  executor_->finish();
  EXPECT_EQ(take(&client_), "+OK\r\n*-1\r\n");
  EXPECT_EQ(snapshots(), 0U);
}

// What is in flight when the client watches was before it.
TEST_F(ServerTransaction, AWatchBeginsWhereItStands) {
  Client other;
  EXPECT_EQ(replies("SET a 1\r\nWATCH a\r\nMULTI\r\nGET a\r\nEXEC\r\n"), "+OK +OK +OK +QUEUED *[$1]");
  ask("WATCH a");
  ask("SET b 1", &other);
  EXPECT_EQ(ask("WATCH b"), "+OK");
  EXPECT_EQ(snapshots(), 1U);
  EXPECT_EQ(in_transaction("SET c 1\r\n"), "*[+OK]");  // b is watched from later on
  ask("WATCH a");
  ask("SET a 2", &other);
  ask("WATCH b");
  EXPECT_EQ(in_transaction("SET c 2\r\n"), "null");  // and a from before
  EXPECT_EQ(ask_words({"WATCH", "a", ""}).substr(0, 21), "-ERR invalid argument");
  EXPECT_EQ(in_transaction("SET c 3\r\n"), "*[+OK]");
  EXPECT_EQ(snapshots(), 0U);
}

TEST_F(ServerTransaction, WatchesHaveBounds) {
  ask("WATCH a");
  client_.transaction.end_watch_before(client_.transaction.watched().begun_ns);
  EXPECT_EQ(snapshots(), 1U);
  client_.transaction.end_watch_before(UINT64_MAX);
  EXPECT_EQ(snapshots(), 0U);
  EXPECT_EQ(in_transaction("SET a 1\r\n"), "null");
  EXPECT_EQ(in_transaction("SET a 1\r\n"), "*[+OK]");
  std::vector<Client> watchers(kWatchersMax);
  for (Client& each : watchers) EXPECT_EQ(ask("WATCH a", &each), "+OK");
  EXPECT_EQ(ask("WATCH a"), "-ERR unavailable: 1024 clients watch keys at the moment; try again later");
  watchers.pop_back();
  EXPECT_EQ(ask("WATCH a"), "+OK");
  EXPECT_NE(ask("INFO clients").find("watching_clients:1024"), std::string::npos);
}

TEST_F(ServerTransaction, SizesHaveBounds) {
  Config config;
  config.transaction_bytes_max = config.reply_bytes_max = 64 << 10;
  ASSERT_NO_FATAL_FAILURE(start(config));
  const std::string value(20'000, 'v');
  const auto too_large = [](const std::string& reply) {
    return reply.substr(0, 31) == "-ERR the transaction is larger ";
  };
  ask("MULTI");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask_words({"SET", std::to_string(i), value}), "+QUEUED");
  EXPECT_TRUE(too_large(ask_words({"SET", "3", value})));
  EXPECT_EQ(ask("PING"), "+QUEUED");
  EXPECT_EQ(ask("EXEC"), aborted_);
  ask("MULTI");
  EXPECT_EQ(ask("SETRANGE a 60000 x"), "+QUEUED");
  EXPECT_EQ(ask("SETRANGE b 60000 x"), "+QUEUED");
  EXPECT_TRUE(too_large(ask("EXEC")));
  EXPECT_EQ(ask("SETRANGE a 40000 x"), ":40001");
  EXPECT_EQ(in_transaction("APPEND a x\r\nAPPEND a x\r\nDEL a\r\nSETRANGE b 40000 x\r\n"),
            "*[:40002 :40003 :1 :40001]");
  EXPECT_EQ(replies("MULTI\r\nINCR c\r\nGET b\r\nGET b\r\nEXEC\r\n").substr(28, 24), "-ERR the reply is larger");
  EXPECT_EQ(ask("EXISTS a c"), ":0");
  std::vector<std::string> watch = {"WATCH"};
  for (int i = 0; i < 700; ++i) watch.push_back(std::string(100, 'k'));
  EXPECT_EQ(ask_words(watch).substr(0, 22), "-ERR invalid argument:");
  EXPECT_EQ(snapshots(), 0U);
}

TEST_F(ServerTransaction, AFullPoolTakesDeletesOnly) {
  pool_ = "small";
  ASSERT_NO_FATAL_FAILURE(start({}, std::nullopt, 4 << 20));
  std::string filled;
  for (int i = 0; filled.empty() && i < 10'000; ++i) {
    filled = in_transaction("SET a" + std::to_string(i) + " " + std::string(3'000, 'v') + "\r\nINCR count\r\n");
    if (filled.starts_with("*")) filled.clear();
  }
  EXPECT_EQ(filled.substr(0, 5), "-OOM ");
  const std::string count = ask("GET count").substr(1);
  EXPECT_EQ(ask("EXISTS a" + count), ":0");  // the last one whole or not at all
  EXPECT_EQ(ask("EXISTS a" + std::to_string(std::stoi(count) - 1)), ":1");
  EXPECT_EQ(in_transaction("DEL a0\r\nDEL a1\r\n"), "*[:1 :1]");
}

// ---- the stage

TEST_F(ServerTransaction, ReadsAreOfOneMoment) {
  ask("MSET a 1 b 1");
  const Watch none;
  Status status;
  std::string value;
  {
    Stage stage(db_.get(), 1 << 20);
    ASSERT_TRUE(stage.begin().ok());
    EXPECT_TRUE(stage.get("a", &value).ok());
    ask("MSET a 2 b 2");
    EXPECT_TRUE(stage.get("b", &value).ok());
    EXPECT_EQ(value, "1");
    EXPECT_EQ(stage.commit(none, &status), Stage::Outcome::kDone);
    EXPECT_TRUE(stage.put("c", "3").ok());
    EXPECT_TRUE(stage.get("c", &value).ok());
    EXPECT_EQ(value, "3");
    EXPECT_EQ(stage.commit(none, &status), Stage::Outcome::kConflict);
    EXPECT_EQ(ask("GET c"), "null");
  }
  Stage blind(db_.get(), 1 << 20);
  ASSERT_TRUE(blind.begin().ok());
  ask("SET a 3");
  EXPECT_TRUE(blind.put("a", "4").ok() && blind.remove("b").ok());
  EXPECT_EQ(ask("MGET a b"), "*[$3 $2]");
  EXPECT_EQ(blind.commit(none, &status), Stage::Outcome::kDone);
  EXPECT_EQ(ask("MGET a b"), "*[$4 null]");
}

// ---- many clients

// A client with an executor of its own, as on a thread of the server.
class Served {
 public:
  explicit Served(State* state) : executor_(Executor::make(state)) {}

  std::string answer(const std::string& bytes) {
    bytes.copy(client_.in.prepare(bytes.size()), bytes.size());
    client_.in.commit(bytes.size());
    executor_->run(&client_);
    executor_->finish();
    client_.in.trim();
    return show_replies(std::exchange(client_.out, ""));
  }

 private:
  const std::unique_ptr<Executor> executor_;
  Client client_;
};

constexpr int kThreads = 3;

void in_threads(State* state, const std::function<void(Served* served, int thread)>& work) {
  std::vector<base::Thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back("client", [&work, state, t] {
      Served served(state);
      work(&served, t);
    });
  }
}

// Transactions that read what they write move amounts between accounts, and are counted. At no moment the sum is
// another, and none is lost.
TEST_F(ServerTransaction, SumsAreKept) {
  constexpr int kAccounts = 4;
  ask("MSET 0 100 1 100 2 100 3 100");
  const int rounds = testing::budget(300, 1'000, 20'000);
  std::array<std::string, kThreads> wrong;
  in_threads(&*state_, [&](Served* served, int thread) {
    std::string& found = wrong[static_cast<size_t>(thread)];
    base::Random random(static_cast<uint64_t>(thread) + 1);
    for (int i = 0; i < rounds && found.empty(); ++i) {
      const std::string by = std::to_string(random.below(50));
      const std::string from = std::to_string(random.below(kAccounts)), to = std::to_string(random.below(kAccounts));
      const std::string moved = served->answer("MULTI\r\nDECRBY " + from + " " + by + "\r\nINCRBY " + to + " " + by +
                                               "\r\nINCR moves\r\nEXEC\r\n");
      if (!moved.starts_with("+OK +QUEUED +QUEUED +QUEUED *[:")) found = moved;
      const std::string seen = served->answer("MULTI\r\nMGET 0 1 2 3\r\nEXEC\r\n");
      int64_t sum = 0;
      for (size_t at = seen.find('$'); at != std::string::npos; at = seen.find('$', at + 1)) {
        sum += std::strtoll(seen.c_str() + at + 1, nullptr, 10);
      }
      if (sum != 100 * kAccounts) found = seen;
    }
  });
  for (const std::string& each : wrong) EXPECT_EQ(each, "");
  EXPECT_EQ(ask("GET moves"), "$" + std::to_string(kThreads * rounds));
}

// A counter by WATCH, GET and SET: each increment that was carried out counts.
TEST_F(ServerTransaction, WatchedCountersLoseNothing) {
  const int rounds = testing::budget(100, 300, 5'000);
  in_threads(&*state_, [&](Served* served, int) {
    for (int done = 0; done < rounds;) {
      const std::string seen = served->answer("WATCH n\r\nGET n\r\n");
      const int64_t number = seen == "+OK null" ? 0 : std::strtoll(seen.c_str() + 5, nullptr, 10);
      const std::string reply = served->answer("MULTI\r\nSET n " + std::to_string(number + 1) + "\r\nEXEC\r\n");
      if (reply == "+OK +QUEUED *[+OK]") ++done;
    }
  });
  EXPECT_EQ(ask("GET n"), "$" + std::to_string(kThreads * rounds));
}

}  // namespace
}  // namespace bonsai::server
