// SPDX-License-Identifier: Apache-2.0
// Each command: what it replies, and what it does to the store.
#include "server/commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "server/testing/commands_fixture.h"

namespace bonsai::server {
namespace {

using ServerCommands = CommandsFixture;

TEST_F(ServerCommands, StringsAndKeys) {
  EXPECT_EQ(ask("GET apple"), "null");
  EXPECT_EQ(ask("SET apple red"), "+OK");
  EXPECT_EQ(ask("get apple"), "$red");
  EXPECT_EQ(ask("SET apple green"), "+OK");
  EXPECT_EQ(ask("MGET apple pear apple"), "*[$green null $green]");
  EXPECT_EQ(ask("STRLEN apple"), ":5");
  EXPECT_EQ(ask("STRLEN pear"), ":0");
  EXPECT_EQ(ask("TYPE apple"), "+string");
  EXPECT_EQ(ask("TYPE pear"), "+none");
  EXPECT_EQ(ask("EXISTS apple pear apple"), ":2");
  EXPECT_EQ(ask("DEL apple pear"), ":1");
  EXPECT_EQ(ask("UNLINK apple"), ":0");
  EXPECT_EQ(ask("MSET a 1 b 2"), "+OK");
  EXPECT_EQ(ask("DBSIZE"), ":2");
  std::string value;
  EXPECT_TRUE(db_->Get("b", &value).ok());
  EXPECT_EQ(value, "2");
}

TEST_F(ServerCommands, UpdatesByWhatWasThere) {
  EXPECT_EQ(ask("SET lock me XX"), "null");
  EXPECT_EQ(ask("SET lock me NX"), "+OK");
  EXPECT_EQ(ask("SET lock you nx"), "null");
  EXPECT_EQ(ask("SETNX lock you"), ":0");
  EXPECT_EQ(ask("SETNX door open"), ":1");
  EXPECT_EQ(ask("SET lock you XX KEEPTTL"), "+OK");
  EXPECT_EQ(ask("SET lock us GET"), "$you");
  EXPECT_EQ(ask("SET lock them NX GET"), "$us");
  EXPECT_EQ(ask("SET new 1 XX GET"), "null");
  EXPECT_EQ(ask("SET new 1 NX GET"), "null");
  EXPECT_EQ(ask("SET lock x NX XX"), "-ERR syntax error");
  EXPECT_EQ(ask("GETSET lock they"), "$us");
  EXPECT_EQ(ask("GETSET none 1"), "null");
  EXPECT_EQ(ask("GETDEL none"), "$1");
  EXPECT_EQ(ask("GETDEL none"), "null");
  EXPECT_EQ(ask("MGET lock door new none"), "*[$they $open $1 null]");
  EXPECT_EQ(ask("APPEND lock _all"), ":8");
  EXPECT_EQ(ask("APPEND none ab"), ":2");
  EXPECT_EQ(ask("SETRANGE none 4 cd"), ":6");
  EXPECT_EQ(ask_words({"GET", "none"}), "$" + std::string("ab\0\0cd", 6));
  EXPECT_EQ(ask_words({"SETRANGE", "none", "0", ""}), ":6");
  EXPECT_EQ(ask("SETRANGE none -1 a"), "-ERR offset is out of range");
  EXPECT_EQ(ask("SETRANGE none 16777216 a").substr(0, 18), "-ERR string exceed");
  EXPECT_EQ(ask_words({"SETRANGE", "absent", "3", ""}), ":0");
  EXPECT_EQ(ask("EXISTS absent"), ":0");
}

TEST_F(ServerCommands, CountersAndNames) {
  EXPECT_EQ(ask("INCR hits"), ":1");
  EXPECT_EQ(ask("INCRBY hits 41"), ":42");
  EXPECT_EQ(ask("DECR hits"), ":41");
  EXPECT_EQ(ask("DECRBY hits 50"), ":-9");
  EXPECT_EQ(ask("GET hits"), "$-9");
  EXPECT_EQ(ask("INCRBY hits x"), "-ERR value is not an integer or out of range");
  EXPECT_EQ(ask("DECRBY hits -9223372036854775808"), "-ERR decrement would overflow");
  EXPECT_EQ(ask("INCRBY hits -9223372036854775808").substr(0, 5), "-ERR ");
  EXPECT_EQ(ask("SET word red"), "+OK");
  EXPECT_EQ(ask("INCR word").substr(0, 5), "-ERR ");
  EXPECT_EQ(ask("MSETNX a 1 word 2"), ":0");
  EXPECT_EQ(ask("MSETNX a 1 b 2"), ":1");
  EXPECT_EQ(ask("MSETNX a 1 b"), "-ERR wrong number of arguments for 'msetnx' command");
  EXPECT_EQ(ask("RENAME a b"), "+OK");
  EXPECT_EQ(ask("RENAME a b"), "-ERR no such key");
  EXPECT_EQ(ask("RENAMENX b word"), ":0");
  EXPECT_EQ(ask("RENAMENX b c"), ":1");
  EXPECT_EQ(ask("RENAME c c"), "+OK");
  EXPECT_EQ(ask("MGET a b c word hits"), "*[null null $1 $red $-9]");
  EXPECT_EQ(replies("SET n 5\r\nINCR n\r\nGET n\r\nSETNX n 1\r\nDEL n\r\nINCR n\r\n"), "+OK :6 $6 :0 :1 :1");
}

TEST_F(ServerCommands, BytesOfAnyKind) {
  const std::string key("k\0\r\n", 4), value("\0\xff\r\n$5", 6);
  EXPECT_EQ(ask_words({"SET", key, value}), "+OK");
  EXPECT_EQ(ask_words({"GET", key}), "$" + value);
  EXPECT_EQ(ask_words({"SET", "empty", ""}), "+OK");
  EXPECT_EQ(ask_words({"GET", "empty"}), "$");
  EXPECT_EQ(ask_words({"SET", "", "x"}).substr(0, 21), "-ERR invalid argument");
  EXPECT_EQ(ask_words({"GET", std::string(1'025, 'k')}).substr(0, 21), "-ERR invalid argument");
  EXPECT_EQ(ask_words({"DEL", "", "empty"}).substr(0, 21), "-ERR invalid argument");
}

TEST_F(ServerCommands, GetRange) {
  ask_words({"SET", "k", "This is a string"});
  EXPECT_EQ(ask("GETRANGE k 0 3"), "$This");
  EXPECT_EQ(ask("GETRANGE k -3 -1"), "$ing");
  EXPECT_EQ(ask("GETRANGE k 0 -1"), "$This is a string");
  EXPECT_EQ(ask("SUBSTR k 10 100"), "$string");
  EXPECT_EQ(ask("GETRANGE k 5 4"), "$");
  EXPECT_EQ(ask("GETRANGE k -100 -90"), "$T");  // as Redis: both ends become 0
  EXPECT_EQ(ask("GETRANGE k 100 200"), "$");
  EXPECT_EQ(ask("GETRANGE none 0 1"), "$");
  EXPECT_EQ(ask("GETRANGE k a 1"), "-ERR value is not an integer or out of range");
}

TEST_F(ServerCommands, WhatIsNotSupportedSaysSo) {
  EXPECT_EQ(ask("FOO bar baz"), "-ERR unknown command 'FOO', with args beginning with: 'bar' 'baz' ");
  EXPECT_EQ(ask("FOO"), "-ERR unknown command 'FOO', with args beginning with: ");
  EXPECT_EQ(ask("GET"), "-ERR wrong number of arguments for 'get' command");
  EXPECT_EQ(ask("MSET a 1 b"), "-ERR wrong number of arguments for 'mset' command");
  EXPECT_EQ(ask("SET a 1 foo"), "-ERR syntax error");
  EXPECT_EQ(ask("GET a"), "null");
  EXPECT_EQ(ask("SELECT 0"), "+OK");
  EXPECT_EQ(ask("SELECT 1"), "-ERR DB index is out of range");
  EXPECT_EQ(ask("CONFIG SET save x").substr(0, 5), "-ERR ");
  EXPECT_EQ(ask(std::string(1'000, 'x')).size(), 128U + 51U);
}

TEST_F(ServerCommands, Connection) {
  EXPECT_EQ(ask("PING"), "+PONG");
  EXPECT_EQ(ask("PING hello"), "$hello");
  EXPECT_EQ(ask("ECHO hello"), "$hello");
  EXPECT_EQ(ask("CLIENT GETNAME"), "null");
  EXPECT_EQ(ask("CLIENT SETNAME me"), "+OK");
  EXPECT_EQ(ask("CLIENT GETNAME"), "$me");
  EXPECT_EQ(ask_words({"CLIENT", "SETNAME", "a b"}).substr(0, 24), "-ERR Client names cannot");
  EXPECT_NE(ask("CLIENT INFO").find(" name=me "), std::string::npos);
  EXPECT_EQ(ask("CLIENT KILL").substr(0, 29), "-ERR unknown subcommand 'KILL");
  client_.id = 7;
  EXPECT_EQ(ask("CLIENT ID"), ":7");
  EXPECT_EQ(ask("RESET"), "+RESET");
  EXPECT_EQ(ask("CLIENT GETNAME"), "null");
  EXPECT_EQ(ask("QUIT"), "+OK");
  EXPECT_TRUE(client_.ending);
  EXPECT_EQ(ask("PING"), "");
}

TEST_F(ServerCommands, HelloChoosesTheProtocol) {
  EXPECT_EQ(ask("HELLO").substr(0, 18), "*[$server $bonsai ");
  EXPECT_EQ(ask("HELLO 4"), "-NOPROTO unsupported protocol version");
  EXPECT_EQ(ask("HELLO 3 SETNAME me").substr(0, 18), "%[$server $bonsai ");
  EXPECT_EQ(ask("GET none"), "null");
  EXPECT_EQ(ask("CONFIG GET save"), "%[$save $]");
  EXPECT_EQ(ask("INFO server").substr(0, 15), "=txt:# Server\r\n");
  EXPECT_EQ(ask("CLIENT GETNAME"), "$me");
  EXPECT_EQ(ask("HELLO 3 FOO"), "-ERR Syntax error in HELLO option 'FOO'");
  EXPECT_EQ(ask("HELLO 2").substr(0, 2), "*[");
  EXPECT_EQ(ask("CONFIG GET save"), "*[$save $]");
}

TEST_F(ServerCommands, APasswordGuardsAllCommands) {
  EXPECT_EQ(ask("AUTH x").substr(0, 65), "-ERR AUTH <password> called without any password configured for t");
  EXPECT_EQ(ask("AUTH default x"), "+OK");
  ASSERT_NO_FATAL_FAILURE(start({}, Password::of("secret")));
  client_ = Client();
  for (const Command& command : commands()) {
    if ((command.flags & kOpenToStrangers) != 0) continue;
    EXPECT_EQ(ask(std::string(command.name) + " a b c"), "-NOAUTH Authentication required.") << command.name;
  }
  EXPECT_EQ(ask("FOO"), "-NOAUTH Authentication required.");
  EXPECT_EQ(ask("HELLO 3").substr(0, 12), "-NOAUTH HELL");
  EXPECT_EQ(client_.protocol, 2);
  const std::string wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
  EXPECT_EQ(ask("AUTH wrong"), wrong);
  EXPECT_EQ(ask("AUTH other secret"), wrong);
  EXPECT_EQ(ask("HELLO 3 AUTH default wrong"), wrong);
  EXPECT_EQ(state_->counters.wrong_passwords.load(), 3U);
  EXPECT_EQ(ask("AUTH secret"), "+OK");
  EXPECT_EQ(ask("PING"), "+PONG");
  Client other;
  EXPECT_EQ(ask("HELLO 3 AUTH default secret", &other).substr(0, 2), "%[");
  EXPECT_EQ(ask("PING", &other), "+PONG");
  Client large;
  EXPECT_EQ(replies("*11\r\n", &large).substr(0, 51), "-ERR Protocol error: invalid multibulk length (this");
  EXPECT_TRUE(large.ending);
}

TEST_F(ServerCommands, ServerInformation) {
  EXPECT_EQ(ask("COMMAND COUNT"), ":" + std::to_string(commands().size()));
  EXPECT_EQ(ask("COMMAND INFO get nope"), "*[*[$get :2 *[+readonly] :1 :1 :1 *[] *[] *[] *[]] null]");
  EXPECT_EQ(ask("COMMAND DOCS echo").substr(0, 39), "*[$echo *[$summary $Returns its argumen");
  EXPECT_EQ(ask("COMMAND FOO").substr(0, 28), "-ERR unknown subcommand 'FOO");
  ask("SET a 1");
  const std::string info = ask("INFO");
  for (const char* const part :
       {"# Server\r\n", "# Clients\r\n", "# Stats\r\n", "\r\nok_means:durable\r\n", "\r\nmedium:"}) {
    EXPECT_NE(info.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(info.find("# Keyspace"), std::string::npos);
  EXPECT_EQ(ask("INFO keyspace"), "$# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n");
  EXPECT_EQ(ask("CONFIG GET max*ents maxmemory"), "*[$maxclients $10000 $maxmemory $0]");
  EXPECT_EQ(ask("TIME").substr(0, 4), "*[$1");
  Config buffered;
  buffered.buffered = true;
  ASSERT_NO_FATAL_FAILURE(start(buffered));
  EXPECT_NE(ask("INFO persistence").find("\r\nok_means:applied; a crash may lose"), std::string::npos);
}

// The table is searched by halving, and docs/server.md lists what is in it.
TEST(ServerCommandTable, IsInOrder) {
  const auto all = commands();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].name, all[i].name);
  for (const Command& each : all) {
    EXPECT_EQ(find_command(each.name), &each);
    EXPECT_TRUE(takes(each, static_cast<size_t>(std::abs(each.arity))));
    EXPECT_FALSE(takes(each, static_cast<size_t>(std::abs(each.arity)) - 1));
  }
  EXPECT_EQ(find_command("GeT")->name, "get");
  EXPECT_EQ(find_command(std::string(100, 'a')), nullptr);
  EXPECT_EQ(find_command(""), nullptr);
}

// ---- many keys in order

TEST_F(ServerCommands, RangesAreInKeyOrder) {
  EXPECT_EQ(ask("RANGE - +"), "*[]");
  ask("MSET a 1 b 2 c 3 d 4");
  EXPECT_EQ(ask("RANGE - +"), "*[$a $1 $b $2 $c $3 $d $4]");
  EXPECT_EQ(ask("RANGE [b (d"), "*[$b $2 $c $3]");
  EXPECT_EQ(ask("RANGE (b [d"), "*[$c $3 $d $4]");
  EXPECT_EQ(ask("RANGE (a + LIMIT 2"), "*[$b $2 $c $3]");
  EXPECT_EQ(ask("RANGE + - REV LIMIT 2"), "*[$d $4 $c $3]");
  EXPECT_EQ(ask("RANGE (d [b REV"), "*[$c $3 $b $2]");
  EXPECT_EQ(ask("RANGE [bb (a REV"), "*[$b $2]");
  EXPECT_EQ(ask("RANGE [b + COUNT"), ":3");
  EXPECT_EQ(ask("RANGE [b + COUNT LIMIT 2"), ":2");
  EXPECT_EQ(ask("RANGE [d (b"), "*[]");
  EXPECT_EQ(ask("RANGE + -"), "*[]");
  EXPECT_EQ(ask("RANGE [a (a"), "*[]");
  EXPECT_EQ(ask("RANGE - ("), "*[]");
  EXPECT_EQ(ask("RANGE - + LIMIT 0"), "*[]");
  EXPECT_EQ(ask("RANGE a b").substr(0, 27), "-ERR an end of a range is [");
  EXPECT_EQ(ask("RANGE - + FOO"), "-ERR syntax error");
  EXPECT_EQ(ask("RANGE - + LIMIT -1"), "-ERR value is not an integer or out of range");
}

TEST_F(ServerCommands, RangesAreDeleted) {
  ask("MSET a 1 b 2 c 3 d 4 e 5");
  EXPECT_EQ(ask("DELRANGE (a [c"), ":2");
  EXPECT_EQ(ask("RANGE - +"), "*[$a $1 $d $4 $e $5]");
  EXPECT_EQ(ask("DELRANGE (a [c"), ":0");
  EXPECT_EQ(ask("DELRANGE - + LIMIT 1"), ":1");
  EXPECT_EQ(ask("DELRANGE - + LIMIT 0"), ":0");
  for (const char* const empty : {"DELRANGE [e (b", "DELRANGE + -", "DELRANGE [d (d", "DELRANGE - ("}) {
    EXPECT_EQ(ask(empty), ":0") << empty;
  }
  EXPECT_EQ(replies("SET f 6\r\nDELRANGE - +\r\nSET g 7\r\nRANGE - +\r\n"), "+OK :3 +OK *[$g $7]");
  EXPECT_EQ(ask("DELRANGE a b").substr(0, 27), "-ERR an end of a range is [");
  for (const char* const wrong : {"REV", "COUNT", "FOO", "LIMIT"}) {
    EXPECT_EQ(ask(std::string("DELRANGE - + ") + wrong), "-ERR syntax error");
  }
  ask("SNAPSHOT CREATE s EX 60");
  EXPECT_EQ(ask("DELRANGE - + SNAPSHOT s"), "-ERR syntax error");
  EXPECT_EQ(ask("DELRANGE - +"), ":1");
  EXPECT_EQ(ask("RANGE - + SNAPSHOT s"), "*[$g $7]");
  Client watcher;
  EXPECT_EQ(replies("SET w 1\r\nWATCH w\r\n", &watcher), "+OK +OK");
  EXPECT_EQ(ask("DELRANGE [w [w"), ":1");
  EXPECT_EQ(replies("MULTI\r\nSET w 2\r\nEXEC\r\n", &watcher), "+OK +QUEUED null");
}

// Then nothing is deleted, and the error has a LIMIT that fits.
TEST_F(ServerCommands, ARangeThatIsTooLargeIsDeletedInParts) {
  const uint64_t records = db_->BatchBytesMax() / 40 + 1;  // of more than 8 bytes a key
  for (uint64_t i = 0; i < records; ++i) ASSERT_TRUE(db_->Put("key:" + std::to_string(10'000'000 + i), "v").ok());
  const std::string error = ask("DELRANGE - +"), before = "by a limit of ";
  ASSERT_NE(error.find(before), std::string::npos) << error;
  EXPECT_EQ(ask("DBSIZE"), ":" + std::to_string(records));
  const std::string limit = std::to_string(std::atoi(error.c_str() + error.find(before) + before.size()));
  EXPECT_EQ(ask("DELRANGE - + LIMIT " + limit), ":" + limit);
  std::string deleted;
  for (int parts = 0; deleted != ":0"; ++parts) {
    deleted = ask("DELRANGE - + LIMIT " + limit);
    ASSERT_LT(parts, 100) << deleted;
  }
  EXPECT_EQ(ask("DBSIZE"), ":0");
}

TEST_F(ServerCommands, ALargeReplyIsAnError) {
  Config config;
  config.reply_bytes_max = 64 << 10;
  ASSERT_NO_FATAL_FAILURE(start(config));
  for (const char* const key : {"a", "b", "c"}) ask_words({"SET", key, std::string(30'000, 'v')});
  EXPECT_EQ(ask("RANGE - +").substr(0, 24), "-ERR the reply is larger");
  EXPECT_EQ(ask("RANGE + - REV").substr(0, 24), "-ERR the reply is larger");
  EXPECT_EQ(ask("RANGE - + LIMIT 2").size(), 2 * 30'000U + 12);
  const std::string mget = ask("MGET a b c");
  EXPECT_NE(mget.find(" -ERR the reply is larger"), std::string::npos);
  EXPECT_EQ(replies("GET a\r\nGET b\r\nGET c\r\n").size(), 3 * 30'001U + 2);  // of each its own
}

TEST_F(ServerCommands, KeysByPattern) {
  ask("MSET user:1 a user:2 b user:10 c item:1 d");
  EXPECT_EQ(ask("KEYS *"), "*[$item:1 $user:1 $user:10 $user:2]");
  EXPECT_EQ(ask("KEYS user:?"), "*[$user:1 $user:2]");
  EXPECT_EQ(ask("KEYS user:1*"), "*[$user:1 $user:10]");
  EXPECT_EQ(ask("KEYS z*"), "*[]");
}

// Goes on with SCAN until it ends; returns the keys.
std::vector<std::string> scan_all(const std::string& options,
                                  const std::function<std::string(const std::string&)>& ask) {
  std::vector<std::string> keys;
  std::string cursor = "0";
  for (int i = 0; i < 10'000; ++i) {
    std::string reply = ask("SCAN " + cursor + options);
    EXPECT_EQ(reply.substr(0, 3), "*[$");
    const size_t end = reply.find(' ');
    cursor = reply.substr(3, end - 3);
    std::string list = reply.substr(end + 3, reply.size() - end - 5);
    for (size_t begin = 0; begin < list.size();) {
      const size_t stop = std::min(list.find(' ', begin), list.size());
      keys.push_back(list.substr(begin + 1, stop - begin - 1));
      begin = stop + 1;
    }
    if (cursor == "0") break;
  }
  return keys;
}

TEST_F(ServerCommands, ScanReturnsEachKeyOnceInOrder) {
  std::vector<std::string> all;
  for (int i = 0; i < 250; ++i) {
    all.push_back((i % 5 == 0 ? "user:" : "item:") + std::to_string(i));
    ask("SET " + all.back() + " v");
  }
  std::sort(all.begin(), all.end());
  const auto asks = [this](const std::string& line) { return ask(line); };
  for (const char* const count : {"", " COUNT 1", " COUNT 7", " COUNT 250", " COUNT 100000"}) {
    EXPECT_EQ(scan_all(count, asks), all) << count;
  }
  std::vector<std::string> users(all);
  std::erase_if(users, [](const std::string& key) { return !key.starts_with("user:1"); });
  EXPECT_EQ(scan_all(" COUNT 3 MATCH user:1*", asks), users);
  EXPECT_EQ(scan_all(" MATCH *er:1*", asks), users);
  EXPECT_EQ(scan_all(" TYPE string", asks), all);
  EXPECT_EQ(scan_all(" TYPE hash", asks), std::vector<std::string>());
  EXPECT_EQ(ask("SCAN 5").substr(0, 19), "-ERR invalid cursor");
  EXPECT_EQ(ask("SCAN x"), "-ERR invalid cursor");
  EXPECT_EQ(ask("SCAN 0 COUNT 0"), "-ERR syntax error");
  EXPECT_EQ(ask("SCAN 0 COUNT"), "-ERR syntax error");
}

}  // namespace
}  // namespace bonsai::server
