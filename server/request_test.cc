// SPDX-License-Identifier: Apache-2.0
#include "server/request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/testing/resp.h"

namespace bonsai::server {
namespace {

using Result = RequestParser::Result;

struct Parsed {
  std::vector<std::vector<std::string>> requests;
  std::string error;
};

// Parses bytes that arrive in pieces, each of which is where a reallocated buffer would be: somewhere else.
Parsed parse_pieces(const std::vector<std::string>& pieces, const RequestLimits& limits = {}) {
  Parsed parsed;
  RequestParser parser;
  std::string bytes;
  for (const std::string& piece : pieces) {
    bytes = std::string(bytes + piece);
    for (;;) {
      const Result result = parser.parse(bytes, limits);
      if (result == Result::kBroken) {
        parsed.error = parser.error();
        return parsed;
      }
      if (result == Result::kMore) {
        EXPECT_GT(parser.wanted(), bytes.size());
        break;
      }
      std::vector<std::string_view> arguments;
      parser.arguments(bytes, &arguments);
      parsed.requests.emplace_back(arguments.begin(), arguments.end());
      bytes.erase(0, parser.size());
      parser.next();
    }
  }
  return parsed;
}

Parsed parse(const std::string& bytes, const RequestLimits& limits = {}) { return parse_pieces({bytes}, limits); }

using Requests = std::vector<std::vector<std::string>>;

TEST(Request, ArraysAndLines) {
  EXPECT_EQ(parse("*2\r\n$3\r\nGET\r\n$1\r\na\r\n").requests, (Requests{{"GET", "a"}}));
  EXPECT_EQ(parse("PING\r\n").requests, (Requests{{"PING"}}));
  EXPECT_EQ(parse("  SET \t a  b \n").requests, (Requests{{"SET", "a", "b"}}));
  EXPECT_EQ(parse(request({"SET", "", std::string("\0\r\n$", 4)})).requests,
            (Requests{{"SET", "", std::string("\0\r\n$", 4)}}));
  EXPECT_EQ(parse(request({"A"}) + "B\r\n" + request({"C"})).requests, (Requests{{"A"}, {"B"}, {"C"}}));
}

TEST(Request, EmptyOnesHaveNoArguments) {
  EXPECT_EQ(parse("\r\n*0\r\n*-1\r\n\n").requests, (Requests{{}, {}, {}, {}}));
}

TEST(Request, AnyCutGivesTheSame) {
  const std::string bytes =
      request({"SET", "key", std::string(300, 'v')}) + "GET  key\r\n" + request({"MGET", "", "b"});
  const Requests whole = parse(bytes).requests;
  ASSERT_EQ(whole.size(), 3U);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(parse_pieces({bytes.substr(0, cut), bytes.substr(cut)}).requests, whole) << cut;
  }
  std::vector<std::string> single;
  for (const char c : bytes) single.emplace_back(1, c);
  EXPECT_EQ(parse_pieces(single).requests, whole);
}

TEST(Request, BrokenOnesSayWhy) {
  const auto error_of = [](const std::string& bytes) { return parse(bytes).error; };
  EXPECT_EQ(error_of("*x\r\n").substr(0, 42), "Protocol error: invalid multibulk length (");
  EXPECT_EQ(error_of("*1\r\n:1\r\n"), "Protocol error: expected '$', got ':'");
  EXPECT_EQ(error_of("*1\r\n\x01"), "Protocol error: expected '$', got '?'");
  EXPECT_EQ(error_of("*1\r\n$-1\r\n").substr(0, 37), "Protocol error: invalid bulk length (");
  EXPECT_EQ(error_of("*1\r\n$1a\r\n").substr(0, 37), "Protocol error: invalid bulk length (");
  EXPECT_EQ(error_of("*1\r\n$99999999999999999999\r\n").substr(0, 37), "Protocol error: invalid bulk length (");
  EXPECT_EQ(error_of("*1\r\n$1\r\nabc"), "Protocol error: expected CRLF after a bulk string");
  EXPECT_EQ(error_of("*" + std::string(40, '1')), "Protocol error: too big mbulk count string");
  EXPECT_EQ(error_of("*1\r\n$" + std::string(40, '1')), "Protocol error: too big bulk count string");
  EXPECT_EQ(error_of(std::string(kInlineBytesMax + 2, 'a')), "Protocol error: too big inline request");
  EXPECT_NE(error_of("SET a \"b c\"\r\n").find("quotes"), std::string::npos);
}

TEST(Request, LimitsAreExact) {
  RequestLimits limits{.arguments_max = 3, .argument_bytes_max = 5, .request_bytes_max = 40};
  EXPECT_EQ(parse(request({"a", "b", "c"}), limits).requests.size(), 1U);
  EXPECT_NE(parse(request({"a", "b", "c", "d"}), limits).error, "");
  EXPECT_EQ(parse(request({"12345"}), limits).requests.size(), 1U);
  EXPECT_NE(parse(request({"123456"}), limits).error, "");
  const std::string large = request({"12345", "12345", "12345"});
  limits.request_bytes_max = large.size();
  EXPECT_EQ(parse(large, limits).requests.size(), 1U);
  limits.request_bytes_max = large.size() - 1;
  EXPECT_NE(parse(large, limits).error.find("request too big"), std::string::npos);
}

// A length is refused before its bytes come, so that nobody makes room for them.
TEST(Request, RefusesALengthAtOnce) {
  RequestLimits limits;
  EXPECT_NE(parse("*1\r\n$" + std::to_string(limits.argument_bytes_max + 1) + "\r\n", limits).error, "");
  RequestParser parser;
  EXPECT_EQ(parser.parse("*1\r\n$1000\r\nabc", limits), Result::kMore);
  EXPECT_EQ(parser.wanted(), 11U + 1000 + 2);
}

// However a line arrives, its bytes are searched once: a million pieces end within the test's time.
TEST(Request, TimeIsLinear) {
  RequestParser parser;
  std::string bytes;
  for (size_t i = 0; i < kInlineBytesMax; ++i) {
    bytes += 'a';
    ASSERT_EQ(parser.parse(bytes, {}), Result::kMore);
  }
  parser = RequestParser();
  const size_t count = 200'000;
  bytes = "*" + std::to_string(count) + "\r\n";
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(parser.parse(bytes, {}), Result::kMore);
    bytes += "$1\r\nx\r\n";
  }
  ASSERT_EQ(parser.parse(bytes, {}), Result::kRequest);
  EXPECT_EQ(parser.size(), bytes.size());
}

}  // namespace
}  // namespace bonsai::server
