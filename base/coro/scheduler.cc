// SPDX-License-Identifier: Apache-2.0
#include "base/coro/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/coro/fiber.h"
#include "base/coro/machine.h"
#include "base/os_wait.h"

namespace bonsai::base {
namespace {

constexpr size_t kNamesReportedMax = 8;
constexpr uint64_t kSwitchesPerClockRead = 16;
constexpr uint64_t kSpinNsMax = 20 * kNsPerUs;  // waits for nearer deadlines spin
constexpr uint64_t kLookNs = kNsPerMs;          // a coroutine whose clock stands is looked at again

}  // namespace

struct Scheduler::Coroutine {
  enum class State : uint8_t { kUnused, kReady, kRunning, kWaiting };

  Coroutine(Scheduler* owner, size_t index_in_owner, const Stack& stack)
      : scheduler(owner), index(index_in_owner), fiber(stack, run_body, this) {}

  Scheduler* scheduler;
  size_t index;
  Fiber fiber;
  std::function<void()> body;
  const char* name = "";
  Machine* machine = nullptr;
  State state = State::kUnused;
  bool woken = false;        // wake() came; reset by park()
  uint64_t turn = 0;         // counts suspensions by park and wait_until
  uint64_t deadline_ns = 0;  // while waiting
};

Scheduler::Scheduler(const Options& options)
    : options_(options), random_(options.seed), world_random_(splitmix64(~options.seed)) {}

Scheduler::~Scheduler() {
  BONSAI_CHECK(running_ == nullptr);
  for (auto& coroutine : all_) {
    // An abandoned coroutine's frames may still refer to it.
    if (!coroutine->fiber.parked()) coroutine.release()->fiber.abandon();
  }
}

void Scheduler::reset(uint64_t seed) {
  BONSAI_CHECK(live_ == 0);
  options_.seed = seed;
  random_ = Random(seed);
  world_random_ = Random(splitmix64(~seed));
  behind_ns_ = 0;
  set_virtual_ns(kVirtualStartNs);
  switches_ = 0;
  timers_made_ = 0;
  timers_.clear();
  // The assignment of functions to coroutines must not depend on how earlier histories ended.
  unused_.clear();
  for (auto coroutine = all_.rbegin(); coroutine != all_.rend(); ++coroutine) unused_.push_back(coroutine->get());
}

Scheduler::Coroutine* Scheduler::unused_coroutine() {
  if (unused_.empty()) {
    // Room for all, so that no coroutine needs memory to be resumed or to end.
    if (all_.size() == all_.capacity()) all_.reserve(std::max<size_t>(16, 2 * all_.capacity()));
    unused_.reserve(all_.capacity());
    ready_.reserve(all_.capacity());
    const Stack stack = take_stack(options_.stack_bytes);
    if (stack.bottom == nullptr) return nullptr;
    all_.push_back(std::make_unique<Coroutine>(this, all_.size(), stack));
    return all_.back().get();
  }
  Coroutine* coroutine = unused_.back();
  unused_.pop_back();
  return coroutine;
}

void Scheduler::spawn(std::function<void()> body, const char* name) {
  Coroutine* coroutine = unused_coroutine();
  if (coroutine == nullptr) {
    spawn_failure_ = Status::NoSpace("no stack for coroutine number " + std::to_string(live_ + 1) +
                                     "; run fewer at once, or raise vm.max_map_count or the memory limit");
    return;
  }
  coroutine->body = std::move(body);
  coroutine->name = name;
  coroutine->machine = running_ != nullptr ? running_->machine : nullptr;
  ++live_;
  make_ready(coroutine);
}

void Scheduler::run_body(void* coroutine) noexcept {
  auto* self = static_cast<Coroutine*>(coroutine);
  self->body();
  self->body = nullptr;
  ++self->turn;
  self->state = Coroutine::State::kUnused;
  --self->scheduler->live_;
  self->scheduler->unused_.push_back(self);
}

void Scheduler::make_ready(Coroutine* coroutine) {
  coroutine->state = Coroutine::State::kReady;
  ready_.push(coroutine);
}

// Null: those that could run are of machines that are stopped.
Scheduler::Coroutine* Scheduler::pick_next() {
  if (options_.pick == Pick::kFifo) return ready_.pop();
  while (!ready_.empty()) {
    Coroutine* const next = ready_.pop_at(random_.below(ready_.size()));
    if (next->machine == nullptr || !next->machine->stopped_) {
      show_clock(*next);
      return next;
    }
    next->machine->held_.push_back(next);
  }
  return nullptr;
}

void Scheduler::yield_running() {
  pass_time();
  if (host_ == nullptr && switches_ < switches_end_) {
    if (options_.stay_per_256 != 0 && random_.chance(options_.stay_per_256, 256)) return;
    if (ready_.empty()) return;
  }
  make_ready(running_);
  if (host_ != nullptr) return running_->fiber.suspend();  // the host runs between two of our coroutines
  Coroutine* next = pick_next();
  if (next == running_ && switches_ < switches_end_) {
    next->state = Coroutine::State::kRunning;
    return;
  }
  next_ = next;
  running_->fiber.suspend();
}

void Scheduler::suspend_running() {
  running_->state = Coroutine::State::kWaiting;
  running_->fiber.suspend();
}

void Scheduler::wait_until(uint64_t deadline_ns) {
  Scheduler* scheduler = current_;
  if (scheduler == nullptr) return os_wait_until(deadline_ns);
  Coroutine* self = scheduler->running_;
  scheduler->add_timer(deadline_ns, self);
  scheduler->suspend_running();
  ++self->turn;
}

const Scheduler* Scheduler::outermost() {
  const Scheduler* scheduler = current_;
  while (scheduler != nullptr && scheduler->host_ != nullptr) scheduler = scheduler->host_;
  return scheduler;
}

uint64_t Scheduler::world_ns() {
  const Scheduler* const world = outermost();
  return world != nullptr && world->options_.pick == Pick::kSeeded ? world->virtual_ns_ : now_ns();
}

uint64_t Scheduler::machine_boot_ns() {
  const Scheduler* const world = outermost();
  const Machine* const machine = world->running_ != nullptr ? world->running_->machine : nullptr;
  if (machine == nullptr) return now_ns();
  const uint64_t boot_ns = world->virtual_ns_ - machine->stood_ns();
  const auto passed_ns = static_cast<int64_t>(boot_ns - kVirtualStartNs);
  return boot_ns + static_cast<uint64_t>(passed_ns * machine->fast_ppm_ / 1'000'000);
}

void Scheduler::enter(Machine* machine) {
  running_->machine = machine;
  show_clock(*running_);
}

void Scheduler::set_virtual_ns(uint64_t ns) {
  virtual_ns_ = ns;
  clock_ns_ = ns - behind_ns_;
}

// From now on now_ns() is that of its machine.
void Scheduler::show_clock(const Coroutine& coroutine) {
  behind_ns_ = coroutine.machine != nullptr ? coroutine.machine->behind_ns() : 0;
  clock_ns_ = virtual_ns_ - behind_ns_;
}

size_t Scheduler::number() { return current_->running_->index; }

Scheduler::Token Scheduler::token() {
  Coroutine* self = current_->running_;
  self->woken = false;
  return {self->index, self->turn};
}

bool Scheduler::park(uint64_t deadline_ns) {
  Scheduler* scheduler = current_;
  Coroutine* self = scheduler->running_;
  if (!self->woken && now_ns() < deadline_ns) {
    scheduler->add_timer(deadline_ns, self);
    scheduler->suspend_running();
  }
  ++self->turn;
  return std::exchange(self->woken, false);
}

Scheduler::Coroutine* Scheduler::waiter(const Token& token) {
  if (token.coroutine >= all_.size()) return nullptr;
  Coroutine* coroutine = all_[token.coroutine].get();
  return coroutine->turn == token.turn && coroutine->state != Coroutine::State::kUnused ? coroutine : nullptr;
}

void Scheduler::wake(const Token& token) {
  Coroutine* coroutine = waiter(token);
  if (coroutine == nullptr) return;
  coroutine->woken = true;
  if (coroutine->state == Coroutine::State::kWaiting) make_ready(coroutine);
  if (host_ != nullptr) host_->wake(host_token_);
}

namespace {

constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.deadline_ns != b.deadline_ns ? a.deadline_ns > b.deadline_ns : a.order > b.order;
};

}  // namespace

