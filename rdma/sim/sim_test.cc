// SPDX-License-Identifier: Apache-2.0
// The simulated network under random clients and faults. Done requests have taken effect, flushed ones have not, and
// unknown ones may have. Each seed replays exactly, and the rare branches are in fact reached.
#include "rdma/sim/sim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/nvm/racy_copy.h"
#include "base/probe.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"

namespace bonsai::rdma {
namespace {

constexpr size_t kServers = 2;
constexpr size_t kClients = 3;
constexpr size_t kLists = 60;       // per client
constexpr size_t kRangeWords = 8;   // words that one client writes on one server
constexpr size_t kCounterWord = 0;  // all clients add here by FAA,
constexpr size_t kCasWord = 1;      // and here by CAS
constexpr size_t kRangesWord = 8;   // the clients' ranges follow
constexpr size_t kServerBytes = 512;
constexpr size_t kMessageBytes = 64;
constexpr uint64_t kConnectMs = 2;
constexpr uint64_t kWaitMs = 50;

std::string server_address(size_t server) { return "server" + std::to_string(server); }

// The state of one server that one client may expect.
struct Expected {
  std::vector<uint64_t> done = std::vector<uint64_t>(kRangeWords);  // the last WRITE that is known to have taken effect
  std::vector<std::set<uint64_t>> unknown = std::vector<std::set<uint64_t>>(kRangeWords);
  uint64_t added = 0, added_perhaps = 0;
  uint64_t swapped = 0, swapped_perhaps = 0;
  std::vector<uint64_t> sent;  // messages that were delivered
  std::set<uint64_t> sent_perhaps;
};

struct Server {
  std::unique_ptr<SimNvm> nvm;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Region> region, extra, ring_region;
  std::vector<std::byte> ring = std::vector<std::byte>(4 * kMessageBytes);
  std::vector<uint64_t> extra_memory = std::vector<uint64_t>(64);
  RemoteRegion remote, extra_remote;
  bool dead = false;
  std::map<uint32_t, std::vector<uint64_t>> received;  // by sender
};

class Cluster {
 public:
  explicit Cluster(uint64_t seed)
      : dice_(seed),
        network_({.seed = base::splitmix64(seed),
                  .late_chance = static_cast<uint32_t>(dice_.below(256)),
                  .torn_chance = static_cast<uint32_t>(dice_.below(1024)),
                  .lost_chance = static_cast<uint32_t>(dice_.below(128)),
                  .error_chance = static_cast<uint32_t>(dice_.below(16)),
                  .ghost_chance = 1024,
                  .lists_pending_max = 4}) {
    for (Server& server : servers_) make(server, &server - servers_.data());
  }
  ~Cluster() {
    for (Server& server : servers_) server.worker.reset();
  }

  void run() {
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = dice_.next()});
    for (size_t i = 0; i < kServers; ++i) scheduler.spawn([this, i, seed = dice_.next()] { serve(i, seed); }, "server");
    for (size_t i = 0; i < kClients; ++i) scheduler.spawn([this, i, seed = dice_.next()] { work(i, seed); }, "client");
    scheduler.spawn([this, seed = dice_.next()] { trouble(seed); }, "trouble");
    const Status status = scheduler.run();
    EXPECT_TRUE(status.ok()) << status.ToString();
    network_.settle();
    for (Server& server : servers_) check(server, &server - servers_.data());
  }
  [[nodiscard]] uint64_t trace() const { return network_.trace(); }
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  [[nodiscard]] uint64_t outcomes(Outcome outcome) const { return outcomes_[static_cast<size_t>(outcome)]; }

 private:
  void make(Server& server, std::ptrdiff_t index) {
    server.nvm = network_.make_nvm(kServerBytes, index == 0 ? RemoteDomain::kAdrDirect : RemoteDomain::kAdr);
    server.fabric = network_.make_fabric();
    EXPECT_TRUE(server.fabric->make_worker(&server.worker).ok());
    EXPECT_TRUE(server.fabric->register_region(server.nvm->view(), Rights::all(), &server.region).ok());
    EXPECT_TRUE(server.fabric->register_region(server.ring, Rights::none(), &server.ring_region).ok());
    EXPECT_TRUE(server.worker->set_receive_ring(server.ring_region->slice(0, 4 * kMessageBytes), kMessageBytes).ok());
    renew_extra(server);
    server.remote = server.region->remote();
    Hello hello;
    hello.node = 100 + static_cast<uint32_t>(index);
    EXPECT_TRUE(server.worker->listen(server_address(static_cast<size_t>(index)), hello, {}).ok());
  }
  static void renew_extra(Server& server) {
    server.extra.reset();
    const auto bytes = std::as_writable_bytes(std::span(server.extra_memory));
    EXPECT_TRUE(server.fabric->register_region(bytes, Rights::all(), &server.extra).ok());
    server.extra_remote = server.extra->remote();
  }

