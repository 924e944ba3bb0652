// SPDX-License-Identifier: Apache-2.0
// Which nodes are admitted and which are not; and that intercepted or changed messages deceive neither side.
#include "rdma/credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/temp_folder.h"
#include "rdma/provider.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"
#include "rdma/testing/mutants.h"

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

// The four messages, with the listener at "server".
struct Handshake {
  Handshake(const Secret& connecting, uint32_t node, uint64_t session) : secret(connecting) {
    hello = hello_of(node, session);
    Secret::introduce(&hello);
    challenge.listener = "server";
  }
  static Status tell(const Admit& gate, const Hello& hello, Hello* answer) {
    *answer = hello_of(2, 9);
    return gate({hello, "server", "a test"}, answer);
  }
  // Messages 1 and 2.
  Status begin(const Admit& gate) {
    const Status status = tell(gate, hello, &answer);
    challenge = challenge_of(answer, challenge.listener);
    return status;
  }
  // Messages 3 and 4.
  Status end(const Admit& gate) {
    secret.prove(challenge, &hello);
    return tell(gate, hello, &answer);
  }
  Status run(const Admit& gate) {
    const Status asked = begin(gate);
    return challenge.was_asked() ? end(gate) : asked;
  }

  const Secret& secret;
  Hello hello, answer;
  Challenge challenge;
};

TEST(SecretTest, NodesThatShareItConvinceEachOther) {
  const Secret secret = fresh_secret();
  Handshake shake(secret, 1, 7);
  ASSERT_EQ("OK", shake.run(secret.gate()).ToString());
  EXPECT_TRUE(secret.check_answer(shake.challenge, shake.hello, shake.answer).ok());
  EXPECT_TRUE(fresh_secret().check_answer(shake.challenge, shake.hello, shake.answer).IsInvalidArgument());
}

TEST(SecretTest, OthersAreRefused) {
  const Secret secret = fresh_secret(), other = fresh_secret();
  const Admit gate = secret.gate();
  Hello answer;
  EXPECT_TRUE(Handshake::tell(gate, hello_of(1, 7), &answer).IsInvalidArgument()) << "no credentials at all";
  EXPECT_FALSE(challenge_of(answer, "").was_asked());
  Handshake shake(other, 1, 7);
  EXPECT_TRUE(shake.begin(gate).IsUnavailable());
  const Status status = shake.end(gate);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find("same secret file"), std::string::npos);
  EXPECT_FALSE(challenge_of(shake.answer, "").was_asked()) << "it is not asked again";
}

