// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/testing/rig.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/thread.h"
#include "testing/linearizability.h"

namespace bonsai::bench::rivals {

namespace {

using bonsai::testing::Cell;
using bonsai::testing::OpKind;

constexpr size_t kStackBytes = size_t{256} << 10;

std::string provider() {
  const char* const asked = std::getenv("BONSAI_FABRIC");
  return asked == nullptr ? "shm" : asked;
}

}  // namespace

std::string name_of_fabric(const ::testing::TestParamInfo<bool>& sim) { return sim.param ? "sim" : provider(); }

Rig::Rig(const Options& options)
    : options_(options),
      sim_(options.device.modelled() ? rdma::SimOptions::with_device(options.device, base::splitmix64(options.seed))
                                     : rdma::SimOptions{.seed = base::splitmix64(options.seed)}),
      world_(options.sim ? nullptr : rdma::make_world(provider())) {
  for (size_t i = 0; i < options.memory_nodes; ++i) {
    memory_fabrics_.push_back(make_fabric());
    rdma::Fabric* const fabric = memory_fabrics_.back().get();
    const std::string address = make_address();
    std::unique_ptr<MemoryNode> node;
    if (options.flushes) {
      EXPECT_EQ("OK", text(rdma::SharedMemory::make(options.bytes, &memories_.emplace_back())));
      EXPECT_EQ("OK",
                text(MemoryNode::make(
                    fabric, address, memories_.back()->bytes(), options.fixed_bytes, [](size_t, size_t) {}, &node)));
    } else {
      EXPECT_EQ("OK", text(MemoryNode::make(fabric, address, options.bytes, options.fixed_bytes, &node)));
    }
    add_server(node->name(), [server = node.get()](uint64_t limit_ms) { return server->serve(limit_ms); });
    nodes_.push_back(std::move(node));
  }
}

Rig::~Rig() { nodes_.clear(); }

std::unique_ptr<rdma::Fabric> Rig::make_fabric() { return options_.sim ? sim_.make_fabric() : world_->make_fabric(); }

std::string Rig::make_address() {
  const uint32_t node = addresses_++;
  return options_.sim ? "node" + std::to_string(node) : world_->address(node);
}

std::vector<MemoryNode*> Rig::nodes() const {
  std::vector<MemoryNode*> nodes;
  for (const auto& node : nodes_) nodes.push_back(node.get());
  return nodes;
}

void Rig::add_server(const MemoryNodeName& name, std::function<Status(uint64_t limit_ms)> serve) {
  names_.push_back(name);
  servers_.push_back(std::move(serve));
}

void Rig::run(const Shape& shape, const std::function<void(const Seat&)>& body) {
  while (compute_fabrics_.size() < shape.compute_nodes) compute_fabrics_.push_back(make_fabric());
  ++runs_;
  if (options_.sim) {
    run_simulated(shape, body);
  } else {
    run_threads(shape, body);
  }
}

void Rig::run_one(const std::function<void(Connection*)>& body) {
  run({}, [&](const Seat& seat) { body(seat.connection); });
}

std::unique_ptr<Connection> Rig::connect(size_t compute_node, size_t thread) const {
  const auto number = static_cast<uint32_t>(runs_ << 16 | compute_node << 8 | thread);
  std::unique_ptr<Connection> connection;
  EXPECT_EQ("OK", text(Connection::make(compute_fabrics_[compute_node].get(), number, names_, &connection)));
  return connection;
}

void Rig::run_simulated(const Shape& shape, const std::function<void(const Seat&)>& body) {
  base::Scheduler::Options coroutines{.pick = base::Scheduler::Pick::kSeeded,
                                      .seed = base::splitmix64(options_.seed ^ runs_),
                                      .stack_bytes = kStackBytes};
  if (options_.device.modelled()) {
    coroutines.pick = base::Scheduler::Pick::kFifo;
    coroutines.virtual_time = true;
    coroutines.virtual_ns_per_switch = 0;
  }
  base::Scheduler scheduler(coroutines);
  size_t clients_left = shape.clients();
  for (const auto& serve : servers_) {
    scheduler.spawn(
        [&clients_left, &serve] {
          while (clients_left > 0) static_cast<void>(serve(1));
        },
        "memory node");
  }
  std::vector<std::unique_ptr<Connection>> connections(shape.compute_nodes * shape.threads);
  for (size_t thread = 0; thread < connections.size(); ++thread) {
    scheduler.spawn(
        [&, thread] {
          const size_t compute_node = thread / shape.threads;
          connections[thread] = connect(compute_node, thread % shape.threads);
          for (size_t i = 0; i < shape.coroutines; ++i) {
            const Seat seat{thread * shape.coroutines + i, compute_node, connections[thread].get()};
            scheduler.spawn(
                [&, seat] {
                  body(seat);
                  --clients_left;
                },
                "client");
          }
        },
        "thread");
  }
  EXPECT_EQ("OK", text(scheduler.run()));
}

void Rig::run_threads(const Shape& shape, const std::function<void(const Seat&)>& body) {
  std::atomic<bool> done{false};
  std::vector<base::Thread> servers;
  for (const auto& serve : servers_) {
    servers.emplace_back("memory node", [&done, &serve] {
      while (!done.load()) static_cast<void>(serve(1));
    });
  }
  {
    std::vector<base::Thread> threads;
    for (size_t thread = 0; thread < shape.compute_nodes * shape.threads; ++thread) {
      threads.emplace_back("compute node", [&, thread] {
        const size_t compute_node = thread / shape.threads;
        const std::unique_ptr<Connection> connection = connect(compute_node, thread % shape.threads);
        base::Scheduler::Options coroutines{.stack_bytes = kStackBytes};
        if (options_.ns_per_switch != 0) {
          coroutines.virtual_time = true;
          coroutines.virtual_ns_per_switch = options_.ns_per_switch;
        }
        base::Scheduler scheduler(coroutines);
        for (size_t i = 0; i < shape.coroutines; ++i) {
          const Seat seat{thread * shape.coroutines + i, compute_node, connection.get()};
          scheduler.spawn([&body, seat] { body(seat); }, "client");
        }
        EXPECT_EQ("OK", text(scheduler.run()));
      });
    }
  }
  done.store(true);
}

Judge::Judge(const Mix& mix, size_t clients)
    : mix_(mix),
      recorder_(bonsai::testing::Recorder::in_memory({.lanes = static_cast<uint32_t>(clients),
                                                      .operations_max = 2 * mix.operations,
                                                      .cells_max = 2 * mix.operations})) {}

std::string Judge::key_of(uint64_t number) {
  std::string key(sizeof number, '\0');
  std::memcpy(key.data(), &number, sizeof number);
  return key;
}

std::string Judge::value_of(uint64_t number, size_t bytes_max) {
  std::string value(sizeof number + number % (bytes_max - sizeof number + 1), static_cast<char>('a' + number % 26));
  std::memcpy(value.data(), &number, sizeof number);
  return value;
}

uint64_t Judge::number_of(const std::string& value, size_t bytes_max) {
  uint64_t number = 0;
  if (value.size() < sizeof number) return bonsai::testing::kGarbled;
  std::memcpy(&number, value.data(), sizeof number);
  return value == value_of(number, bytes_max) ? number : bonsai::testing::kGarbled;
}

void Judge::load(Client* client) {
  for (uint64_t key = 1; key <= mix_.keys; ++key) {
    loaded_.push_back({key, key});
    EXPECT_EQ("OK", text(client->insert(key_of(key), value_of(key, mix_.value_bytes_max))));
  }
}

void Judge::act(Client* client, size_t seat, uint64_t seed) {
  bonsai::testing::Recorder::Lane lane = recorder_->lane(static_cast<uint32_t>(seat));
  base::Random dice(base::splitmix64(seed) + seat);
  for (uint64_t i = 0; i < mix_.operations; ++i) {
    uint64_t key = 1 + dice.below(mix_.keys);
    const uint64_t chosen = dice.below(100);
    const bool updates = chosen >= mix_.inserts && chosen < mix_.inserts + mix_.updates;
    if (mix_.owned && !updates) key = chosen < mix_.inserts + mix_.updates + mix_.removes ? seat + 1 : key;
    if (chosen < mix_.inserts + mix_.updates + mix_.removes) {
      write(client, &lane, key, (seat + 1) << 32 | (i + 1), chosen);
      continue;
    }
    std::string value;
    const uint64_t invoke = lane.begin_read();
    const Status status = client->get(key_of(key), &value);
    if (!status.ok() && !status.IsNotFound()) {
      note_failure(status);
      continue;
    }
    lane.end_read(OpKind::kGet, invoke,
                  Cell{key, status.ok() ? number_of(value, mix_.value_bytes_max) : bonsai::testing::kAbsent});
  }
}

void Judge::write(Client* client, bonsai::testing::Recorder::Lane* lane, uint64_t key, uint64_t number, uint64_t dice) {
  const bool removes = dice >= mix_.inserts + mix_.updates;
  const std::string value = value_of(number, mix_.value_bytes_max);
  const uint64_t invoke = lane->begin_read();
  const uint64_t update = removes ? lane->begin_update(OpKind::kDelete, Cell{key, bonsai::testing::kAbsent})
                                  : lane->begin_update(OpKind::kPut, Cell{key, number});
  const Status status = removes               ? client->remove(key_of(key))
                        : dice < mix_.inserts ? client->insert(key_of(key), value)
                                              : client->update(key_of(key), value);
  if (status.ok()) {
    lane->end_update(update);
    return;
  }
  if (!status.IsNotFound()) return note_failure(status);  // it may have taken effect
  lane->withdraw_update(update);
  lane->end_read(OpKind::kGet, invoke, Cell{key, bonsai::testing::kAbsent});
}

void Judge::note_failure(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = text(status);
}

bonsai::testing::Verdict Judge::verdict() const {
  if (!failure_.empty()) return bonsai::testing::Verdict::wrong("an operation failed: " + failure_);
  return bonsai::testing::check_registers(recorder_->history(), loaded_);
}

}  // namespace bonsai::bench::rivals
