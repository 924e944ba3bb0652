// SPDX-License-Identifier: Apache-2.0
// A network that carries out posted requests at once, and one whose device changes.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/random.h"
#include "rdma/sim/sim.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kInstantLimitMs = 1'000;

// Two nodes that are connected; the first works on the second's words.
class Instant : public ::testing::Test {
 protected:
  struct Node {
    std::vector<uint64_t> words = std::vector<uint64_t>(64);
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<Region> region;
    std::unique_ptr<Worker> worker;
  };

  Instant() {
    for (Node* node : {&near_, &far_}) {
      node->fabric = network_.make_fabric();
      EXPECT_TRUE(
          node->fabric->register_region(std::as_writable_bytes(std::span(node->words)), Rights::all(), &node->region)
              .ok());
      EXPECT_TRUE(node->fabric->make_worker(&node->worker).ok());
    }
    EXPECT_TRUE(far_.worker->listen("far", {}, {}).ok());
  }
  ~Instant() override { peer_.reset(); }

  // Runs `act` in virtual time, with the nodes connected, and returns its duration.
  uint64_t in_time(const std::function<void()>& act) {
    base::Scheduler scheduler({.virtual_time = true, .virtual_ns_per_switch = 0});
    uint64_t passed_ns = 0;
    scheduler.spawn([&] {
      peer_.reset();
      ASSERT_TRUE(near_.worker->connect("far", {}, kInstantLimitMs, &peer_).ok());
      const uint64_t began_ns = base::now_ns();
      act();
      passed_ns = base::now_ns() - began_ns;
      peer_.reset();
    });
    EXPECT_EQ("OK", scheduler.run().ToString());
    return passed_ns;
  }
  [[nodiscard]] Remote at(size_t word) const { return far_.region->remote().at(word * 8); }
  [[nodiscard]] Slice own(size_t word, size_t words = 1) const { return near_.region->slice(word * 8, words * 8); }
  Status run(const std::function<void(WorkList*)>& fill) {
    WorkList list;
    fill(&list);
    return near_.worker->run(&list, kInstantLimitMs);
  }

  SimNetwork network_{SimOptions::with_device(SimDevice::cx5(), 1)};
  Node near_, far_;
  std::unique_ptr<Peer> peer_;
};

TEST_F(Instant, EveryVerbTakesEffectAndNoTime) {
  network_.set_instant(true);
  near_.words[0] = 5;
  near_.words[1] = 6;
  EXPECT_EQ(in_time([&] {
              ASSERT_TRUE(run([&](WorkList* list) {
                            list->write(*peer_, own(0, 2), at(10));
                            list->cas(*peer_, at(10), 5, 7, own(2));
                            list->cas(*peer_, at(11), 5, 8, own(3));
                            list->faa(*peer_, at(12), 3, own(4));
                            list->masked_cas(*peer_, at(13), {0, 0xff}, {0x1234, 0xff00}, own(5));
                            list->read(*peer_, at(10), own(6, 4));
                          }).ok());
            }),
            0u);
  EXPECT_EQ(std::vector<uint64_t>(near_.words.begin() + 2, near_.words.begin() + 10),
            (std::vector<uint64_t>{5, 6, 0, 0, 7, 6, 3, 0x1200}));
  EXPECT_EQ(near_.worker->traffic().round_trips, 1u) << "it is counted as ever";
  EXPECT_EQ(near_.worker->traffic().of(Verb::kRead).bytes, 32u);
}

TEST_F(Instant, MessagesArrive) {
  ASSERT_TRUE(far_.worker->set_receive_ring(far_.region->slice(0, 64), 16).ok());
  network_.set_instant(true);
  near_.words[0] = 42;
  in_time([&] {
    ASSERT_TRUE(run([&](WorkList* list) { list->send(*peer_, own(0)); }).ok());
    Message message;
    ASSERT_TRUE(far_.worker->receive(0, &message).ok()) << "it is there already";
    uint64_t found = 0;
    std::memcpy(&found, message.bytes().data(), sizeof found);
    EXPECT_EQ(found, 42u);
  });
}

// A refused request ends in the usual way, and nothing after it takes effect.
TEST_F(Instant, RefusalsAreAsEver) {
  network_.set_instant(true);
  near_.words[0] = 1;
  in_time([&] {
    WorkList list;
    list.write(*peer_, own(0), at(3));
    list.read(*peer_, at(64), own(1));
    list.write(*peer_, own(0), at(4));
    EXPECT_FALSE(near_.worker->run(&list, kInstantLimitMs).ok());
    EXPECT_EQ(list.outcome(0), Outcome::kDone);
    EXPECT_EQ(list.outcome(1), Outcome::kRemoteAccess);
    EXPECT_EQ(list.outcome(2), Outcome::kFlushed);
    EXPECT_FALSE(peer_->usable());
  });
  EXPECT_EQ(far_.words[3], 1u);
  EXPECT_EQ(far_.words[4], 0u);
}

TEST_F(Instant, NothingOvertakesWhatIsInFlight) {
  near_.words[0] = 1;
  near_.words[1] = 2;
  in_time([&] {
    WorkList first, second;
    first.write(*peer_, own(0), at(3));
    ASSERT_TRUE(near_.worker->post(&first).ok());
    network_.set_instant(true);
    second.write(*peer_, own(1), at(3));
    ASSERT_TRUE(near_.worker->post(&second).ok());
    EXPECT_TRUE(second.pending());
    EXPECT_TRUE(near_.worker->wait(first, kInstantLimitMs).ok());
    EXPECT_TRUE(near_.worker->wait(second, kInstantLimitMs).ok());
  });
  EXPECT_EQ(far_.words[3], 2u);
}

TEST_F(Instant, TimesAreThoseOfTheDeviceThatThereIs) {
  const auto read = [&] { ASSERT_TRUE(run([&](WorkList* list) { list->read(*peer_, at(0), own(0)); }).ok()); };
  const uint64_t usual_ns = in_time(read);
  network_.set_instant(true);
  EXPECT_EQ(in_time(read), 0u);
  network_.set_instant(false);
  SimDevice slow = SimDevice::cx5();
  slow.wire_ns += 10'000;
  slow.list_cpu_jitter = 0;
  network_.set_device(slow);
  const uint64_t slow_ns = in_time(read);
  EXPECT_NEAR(static_cast<double>(slow_ns), static_cast<double>(usual_ns) + 10'000, 80);
  slow.list_cpu_ns += 3'000;
  network_.set_device(slow);
  EXPECT_EQ(in_time(read), slow_ns + 3'000) << "of workers that are there already, too";
}

}  // namespace
}  // namespace bonsai::rdma
