// SPDX-License-Identifier: Apache-2.0
// Which commands the slow log has, with which times, and what it keeps of them.
#include "server/slow_log.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "server/command_timer.h"
#include "server/testing/commands_fixture.h"

namespace bonsai::server {
namespace {

using Words = std::vector<std::string_view>;

TEST(SlowLog, KeepsTheNewest) {
  SlowLog log(10, 3);
  EXPECT_FALSE(log.is_slow(9'999));
  EXPECT_TRUE(log.is_slow(10'000));
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  for (const std::string& name : names) log.add(12'345, Words{name}, 1, "1.2.3.4:5", "me");
  ASSERT_EQ(log.size(), 3U);
  const std::vector<SlowEntry> newest = log.newest(2);
  ASSERT_EQ(newest.size(), 2U);
  EXPECT_EQ(newest[0].arguments, std::vector<std::string>{"e"});
  EXPECT_EQ(newest[0].id, 4U);
  EXPECT_EQ(newest[0].us, 12U);
  EXPECT_EQ(newest[0].address + newest[0].name, "1.2.3.4:5me");
  EXPECT_EQ(newest[1].id, 3U);
  EXPECT_EQ(log.newest(SIZE_MAX).size(), 3U);
  log.reset();
  EXPECT_EQ(log.size(), 0U);
  log.add(12'345, Words{"f"}, 1, "", "");
  EXPECT_EQ(log.newest(1).at(0).id, 5U);  // ids go on
}

TEST(SlowLog, IsOff) {
  EXPECT_FALSE(SlowLog(-1, 128).is_slow(UINT64_MAX));
  EXPECT_FALSE(SlowLog(0, 0).is_slow(UINT64_MAX));
  EXPECT_TRUE(SlowLog(0, 1).is_slow(0));
}

// The forms of Redis.
TEST(SlowLog, ShortensWhatIsLong) {
  SlowLog log(0, 1);
  const std::string large(200, 'v');
  Words words(kSlowArgumentsMax, large);
  log.add(0, words, words.size(), "", std::string(10'000, 'n'));
  std::vector<SlowEntry> newest = log.newest(1);
  ASSERT_EQ(newest.at(0).arguments.size(), kSlowArgumentsMax);
  EXPECT_EQ(newest[0].arguments.back(), std::string(128, 'v') + "... (72 more bytes)");
  EXPECT_EQ(newest[0].name.size(), kSlowArgumentBytesMax);
  log.add(0, words, 1'000, "", "");  // of which the first were kept
  newest = log.newest(1);
  ASSERT_EQ(newest[0].arguments.size(), kSlowArgumentsMax);
  EXPECT_EQ(newest[0].arguments.back(), "... (969 more arguments)");
  const std::string exact(128, 'v');
  log.add(0, Words{exact}, 1, "", "");
  EXPECT_EQ(log.newest(1)[0].arguments.at(0), exact);
}

// One thread, whose time goes on when the test says so.
class CommandTimerTest : public ::testing::Test {
 protected:
  CommandTimerTest() { base::virtual_now_ns = &now_ns_; }
  ~CommandTimerTest() override { base::virtual_now_ns = nullptr; }

  void pass_ms(uint64_t ms) { now_ns_ += ms * base::kNsPerMs; }
  // The log, e.g. "RANGE 5" of 5 ms, oldest first.
  std::string log_text() const {
    std::string text;
    for (const SlowEntry& each : log_.newest(SIZE_MAX)) {
      text = each.arguments[0] + " " + std::to_string(each.us / 1'000) + (text.empty() ? "" : ", ") + text;
    }
    return text;
  }

  uint64_t now_ns_ = base::kNsPerSecond;
  SlowLog log_{1'000, 100};
  CommandTimer timer_{&log_};
  Client client_;
};

TEST_F(CommandTimerTest, OneThatRunsAloneHasItsTime) {
  timer_.begin_alone();
  pass_ms(2);
  timer_.begin_alone();  // as a command of a transaction does
  pass_ms(3);
  timer_.end_command(client_, Words{"EXEC"}, false);
  pass_ms(10);  // nothing is executed
  timer_.end_command(client_, Words{"PING"}, false);
  timer_.begin_alone();
  timer_.end_command(client_, Words{"QUICK"}, false);
  timer_.begin_alone();
  pass_ms(4);
  timer_.end_command(client_, Words{"HELLO"}, true);
  EXPECT_EQ(log_text(), "EXEC 5");
}

// The largest request stands for its group.
TEST_F(CommandTimerTest, AGroupHasOneTime) {
  timer_.join_group(client_, Words{"GET"}, 20);
  pass_ms(1);
  timer_.join_group(client_, Words{"SET"}, 2'000);
  timer_.join_group(client_, Words{"DEL"}, 30);
  pass_ms(2);
  timer_.end_group();
  timer_.end_group();  // there is none
  timer_.join_group(client_, Words{"STRLEN"}, 10);
  timer_.end_group();  // in no time
  timer_.join_group(client_, Words{"TTL"}, 10);
  pass_ms(7);
  timer_.end_group();
  EXPECT_EQ(log_text(), "SET 3, TTL 7");
}

// What others wait for is in the log, not those that wait.
TEST_F(CommandTimerTest, WhoWaitsForAnotherIsNotSlow) {
  timer_.join_group(client_, Words{"GET"}, 20);
  timer_.begin_alone();
  pass_ms(50);
  timer_.end_command(client_, Words{"RANGE"}, false);
  timer_.end_group();
  EXPECT_EQ(log_text(), "RANGE 50");
  timer_.join_group(client_, Words{"GET"}, 20);  // the next group begins anew
  pass_ms(2);
  timer_.end_group();
  EXPECT_EQ(log_text(), "RANGE 50, GET 2");
}

TEST_F(CommandTimerTest, WhatWasAbandonedIsForgotten) {
  timer_.join_group(client_, Words{"GET"}, 20);
  timer_.begin_alone();
  timer_.abandon();
  pass_ms(50);
  timer_.end_command(client_, Words{"RANGE"}, false);
  timer_.end_group();
  EXPECT_EQ(log_text(), "");
}

// ---- the commands

class ServerSlowLog : public CommandsFixture {
 protected:
  void start_logging(int64_t slowlog_us, uint32_t entries_max = 128) {
    Config config;
    config.slowlog_us = slowlog_us;
    config.slowlog_entries_max = entries_max;
    ASSERT_NO_FATAL_FAILURE(start(config));
  }
  // The arguments of the entries, newest first.
  std::vector<std::string> logged() {
    std::vector<std::string> all;
    for (const SlowEntry& each : state_->slow_log.newest(SIZE_MAX)) {
      std::string& text = all.emplace_back();
      for (const std::string& argument : each.arguments) text += (text.empty() ? "" : " ") + argument;
    }
    return all;
  }
};

TEST_F(ServerSlowLog, HasEveryCommandOfTheStoreWhereAllAreSlow) {
  ASSERT_NO_FATAL_FAILURE(start_logging(0));
  using All = std::vector<std::string>;
  ask("SET apple red");
  ask("GET apple");
  ask("INCR hits");
  ask("RANGE - +");
  ask("MSET a 1 b 2");
  ask("PING");
  EXPECT_EQ(logged(), (All{"MSET a 1 b 2", "RANGE - +", "INCR hits", "GET apple", "SET apple red"}));
  EXPECT_EQ(ask("SLOWLOG LEN"), ":5");
  EXPECT_EQ(ask("SLOWLOG RESET"), "+OK");
  EXPECT_EQ(ask("SLOWLOG GET"), "*[]");
  replies("GET a\r\nGET a_longer_one\r\nINCR hits\r\n");  // a group that ends before what runs alone
  EXPECT_EQ(logged(), (All{"INCR hits", "GET a_longer_one"}));
  ask("SLOWLOG RESET");
  replies("MULTI\r\nSET a 1\r\nINCR a\r\nRANGE\r\nDISCARD\r\nMULTI\r\nSET a 1\r\nINCR a\r\nSLOWLOG LEN\r\nEXEC\r\n");
  EXPECT_EQ(logged(), (All{"EXEC"}));
}

TEST_F(ServerSlowLog, RepliesAsRedisDoes) {
  ASSERT_NO_FATAL_FAILURE(start_logging(0));
  client_.address = "127.0.0.1:1234";
  ask("CLIENT SETNAME me");
  ask_words({"SET", "apple", std::string(1'000, 'v')});
  for (int i = 0; i < 11; ++i) ask("GET apple");
  const std::string all = ask("SLOWLOG GET -1");
  EXPECT_NE(all.find(" *[$SET $apple $" + std::string(128, 'v') + "... (872 more bytes)] $127.0.0.1:1234 $me]]"),
            std::string::npos)
      << all;
  EXPECT_EQ(ask("SLOWLOG GET 1").substr(0, 7), "*[*[:11");
  EXPECT_EQ(ask("SLOWLOG GET").find("SET $apple"), std::string::npos);  // ten
  EXPECT_EQ(ask("SLOWLOG GET 0"), "*[]");
  EXPECT_EQ(ask("SLOWLOG GET -2"), "-ERR count should be greater than or equal to -1");
  EXPECT_EQ(ask("SLOWLOG GET x"), "-ERR value is not an integer or out of range");
  EXPECT_EQ(ask("SLOWLOG GET 1 2").substr(0, 23), "-ERR unknown subcommand");
  EXPECT_EQ(ask("SLOWLOG"), "-ERR wrong number of arguments for 'slowlog' command");
  EXPECT_EQ(ask("CONFIG GET slowlog*"), "*[$slowlog-log-slower-than $0 $slowlog-max-len $128]");
}

TEST_F(ServerSlowLog, IsBoundedAndCanBeOff) {
  ASSERT_NO_FATAL_FAILURE(start_logging(0, 4));
  for (int i = 0; i < 10; ++i) ask("GET " + std::to_string(i));
  EXPECT_EQ(logged(), (std::vector<std::string>{"GET 9", "GET 8", "GET 7", "GET 6"}));
  ASSERT_NO_FATAL_FAILURE(start_logging(-1));
  ask("GET 1");
  ask("RANGE - +");
  EXPECT_EQ(ask("SLOWLOG LEN"), ":0");
  ASSERT_NO_FATAL_FAILURE(start_logging(INT64_MAX));
  ask("RANGE - +");
  EXPECT_EQ(ask("SLOWLOG LEN"), ":0");
}

TEST_F(ServerSlowLog, HasNoPasswords) {
  Config config;
  config.slowlog_us = 0;
  ASSERT_NO_FATAL_FAILURE(start(config, Password::of("secret")));
  ask("AUTH wrong");
  ask("HELLO 3 AUTH default secret");
  ask("GET a");
  EXPECT_EQ(logged(), (std::vector<std::string>{"GET a"}));
}

// Threads add and read at once.
TEST(SlowLog, OfSeveralThreads) {
  SlowLog log(0, 8);
  std::vector<base::Thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back("adds", [&log] {
      for (int i = 0; i < 2'000; ++i) {
        log.add(1'000, Words{"GET", "a"}, 2, "unix", "");
        EXPECT_LE(log.newest(SIZE_MAX).size(), 8U);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(log.newest(1).at(0).id, 3U * 2'000 - 1);
}

}  // namespace
}  // namespace bonsai::server
