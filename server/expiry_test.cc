// SPDX-License-Identifier: Apache-2.0
// Keys that expire: how they are stored, what each command makes of them, and that their space comes back.
#include "server/expiry.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "server/sweeper.h"
#include "server/testing/commands_fixture.h"

namespace bonsai::server {
namespace {

const std::string kMark = with_trailer("", 0).substr(kTrailerBytes - 8);

TEST(Expiry, StoredBytesAreUnambiguous) {
  for (const std::string& value : {std::string(), std::string("value"), kMark, kMark + kMark, with_trailer("v", 7),
                                   kMark.substr(1), kMark + "x"}) {
    EXPECT_EQ(needs_trailer(value, 0), value.ends_with(kMark));
    for (const uint64_t deadline_ms : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
      const std::string raw = needs_trailer(value, deadline_ms) ? with_trailer(value, deadline_ms) : value;
      const Stored stored = parse_stored(raw);
      EXPECT_EQ(stored.value, value);
      EXPECT_EQ(stored.deadline_ms, deadline_ms);
    }
  }
  EXPECT_TRUE(has_expired({"", 1}));
  EXPECT_FALSE(has_expired({"", 0}));
  EXPECT_FALSE(has_expired({"", wall_ms() + 1'000'000}));
}

class ServerExpiry : public CommandsFixture {
 protected:
  // A key that the store has, and that has expired.
  void expired(const std::string& key) {
    EXPECT_EQ(ask("PSETEX " + key + " 1 gone"), "+OK");
    base::sleep_ms(3);
    std::string raw;
    EXPECT_TRUE(db_->Get(key, &raw).ok());
  }
  // How long the key lives, in hours.
  std::string hours(const std::string& key) {
    const int64_t seconds = std::strtoll(ask("TTL " + key).c_str() + 1, nullptr, 10);
    return seconds < 0 ? std::to_string(seconds) : std::to_string((seconds + 1'800) / 3'600);
  }
};

TEST_F(ServerExpiry, TimesToLive) {
  EXPECT_EQ(ask("SET a 1 EX 7200"), "+OK");
  EXPECT_EQ(hours("a"), "2");
  EXPECT_EQ(replies("TTL none\r\nPTTL none\r\nEXPIRETIME none\r\nEXPIRE none 5\r\nPERSIST none\r\n"),
            ":-2 :-2 :-2 :0 :0");
  EXPECT_EQ(replies("PERSIST a\r\nTTL a\r\nPERSIST a\r\nGET a\r\n"), ":1 :-1 :0 $1");
  EXPECT_EQ(replies("EXPIREAT a 99999999999\r\nEXPIRETIME a\r\nPEXPIRETIME a\r\n"), ":1 :99999999999 :99999999999000");
  EXPECT_EQ(replies("PEXPIREAT a 99999999999001\r\nPEXPIRETIME a\r\nGET a\r\n"), ":1 :99999999999001 $1");
  EXPECT_EQ(ask("PEXPIRE a 10800000"), ":1");
  EXPECT_EQ(hours("a"), "3");
  EXPECT_EQ(replies("EXPIRE a 7200 NX\r\nEXPIRE a 7200 GT\r\nEXPIRE a 14400 LT\r\n"), ":0 :0 :0");
  EXPECT_EQ(hours("a"), "3");
  EXPECT_EQ(replies("EXPIRE a 7200 XX\r\nEXPIRE a 18000 GT\r\nEXPIRE a 14400 lt\r\n"), ":1 :1 :1");
  EXPECT_EQ(hours("a"), "4");
  EXPECT_EQ(replies("PERSIST a\r\nEXPIRE a 7200 XX\r\nEXPIRE a 7200 GT\r\nEXPIRE a 7200 LT\r\n"), ":1 :0 :0 :1");
  EXPECT_EQ(replies("EXPIRE a -1\r\nEXISTS a\r\nSET a 1\r\nEXPIREAT a 1\r\nEXISTS a\r\n"), ":1 :0 +OK :1 :0");
  EXPECT_EQ(ask("SET a 1 EX 0"), "-ERR invalid expire time in 'set' command");
  EXPECT_EQ(ask("SETEX a -1 v"), "-ERR invalid expire time in 'setex' command");
  EXPECT_EQ(ask("PSETEX a x v"), "-ERR value is not an integer or out of range");
  EXPECT_EQ(ask("EXPIRE a 9223372036854775807"), "-ERR invalid expire time in 'expire' command");
  EXPECT_EQ(ask("EXPIRE a 1 NX XX").substr(0, 24), "-ERR Unsupported option,");
  for (const char* const line :
       {"SET a 1 EX", "SET a 1 EX 5 PX 5", "SET a 1 EX 5 KEEPTTL", "GETEX a EX", "GETEX a FOO"}) {
    EXPECT_EQ(ask(line), "-ERR syntax error") << line;
  }
  EXPECT_EQ(ask("EXISTS a"), ":0");
}

// As in Redis: what sets a key anew drops its time to live, what changes its value keeps it.
TEST_F(ServerExpiry, WhatKeepsATimeToLive) {
  const auto after = [this](const std::string& line) {
    EXPECT_EQ(ask("SET a 1 EX 7200"), "+OK");
    EXPECT_EQ(ask(line)[0] == '-', false) << line;
    return hours("a");
  };
  for (const char* const line :
       {"GET a", "APPEND a 1", "INCR a", "SETRANGE a 0 5", "SET a 2 KEEPTTL", "GETEX a", "SET a 2 NX"}) {
    EXPECT_EQ(after(line), "2") << line;
  }
  for (const char* const line :
       {"SET a 2", "SET a 2 XX", "GETSET a 2", "MSET a 2 b 3", "GETEX a PERSIST", "SET a 2 GET"}) {
    EXPECT_EQ(after(line), "-1") << line;
  }
  EXPECT_EQ(after("GETEX a EX 10800"), "3");
  EXPECT_EQ(after("SET a 2 XX PX 10800000"), "3");
  EXPECT_EQ(after("RENAME a b"), "-2");
  EXPECT_EQ(hours("b"), "2");
  EXPECT_EQ(replies("GET b\r\nSTRLEN b\r\nGETRANGE b -1 -1\r\nMGET b a\r\n"), "$1 :1 $1 *[$1 null]");
  EXPECT_EQ(replies("MULTI\r\nSET c 1 EX 7200\r\nINCR c\r\nPERSIST b\r\nEXEC\r\n"),
            "+OK +QUEUED +QUEUED +QUEUED *[+OK :2 :1]");
  EXPECT_EQ(hours("c") + hours("b"), "2-1");
  ASSERT_NO_FATAL_FAILURE(start({}));  // the pool again
  EXPECT_EQ(hours("c") + hours("b"), "2-1");
}

TEST_F(ServerExpiry, AnExpiredKeyIsAbsent) {
  const std::vector<std::pair<std::string, std::string>> reads = {{"GET a", "null"},
                                                                  {"MGET a a", "*[null null]"},
                                                                  {"STRLEN a", ":0"},
                                                                  {"GETRANGE a 0 -1", "$"},
                                                                  {"EXISTS a a", ":0"},
                                                                  {"TYPE a", "+none"},
                                                                  {"TTL a", ":-2"},
                                                                  {"KEYS *", "*[]"},
                                                                  {"SCAN 0", "*[$0 *[]]"},
                                                                  {"RANGE - +", "*[]"},
                                                                  {"RANGE + - REV", "*[]"},
                                                                  {"GETDEL a", "null"},
                                                                  {"PERSIST a", ":0"},
                                                                  {"EXPIRE a 100", ":0"},
                                                                  {"GETEX a EX 100", "null"},
                                                                  {"SET a 1 XX", "null"},
                                                                  {"RENAME a b", "-ERR no such key"}};
  expired("a");
  for (const auto& [line, reply] : reads) {
    EXPECT_EQ(ask(line), reply) << line;
    EXPECT_EQ(replies("MULTI\r\nGET a\r\nEXEC\r\n"), "+OK +QUEUED *[null]") << line;
  }
  EXPECT_EQ(ask("DEL a"), ":0");
  const std::vector<std::pair<std::string, std::string>> updates = {
      {"SETNX a 1", ":1"},    {"SET a 1 NX", "+OK"},    {"INCR a", ":1"},        {"APPEND a 1", ":1"},
      {"GETSET a 1", "null"}, {"MSETNX a 1 b 1", ":1"}, {"SET a 1 GET", "null"}, {"RENAMENX c a", ":1"}};
  for (const auto& [line, reply] : updates) {
    ask("DEL b");
    ask("SET c 1");
    expired("a");
    EXPECT_EQ(ask(line), reply) << line;
    EXPECT_EQ(replies("GET a\r\nTTL a\r\n"), "$1 :-1") << line;
  }
  expired("b");
  EXPECT_EQ(ask("RANGE - + LIMIT 2"), "*[$a $1]");
  ask("SET c 1");
  EXPECT_EQ(ask("RANGE - + LIMIT 2"), "*[$a $1 $c $1]");
  EXPECT_EQ(ask("RANGE + - REV LIMIT 2"), "*[$c $1 $a $1]");
}

// A client cannot pass bytes off as a deadline.
TEST_F(ServerExpiry, ValuesThatEndInTheMarkAreValues) {
  const std::string value = with_trailer("v", 1);
  const auto is_whole = [&](const std::string& key) {
    EXPECT_EQ(ask_words({"GET", key}), "$" + value);
    EXPECT_EQ(ask("TTL " + key), ":-1");
  };
  EXPECT_EQ(ask_words({"SET", "a", value}), "+OK"), is_whole("a");
  EXPECT_EQ(ask_words({"MSET", "b", value, "c", value}), "+OK"), is_whole("b");
  EXPECT_EQ(ask_words({"MSETNX", "d", value}), ":1"), is_whole("d");
  EXPECT_EQ(ask_words({"SETNX", "e", value}), ":1"), is_whole("e");
  EXPECT_EQ(ask_words({"APPEND", "f", value}), ":17"), is_whole("f");
  EXPECT_EQ(ask_words({"SETRANGE", "g", "0", value}), ":17"), is_whole("g");
  EXPECT_EQ(ask_words({"RENAME", "g", "h"}), "+OK"), is_whole("h");
  EXPECT_EQ(ask_words({"RANGE", "[a", "[a"}), "*[$a $" + value + "]");
}

TEST_F(ServerExpiry, TheSweepGivesSpaceBack) {
  const auto stored = [this] {
    uint64_t count = 0;
    EXPECT_TRUE(db_->Count(ScanOptions(), "", &count).ok());
    return count;
  };
  Sweep sweep(&*state_);
  EXPECT_TRUE(sweep.step().ok());
  EXPECT_TRUE(sweep.rests());
  constexpr int kKeys = 3 * Sweep::kStepRecords;
  std::string bytes;
  for (int i = 0; i < kKeys; ++i) {
    const std::string life = i % 3 == 0 ? " PX 1" : i % 3 == 1 ? " EX 100000" : "";
    bytes += "SET key" + std::to_string(i) + " v" + life + "\r\n";
  }
  replies(bytes);
  expired("alone");
  EXPECT_FALSE(sweep.rests());
  EXPECT_EQ(stored(), kKeys + 1U);
  int steps = 0;
  for (; state_->counters.expired.load() < kKeys / 3 + 1 && steps < 100; ++steps) EXPECT_TRUE(sweep.step().ok());
  EXPECT_GT(steps, 2);
  EXPECT_EQ(stored(), kKeys / 3 * 2U);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(sweep.step().ok());
  EXPECT_FALSE(sweep.rests()) << "there are deadlines";
  EXPECT_EQ(ask("GET key1"), "$v");
  for (int i = 1; i < kKeys; i += 3) ask("DEL key" + std::to_string(i));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(sweep.step().ok());
  EXPECT_TRUE(sweep.rests());
  EXPECT_EQ(stored(), kKeys / 3U);
  replies("MULTI\r\nSETEX late 1000 v\r\nEXEC\r\n");
  EXPECT_FALSE(sweep.rests());
}

TEST_F(ServerExpiry, TheSweeperIsAThread) {
  expired("a");
  std::unique_ptr<Sweeper> sweeper;
  ASSERT_TRUE(Sweeper::start(&*state_, 1, &sweeper).ok());
  uint64_t count = 1;
  for (base::BoundedWait wait("the sweep", 30'000); count != 0 && !wait.expired(); wait.pause()) {
    ASSERT_TRUE(db_->Count(ScanOptions(), "", &count).ok());
  }
  EXPECT_EQ(count, 0U);
}

}  // namespace
}  // namespace bonsai::server