  void serve(size_t index, uint64_t seed) {
    base::Random dice(seed);
    Server& server = servers_[index];
    std::vector<std::unique_ptr<Peer>> peers;
    while (clients_done_ < kClients && !server.dead) {
      std::unique_ptr<Peer> peer;
      while (server.worker->accept(0, &peer).ok()) peers.push_back(std::move(peer));
      if (!peers.empty() && dice.chance(1, 64)) peers.erase(peers.begin() + dice.below(peers.size()));
      if (dice.chance(1, 32)) renew_extra(server);
      if (dice.chance(1, 8)) base::sleep_ms(dice.below(3));  // its ring runs full
      take_messages(server, 1);
    }
    if (!server.dead) take_messages(server, 0);
  }

  static void take_messages(Server& server, uint64_t limit_ms) {
    Message message;
    while (server.worker->receive(limit_ms, &message).ok()) {
      uint64_t number = 0;
      ASSERT_EQ(message.bytes().size(), sizeof number);
      std::memcpy(&number, message.bytes().data(), sizeof number);
      server.received[message.from()].push_back(number);
      limit_ms = 0;
    }
  }

  // A client with one connection to each server, made anew when it breaks.
  void work(size_t index, uint64_t seed);
  struct Client;
  void fill(Client& client, WorkList* list, size_t server);
  void judge(Client& client, const WorkList& list, size_t server);

  void trouble(uint64_t seed) {
    base::Random dice(seed);
    while (clients_done_ < kClients) {
      base::sleep_ms(dice.below(4));
      Server& server = servers_[dice.below(kServers)];
      const Fabric* client = clients_[dice.below(kClients)];
      if (client == nullptr) continue;
      switch (dice.below(6)) {
        case 0:
          network_.cut(*client, *server.fabric);
          break;
        case 1:
          network_.cut(*server.fabric, *client);
          break;
        case 2:
          network_.cut(*client, *server.fabric);
          network_.cut(*server.fabric, *client);
          break;
        case 3:
          network_.overflow(*client);
          break;
        case 4:
          if (server.dead || !dice.chance(1, 8)) break;
          server.dead = true;
          network_.kill(*server.fabric);
          break;
        default:
          network_.heal();
      }
    }
    network_.heal();
  }

  void check(Server& server, std::ptrdiff_t index);

  base::Random dice_;
  SimNetwork network_;
  std::array<Server, kServers> servers_;
  std::array<const Fabric*, kClients> clients_{};
  std::array<std::array<Expected, kServers>, kClients> expected_;
  size_t clients_done_ = 0;
  Traffic traffic_;
  std::array<uint64_t, kOutcomes> outcomes_{};
};

struct Cluster::Client {
  size_t index;
  base::Random dice;
  uint64_t value = 0;  // the last value written or sent: each is used once
  uint64_t seen = 0;   // what the CAS word held
  std::vector<uint64_t> words = std::vector<uint64_t>(WorkList::kRequestsMax * kRangeWords);
  std::unique_ptr<Region> region = nullptr;
  Slice slot(size_t request, size_t n) { return region->slice(request * kRangeWords * 8, n * 8); }
};