TEST(SecretTest, EveryBitOfAGreetingCounts) {
  const Secret secret = fresh_secret();
  const Admit gate = secret.gate();
  Handshake shake(secret, 1, 7);
  EXPECT_TRUE(shake.begin(gate).IsUnavailable());
  secret.prove(shake.challenge, &shake.hello);
  for (size_t bit = 0; bit < 8 * sizeof shake.hello; ++bit) {
    Hello changed = shake.hello, answer;
    reinterpret_cast<unsigned char*>(&changed)[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(Handshake::tell(gate, changed, &answer).ok()) << "bit " << bit;
  }
  EXPECT_TRUE(shake.end(gate).ok()) << "what was refused does not use the greeting up";
}

TEST(SecretTest, EveryBitOfAnAnswerCounts) {
  const Secret secret = fresh_secret();
  Handshake shake(secret, 1, 7);
  ASSERT_TRUE(shake.run(secret.gate()).ok());
  const size_t unused = offsetof(Hello, credentials);  // the place of a nonce
  for (size_t bit = 0; bit < 8 * sizeof shake.answer; ++bit) {
    if (bit / 8 >= unused && bit / 8 < unused + 16) continue;
    Hello changed = shake.answer;
    reinterpret_cast<unsigned char*>(&changed)[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_FALSE(secret.check_answer(shake.challenge, shake.hello, changed).ok()) << "bit " << bit;
  }
  Handshake again(secret, 1, 7);
  EXPECT_FALSE(secret.check_answer(shake.challenge, again.hello, shake.answer).ok()) << "an answer to another nonce";
  Challenge other = shake.challenge;
  other.nonce[0] ^= std::byte{1};
  EXPECT_FALSE(secret.check_answer(other, shake.hello, shake.answer).ok()) << "of another challenge";
  EXPECT_FALSE(secret.check_answer(shake.challenge, shake.hello, shake.hello).ok()) << "nor the greeting itself";
  EXPECT_FALSE(secret.check_answer({}, shake.hello, shake.answer).ok()) << "nobody asked";
}

// Whether a greeting that was overheard is good again: at its listener, there after a restart, at another listener, and
// where the one to whom the node spoke passes it on.
struct Overheard {
  bool again, after_restart, elsewhere, passed_on;
};

Overheard replay() {
  const Secret secret = fresh_secret();
  const Admit gate = secret.gate(), restarted = secret.gate();
  Handshake honest(secret, 1, 7);
  EXPECT_TRUE(honest.run(gate).ok());
  const auto admits = [&](const Admit& there, const std::string& address) {
    Hello answer, first = honest.hello;
    std::fill(first.credentials.begin() + 16, first.credentials.end(), std::byte{0});
    EXPECT_FALSE(there({first, address, "a thief"}, &answer).ok());  // asks for a challenge, with the same nonce
    return there({honest.hello, address, "a thief"}, &answer).ok();
  };
  Overheard found{};
  found.again = admits(gate, "server");
  found.after_restart = admits(restarted, "server");
  found.elsewhere = admits(secret.gate(), "other");
  // A false listener at "other" fetches the challenge of "server", and passes the proof on.
  Handshake misled(secret, 3, 8);
  EXPECT_TRUE(misled.begin(gate).IsUnavailable());
  misled.challenge.listener = "other";
  found.passed_on = misled.end(gate).ok();
  return found;
}

TEST(SecretTest, AnOverheardGreetingIsGoodNowhere) {
  const Overheard found = replay();
  EXPECT_FALSE(found.again);
  EXPECT_FALSE(found.after_restart);
  EXPECT_FALSE(found.elsewhere);
  EXPECT_FALSE(found.passed_on);
}

TEST(SecretMutants, EachCheckThatIsLeftOutIsNoticed) {
  const auto with = [](uint64_t mutant) {
    bonsai::testing::mutants_on = mutant;
    const Overheard found = replay();
    bonsai::testing::mutants_on = 0;
    return found;
  };
  EXPECT_TRUE(with(kNonceNotChecked).after_restart);
  EXPECT_TRUE(with(kListenerNotNamed).passed_on);
  EXPECT_TRUE(with(kChallengeKept).again);
}

TEST(SecretTest, AProofThatIsLateIsAskedForAgain) {
  uint64_t now_ns = 1;
  base::virtual_now_ns = &now_ns;
  const Secret secret = fresh_secret();
  const Admit gate = secret.gate();
  Handshake shake(secret, 1, 7);
  EXPECT_TRUE(shake.begin(gate).IsUnavailable());
  const Challenge first = shake.challenge;
  EXPECT_TRUE(shake.begin(gate).IsUnavailable());
  EXPECT_EQ(shake.challenge.nonce, first.nonce) << "a repeated first message changes nothing";
  now_ns += (GateOptions().challenge_ms_max + 1) * base::kNsPerMs;
  EXPECT_TRUE(shake.end(gate).IsUnavailable());
  shake.challenge = challenge_of(shake.answer, "server");
  ASSERT_TRUE(shake.challenge.was_asked());
  EXPECT_NE(shake.challenge.nonce, first.nonce);
  EXPECT_TRUE(shake.end(gate).ok());
  base::virtual_now_ns = nullptr;
}

TEST(SecretTest, StrangersFillNoMemory) {
  const Secret secret = fresh_secret();
  GateOptions options;
  options.challenges_max = 8;
  const Admit gate = secret.gate(options);
  Handshake early(secret, 1, 7);
  EXPECT_TRUE(early.begin(gate).IsUnavailable());
  for (uint32_t i = 0; i < 8; ++i) static_cast<void>(Handshake(secret, i, i).begin(gate));
  EXPECT_TRUE(early.end(gate).IsUnavailable()) << "its challenge was dropped for newer ones";
  early.challenge = challenge_of(early.answer, "server");
  EXPECT_TRUE(early.end(gate).ok()) << "it was asked again";
}

// A link takes a fresh number for each attachment.
TEST(SecretTest, LimitsConnectionsPerLinkAndNotPerNumber) {
  uint64_t now_ns = 1;
  base::virtual_now_ns = &now_ns;
  const Secret secret = fresh_secret();
  GateOptions options;
  options.connects_per_minute_max = 3;
  options.links_per_minute_max = 11;
  const Admit gate = secret.gate(options);
  size_t admitted = 0, others = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    admitted += Handshake(secret, i, 7).run(gate).ok() ? 1 : 0;
    others += Handshake(secret, 1, 100 + i).run(gate).ok() ? 1 : 0;
  }
  EXPECT_EQ(admitted, 3u);
  EXPECT_EQ(others, 10u) << "one link's rush does not keep others out, up to the limit in all";
  now_ns += 60 * base::kNsPerSecond;
  EXPECT_TRUE(Handshake(secret, 1, 7).run(gate).ok()) << "in the next minute";
  base::virtual_now_ns = nullptr;
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
  EXPECT_TRUE(Handshake(first, 1, 0).run(second.gate()).ok());
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
  const Hello hello = hello_of(1, 7);
  EXPECT_TRUE(here->connect("server", hello, 1'000, &peer).IsInvalidArgument());
  EXPECT_TRUE(fresh_secret().connect(here.get(), "server", hello, 1'000, &peer).IsInvalidArgument());
  EXPECT_EQ(epoch_seen, 0u) << "the next one is asked about nodes only that know the secret";
  ASSERT_EQ("OK", secret.connect(here.get(), "server", hello, 1'000, &peer).ToString());
  EXPECT_EQ(epoch_seen, 7u);
  Hello sent;
  const Prove overhear = [&](const Challenge& challenge, Hello* proved) {
    EXPECT_EQ(challenge.listener, "server");
    secret.prove(challenge, proved);
    sent = *proved;
  };
  Hello introduced = hello;
  Secret::introduce(&introduced);
  ASSERT_TRUE(here->connect("server", introduced, 1'000, &peer, overhear).ok());
  Challenge asked;
  EXPECT_TRUE(here->greet("server", sent, 1'000, &peer, &asked).IsUnavailable()) << "used before";
  EXPECT_TRUE(asked.was_asked());
  peer.reset();
  there.reset();
  ASSERT_TRUE(server->make_worker(&there).ok());
  ASSERT_TRUE(there->listen("server", hello_of(2, 9), fresh_secret().gate()).ok());
  EXPECT_TRUE(secret.connect(here.get(), "server", hello, 1'000, &peer).IsInvalidArgument());
  there.reset();
  ASSERT_TRUE(server->make_worker(&there).ok());
  ASSERT_TRUE(there->listen("server", hello_of(2, 9), {}).ok());
  const Status open = secret.connect(here.get(), "server", hello, 1'000, &peer);
  EXPECT_TRUE(open.IsInvalidArgument()) << "it does not know the secret: " << open.ToString();
  EXPECT_EQ(peer, nullptr);
}

TEST(SecretTest, GuardsConnectionsOnShm) {
  ShmNetwork network;
  expect_gated(network);
}

TEST(SecretTest, GuardsConnectionsOnShmBetweenProcesses) {
  const testing::TempFolder folder;
  ShmOptions options;
  options.folder = folder.path();
  ShmNetwork near(options), far(options);
  struct Both {
    std::unique_ptr<Fabric> make_fabric() { return (made++ == 0 ? server : client).make_fabric(); }
    ShmNetwork &server, &client;
    int made = 0;
  } both{near, far};
  expect_gated(both);
}

TEST(SecretTest, GuardsConnectionsOnSim) {
  SimNetwork network({.lost_chance = 256});  // repeated transmissions of a greeting are not replays
  expect_gated(network);
}

}  // namespace
}  // namespace bonsai::rdma
