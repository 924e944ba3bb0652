// SPDX-License-Identifier: Apache-2.0
// What the server has acknowledged survives: it is killed under load, on the shadow medium, where SIGKILL is a power
// cut, and its pool is opened. With flushes switched off the same rounds must find a loss.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "server/expiry.h"
#include "server/testing/server_fixture.h"

namespace bonsai::server {
namespace {

constexpr size_t kClients = 3, kKeys = 40;
constexpr int kPipelined = 16;

// A value that tells its number and whether it is whole.
std::string value_of(uint64_t number) {
  return std::to_string(number) + ":" + std::string(number * 7 % 300, static_cast<char>('a' + number % 26));
}

bool has_deadline(uint64_t number) { return number % 4 == 0; }

std::string key_of(size_t client, uint64_t number) {
  return std::to_string(client) + "." + std::to_string(number % kKeys);
}
// Keys that a client sets two at a time.
enum Pair : size_t { kByMset, kByExec, kPairs };
std::string pair_key(size_t client, size_t pair, int side) {
  return std::to_string(client) + (pair == kByMset ? ".mset" : ".exec") + (side == 0 ? ".left" : ".right");
}

std::string counter_key(size_t client) { return std::to_string(client) + ".count"; }

// What one client knows. Each key gets rising numbers.
struct Known {
  std::array<uint64_t, kKeys> acknowledged{}, sent{};
  std::array<uint64_t, kPairs> pair_acknowledged{}, pair_sent{};
  uint64_t count_acknowledged = 0, count_sent = 0;  // INCRs of a counter of its own
  uint64_t next = 1;
  uint64_t replies = 0;
};

// Sends SETs, one MSET, one INCR, and one transaction in each pipeline, until the server dies.
void run_client(const std::string& address, size_t client, Known* known) {
  TestConnection connection(address);
  for (;;) {
    const uint64_t first = known->next;
    std::string bytes;
    for (uint64_t number = first; number < first + kPipelined; ++number) {
      std::vector<std::string> words = {"SET", key_of(client, number), value_of(number)};
      if (has_deadline(number)) words.insert(words.end(), {"EX", "1000000"});
      bytes += request(words);
      known->sent[number % kKeys] = number;
    }
    bytes +=
        request({"MSET", pair_key(client, kByMset, 0), value_of(first), pair_key(client, kByMset, 1), value_of(first)});
    bytes += request({"INCR", counter_key(client)}) + request({"MULTI"});
    bytes += request({"SET", pair_key(client, kByExec, 0), value_of(first)}) + request({"INCR", counter_key(client)});
    bytes += request({"SET", pair_key(client, kByExec, 1), value_of(first)}) + request({"EXEC"});
    known->pair_sent.fill(first);
    known->count_sent += 2;
    known->next += kPipelined;
    if (!connection.send(bytes)) return;
    for (uint64_t number = first; number < first + kPipelined; ++number, ++known->replies) {
      if (connection.next() != "+OK") return;
      known->acknowledged[number % kKeys] = number;
    }
    if (connection.next() != "+OK") return;
    known->pair_acknowledged[kByMset] = first;
    if (connection.next() != ":" + std::to_string(known->count_acknowledged + 1)) return;
    ++known->count_acknowledged;
    for (const char* const reply : {"+OK", "+QUEUED", "+QUEUED", "+QUEUED"}) {
      if (connection.next() != reply) return;
    }
    if (connection.next() != "*[+OK :" + std::to_string(known->count_acknowledged + 1) + " +OK]") return;
    known->pair_acknowledged[kByExec] = first;
    ++known->count_acknowledged;
  }
}

class ServerKill : public ServerFixture {
 protected:
  ServerKill() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{16} << 20;
    options.log_bytes = uint64_t{1} << 20;  // small, so that it is offloaded all the time
    std::unique_ptr<DB> db;
    EXPECT_TRUE(DB::Open(options, pool_, &db).ok() && db->Close().ok());
  }

  // One round; returns the acknowledged updates that are not there, or not whole. A pool that cannot be opened has lost
  // all of them.
  uint64_t lost_in_round(const std::string& medium, uint64_t run_us) {
    start({"--medium=" + medium, "--domain=adr"});
    if (HasFatalFailure()) return 0;
    std::vector<base::Thread> clients;
    for (size_t c = 0; c < kClients; ++c)
      clients.emplace_back("client", [this, c] { run_client(tcp_, c, &known_[c]); });
    base::sleep_us(run_us);
    kill();
    clients.clear();
    std::unique_ptr<DB> db;
    return DB::Open(Options(), pool_, &db).ok() ? lost_in(db.get()) : replies();
  }

  [[nodiscard]] uint64_t replies() const {
    uint64_t sum = 0;
    for (const Known& each : known_) sum += each.replies;
    return sum;
  }

 private:
  // The number stored at a key; 0: none. A value that is not whole, or has not its deadline, counts as none.
  static uint64_t number_at(DB* db, const std::string& key) {
    std::string value;
    if (!db->Get(key, &value).ok()) return 0;
    const Stored stored = parse_stored(value);
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    const bool whole = stored.value == value_of(number) && (stored.deadline_ms != 0) == has_deadline(number);
    return whole ? number : 0;
  }

  uint64_t lost_in(DB* db) {
    uint64_t lost = 0;
    for (size_t c = 0; c < kClients; ++c) {
      Known& known = known_[c];
      for (size_t k = 0; k < kKeys; ++k) {
        const uint64_t number = number_at(db, key_of(c, k));
        if (number < known.acknowledged[k] || number > known.sent[k]) ++lost;
        known.acknowledged[k] = number;  // what was in flight is settled
      }
      for (size_t pair = 0; pair < kPairs; ++pair) {
        const uint64_t left = number_at(db, pair_key(c, pair, 0)), right = number_at(db, pair_key(c, pair, 1));
        if (left != right || left < known.pair_acknowledged[pair] || left > known.pair_sent[pair]) ++lost;
        known.pair_acknowledged[pair] = left;
      }
      std::string text = "0";
      const bool counted = db->Get(counter_key(c), &text).ok() || known.count_acknowledged == 0;
      const uint64_t count = std::strtoull(text.c_str(), nullptr, 10);
      if (!counted || count < known.count_acknowledged || count > known.count_sent) ++lost;
      known.count_acknowledged = known.count_sent = count;
    }
    return lost;
  }

  std::array<Known, kClients> known_{};
};

TEST_F(ServerKill, WhatWasAcknowledgedIsThere) {
  const uint64_t rounds = testing::budget(4, 12, 200);
  base::Random random(testing::budget(1, 2, 3));
  uint64_t lost = 0;
  for (uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    lost += lost_in_round("shadow", random.below(100'000));
  }
  EXPECT_EQ(lost, 0U);
  EXPECT_GT(replies(), rounds * kPipelined);  // something happened
  testing::add_figure("server_kill_rounds", rounds);
  testing::add_figure("server_acknowledged_lost", lost);
}

TEST_F(ServerKill, WithoutFlushesTheTestFails) {
  scratch_.expect_damage(pool_);
  EXPECT_GT(lost_in_round("shadow-without-flushes", 200'000), 0U);
}

}  // namespace
}  // namespace bonsai::server
