// SPDX-License-Identifier: Apache-2.0
#include "rdma/sim/sim.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/probe.h"
#include "base/status_macros.h"
#include "rdma/provider.h"
#include "rdma/sim/link.h"

namespace bonsai::rdma {
namespace {

base::Probe request_again{"sim.connect_sent_again"};
base::Probe request_twice{"sim.connect_arrived_twice"};
base::Probe abandoned{"sim.connect_abandoned"};
base::Probe refused_by_bound{"sim.lists_pending_bound"};
base::Probe overflowed{"sim.completions_overflowed"};
base::Probe killed{"sim.node_killed"};
base::Probe one_way{"sim.cut_one_way"};

}  // namespace

class SimPeer final : public Peer {
 public:
  SimPeer(const Hello& other, std::shared_ptr<SimEnd> end) : Peer(other), end_(std::move(end)) {}
  ~SimPeer() override { end_->close(); }
  [[nodiscard]] bool usable() const override { return end_->usable(); }
  [[nodiscard]] SimEnd& end() { return *end_; }

 private:
  std::shared_ptr<SimEnd> end_;
};

// An attempt to connect.
struct SimAttempt {
  std::string address;
  Hello own;
  std::shared_ptr<SimWorkerState> worker;
  bool decided = false;  // at the listener
  bool heard = false;    // the decision has arrived, or connect() no longer waits for it
  Status status;
  Hello answer;
  std::shared_ptr<SimEnd> end;
};

// A listening worker.
class SimListener {
 public:
  // Admits or refuses, once per attempt.
  void decide(SimCore& core, SimAttempt* attempt) {
    if (attempt->decided) return request_twice.hit();
    attempt->decided = true;
    attempt->answer = own;
    const Arrival arrival{attempt->own, attempt->address, "node " + std::to_string(attempt->worker->node)};
    attempt->status = admit_peer(admit, arrival, &attempt->answer);
    if (!attempt->status.ok()) return;
    auto [near, far] = SimEnd::make_two(core, {attempt->worker, attempt->own.node}, {worker, attempt->answer.node});
    attempt->end = near;
    waiting.push_back(std::make_unique<SimPeer>(attempt->own, far));
  }

  Hello own;
  Admit admit;
  std::shared_ptr<SimWorkerState> worker;
  std::deque<std::unique_ptr<Peer>> waiting;  // for accept()
};

namespace {

class SimWorker final : public Worker {
 public:
  SimWorker(std::shared_ptr<SimCore> core, size_t node, std::shared_ptr<SimRegions> regions,
            std::optional<double> list_cpu_ns)
      : core_(std::move(core)), list_cpu_ns_(list_cpu_ns), state_(std::make_shared<SimWorkerState>()) {
    state_->node = node;
    state_->regions = std::move(regions);
  }
  ~SimWorker() override {
    take_ready();
    state_->inbox = SimInbox();
    const auto found = core_->listeners.find(address_);
    if (found != core_->listeners.end() && found->second == listener_) core_->listeners.erase(found);
  }

  Status listen(const std::string& address, const Hello& own, Admit admit) override {
    if (address.empty() || listener_ != nullptr) {
      return Status::InvalidArgument("a worker listens once, at an address that is not empty");
    }
    if (core_->listeners.count(address) != 0) {
      return Status::Busy(address + " has a listener already; choose another address");
    }
    listener_ = std::make_shared<SimListener>();
    listener_->own = own;
    listener_->admit = std::move(admit);
    listener_->worker = state_;
    core_->listeners[address] = listener_;
    address_ = address;
    return Status::OK();
  }

