// SPDX-License-Identifier: Apache-2.0
// bonsai-server with hiredis, the C client of Redis's own project, as its users call it.
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <cstdarg>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/budget.h"
#include "server/testing/server_fixture.h"

namespace bonsai::server {
namespace {

using Context = std::unique_ptr<redisContext, decltype(&redisFree)>;
using Answer = std::unique_ptr<redisReply, void (*)(redisReply*)>;

Answer own(void* reply) {
  return {static_cast<redisReply*>(reply), [](redisReply* each) { freeReplyObject(each); }};
}

// In the form of testing/resp.h.
std::string show(const redisReply* reply) {
  if (reply == nullptr) return "closed";
  const auto text = [reply] { return std::string(reply->str, reply->len); };
  switch (reply->type) {
    case REDIS_REPLY_STRING:
      return "$" + text();
    case REDIS_REPLY_STATUS:
      return "+" + text();
    case REDIS_REPLY_ERROR:
      return "-" + text();
    case REDIS_REPLY_INTEGER:
      return ":" + std::to_string(reply->integer);
    case REDIS_REPLY_NIL:
      return "null";
    default:
      break;
  }
  std::string all = "*[";
  for (size_t i = 0; i < reply->elements; ++i) all += (i == 0 ? "" : " ") + show(reply->element[i]);
  return all + "]";
}

class Hiredis : public ServerFixture {
 protected:
  Hiredis() { start(); }
  ~Hiredis() override { stop(); }

  [[nodiscard]] Context connect_unix() const {
    Context context(redisConnectUnix(socket_.c_str()), redisFree);
    EXPECT_TRUE(context != nullptr && context->err == 0) << (context == nullptr ? "" : context->errstr);
    return context;
  }
  [[nodiscard]] Context connect_tcp() const {
    const size_t colon = tcp_.rfind(':');
    Context context(redisConnect(tcp_.substr(0, colon).c_str(), std::stoi(tcp_.substr(colon + 1))), redisFree);
    EXPECT_TRUE(context != nullptr && context->err == 0) << (context == nullptr ? "" : context->errstr);
    return context;
  }
  // NOLINTNEXTLINE(cert-dcl50-cpp): the interface of hiredis
  static std::string ask(const Context& context, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const Answer answer = own(redisvCommand(context.get(), format, arguments));
    va_end(arguments);
    return show(answer.get());
  }
  static std::string next(const Context& context) {
    void* reply = nullptr;
    if (redisGetReply(context.get(), &reply) != REDIS_OK) return "closed";
    return show(own(reply).get());
  }
};

TEST_F(Hiredis, StringsKeysAndErrors) {
  for (const bool over_tcp : {false, true}) {
    const Context c = over_tcp ? connect_tcp() : connect_unix();
    EXPECT_EQ(ask(c, "PING"), "+PONG");
    EXPECT_EQ(ask(c, "DEL apple n a b"), over_tcp ? ":4" : ":0");
    EXPECT_EQ(ask(c, "GET apple"), "null");
    EXPECT_EQ(ask(c, "SET %s %s", "apple", "red and green"), "+OK");
    EXPECT_EQ(ask(c, "GET apple"), "$red and green");
    EXPECT_EQ(ask(c, "SET apple blue NX"), "null");
    EXPECT_EQ(ask(c, "INCRBY n %d", 41), ":41");
    EXPECT_EQ(ask(c, "INCR n"), ":42");
    EXPECT_EQ(ask(c, "MSET a 1 b 2"), "+OK");
    EXPECT_EQ(ask(c, "MGET a x b"), "*[$1 null $2]");
    EXPECT_EQ(ask(c, "EXPIRE a 100"), ":1");
    EXPECT_EQ(ask(c, "TTL b"), ":-1");
    EXPECT_EQ(ask(c, "LPUSH a 1").substr(0, 28), "-ERR unknown command 'LPUSH'");
    EXPECT_EQ(ask(c, "INCR apple").substr(0, 4), "-ERR");
    EXPECT_EQ(ask(c, "RANGE [a (b LIMIT 2"), "*[$a $1 $apple $red and green]");
  }
}

TEST_F(Hiredis, BytesOfAnyKind) {
  const Context c = connect_unix();
  std::string key("k\0\r\n", 4), value(1 << 20, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7);
  EXPECT_EQ(ask(c, "SET %b %b", key.data(), key.size(), value.data(), value.size()), "+OK");
  EXPECT_EQ(ask(c, "GET %b", key.data(), key.size()), "$" + value);
  const char* const words[] = {"STRLEN", key.data()};
  const size_t bytes[] = {6, key.size()};
  EXPECT_EQ(show(own(redisCommandArgv(c.get(), 2, const_cast<const char**>(words), bytes)).get()), ":1048576");
}

TEST_F(Hiredis, Pipelines) {
  const Context c = connect_unix();
  const int count = testing::budget(2'000, 20'000, 200'000);
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(redisAppendCommand(c.get(), "SET key:%d %d", i % 100, i), REDIS_OK);
    ASSERT_EQ(redisAppendCommand(c.get(), "GET key:%d", i % 100), REDIS_OK);
  }
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(next(c), "+OK") << i;
    ASSERT_EQ(next(c), "$" + std::to_string(i)) << i;
  }
}

TEST_F(Hiredis, Transactions) {
  const Context c = connect_unix(), other = connect_tcp();
  EXPECT_EQ(ask(c, "WATCH k"), "+OK");
  EXPECT_EQ(ask(c, "MULTI"), "+OK");
  EXPECT_EQ(ask(c, "SET k 1"), "+QUEUED");
  EXPECT_EQ(ask(c, "INCR k"), "+QUEUED");
  EXPECT_EQ(ask(c, "EXEC"), "*[+OK :2]");
  EXPECT_EQ(ask(c, "WATCH k"), "+OK");
  EXPECT_EQ(ask(other, "SET k 7"), "+OK");
  EXPECT_EQ(ask(c, "MULTI"), "+OK");
  EXPECT_EQ(ask(c, "SET k 1"), "+QUEUED");
  EXPECT_EQ(ask(c, "EXEC"), "null");
  EXPECT_EQ(ask(c, "GET k"), "$7");
}

}  // namespace
}  // namespace bonsai::server
