// SPDX-License-Identifier: Apache-2.0
// Patterns, cursors and replies.
#include <gtest/gtest.h>

#include <string>

#include "server/bytes.h"
#include "server/cursors.h"
#include "server/glob.h"
#include "server/reply.h"
#include "server/testing/resp.h"

namespace bonsai::server {
namespace {

TEST(Glob, Matches) {
  const auto matches = [](const char* pattern, const char* text) { return glob_matches(pattern, text); };
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("h?llo", "hello"));
  EXPECT_FALSE(matches("h?llo", "hllo"));
  EXPECT_TRUE(matches("h*llo", "heeeello"));
  EXPECT_TRUE(matches("h[ae]llo", "hallo"));
  EXPECT_FALSE(matches("h[ae]llo", "hillo"));
  EXPECT_TRUE(matches("h[^e]llo", "hallo"));
  EXPECT_FALSE(matches("h[^e]llo", "hello"));
  EXPECT_TRUE(matches("h[a-c]llo", "hbllo"));
  EXPECT_TRUE(matches("h[c-a]llo", "hbllo"));
  EXPECT_TRUE(matches("\\*\\?", "*?"));
  EXPECT_FALSE(matches("\\*", "a"));
  EXPECT_TRUE(matches("[\\]]", "]"));
  EXPECT_FALSE(matches("[]", "a"));
  EXPECT_TRUE(matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(matches("*a*b", "xxaxxbxx"));
  EXPECT_TRUE(matches("a*", "a/b"));
  EXPECT_FALSE(matches("a", "aa"));
}

TEST(Glob, ManyStarsTakeLittleTime) {
  std::string pattern, text(2'000, 'a');
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", text));
}

TEST(Glob, PrefixBoundsTheKeys) {
  EXPECT_EQ(glob_prefix("user:*"), "user:");
  EXPECT_EQ(glob_prefix("a\\*b[c]"), "a*b");
  EXPECT_EQ(glob_prefix("?a"), "");
  EXPECT_EQ(after_prefix("user:"), "user;");
  EXPECT_EQ(after_prefix("a\xff\xff"), "b");
  EXPECT_EQ(after_prefix("\xff"), "");
  EXPECT_EQ(after_prefix(""), "");
}

TEST(Cursors, TheLastOnesAreKept) {
  Cursors cursors(1'000);
  std::string key;
  EXPECT_FALSE(cursors.find(1'000, &key));
  for (uint64_t i = 0; i <= kCursorsMax; ++i) EXPECT_EQ(cursors.give("key" + std::to_string(i)), 1'000 + i);
  EXPECT_FALSE(cursors.find(999, &key));
  EXPECT_FALSE(cursors.find(1'000, &key));  // one too many came after it
  ASSERT_TRUE(cursors.find(1'001, &key));
  EXPECT_EQ(key, "key1");
  ASSERT_TRUE(cursors.find(1'000 + kCursorsMax, &key));
  EXPECT_EQ(key, "key" + std::to_string(kCursorsMax));
  EXPECT_FALSE(cursors.find(1'001 + kCursorsMax, &key));
}

std::string written(int protocol, void (*write)(Reply&)) {
  std::string out;
  Reply reply(&out, protocol);
  write(reply);
  return out;
}

TEST(Reply, BothVersions) {
  const auto null = [](Reply& reply) { reply.null(); };
  EXPECT_EQ(written(2, null), "$-1\r\n");
  EXPECT_EQ(written(3, null), "_\r\n");
  const auto map = [](Reply& reply) { reply.map(1), reply.bulk("a"), reply.integer(-5); };
  EXPECT_EQ(written(2, map), "*2\r\n$1\r\na\r\n:-5\r\n");
  EXPECT_EQ(written(3, map), "%1\r\n$1\r\na\r\n:-5\r\n");
  const auto text = [](Reply& reply) { reply.text("ab"); };
  EXPECT_EQ(written(2, text), "$2\r\nab\r\n");
  EXPECT_EQ(written(3, text), "=6\r\ntxt:ab\r\n");
  const auto set = [](Reply& reply) { reply.set(0); };
  EXPECT_EQ(written(2, set), "*0\r\n");
  EXPECT_EQ(written(3, set), "~0\r\n");
}

TEST(Reply, ErrorsAreOneLine) {
  EXPECT_EQ(written(2, [](Reply& reply) { reply.error("ERR a\r\nb"); }), "-ERR a  b\r\n");
  EXPECT_EQ(error_text(Status::NoSpace("full")), "OOM command not allowed: full");
  EXPECT_EQ(error_text(Status::InvalidArgument("empty key")), "ERR invalid argument: empty key");
}

TEST(Bytes, KeepsWhatIsNotUsedUp) {
  Bytes bytes;
  std::string expected;
  for (int i = 0; i < 1'000; ++i) {
    const std::string piece(static_cast<size_t>(i % 37) + 1, static_cast<char>('a' + i % 26));
    piece.copy(bytes.prepare(piece.size()), piece.size());
    bytes.commit(piece.size());
    expected += piece;
    const size_t used = std::min<size_t>(expected.size(), static_cast<size_t>(i % 29));
    bytes.consume(used);
    expected.erase(0, used);
    bytes.trim();
    ASSERT_EQ(bytes.view(), expected);
  }
  bytes.consume(bytes.size());
  bytes.trim();
  EXPECT_EQ(bytes.capacity(), 0U);
}

}  // namespace
}  // namespace bonsai::server