  Status greet(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
               Challenge* challenge) override {
    const auto attempt = std::make_shared<SimAttempt>();
    attempt->address = address;
    attempt->own = own;
    attempt->worker = state_;
    ask(core_.get(), attempt);
    for (base::BoundedWait wait("fabric.connect", limit_ms); !attempt->heard; core_->pause(&wait)) {
      if (!wait.expired()) continue;
      attempt->heard = true;
      if (attempt->end != nullptr) {
        abandoned.hit();
        attempt->end->close();
      }
      return Status::Unavailable("nobody answers at " + address + "; start that node, or look at the network between");
    }
    if (!attempt->status.ok()) {
      *challenge = challenge_of(attempt->answer, address);
      return attempt->status;
    }
    *peer = std::make_unique<SimPeer>(attempt->answer, attempt->end);
    return Status::OK();
  }

  size_t poll() override {
    core_->run_due();
    // Outside virtual time only this advances the network.
    if (state_->ready.empty() && base::virtual_now_ns == nullptr) core_->run_next();
    return take_ready();
  }

  Status set_receive_ring(Slice memory, size_t message_bytes_max) override {
    SimInbox& inbox = state_->inbox;
    if (message_bytes_max == 0 || memory.bytes() < message_bytes_max || inbox.ring.bytes() != 0) {
      return Status::InvalidArgument("a receive ring is set once and holds at least one message");
    }
    inbox.ring = memory;
    inbox.slot_bytes = message_bytes_max;
    for (size_t slot = 0; slot < memory.bytes() / message_bytes_max; ++slot) inbox.free.push_back(slot);
    return Status::OK();
  }

 protected:
  Status start(WorkList* list) override {
    core_->run_due();
    if (pending_ == core_->options.lists_pending_max) {
      refused_by_bound.hit();
      return Status::Busy(std::to_string(pending_) + " work lists are pending; wait for one first");
    }
    const auto end_of = [list](size_t i) -> SimEnd& { return static_cast<SimPeer*>(list->request(i).peer)->end(); };
    size_t first = 0;
    while (core_->instant && first < list->size() && end_of(first).carry_out_now(&list->request(first))) ++first;
    std::array<std::shared_ptr<SimBatch>, WorkList::kRequestsMax> batches;  // at each peer's first request
    std::array<size_t, WorkList::kRequestsMax> first_of;
    size_t peers = 0;
    for (size_t i = first; i < list->size(); ++i) {
      first_of[i] = first;
      while (list->request(first_of[i]).peer != list->request(i).peer) ++first_of[i];
      auto& batch = batches[first_of[i]];
      if (batch == nullptr) {
        batch = std::make_shared<SimBatch>(SimBatch{list, 0});
        ++peers;
      }
      ++batch->left;
    }
    list->set_pending(peers);
    if (peers == 0) return Status::OK();
    ++pending_;
    BONSAI_CHECK(pending_ <= core_->options.lists_pending_max);
    const uint64_t arrives_ns = core_->options.device.modelled() ? sent_ns() + core_->flight() : 0;
    for (size_t i = first; i < list->size(); ++i) end_of(i).post(&list->request(i), batches[first_of[i]], arrives_ns);
    return Status::OK();
  }
  bool try_accept(std::unique_ptr<Peer>* peer) override {
    core_->run_due();
    if (listener_ == nullptr || listener_->waiting.empty() || !core_->alive(state_->node)) return false;
    *peer = std::move(listener_->waiting.front());
    listener_->waiting.pop_front();
    return true;
  }
  bool try_receive(Message* message) override {
    core_->run_due();
    SimInbox& inbox = state_->inbox;
    if (inbox.arrived.empty() || !core_->alive(state_->node)) return false;
    const SimInbox::Arrival next = inbox.arrived.front();
    inbox.arrived.pop_front();
    *message = Message(this, next.slot, next.from, {inbox.ring.data() + next.slot * inbox.slot_bytes, next.bytes});
    return true;
  }
  void release_buffer(size_t slot) override {
    SimInbox& inbox = state_->inbox;
    BONSAI_CHECK((slot + 1) * inbox.slot_bytes <= inbox.ring.bytes());
    inbox.free.push_back(slot);
  }
  void pause(base::BoundedWait* wait) override {
    if (!core_->options.device.modelled() || base::virtual_now_ns == nullptr) return core_->pause(wait);
    core_->await_event(&state_->sleepers, wait);
  }