void Scheduler::add_timer(uint64_t deadline_ns, Coroutine* coroutine) {
  coroutine->deadline_ns = deadline_ns;
  if (deadline_ns == kNever) return;
  timers_.push_back({deadline_ns + behind_ns_, timers_made_++, {coroutine->index, coroutine->turn}});
  std::push_heap(timers_.begin(), timers_.end(), kLater);
}

// The earliest timer that a coroutine still waits for.
const Scheduler::Timer* Scheduler::next_timer() {
  while (!timers_.empty()) {
    const Coroutine* coroutine = waiter(timers_.front().token);
    if (coroutine != nullptr && coroutine->state == Coroutine::State::kWaiting) return &timers_.front();
    std::pop_heap(timers_.begin(), timers_.end(), kLater);
    timers_.pop_back();
  }
  return nullptr;
}

void Scheduler::wake_due_timers(uint64_t now) {
  while (!timers_.empty() && timers_.front().deadline_ns <= now) {
    Coroutine* const coroutine = waiter(timers_.front().token);
    std::pop_heap(timers_.begin(), timers_.end(), kLater);
    timers_.pop_back();
    if (coroutine == nullptr || coroutine->state != Coroutine::State::kWaiting) continue;
    if (coroutine->machine == nullptr || !wakes_early(*coroutine)) {
      make_ready(coroutine);
    } else {
      timers_.push_back({now + kLookNs, timers_made_++, {coroutine->index, coroutine->turn}});
      std::push_heap(timers_.begin(), timers_.end(), kLater);
    }
  }
}

