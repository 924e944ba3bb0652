// SPDX-License-Identifier: Apache-2.0
// Snapshots with a name: what is read through them, and that they end.
#include "server/snapshots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "server/testing/commands_fixture.h"

namespace bonsai::server {
namespace {

// Time goes on when a test says so.
class ServerSnapshots : public CommandsFixture {
 protected:
  ServerSnapshots() : now_ns_(base::now_ns()) { base::virtual_now_ns = &now_ns_; }
  ~ServerSnapshots() override { base::virtual_now_ns = nullptr; }

  void pass_ms(uint64_t ms) { now_ns_ += ms * base::kNsPerMs; }

  uint64_t now_ns_;
};

TEST_F(ServerSnapshots, ReadWhatWasThere) {
  ask("MSET a 1 b 2 c 3");
  EXPECT_EQ(ask("SNAPSHOT CREATE monday EX 60"), "+OK");
  ask("MSET a 10 d 40");
  ask("DEL b");
  EXPECT_EQ(ask("SNAPSHOT CREATE tuesday PX 60000"), "+OK");
  ask("SET a 100");
  EXPECT_EQ(ask("RANGE - +"), "*[$a $100 $c $3 $d $40]");
  EXPECT_EQ(ask("RANGE - + SNAPSHOT monday"), "*[$a $1 $b $2 $c $3]");
  EXPECT_EQ(ask("range - + snapshot tuesday"), "*[$a $10 $c $3 $d $40]");
  EXPECT_EQ(ask("RANGE + - REV SNAPSHOT monday LIMIT 2"), "*[$c $3 $b $2]");
  EXPECT_EQ(ask("RANGE (a + COUNT SNAPSHOT monday"), ":2");
  EXPECT_EQ(ask("SNAPSHOT GET monday a b d a"), "*[$1 $2 null $1]");
  EXPECT_EQ(ask("SNAPSHOT GET tuesday a b d"), "*[$10 null $40]");
  Client other;
  other.protocol = 3;
  EXPECT_EQ(ask("SNAPSHOT GET monday b d", &other), "*[$2 null]");  // of all connections
}

// What the client has sent before without waiting is in it, what it sends behind is not.
TEST_F(ServerSnapshots, StandInTheOrderOfRequests) {
  EXPECT_EQ(replies("SET a 1\r\nMSET b 1 c 1\r\nSNAPSHOT CREATE s EX 60\r\nSET a 2\r\nMSET b 2 c 2\r\n"
                    "SNAPSHOT GET s a b c\r\nMGET a b c\r\n"),
            "+OK +OK +OK +OK +OK *[$1 $1 $1] *[$2 $2 $2]");
}

TEST_F(ServerSnapshots, ExpireAndAreDropped) {
  ask("SNAPSHOT CREATE short PX 1000");
  ask("SNAPSHOT CREATE long EX 10");
  EXPECT_EQ(ask("SNAPSHOT LIST"), "*[*[$long :10000] *[$short :1000]]");
  pass_ms(999);
  EXPECT_EQ(ask("SNAPSHOT LIST"), "*[*[$long :9001] *[$short :1]]");
  EXPECT_EQ(ask("RANGE - + SNAPSHOT short"), "*[]");
  pass_ms(1);
  EXPECT_EQ(ask("SNAPSHOT LIST"), "*[*[$long :9000]]");
  EXPECT_EQ(ask("RANGE - + SNAPSHOT short").substr(0, 77),
            "-ERR there is no snapshot 'short': it was dropped, has expired, or ended with");
  EXPECT_EQ(ask("SNAPSHOT GET short a").substr(0, 24), "-ERR there is no snapsho");
  EXPECT_EQ(ask("SNAPSHOT DROP short"), ":0");
  EXPECT_EQ(ask("SNAPSHOT DROP long"), ":1");
  EXPECT_EQ(ask("SNAPSHOT DROP long"), ":0");
  EXPECT_EQ(ask("SNAPSHOT LIST"), "*[]");
  EXPECT_EQ(ask("SNAPSHOT CREATE short EX 1"), "+OK");  // the name is free again
  pass_ms(2'000);
  EXPECT_EQ(state_->snapshots.size(), 1U);
  state_->snapshots.drop_expired();
  EXPECT_EQ(state_->snapshots.size(), 0U);
}

TEST_F(ServerSnapshots, AreBounded) {
  Config config;
  config.snapshots_max = 2;
  config.snapshot_s_max = 5;
  ASSERT_NO_FATAL_FAILURE(start(config));
  for (const char* const life : {"EX 6", "PX 5001", "EX 0", "PX -1", "EX 9223372036854775807"}) {
    EXPECT_EQ(ask(std::string("SNAPSHOT CREATE a ") + life),
              "-ERR a snapshot lives for 1 ms to --snapshot_s_max of the server, 5 s");
  }
  EXPECT_EQ(ask("SNAPSHOT CREATE a EX 5"), "+OK");
  EXPECT_NE(ask("SNAPSHOT CREATE a EX 5").find("there is a snapshot 'a'; end it by SNAPSHOT DROP"), std::string::npos);
  EXPECT_EQ(ask("SNAPSHOT CREATE b PX 1"), "+OK");
  EXPECT_NE(ask("SNAPSHOT CREATE c EX 5").find("--snapshots_max of the server allows no more"), std::string::npos);
  pass_ms(1);
  EXPECT_EQ(ask("SNAPSHOT CREATE c EX 5"), "+OK");  // in the place of the expired one
  ask("SNAPSHOT DROP c");
  EXPECT_EQ(ask_words({"SNAPSHOT", "CREATE", std::string(128, 'n'), "EX", "1"}), "+OK");
  EXPECT_NE(ask_words({"SNAPSHOT", "CREATE", std::string(129, 'n'), "EX", "1"}).find("has 1 to 128 bytes"),
            std::string::npos);
  EXPECT_NE(ask_words({"SNAPSHOT", "CREATE", "", "EX", "1"}).find("has 1 to 128 bytes"), std::string::npos);
}

TEST_F(ServerSnapshots, WrongRequestsSaySo) {
  EXPECT_EQ(ask("SNAPSHOT"), "-ERR wrong number of arguments for 'snapshot' command");
  for (const char* const wrong : {"SNAPSHOT CREATE a", "SNAPSHOT CREATE a EX", "SNAPSHOT GET a", "SNAPSHOT LIST a",
                                  "SNAPSHOT DROP", "SNAPSHOT FOO"}) {
    EXPECT_EQ(ask(wrong).substr(0, 23), "-ERR unknown subcommand") << wrong;
  }
  EXPECT_EQ(ask("SNAPSHOT CREATE a FOO 1"), "-ERR syntax error");
  EXPECT_EQ(ask("SNAPSHOT CREATE a EX x"), "-ERR value is not an integer or out of range");
  EXPECT_EQ(ask("RANGE - + SNAPSHOT"), "-ERR syntax error");
  EXPECT_EQ(replies("MULTI\r\nSNAPSHOT LIST\r\nEXEC\r\n").substr(0, 32), "+OK -ERR Command not allowed ins");
  ask("SNAPSHOT CREATE s EX 1");
  EXPECT_EQ(ask_words({"SNAPSHOT", "GET", "s", ""}).substr(0, 21), "-ERR invalid argument");
}

TEST_F(ServerSnapshots, LargeRepliesAndExpiredKeys) {
  Config config;
  config.reply_bytes_max = 64 << 10;
  ASSERT_NO_FATAL_FAILURE(start(config));
  ask_words({"SET", "a", std::string(30'000, 'v')});
  ask("SET brief 1 PX 1000");
  ask("SNAPSHOT CREATE s EX 60");
  EXPECT_EQ(ask("SNAPSHOT GET s a a a").substr(0, 24), "-ERR the reply is larger");
  EXPECT_EQ(ask("SNAPSHOT GET s a a").size(), 2 * 30'000U + 6);
  EXPECT_EQ(ask("SNAPSHOT GET s brief"), "*[$1]");
  pass_ms(1'000);
  EXPECT_EQ(ask("SNAPSHOT GET s brief"), "*[null]");  // an expired key is never read
}

// Superseded versions stay for it, in the pool where the store was drained, and go with it.
TEST_F(ServerSnapshots, HoldNothingAfterwards) {
  constexpr uint64_t kRecords = 500, kValueBytes = 2'000;
  char value = 'a';
  const auto overwrite = [&] {
    for (int round = 0; round < 3; ++round, ++value) {
      for (uint64_t i = 0; i < kRecords; ++i) {
        EXPECT_EQ(ask_words({"SET", std::to_string(i), std::string(kValueBytes, value)}), "+OK");
      }
    }
    EXPECT_TRUE(db_->Drain().ok());
    const Stats stats = db_->GetStats();
    return stats.dram_bytes + stats.data_bytes_used;
  };
  const uint64_t before = overwrite();
  EXPECT_EQ(ask("SNAPSHOT CREATE s PX 1000"), "+OK");
  const uint64_t held = overwrite();
  EXPECT_GT(held, before + kRecords * kValueBytes / 2);
  EXPECT_EQ(ask("SNAPSHOT GET s 7"), "*[$" + std::string(kValueBytes, 'c') + "]");
  pass_ms(1'000);
  state_->snapshots.drop_expired();
  EXPECT_LT(overwrite(), held - kRecords * kValueBytes / 2);
}

// Threads take, read and drop them at once, beside one that ends what has expired.
TEST(Snapshots, OfSeveralThreads) {
  testing::ScratchFolder scratch;
  std::unique_ptr<DB> db;
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = 16 << 20;
  ASSERT_TRUE(DB::Open(options, scratch.file("pool"), &db).ok());
  ASSERT_TRUE(db->Put("count", "0").ok());
  {
    Snapshots snapshots(db.get(), 4);
    std::atomic<bool> stop{false};
    const auto read = [&](const Snapshots::Shared& snapshot) {
      ReadOptions at;
      at.snapshot = snapshot.get();
      std::string first, second;
      EXPECT_TRUE(db->Get(at, "count", &first).ok());
      EXPECT_TRUE(db->Get(at, "count", &second).ok());
      EXPECT_EQ(first, second);
    };
    base::Thread sweeps("sweeps", [&] {
      while (!stop) snapshots.drop_expired();
    });
    std::vector<base::Thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back("snapshots", [&, t] {
        for (int i = 0; i < testing::budget(200, 1'000, 10'000); ++i) {
          const std::string name(1, static_cast<char>('a' + ((i + t) % 6)));
          static_cast<void>(snapshots.create(name, i % 3 == 0 ? 1 : 1'000));
          EXPECT_TRUE(db->Increment("count", 1, nullptr).ok());
          if (const auto snapshot = snapshots.find(name); snapshot != nullptr) read(snapshot);
          if (i % 2 == 0) snapshots.drop(name);
          EXPECT_LE(snapshots.size(), 4U);
        }
      });
    }
    threads.clear();
    stop = true;
  }
  EXPECT_TRUE(db->Close().ok());
}

}  // namespace
}  // namespace bonsai::server