 private:
  // The time at which the thread has posted a list: it posts one after the other.
  uint64_t sent_ns() {
    const SimDevice& device = core_->options.device;
    const double jitter = 1 + device.list_cpu_jitter * (static_cast<double>(core_->dice.below(2'001)) / 1'000 - 1);
    state_->processor = std::max(state_->processor, static_cast<double>(core_->now())) +
                        list_cpu_ns_.value_or(device.list_cpu_ns) * jitter;
    return static_cast<uint64_t>(state_->processor);
  }
  // Sends the greeting to the listener until an answer arrives; both may be lost.
  static void ask(SimCore* core, const std::shared_ptr<SimAttempt>& attempt) {
    if (attempt->heard) return;
    core->note(SimStep::kConnect, attempt->own.node);
    core->after(core->flight(), [core, attempt] {
      const auto found = core->listeners.find(attempt->address);
      if (attempt->heard || found == core->listeners.end()) return;
      const size_t from = attempt->worker->node, to = found->second->worker->node;
      if (!core->reaches(from, to) || core->chance(core->options.lost_chance)) return;
      found->second->decide(*core, attempt.get());
      core->after(core->flight(), [core, attempt, from, to] {
        if (core->reaches(to, from) && !core->chance(core->options.lost_chance)) attempt->heard = true;
      });
    });
    core->after(core->options.retry_ns, [core, attempt] {
      if (!attempt->heard) request_again.hit();
      ask(core, attempt);
    });
  }

  size_t take_ready() {
    size_t completed = 0;
    for (WorkList* list : std::exchange(state_->ready, {})) {
      list->complete_doorbell();
      if (list->pending()) continue;
      ++completed;
      BONSAI_CHECK(pending_ > 0);
      --pending_;
    }
    return completed;
  }

  const std::shared_ptr<SimCore> core_;
  const std::optional<double> list_cpu_ns_;  // without a value: the device's
  const std::shared_ptr<SimWorkerState> state_;
  std::shared_ptr<SimListener> listener_;
  std::string address_;
  size_t pending_ = 0;  // lists
};

class SimFabric final : public Fabric {
 public:
  SimFabric(std::shared_ptr<SimCore> core, size_t node, std::optional<double> list_cpu_ns)
      : core_(std::move(core)), node_(node), list_cpu_ns_(list_cpu_ns) {
    capabilities_.text = "sim, deterministic, virtual time";
    if (core_->options.device.modelled()) capabilities_.text += ", modelled " + core_->options.device.name;
    capabilities_.atomics_with_cpu = true;
    capabilities_.remote_flush = core_->options.remote_flush;
    capabilities_.masked_cas = true;
    capabilities_.message_bytes_max = size_t{1} << 20;
    capabilities_.lists_pending_max = core_->options.lists_pending_max;
  }
  [[nodiscard]] size_t node() const { return node_; }
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }

  Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) override {
    BONSAI_RETURN_IF_ERROR(check_registration(memory, rights));
    *region = std::make_unique<SimRegion>(*core_, regions_, memory, rights);
    return Status::OK();
  }
  Status make_worker(std::unique_ptr<Worker>* worker) override {
    *worker = std::make_unique<SimWorker>(core_, node_, regions_, list_cpu_ns_);
    return Status::OK();
  }
  // In virtual time a thread is a coroutine.
  [[nodiscard]] uint32_t caller() const override {
    if (base::virtual_now_ns == nullptr || base::Scheduler::current() == nullptr) return Fabric::caller();
    return static_cast<uint32_t>(base::Scheduler::number());
  }

