// SPDX-License-Identifier: Apache-2.0
#include "rdma/sim/link.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/nvm/medium.h"
#include "base/probe.h"
#include "rdma/provider.h"

namespace bonsai::rdma {
namespace {

base::Probe packet_lost{"sim.packet_lost"};
base::Probe answer_lost{"sim.answer_lost"};
base::Probe never_delivered{"sim.gave_up_undelivered"};
base::Probe executed_unknown{"sim.gave_up_though_executed"};
base::Probe ghost{"sim.executed_after_giving_up"};
base::Probe write_torn{"sim.write_torn"};
base::Probe read_torn{"sim.read_torn"};
base::Probe read_again{"sim.read_executed_again"};
base::Probe passed_read{"sim.write_passed_a_read"};
base::Probe fence_waited{"sim.fence_waited"};
base::Probe rnr_later_ready{"sim.receiver_ready_after_retry"};
base::Probe rnr_given_up{"sim.receiver_never_ready"};
base::Probe access_refused{"sim.access_refused"};
base::Probe device_error{"sim.device_error"};
base::Probe late_completion{"sim.completion_late"};
base::Probe killed_amid{"sim.target_killed_amid_access"};
base::Probe sender_killed_amid{"sim.sender_killed_amid_write"};
base::Probe behind_flushed{"sim.flushed_behind_failure"};
base::Probe other_gone{"sim.other_end_gone"};

// Serves work that arrives at a queue at `now`; returns when it is done.
double serve(double* free_at, double now, double busy_ns) { return *free_at = std::max(*free_at, now) + busy_ns; }

// The time at which NVM has delivered the bytes of a READ that starts at `begun`. Each device serves its own units, one
// after the other.
double brought_ns(const SimDevice& device, SimStations* at, SimRegions::RegionOffset from, uint64_t bytes,
                  double begun) {
  at->nvm.resize(device.nvm_devices);
  double brought = begun;
  const uint64_t end = from.offset + bytes;
  for (uint64_t offset = from.offset; offset < end;) {
    const uint64_t unit = device.nvm_unit_bytes == 0 ? from.region : offset / device.nvm_unit_bytes;
    const uint64_t unit_end = device.nvm_unit_bytes == 0 ? end : std::min(end, (unit + 1) * device.nvm_unit_bytes);
    const uint64_t blocks = (unit_end - 1) / base::kMediaBlockBytes - offset / base::kMediaBlockBytes + 1;
    const double served =
        serve(&at->nvm[unit % device.nvm_devices], begun, static_cast<double>(blocks) * device.nvm_block_ns);
    brought = std::max(brought, served + device.nvm_access_ns);
    offset = unit_end;
  }
  return brought;
}

// The time at which the target's device has carried out a request that arrives now.
uint64_t served_ns(const SimDevice& device, SimRegions* regions, const SimRequest& request, const std::byte* target,
                   uint64_t now) {
  SimStations* const at = &regions->stations();
  const auto arrived = static_cast<double>(now), bytes = static_cast<double>(request.bytes.size());
  if (is_atomic(request.asked.verb)) {
    double& word = at->words[target];
    const double begun = std::max(serve(&at->atomic_unit, arrived, device.atomic_ns), word);
    word = begun + device.same_address_ns;
    return static_cast<uint64_t>(begun);
  }
  if (request.asked.verb == Verb::kRead) {
    const double begun = serve(&at->engine, arrived, device.read_ns + device.read_byte_ns * bytes);
    if (device.nvm_devices == 0 || request.bytes.empty()) return static_cast<uint64_t>(begun);
    return static_cast<uint64_t>(
        brought_ns(device, at, regions->offset_in_region(request.asked, target), request.bytes.size(), begun));
  }
  const double received = serve(&at->receiving, arrived, (bytes + device.header_bytes) / device.bytes_per_ns);
  return static_cast<uint64_t>(serve(&at->engine, received, device.write_ns));
}

// The time that the target takes to send the answer.
uint64_t sending_ns(const SimDevice& device, SimStations* at, const SimRequest& request, uint64_t now) {
  if (!device.modelled() || request.asked.verb != Verb::kRead) return 0;
  const double bytes = static_cast<double>(request.bytes.size()) + device.header_bytes;
  return static_cast<uint64_t>(serve(&at->sending, static_cast<double>(now), bytes / device.bytes_per_ns)) - now;
}

bool is_ordered(Verb verb) { return verb != Verb::kWrite && verb != Verb::kSend; }

}  // namespace

SimEnd::SimEnd(SimCore& core, std::shared_ptr<SimWorkerState> worker, uint32_t number, uint64_t connection)
    : core_(core), worker_(std::move(worker)), number_(number), connection_(connection) {}

std::pair<std::shared_ptr<SimEnd>, std::shared_ptr<SimEnd>> SimEnd::make_two(SimCore& core, const Side& a,
                                                                             const Side& b) {
  const uint64_t connection = ++core.connections;
  const auto first = std::make_shared<SimEnd>(core, a.worker, a.number, 2 * connection);
  const auto second = std::make_shared<SimEnd>(core, b.worker, b.number, 2 * connection + 1);
  first->other_ = second.get();
  second->other_ = first.get();
  core.ends.push_back(first);
  core.ends.push_back(second);
  return {first, second};
}

void SimEnd::post(WorkRequest* request, const std::shared_ptr<SimBatch>& batch, uint64_t arrives_ns) {
  BONSAI_CHECK(batch->left > 0);
  auto made = std::make_shared<SimRequest>();
  made->asked = *request;
  made->origin = request;
  made->batch = batch;
  made->arrives_ns = arrives_ns;
  made->bytes.resize(request->local.bytes());
  if (!open()) return finish(made, Outcome::kFlushed);
  queue_.push_back(std::move(made));
  if (next_ + 1 == queue_.size()) pump_after(arrives_ns == 0 ? core_.flight() : 0);
}

bool SimEnd::is_local(const WorkRequest& request) const {
  const auto* region = static_cast<const SimRegion*>(request.local.region());
  return region == nullptr || region->is_of(worker_->regions.get());
}

bool SimEnd::carry_out_now(WorkRequest* request) {
  const bool in_the_way = !queue_.empty() || !core_.nvms.empty() || request->verb == Verb::kFlush;
  if (in_the_way || !open() || !other_->open() || !core_.reaches(node(), other_->node()) || !is_local(*request)) {
    return false;
  }
  std::byte* const local = request->local.data();
  const size_t bytes = request->local.bytes();
  if (request->verb == Verb::kSend) {
    if (other_->worker_->inbox.deliver(number_, {local, bytes}) != Outcome::kDone) return false;
    other_->worker_->wake();
  } else {
    std::byte* target = nullptr;
    if (other_->worker_->regions->find(*request, bytes, &target) != Outcome::kDone) return false;
    if (request->verb == Verb::kWrite) {
      std::copy_n(local, bytes, target);
    } else if (request->verb == Verb::kRead) {
      std::copy_n(target, bytes, local);
    } else {
      uint64_t old = 0, changed = 0;
      std::memcpy(&old, target, sizeof old);
      if (changes_word(*request, old, &changed)) std::memcpy(target, &changed, sizeof changed);
      std::memcpy(local, &old, sizeof old);
    }
  }
  request->outcome = Outcome::kDone;
  return true;
}

void SimEnd::pump_after(uint64_t delay_ns) {
  if (pumping_) return;
  pumping_ = true;
  core_.after(delay_ns, [self = shared_from_this()] {
    self->pumping_ = false;
    self->pump();
  });
}

void SimEnd::pump() {
  BONSAI_CHECK(next_ <= queue_.size());
  if (!open() || stopped_ || writing_ || next_ == queue_.size()) return;
  const RequestPtr request = queue_[next_];
  if (request->arrives_ns > core_.now()) return pump_after(request->arrives_ns - core_.now());
  if (request->asked.fenced && next_ > 0) {  // executed() and complete_in_order() pump again
    fence_waited.hit();
    return;
  }
  if (is_ordered(request->asked.verb) && ordered_ > 0) return;
  if (core_.options.device.modelled() && is_ordered(request->asked.verb) && too_many_in_flight()) {
    request->held_back = true;  // complete_in_order() pumps again
    return;
  }
  request->begun = true;
  core_.note(SimStep::kDeliver, connection_, static_cast<uint64_t>(request->asked.verb));
  if (!is_local(request->asked)) return refuse(request, Outcome::kLocalAccess);
  // The bytes are read when the request is sent, and again at each retry, as devices do: a change of the memory before
  // the end changes the bytes that arrive.
  if (!is_ordered(request->asked.verb)) {
    std::copy_n(request->asked.local.data(), request->bytes.size(), request->bytes.data());
  }
  if (core_.chance(core_.options.error_chance)) {
    device_error.hit();
    return break_off();
  }
  if (!core_.reaches(node(), other_->node()) || core_.chance(core_.options.lost_chance)) return try_again(request);
  if (!other_->open()) {
    other_gone.hit();
    return break_off();
  }
  execute(request);
}

void SimEnd::try_again(const RequestPtr& request) {
  packet_lost.hit();
  core_.note(SimStep::kLost, connection_);
  if (++request->tries <= core_.options.retries_max) return pump_after(core_.options.retry_ns);
  never_delivered.hit();
  haunt(request);
  break_off();
}

// The last copy of a request that has ended may still be in flight.
void SimEnd::haunt(const RequestPtr& request) {
  if (!core_.chance(core_.options.ghost_chance)) return;
  const auto copy = std::make_shared<SimRequest>(*request);
  copy->finished = true;  // no list waits for it
  core_.after(core_.dice.below(core_.options.late_ns_max), [self = shared_from_this(), copy] {
    if (self->other_->closed_ || !self->core_.alive(self->other_->node())) return;
    ghost.hit();
    self->execute(copy);
  });
}

void SimEnd::refuse(const RequestPtr& request, Outcome outcome) {
  access_refused.hit();
  stopped_ = true;
  request->result = outcome;
  if (!request->finished) ++next_;
  executed(request);
}

bool SimEnd::too_many_in_flight() const {
  size_t in_flight = 0;
  for (size_t i = 0; i < next_; ++i) in_flight += is_ordered(queue_[i]->asked.verb) ? 1 : 0;
  return in_flight >= core_.options.device.ordered_per_peer_max;
}

void SimEnd::execute_timed(const RequestPtr& request, std::byte* target) {
  const Verb verb = request->asked.verb;
  if (is_ordered(verb)) {
    ++ordered_;
  } else {
    writing_ = true;
  }
  const uint64_t now = core_.now();
  const uint64_t done = served_ns(core_.options.device, other_->worker_->regions.get(), *request, target, now);
  core_.after(done - now, [self = shared_from_this(), request, target] {
    if (!self->core_.alive(self->other_->node())) return self->answer(request);
    if (is_atomic(request->asked.verb)) return self->run_atomic(request, target);
    if (request->asked.verb == Verb::kSend) {
      self->writing_ = false;
      return self->deliver_message(request);
    }
    std::byte* place = target;  // its region may be gone by now
    request->result = self->other_->worker_->regions->find(request->asked, request->bytes.size(), &place);
    if (request->result == Outcome::kDone) return self->move_bytes(request, place);
    self->stopped_ = true;
    self->executed(request);
  });
}

void SimEnd::execute(const RequestPtr& request) {
  const bool timed = core_.options.device.modelled();
  if (request->asked.verb == Verb::kSend) return timed ? execute_timed(request, nullptr) : deliver_message(request);
  const bool flush = request->asked.verb == Verb::kFlush;
  std::byte* target = nullptr;
  const size_t bytes = flush ? request->asked.operand : request->bytes.size();
  const Outcome outcome = other_->worker_->regions->find(request->asked, bytes, &target);
  if (outcome != Outcome::kDone) return refuse(request, outcome);
  if (!request->finished) ++next_;
  if (flush) {
    for (SimNvm::State* nvm : core_.nvms) {
      if (nvm->holds(target)) nvm->flushed(static_cast<size_t>(target - nvm->view.data()), bytes);
    }
    return executed(request);
  }
  if (timed) return execute_timed(request, target);
  if (request->asked.verb == Verb::kWrite) {
    if (ordered_ > 0) passed_read.hit();
    return move_bytes(request, target);
  }
  ++ordered_;
  if (request->asked.verb == Verb::kRead) {
    move_bytes(request, target);
  } else {
    core_.after(core_.dice.below(core_.options.flight_ns_max), [self = shared_from_this(), request, target] {
      if (!self->core_.alive(self->other_->node())) return self->answer(request);
      self->run_atomic(request, target);
    });
  }
  pump_after(0);  // a WRITE or SEND may overtake
}

void SimEnd::run_atomic(const RequestPtr& request, std::byte* target) {
  // The region may be gone by now.
  const Outcome outcome = other_->worker_->regions->find(request->asked, sizeof(uint64_t), &target);
  if (outcome != Outcome::kDone) {
    request->result = outcome;
    stopped_ = true;
    return executed(request);
  }
  uint64_t old = 0;
  std::memcpy(&old, target, sizeof old);
  uint64_t changed = 0;
  const bool changes = changes_word(request->asked, old, &changed);
  std::vector<std::byte> word(sizeof old);
  std::memcpy(word.data(), &changed, sizeof changed);
  SimAccess access{core_, connection_, true, target, &word, {{0, sizeof old}}};
  if (changes) access.finish();
  std::memcpy(request->bytes.data(), &old, sizeof old);
  executed(request);
}

void SimEnd::move_bytes(const RequestPtr& request, std::byte* target) {
  const bool write = request->asked.verb == Verb::kWrite;
  const size_t n = request->bytes.size();
  const std::shared_ptr<SimAccess> access(new SimAccess{core_, connection_, write, target, &request->bytes, {}});
  size_t begin = 0;
  if (n > sizeof(uint64_t) && core_.chance(core_.options.torn_chance)) {
    (write ? write_torn : read_torn).hit();
    const size_t misaligned = reinterpret_cast<uintptr_t>(target) % sizeof(uint64_t);
    for (size_t cuts = 1 + core_.dice.below(3); cuts > 0; --cuts) {
      // Between aligned words of the target.
      const size_t word = (begin + misaligned) / sizeof(uint64_t) + 1;
      const size_t words = (n + misaligned) / sizeof(uint64_t);
      if (word >= words) break;
      const size_t end = (word + core_.dice.below(words - word)) * sizeof(uint64_t) - misaligned;
      access->left.push_back({begin, end - begin});
      begin = end;
    }
  }
  access->left.push_back({begin, n - begin});
  other_->worker_->regions->watch(request->asked.remote.key, access);
  if (write) writing_ = true;  // requests after a WRITE see all of it
  take_part(request, access);
}

// Carries out one part, chosen at random, and the next a little later.
void SimEnd::take_part(const RequestPtr& request, const std::shared_ptr<SimAccess>& access) {
  if (!core_.alive(other_->node())) {
    killed_amid.hit();
    return answer(request);  // which is never sent
  }
  if (access->write && !core_.alive(node()) && core_.chance(512)) return sender_killed_amid.hit();
  if (!access->left.empty()) access->take(core_.dice.below(access->left.size()));
  if (access->left.empty()) return executed(request);
  core_.after(core_.dice.below(core_.options.flight_ns_max),
              [self = shared_from_this(), request, access] { self->take_part(request, access); });
}

void SimEnd::deliver_message(const RequestPtr& request) {
  const Outcome outcome = other_->worker_->inbox.deliver(number_, request->bytes);
  if (outcome == Outcome::kReceiverNotReady && !request->finished && ++request->tries <= core_.options.retries_max) {
    return pump_after(core_.options.retry_ns);
  }
  if (outcome == Outcome::kReceiverNotReady) rnr_given_up.hit();
  if (outcome != Outcome::kDone) return refuse(request, outcome);
  other_->worker_->wake();
  if (request->tries > 0) rnr_later_ready.hit();
  if (!request->finished) ++next_;
  executed(request);
}

void SimEnd::executed(const RequestPtr& request) {
  const bool done = request->result == Outcome::kDone;
  if (request->asked.verb == Verb::kWrite) writing_ = false;
  core_.note(SimStep::kExecuted, connection_, static_cast<uint64_t>(request->result));
  if (done && request->asked.verb != Verb::kWrite) {
    for (SimNvm::State* nvm : core_.nvms) nvm->drained(connection_);
  }
  if (request->finished) return;
  if (ordered_ > 0 && is_ordered(request->asked.verb) && request->asked.verb != Verb::kFlush) --ordered_;
  request->tries = 0;
  const uint64_t answer_ns =
      core_.flight() + sending_ns(core_.options.device, &other_->worker_->regions->stations(), *request, core_.now());
  core_.after(answer_ns, [self = shared_from_this(), request] { self->answer(request); });
  pump_after(0);
}

void SimEnd::answer(const RequestPtr& request) {
  if (!open() || request->finished) return;
  const bool heard =
      core_.reaches(other_->node(), node()) && (request->tries == 0 || core_.reaches(node(), other_->node()));
  if (heard && !core_.chance(core_.options.lost_chance)) {
    core_.note(SimStep::kAnswered, connection_);
    request->answered = true;
    return complete_in_order();
  }
  answer_lost.hit();
  if (++request->tries > core_.options.retries_max) {
    executed_unknown.hit();
    return break_off();
  }
  core_.after(core_.options.retry_ns, [self = shared_from_this(), request] {
    if (self->open() && request->asked.verb == Verb::kRead) self->reread(request);
    self->answer(request);
  });
}

// A READ whose answer was lost is executed again, on the current bytes.
void SimEnd::reread(const RequestPtr& request) {
  std::byte* target = nullptr;
  if (request->result != Outcome::kDone || !core_.reaches(node(), other_->node())) return;
  request->result = other_->worker_->regions->find(request->asked, request->bytes.size(), &target);
  if (request->result != Outcome::kDone) return;
  read_again.hit();
  std::copy_n(target, request->bytes.size(), request->bytes.data());
}

void SimEnd::complete_in_order() {
  while (!queue_.empty() && queue_.front()->answered) {
    const RequestPtr request = queue_.front();
    queue_.pop_front();
    BONSAI_INVARIANT(next_ > 0);  // only what has begun is answered (3)
    --next_;
    finish(request, request->result);
    if (request->result == Outcome::kDone) continue;
    broken_ = true;
    finish_all();
    return notify_other();
  }
  if (next_ < queue_.size() && std::exchange(queue_[next_]->held_back, false)) {
    queue_[next_]->arrives_ns = core_.now() + core_.flight();
  }
  pump_after(0);
}

void SimEnd::finish(const RequestPtr& request, Outcome outcome) {
  BONSAI_INVARIANT(!request->finished && request->batch->left > 0);  // one outcome for each (1)
  request->finished = true;
  request->origin->outcome = outcome;
  core_.note(SimStep::kFinished, connection_, static_cast<uint64_t>(outcome));
  if (outcome == Outcome::kDone && is_ordered(request->asked.verb)) {
    std::copy(request->bytes.begin(), request->bytes.end(), request->origin->local.data());
  }
  if (--request->batch->left > 0) return;
  WorkList* const list = request->batch->list;
  if (!open() || !core_.chance(core_.options.late_chance)) return worker_->complete(list);
  late_completion.hit();
  worker_->late.push_back(list);
  core_.after(core_.dice.below(core_.options.late_ns_max), [worker = worker_, list] {
    const auto found = std::find(worker->late.begin(), worker->late.end(), list);
    if (found == worker->late.end()) return;
    worker->late.erase(found);
    worker->complete(list);
  });
}

// The outcome of requests that the target may have started is unknown; the rest was never sent.
void SimEnd::finish_all() {
  while (!queue_.empty()) {
    const RequestPtr request = queue_.front();
    queue_.pop_front();
    if (!request->begun) behind_flushed.hit();
    finish(request, request->begun ? Outcome::kUnreachable : Outcome::kFlushed);
  }
  next_ = 0;
}

void SimEnd::notify_other() {
  core_.after(core_.flight(), [self = shared_from_this()] {
    if (self->core_.hears_end(self->node(), self->other_->node())) self->other_->gone_ = true;
  });
}

void SimEnd::break_off() {
  if (broken_ || closed_) return;
  broken_ = true;
  core_.note(SimStep::kFault, connection_);
  finish_all();
  notify_other();
}

void SimEnd::close() {
  closed_ = true;
  finish_all();
  for (WorkList* list : worker_->late) worker_->complete(list);
  worker_->late.clear();
  notify_other();
}

}  // namespace bonsai::rdma