void Cluster::fill(Client& client, WorkList* list, size_t server) {
  base::Random& dice = client.dice;
  Server& target = servers_[server];
  Peer* const peer = (*list)[0].peer;
  for (size_t n = dice.below(5); n > 0; --n) {
    const size_t i = list->size();
    const size_t first = dice.below(kRangeWords), count = 1 + dice.below(kRangeWords - first);
    const uint64_t range = 8 * (kRangesWord + client.index * kRangeWords + first);
    if (dice.chance(1, 4)) list->fence();
    switch (dice.below(8)) {
      case 0:
      case 1:
        for (size_t w = 0; w < count; ++w) client.words[i * kRangeWords + w] = ++client.value;
        list->write(*peer, client.slot(i, count), target.remote.at(range));
        break;
      case 2:
      case 3:
        list->read(*peer, target.remote.at(range), client.slot(i, count));
        break;
      case 4:
        list->faa(*peer, target.remote.at(8 * kCounterWord), 1, client.slot(i, 1));
        break;
      case 5:
        if (dice.chance(1, 2)) {
          list->masked_cas(*peer, target.remote.at(8 * kCasWord), {client.seen, ~uint64_t{0}},
                           {client.seen + 1, client.seen ^ (client.seen + 1)}, client.slot(i, 1));
        } else {
          list->cas(*peer, target.remote.at(8 * kCasWord), client.seen, client.seen + 1, client.slot(i, 1));
        }
        break;
      case 6:
        client.words[i * kRangeWords] = ++client.value;
        list->send(*peer, client.slot(i, dice.chance(1, 32) ? 9 : 1));  // nine words are too long
        break;
      default:  // a region that comes and goes
        if (dice.chance(1, 2)) {
          list->flush(*peer, target.remote.at(range), 8 * count);
        } else {
          list->write(*peer, client.slot(i, kRangeWords), target.extra_remote.at(0));
        }
    }
  }
}

void Cluster::judge(Client& client, const WorkList& list, size_t server) {
  Expected& expected = expected_[client.index][server];
  for (size_t i = 0; i < list.size(); ++i) {
    const WorkRequest& request = list[i];
    const Outcome outcome = list.outcome(i);
    ++outcomes_[static_cast<size_t>(outcome)];
    const bool done = outcome == Outcome::kDone, perhaps = outcome == Outcome::kUnreachable;
    const uint64_t* words = &client.words[i * kRangeWords];
    const uint64_t range = 8 * (kRangesWord + client.index * kRangeWords);
    const uint64_t offset = request.remote.address - servers_[server].remote.base - range;
    const bool own = request.remote.key == servers_[server].remote.key && offset < 8 * kRangeWords;
    const size_t count = request.local.bytes() / 8, first = offset / 8;
    for (size_t w = 0; w < count && own; ++w) {
      const size_t word = first + w;
      if (request.verb == Verb::kWrite && done) expected.done[word] = words[w];
      if (request.verb == Verb::kWrite && perhaps) expected.unknown[word].insert(words[w]);
      if (request.verb != Verb::kRead || !done) continue;
      // WRITEs after it in the list may have passed it.
      bool legal = words[w] == expected.done[word] || expected.unknown[word].count(words[w]) != 0;
      for (size_t later = i + 1; later < list.size() && !legal; ++later) {
        const uint64_t* written = &client.words[later * kRangeWords];
        legal = list[later].verb == Verb::kWrite &&
                std::find(written, written + kRangeWords, words[w]) != written + kRangeWords;
      }
      EXPECT_TRUE(legal) << "client " << client.index << " read " << words[w] << " in word " << word;
    }
    if (request.verb == Verb::kFaa) (done ? expected.added : expected.added_perhaps) += done || perhaps ? 1 : 0;
    if (request.verb == Verb::kCas || request.verb == Verb::kMaskedCas) {
      if (done && words[0] == request.expected) ++expected.swapped;
      if (done) client.seen = words[0] + (words[0] == request.expected ? 1 : 0);
      if (perhaps) ++expected.swapped_perhaps;
    }
    if (request.verb == Verb::kSend && done) expected.sent.push_back(words[0]);
    if (request.verb == Verb::kSend && perhaps) expected.sent_perhaps.insert(words[0]);
  }
}

void Cluster::work(size_t index, uint64_t seed) {
  const auto fabric = network_.make_fabric();
  Client client{index, base::Random(seed)};
  client.value = (index + 1) << 32;
  EXPECT_TRUE(
      fabric->register_region(std::as_writable_bytes(std::span(client.words)), Rights::none(), &client.region).ok());
  std::unique_ptr<Worker> worker;
  EXPECT_TRUE(fabric->make_worker(&worker).ok());
  clients_[index] = fabric.get();
  Hello hello;
  hello.node = static_cast<uint32_t>(index);
  std::array<std::unique_ptr<Peer>, kServers> peers;
  for (size_t turn = 0; turn < kLists; ++turn) {
    const size_t server = client.dice.below(kServers);
    if (peers[server] == nullptr || !peers[server]->usable() || client.dice.chance(1, 64)) {
      peers[server].reset();
      if (!worker->connect(server_address(server), hello, kConnectMs, &peers[server]).ok()) continue;
    }
    WorkList list;
    client.words[0] = 0;
    list.read(*peers[server], servers_[server].remote.at(8 * kCounterWord), client.slot(0, 1));
    fill(client, &list, server);
    EXPECT_TRUE(worker->post(&list).ok());
    if (client.dice.chance(1, 16)) peers[server].reset();  // closed while it is pending
    if (!worker->wait(list, kWaitMs).ok() && list.pending()) {
      peers[server].reset();
      EXPECT_FALSE(worker->wait(list, kWaitMs).ok());
    }
    EXPECT_FALSE(list.pending());
    if (!list.pending()) judge(client, list, server);
  }
  for (auto& peer : peers) peer.reset();
  traffic_ += worker->traffic();
  clients_[index] = nullptr;
  ++clients_done_;
}

