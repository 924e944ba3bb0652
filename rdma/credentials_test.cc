// SPDX-License-Identifier: Apache-2.0
// Which nodes are admitted and which are not; and that intercepted or changed messages deceive neither side.
#include "rdma/credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <string>

#include "base/random.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"

namespace bonsai::rdma {
namespace {

Secret fresh_secret() {
  std::array<std::byte, Secret::kBytes> bytes{};
  base::random_secret(bytes);
  return Secret(bytes);
}

Hello hello_of(uint32_t node, uint64_t epoch) {
  Hello hello;
  hello.node = node;
  hello.session = epoch;
  return hello;
}

TEST(SecretTest, NodesThatShareItConvinceEachOther) {
  const Secret secret = fresh_secret();
  const Admit gate = secret.gate();
  Hello asking = hello_of(1, 7), answer = hello_of(2, 9);
  secret.sign(&asking);
  ASSERT_TRUE(gate(asking, &answer).ok());
  EXPECT_TRUE(secret.check_answer(asking, answer).ok());
  EXPECT_TRUE(fresh_secret().check_answer(asking, answer).IsInvalidArgument());
}

TEST(SecretTest, OthersAreRefused) {
  const Secret secret = fresh_secret();
  const Admit gate = secret.gate();
  Hello asking = hello_of(1, 7), answer = hello_of(2, 9);
  EXPECT_TRUE(gate(asking, &answer).IsInvalidArgument()) << "no credentials at all";
  fresh_secret().sign(&asking);
  const Status status = gate(asking, &answer);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find("same secret file"), std::string::npos);
}

TEST(SecretTest, EveryBitOfAGreetingCounts) {
  const Secret secret = fresh_secret();
  const Admit gate = secret.gate();
  Hello asking = hello_of(1, 7);
  secret.sign(&asking);
  for (size_t bit = 0; bit < 8 * sizeof asking; ++bit) {
    Hello changed = asking, answer = hello_of(2, 9);
    reinterpret_cast<unsigned char*>(&changed)[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(gate(changed, &answer).ok()) << "bit " << bit;
  }
  Hello answer = hello_of(2, 9);
  EXPECT_TRUE(gate(asking, &answer).ok()) << "what was refused does not use the greeting up";
}

TEST(SecretTest, EveryBitOfAnAnswerCounts) {
  const Secret secret = fresh_secret();
  Hello asking = hello_of(1, 7), answer = hello_of(2, 9);
  secret.sign(&asking);
  ASSERT_TRUE(secret.gate()(asking, &answer).ok());
  const size_t proved = offsetof(Hello, credentials);  // nonce and time follow, which an answer does not contain
  for (size_t bit = 0; bit < 8 * sizeof answer; ++bit) {
    if (bit / 8 >= proved && bit / 8 < proved + 16) continue;
    Hello changed = answer;
    reinterpret_cast<unsigned char*>(&changed)[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(secret.check_answer(asking, changed).ok()) << "bit " << bit;
  }
  Hello again = hello_of(1, 7);
  secret.sign(&again);
  EXPECT_FALSE(secret.check_answer(again, answer).ok()) << "an older answer does not fit a new greeting";
  EXPECT_FALSE(secret.check_answer(asking, asking).ok()) << "nor does the greeting itself";
}

TEST(SecretTest, AGreetingIsGoodOnceAndNotForLong) {
  const Secret secret = fresh_secret();
  const Admit gate = secret.gate();
  Hello asking = hello_of(1, 7), answer;
  secret.sign(&asking);
  EXPECT_TRUE(gate(asking, &answer).ok());
  EXPECT_TRUE(gate(asking, &answer).IsInvalidArgument()) << "overheard and sent again";
  GateOptions strict;
  strict.clock_skew_s_max = 0;
  const Admit impatient = secret.gate(strict);
  Status status;
  for (int i = 0; i < 3'000 && status.ok(); ++i) {  // some time the second changes in between
    secret.sign(&asking);
    base::sleep_ms(1);
    status = impatient(asking, &answer);
  }
  EXPECT_TRUE(status.IsInvalidArgument() || status.IsBusy()) << status.ToString();
}

TEST(SecretTest, LimitsPerNodeAndInAll) {
  const Secret secret = fresh_secret();
  GateOptions options;
  options.connects_per_minute_max = 3;
  const Admit per_node = secret.gate(options);
  options = {};
  options.nonces_max = 3;
  const Admit in_all = secret.gate(options);
  size_t admitted = 0, admitted_in_all = 0, others = 0;
  for (uint32_t i = 0; i < 10; ++i) {
    Hello asking = hello_of(1, 0), answer;
    secret.sign(&asking);
    admitted += per_node(asking, &answer).ok() ? 1 : 0;
    asking.node = i;
    secret.sign(&asking);
    admitted_in_all += in_all(asking, &answer).ok() ? 1 : 0;
    asking.node = 100 + i;
    secret.sign(&asking);
    others += per_node(asking, &answer).ok() ? 1 : 0;
  }
  EXPECT_GE(admitted, 3u);
  EXPECT_LE(admitted, 6u) << "a minute may end in between";
  EXPECT_EQ(admitted_in_all, 3u);
  EXPECT_EQ(others, 10u) << "one node's rush does not keep others out";
}

TEST(SecretTest, IsLoadedFromAFileThatOnlyItsOwnerReads) {
  const std::string path = ::testing::TempDir() + "/secret." + std::to_string(base::fresh_seed());
  Secret first, second;
  EXPECT_TRUE(Secret::load(path, &first).IsIoError());
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::trunc) << text; };
  write(std::string(64, 'a') + "\n");
  ::chmod(path.c_str(), 0644);
  EXPECT_NE(Secret::load(path, &first).message().find("umask 077"), std::string::npos) << "it says how to make one";
  ::chmod(path.c_str(), 0600);
  ASSERT_TRUE(Secret::load(path, &first).ok());
  ASSERT_TRUE(Secret::load(path, &second).ok());
  Hello asking = hello_of(1, 0), answer;
  first.sign(&asking);
  EXPECT_TRUE(second.gate()(asking, &answer).ok());
  for (const std::string& bad : {std::string(63, 'a'), std::string(66, 'a'), std::string(64, 'x'), std::string()}) {
    write(bad);
    EXPECT_TRUE(Secret::load(path, &first).IsInvalidArgument()) << bad;
  }
  ::unlink(path.c_str());
}

// These checks, through a provider.
template <class Network>
void expect_gated(Network& network) {
  const Secret secret = fresh_secret();
  const auto server = network.make_fabric(), client = network.make_fabric();
  std::unique_ptr<Worker> there, here;
  ASSERT_TRUE(server->make_worker(&there).ok() && client->make_worker(&here).ok());
  uint64_t epoch_seen = 0;
  ASSERT_TRUE(there
                  ->listen("server", hello_of(2, 9),
                           secret.gate({},
                                       [&](const Hello& other, Hello*) {
                                         epoch_seen = other.session;
                                         return Status::OK();
                                       }))
                  .ok());
  std::unique_ptr<Peer> peer;
  Hello hello = hello_of(1, 7);
  EXPECT_TRUE(here->connect("server", hello, 1'000, &peer).IsInvalidArgument());
  EXPECT_EQ(epoch_seen, 0u) << "the next one is asked about nodes only that know the secret";
  secret.sign(&hello);
  ASSERT_TRUE(here->connect("server", hello, 1'000, &peer).ok());
  EXPECT_EQ(epoch_seen, 7u);
  EXPECT_TRUE(secret.check_answer(hello, peer->hello()).ok());
  EXPECT_TRUE(here->connect("server", hello, 1'000, &peer).IsInvalidArgument()) << "used before";
}

TEST(SecretTest, GuardsConnectionsOnShm) {
  ShmNetwork network;
  expect_gated(network);
}

TEST(SecretTest, GuardsConnectionsOnSim) {
  SimNetwork network({.lost_chance = 256});  // repeated transmissions of a greeting are not replays
  expect_gated(network);
}

}  // namespace
}  // namespace bonsai::rdma
