// SPDX-License-Identifier: Apache-2.0
// The state that the nodes of a simulated network share: time, events, random numbers, reachability. Internal to
// rdma/sim/.
#ifndef BONSAI_RDMA_SIM_CORE_H_
#define BONSAI_RDMA_SIM_CORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/thread.h"
#include "rdma/sim/events.h"
#include "rdma/sim/sim.h"

namespace bonsai::rdma {

class SimEnd;
class SimListener;

// The steps of a trace.
enum class SimStep : uint8_t { kDeliver, kPart, kExecuted, kAnswered, kFinished, kLost, kConnect, kFault, kCrash };

class SimCore {
 public:
  explicit SimCore(const SimOptions& chosen) : options(chosen), dice(chosen.seed) {}

  [[nodiscard]] uint64_t now();
  // Runs `event` `delay_ns` from now.
  template <class Event>
  void after(uint64_t delay_ns, Event event) {
    const uint64_t due_ns = now() + delay_ns;
    events_.add(due_ns, std::move(event));
    if (led_ && due_ns < led_until_ns_) wake_leader(due_ns);
  }
  // Runs all events that are due.
  void run_due();
  // Advances time to the next event; all other waiting coroutines run meanwhile.
  void pause(base::BoundedWait* wait);
  // As pause(), where a device is modelled: one waiter, the leader, runs the events, and the others sleep until woken.
  // So time passes exactly, and an event costs one switch for any number of waiters.
  void await_event(std::vector<base::Scheduler::Token>* sleepers, base::BoundedWait* wait);
  // Jumps to the next event and runs it; false when there is none. Requires: not in a coroutine.
  bool run_next();

  // Drops events and connections, which refer to each other.
  void forget() {
    listeners.clear();
    events_.clear();
    ends.clear();
  }

  [[nodiscard]] bool chance(uint32_t per_1024) { return dice.chance(per_1024, 1024); }
  // The flight time of a packet.
  [[nodiscard]] uint64_t flight();
  void note(SimStep step, uint64_t first, uint64_t second = 0);

  [[nodiscard]] bool alive(size_t node) const { return dead.count(node) == 0; }
  [[nodiscard]] bool reaches(size_t from, size_t to) const {
    return alive(from) && alive(to) && cuts.count({from, to}) == 0;
  }
  // Whether `to` hears that a connection to `from` has ended: the kernel of a process that has ended says so.
  [[nodiscard]] bool hears_end(size_t from, size_t to) const {
    return (alive(from) || ended.count(from) != 0) && alive(to) && cuts.count({from, to}) == 0;
  }

  SimOptions options;
  bool instant = false;  // SimNetwork::set_instant
  base::Random dice;
  uint64_t trace = 0;
  size_t nodes = 0;
  uint64_t connections = 0;
  std::set<size_t> dead;   // without power, or ended
  std::set<size_t> ended;  // of these, the processes whose machine runs
  std::set<std::pair<size_t, size_t>> cuts;
  std::map<std::string, std::shared_ptr<SimListener>> listeners;
  std::vector<std::shared_ptr<SimEnd>> ends;  // of all connections ever made
  std::vector<SimNvm::State*> nvms;

 private:
  void wake_leader(uint64_t due_ns);

  uint64_t now_ns_ = 1'000'000'000;
  bool led_ = false;  // a leader runs the events
  base::Scheduler::Token leader_;
  uint64_t led_until_ns_ = 0;  // the time of the event that the leader waits for
  SimEvents events_;
};

// Persistent memory, as the fabric's events see it.
struct SimNvm::State {
  State(size_t bytes, RemoteDomain its_domain) : view(bytes), durable(bytes), domain(its_domain) {}

  [[nodiscard]] bool holds(const std::byte* p) const { return p >= view.data() && p < view.data() + view.size(); }
  // The fabric wrote [offset, offset + bytes) over `connection`.
  void written(size_t offset, size_t bytes, uint64_t connection);
  // All earlier writes of `connection` have left device and bus.
  void drained(uint64_t connection);
  void flushed(size_t offset, size_t bytes);
  void crash(SimCore& core);

  struct Store {
    size_t word;
    uint64_t value;
    uint64_t connection;
  };
  std::vector<std::byte> view, durable;
  RemoteDomain domain;
  std::map<size_t, std::vector<Store>> pending;  // by line: stores that a crash may lose, in order

 private:
  void settle(std::vector<Store>* stores, size_t count);
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SIM_CORE_H_