// Its machine was suspended since it began to wait.
bool Scheduler::wakes_early(const Coroutine& coroutine) const {
  return virtual_ns_ - coroutine.machine->behind_ns() < coroutine.deadline_ns;
}

void Scheduler::pass_time() {
  ++switches_;
  if (is_virtual()) set_virtual_ns(virtual_ns_ + options_.virtual_ns_per_switch);
  if (!timers_.empty() && (virtual_now_ns != nullptr || switches_ % kSwitchesPerClockRead == 0))
    wake_due_timers(is_virtual() ? virtual_ns_ : now_ns());
}

void Scheduler::let_host_run() {
  current_ = host_;
  host_->yield_running();
  current_ = this;
}

// Waits in the host. Its other coroutines run meanwhile and may wake one of ours.
bool Scheduler::wait_in_host(uint64_t deadline_ns) {
  current_ = host_;
  host_token_ = token();
  static_cast<void>(park(std::min(deadline_ns, now_ns() + options_.idle_ms_max * kNsPerMs)));
  current_ = this;
  wake_due_timers(now_ns());
  return !ready_.empty();
}

// Called when no coroutine is runnable: waits until one is. False if none becomes runnable within the bound.
bool Scheduler::wait_for_timer() {
  const Timer* timer = next_timer();
  if (host_ != nullptr) return wait_in_host(timer == nullptr ? kNever : timer->deadline_ns);
  if (timer == nullptr) return false;
  uint64_t now = is_virtual() ? virtual_ns_ : now_ns();
  if (is_virtual()) {
    now = std::max(virtual_ns_, timer->deadline_ns);
    set_virtual_ns(now);
  } else {
    const uint64_t until_ns = std::min(timer->deadline_ns, now + options_.idle_ms_max * kNsPerMs);
    if (until_ns > now + kSpinNsMax) os_wait_until(until_ns);
    for (; now < until_ns; now = now_ns()) relax_processor();
    if (until_ns < timer->deadline_ns) return false;
  }
  wake_due_timers(now);
  return true;
}

void Scheduler::resume(Coroutine* coroutine) {
  running_ = coroutine;
  coroutine->state = Coroutine::State::kRunning;
  coroutine->fiber.resume();
  running_ = nullptr;
}

Status Scheduler::run() {
  BONSAI_CHECK(running_ == nullptr);
  Scheduler* const outer = std::exchange(current_, this);
  const uint64_t* const outer_clock = virtual_now_ns;
  Random* const outer_random = simulated_random;
  if (is_virtual()) {
    virtual_now_ns = &clock_ns_;
    simulated_random = &world_random_;
  } else {
    host_ = outer;
  }
  Status status = run_all();
  host_ = nullptr;
  simulated_random = outer_random;
  virtual_now_ns = outer_clock;
  current_ = outer;
  if (status.ok()) status = std::exchange(spawn_failure_, Status::OK());
  return status;
}

Status Scheduler::run_all() {
  switches_end_ = switches_ + std::min(options_.switches_max, UINT64_MAX - switches_);
  while (live_ != 0) {
    if (switches_ >= switches_end_) return stuck("the bound of switches is reached");
    Coroutine* next = std::exchange(next_, nullptr);
    if (next == nullptr) {
      pass_time();
      if (host_ != nullptr && !ready_.empty()) let_host_run();
      if (ready_.empty() && !wait_for_timer()) return stuck("nothing can run");
      if (ready_.empty()) continue;  // it was early
      next = pick_next();
      if (next == nullptr) continue;  // all that could run are stopped
    }
    resume(next);
  }
  return Status::OK();
}

Status Scheduler::stuck(const std::string& why) const {
  std::string message = why + ", and " + std::to_string(live_) + " coroutines have not ended:";
  size_t named = 0;
  for (const auto& coroutine : all_) {
    if (coroutine->state == Coroutine::State::kUnused) continue;
    if (++named > kNamesReportedMax) return Status::Unavailable(message + " ...");
    const bool waits = coroutine->state == Coroutine::State::kWaiting;
    message += std::string(" ") + coroutine->name + " #" + std::to_string(coroutine->index) +
               (!waits                             ? " (runnable)"
                : coroutine->deadline_ns == kNever ? " (parked)"
                                                   : " (waits for a deadline)");
  }
  return Status::Unavailable(message);
}

}  // namespace bonsai::base
