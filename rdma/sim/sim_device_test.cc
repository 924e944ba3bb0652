// SPDX-License-Identifier: Apache-2.0
// Compares the model of a device with closed formulas of its parameters.
#include <gtest/gtest.h>

#include <cstdio>
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

constexpr size_t kServerWords = 4'096;
constexpr uint64_t kDeviceLimitMs = 1'000;
constexpr uint64_t kWarmUpNs = 50'000, kMeasuredNs = 200'000;

struct Target {
  std::vector<uint64_t> words = std::vector<uint64_t>(kServerWords);
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Region> region;
  std::unique_ptr<Worker> worker;
};

struct Load {
  size_t clients = 1;
  size_t targets = 1;
  std::function<void(WorkList*, Peer&, const RemoteRegion&, Slice, size_t client)> fill;
  uint64_t starts_seed = 1;
  std::optional<double> list_cpu_ns = {};  // for the clients' nodes
};

// Lists per nanosecond, which equals thousands of millions per second.
class Measurement {
 public:
  explicit Measurement(const SimDevice& device) : network_(SimOptions::with_device(device, 1)) {}

  double run(const Load& load) {
    std::vector<Target> targets(load.targets);
    for (size_t i = 0; i < targets.size(); ++i) {
      Target& target = targets[i];
      target.fabric = network_.make_fabric();
      EXPECT_TRUE(
          target.fabric->register_region(std::as_writable_bytes(std::span(target.words)), Rights::all(), &target.region)
              .ok());
      EXPECT_TRUE(target.fabric->make_worker(&target.worker).ok());
      EXPECT_TRUE(target.worker->listen("target" + std::to_string(i), {}, {}).ok());
    }
    base::Scheduler scheduler({.virtual_time = true, .virtual_ns_per_switch = 0});
    base::Random dice(load.starts_seed);
    uint64_t lists = 0;
    for (size_t client = 0; client < load.clients; ++client) {
      const uint64_t start_ns = base::Scheduler::kVirtualStartNs + dice.below(10'000);
      scheduler.spawn([&, client, start_ns] { act(load, targets[client % load.targets], client, start_ns, &lists); });
    }
    const Status status = scheduler.run();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return static_cast<double>(lists) / kMeasuredNs;
  }

 private:
  void act(const Load& load, const Target& target, size_t client, uint64_t start_ns, uint64_t* lists) {
    const std::unique_ptr<Fabric> fabric = network_.make_fabric(load.list_cpu_ns);
    std::vector<uint64_t> words(512);
    std::unique_ptr<Region> region;
    EXPECT_TRUE(fabric->register_region(std::as_writable_bytes(std::span(words)), Rights::none(), &region).ok());
    std::unique_ptr<Worker> worker;
    EXPECT_TRUE(fabric->make_worker(&worker).ok());
    std::unique_ptr<Peer> peer;
    EXPECT_TRUE(worker->connect("target" + std::to_string(client % load.targets), {}, kDeviceLimitMs, &peer).ok());
    base::Scheduler::wait_until(start_ns + 20'000);
    const uint64_t begin_ns = base::Scheduler::kVirtualStartNs + 30'000 + kWarmUpNs;
    while (base::now_ns() < begin_ns + kMeasuredNs) {
      WorkList list;
      load.fill(&list, *peer, target.region->remote(), region->slice(0, words.size() * 8), client);
      ASSERT_TRUE(worker->run(&list, kDeviceLimitMs).ok());
      if (base::now_ns() >= begin_ns && base::now_ns() < begin_ns + kMeasuredNs) ++*lists;
    }
    peer.reset();
  }

  SimNetwork network_;
};

Slice part(Slice whole, size_t bytes) { return {whole.region(), whole.data(), bytes}; }

void read_8(WorkList* list, Peer& peer, const RemoteRegion& at, Slice to, size_t client) {
  list->read(peer, at.at(client % kServerWords * 8), part(to, 8));
}
void read_1024(WorkList* list, Peer& peer, const RemoteRegion& at, Slice to, size_t) {
  list->read(peer, at.at(0), part(to, 1'024));
}
void cas_one(WorkList* list, Peer& peer, const RemoteRegion& at, Slice to, size_t) {
  list->cas(peer, at.at(0), 0, 0, part(to, 8));
}
void cas_own(WorkList* list, Peer& peer, const RemoteRegion& at, Slice to, size_t client) {
  list->cas(peer, at.at(client % kServerWords * 8), 0, 0, part(to, 8));
}

double rate(const Load& load) { return Measurement(SimDevice::cx5()).run(load); }

void expect_near(double measured, double expected, double share, const char* what) {
  std::printf("%s: %.2f M/s (closed form: %.2f)\n", what, measured * 1'000, expected * 1'000);
  EXPECT_NEAR(measured, expected, share * expected) << what;
}

// So persistence on the model costs as much as on those devices.
TEST(SimDeviceTest, ModelledDevicesHaveNoRemoteFlush) {
  for (const SimDevice& device : {SimDevice::cx5(), SimDevice::cx6()}) {
    SimNetwork network(SimOptions::with_device(device, 1));
    EXPECT_FALSE(network.make_fabric()->capabilities().remote_flush) << device.name;
  }
}

TEST(SimDeviceTest, OneClientTakesTheRoundTrip) {
  const SimDevice device = SimDevice::cx5();
  const double list_ns = device.wire_ns + device.list_cpu_ns + device.read_ns + (8 + 66) / device.bytes_per_ns;
  expect_near(rate({.fill = read_8}), 1 / list_ns, .02, "one client, READ 8");
  expect_near(rate({.fill = read_8, .list_cpu_ns = 2'000}), 1 / (list_ns + 2'000 - device.list_cpu_ns), .02,
              "one client of a slower node, READ 8");
}

TEST(SimDeviceTest, ManyClientsMeetTheCaps) {
  const SimDevice device = SimDevice::cx5();
  expect_near(rate({.clients = 400, .fill = read_8}), 1 / device.read_ns, .05, "READ 8");
  expect_near(rate({.clients = 64, .fill = cas_one}), 1 / device.same_address_ns, .05, "CAS, one word");
  expect_near(rate({.clients = 256, .fill = cas_own}), 1 / device.atomic_ns, .05, "CAS, many words");
  expect_near(rate({.clients = 64, .fill = read_1024}), device.bytes_per_ns / 1'090, .05, "READ 1024");
}

TEST(SimDeviceTest, TwoTargetsDoubleTheCaps) {
  const SimDevice device = SimDevice::cx5();
  expect_near(rate({.clients = 800, .targets = 2, .fill = read_8}), 2 / device.read_ns, .05, "READ 8, two targets");
  expect_near(rate({.clients = 128, .targets = 2, .fill = cas_one}), 2 / device.same_address_ns, .05,
              "CAS, a word of each of two targets");
}

TEST(SimDeviceTest, WhoStartsFirstDoesNotMatter) {
  const double first = rate({.clients = 100, .fill = cas_own, .starts_seed = 1});
  expect_near(rate({.clients = 100, .fill = cas_own, .starts_seed = 2}), first, .02, "other starts");
}

// Only ordered_per_peer_max of the 32 READs of a list are in flight: the others wait for an answer, which takes a round
// trip.
TEST(SimDeviceTest, AConnectionHasABoundedNumberOfReadsInFlight) {
  const auto read_all = [](WorkList* list, Peer& peer, const RemoteRegion& at, Slice to, size_t) {
    while (list->room()) list->read(peer, at.at(0), part(to, 8));
  };
  const SimDevice device = SimDevice::cx5();
  const double list_ns = 2 * device.wire_ns + device.list_cpu_ns;
  expect_near(rate({.fill = read_all}), 1 / list_ns, .1, "lists of 32 READs");
}

// A READ of 1,024 bytes is four blocks, from one module or from four modules at the same time.
TEST(SimDeviceTest, ReadsTakeTheTimeOfNvm) {
  const SimDevice device = SimDevice::cx5();
  const double list_ns = device.wire_ns + device.list_cpu_ns + device.read_ns + 1'090 / device.bytes_per_ns;
  const SimDevice apart = device.with_optane(0), striped = device.with_optane(256);
  const auto rate = [](const SimDevice& of, const Load& load) { return Measurement(of).run(load); };
  expect_near(rate(apart, {.fill = read_1024}), 1 / (list_ns + 4 * apart.nvm_block_ns + apart.nvm_access_ns), .02,
              "one client, READ 1024 of one module");
  expect_near(rate(striped, {.fill = read_1024}), 1 / (list_ns + striped.nvm_block_ns + striped.nvm_access_ns), .02,
              "one client, READ 1024 of four");
  expect_near(rate(apart, {.clients = 64, .fill = read_1024}), 1 / (4 * apart.nvm_block_ns), .05,
              "READ 1024 of one module");
  expect_near(rate(striped, {.clients = 64, .fill = read_1024}), device.bytes_per_ns / 1'090, .05,
              "READ 1024 of four modules, where the link binds");
  expect_near(rate(apart, {.clients = 400, .fill = read_8}), 1 / apart.nvm_block_ns, .05, "READ 8 of one module");
  expect_near(rate(striped, {.clients = 400, .fill = read_8}), 1 / device.read_ns, .05,
              "READ 8 of six modules, where the engine binds");
}

TEST(SimDeviceTest, ResultsNameTheModel) {
  SimNetwork modelled(SimOptions::with_device(SimDevice::cx6(), 1)), other;
  EXPECT_NE(modelled.make_fabric()->capabilities().text.find("modelled CX-6"), std::string::npos);
  EXPECT_EQ(other.make_fabric()->capabilities().text.find("modelled"), std::string::npos);
}

}  // namespace
}  // namespace bonsai::rdma