 private:
  const std::shared_ptr<SimCore> core_;
  const size_t node_;
  const std::optional<double> list_cpu_ns_;
  std::shared_ptr<SimRegions> regions_ = std::make_shared<SimRegions>();
  Capabilities capabilities_;
};

size_t node_of(const Fabric& fabric) { return static_cast<const SimFabric&>(fabric).node(); }

}  // namespace

SimDevice SimDevice::cx5() {
  return {.name = "CX-5",
          .wire_ns = 2'300,
          .list_cpu_ns = 250,
          .list_cpu_jitter = .3,
          .read_ns = 11.8,
          .write_ns = 9.6,
          .atomic_ns = 19.7,
          .same_address_ns = 341,
          .bytes_per_ns = 12.5,
          .header_bytes = 66};
}

SimDevice SimDevice::cx6() {
  SimDevice device = cx5();
  device.name = "CX-6";
  device.wire_ns = 2'000;
  device.read_ns = 9;
  device.read_byte_ns = .046;
  device.write_ns = 11;
  device.bytes_per_ns = 12.8;
  return device;
}

SimDevice SimDevice::with_optane(uint64_t unit_bytes) const {
  SimDevice device = *this;
  device.name += " and Optane";
  device.nvm_devices = 6;
  device.nvm_unit_bytes = unit_bytes;
  device.nvm_block_ns = 38.8;
  device.nvm_access_ns = 305;
  return device;
}

SimOptions SimOptions::with_device(const SimDevice& device, uint64_t seed) {
  SimOptions options;
  options.seed = seed;
  options.late_chance = options.torn_chance = options.lost_chance = options.ghost_chance = 0;
  options.remote_flush = false;  // no modelled device has it
  options.device = device;
  return options;
}

SimNetwork::SimNetwork(const SimOptions& options) : core_(std::make_shared<SimCore>(options)) {}

SimNetwork::~SimNetwork() { core_->forget(); }

std::unique_ptr<Fabric> SimNetwork::make_fabric(std::optional<double> list_cpu_ns) {
  return std::make_unique<SimFabric>(core_, core_->nodes++, list_cpu_ns);
}

std::unique_ptr<SimNvm> SimNetwork::make_nvm(size_t bytes, RemoteDomain domain) {
  return std::unique_ptr<SimNvm>(new SimNvm(core_, bytes, domain));
}

void SimNetwork::set_instant(bool instant) { core_->instant = instant; }

void SimNetwork::set_device(const SimDevice& device) {
  BONSAI_CHECK(device.modelled() && core_->options.device.modelled());
  core_->options.device = device;
}

void SimNetwork::cut(const Fabric& from, const Fabric& to) {
  core_->cuts.insert({node_of(from), node_of(to)});
  if (core_->cuts.count({node_of(to), node_of(from)}) == 0) one_way.hit();
  core_->note(SimStep::kFault, node_of(from), node_of(to));
}

void SimNetwork::heal() { core_->cuts.clear(); }

void SimNetwork::kill(const Fabric& fabric) {
  const size_t node = node_of(fabric);
  killed.hit();
  core_->note(SimStep::kFault, node);
  core_->dead.insert(node);
  std::erase_if(core_->listeners, [&](const auto& entry) { return entry.second->worker->node == node; });
  const auto ends = core_->ends;
  for (const auto& end : ends) {
    if (end->node() == node) end->break_off();
  }
}

void SimNetwork::end_process(const Fabric& fabric) {
  core_->ended.insert(node_of(fabric));
  kill(fabric);
}

void SimNetwork::overflow(const Fabric& fabric) {
  overflowed.hit();
  const auto ends = core_->ends;
  for (const auto& end : ends) {
    if (end->node() == node_of(fabric)) end->break_off();
  }
}

uint64_t SimNetwork::trace() const { return core_->trace; }
uint64_t SimNetwork::now_ns() const { return core_->now(); }
void SimNetwork::settle() {
  while (core_->run_next()) {
  }
}

}  // namespace bonsai::rdma