void Cluster::check(Server& server, std::ptrdiff_t index) {
  uint64_t added = 0, added_perhaps = 0, swapped = 0, swapped_perhaps = 0;
  for (size_t c = 0; c < kClients; ++c) {
    const Expected& expected = expected_[c][static_cast<size_t>(index)];
    added += expected.added;
    added_perhaps += expected.added_perhaps;
    swapped += expected.swapped;
    swapped_perhaps += expected.swapped_perhaps;
    size_t next = 0;
    uint64_t last = 0;
    for (const uint64_t number : server.received[static_cast<uint32_t>(c)]) {
      const bool ghost = expected.sent_perhaps.count(number) != 0;
      if (next < expected.sent.size() && number == expected.sent[next]) {
        ++next;
      } else {
        EXPECT_TRUE(ghost) << "message " << number << " was never delivered";
      }
      if (!ghost) {
        EXPECT_GT(number, last);
        last = number;
      }
    }
    if (!server.dead) {
      EXPECT_EQ(next, expected.sent.size()) << "what was sent arrives";
    }
  }
  const std::byte* memory = server.nvm->view().data();
  const uint64_t counter = base::word_at(memory + 8 * kCounterWord).load();
  EXPECT_GE(counter, added);
  EXPECT_LE(counter, added + added_perhaps);
  const uint64_t cas = base::word_at(memory + 8 * kCasWord).load();
  EXPECT_GE(cas, swapped);
  EXPECT_LE(cas, swapped + swapped_perhaps);
  if (server.dead) server.nvm->crash();
}

TEST(SimTest, CallersAreThreadsAndInVirtualTimeCoroutines) {
  SimNetwork network;
  const auto fabric = network.make_fabric();
  EXPECT_EQ(fabric->caller(), base::thread_ordinal());
  for (const bool virtual_time : {false, true}) {
    base::Scheduler scheduler({.virtual_time = virtual_time});
    std::set<uint32_t> callers;
    for (int i = 0; i < 3; ++i) {
      scheduler.spawn([&] {
        callers.insert(fabric->caller());
        base::Scheduler::yield();
        callers.insert(fabric->caller());
      });
    }
    ASSERT_TRUE(scheduler.run().ok());
    EXPECT_EQ(callers.size(), virtual_time ? 3u : 1u);
  }
}

TEST(SimTest, EverySeedKeepsThePromisesAndReplaysExactly) {
  const uint64_t first = base::seed_from_env_or(1);
  const uint64_t seeds = testing::budget(40, 200, 20'000);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  uint64_t done = 0, unknown = 0, flushed = 0;
  std::set<uint64_t> traces;
  for (uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
    Cluster cluster(seed), again(seed);
    cluster.run();
    again.run();
    EXPECT_EQ(cluster.trace(), again.trace());
    EXPECT_EQ(cluster.traffic(), again.traffic());
    traces.insert(cluster.trace());
    done += cluster.outcomes(Outcome::kDone);
    unknown += cluster.outcomes(Outcome::kUnreachable);
    flushed += cluster.outcomes(Outcome::kFlushed);
  }
  EXPECT_EQ(traces.size(), seeds) << "different seeds are different histories";
  testing::add_figure("sim_seeds", seeds);
  size_t probes = 0, hit = 0;
  base::Probe::each([&](const base::Probe& probe) {
    if (std::strncmp(probe.name(), "sim.", 4) != 0) return;
    ++probes;
    hit += probe.hits() > 0 ? 1 : 0;
    if (probe.hits() == 0) std::printf("not reached: %s\n", probe.name());
  });
  std::printf("%llu seeds: %llu requests done, %llu unknown, %llu flushed; %zu of %zu probes hit\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(unknown), static_cast<unsigned long long>(flushed), hit, probes);
  EXPECT_GT(probes, 20u);
  EXPECT_GE(hit * 10, probes * 8);
}

}  // namespace
}  // namespace bonsai::rdma
