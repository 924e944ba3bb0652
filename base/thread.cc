// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/os_wait.h"

namespace bonsai::base {
namespace {

// The first sleeps take 1 us, so that a round trip is not overslept; then each is twice as long.
constexpr uint32_t kShortNaps = 8, kDoublingNaps = 4;

uint64_t nap_us(uint32_t number) {
  if (number < kShortNaps) return 1;
  number -= kShortNaps - 1;
  if (number <= kDoublingNaps) return uint64_t{1} << number;
  return std::min<uint64_t>(20 * uint64_t{number - kDoublingNaps}, 1000);
}

// Ordinals in use. Never destroyed, because threads may outlive static destruction.
class OrdinalTable {
 public:
  static OrdinalTable& instance() {
    static auto* table = new OrdinalTable;
    return *table;
  }

  uint32_t take() {
    std::lock_guard lock(mutex_);
    const auto free = std::find(used_.begin(), used_.end(), false);
    const auto ordinal = static_cast<uint32_t>(free - used_.begin());
    if (free == used_.end()) used_.push_back(true);
    used_[ordinal] = true;
    return ordinal;
  }

  void give_back(uint32_t ordinal) {
    std::lock_guard lock(mutex_);
    used_[ordinal] = false;
  }

 private:
  std::mutex mutex_;
  std::vector<bool> used_;
};

struct OrdinalHolder {
  uint32_t ordinal = OrdinalTable::instance().take();
  ~OrdinalHolder() { OrdinalTable::instance().give_back(ordinal); }
};

}  // namespace

uint32_t detail::assign_thread_ordinal() {
  static thread_local OrdinalHolder holder;
  ordinal_of_thread = holder.ordinal;
  return holder.ordinal;
}

unsigned processors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : 1;
}

void for_each_on(unsigned threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex thrown_mutex;
  std::exception_ptr thrown;  // the first
  const auto run = [&] {
    try {
      for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
    } catch (...) {
      next.store(count);
      const std::lock_guard lock(thrown_mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<Thread> helpers;
    helpers.reserve(std::min<size_t>(threads, count));
    for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) {
      Thread helper;
      if (!Thread::start("bonsai-each", run, &helper).ok()) break;
      helpers.push_back(std::move(helper));
    }
    run();
  }
  if (thrown) std::rethrow_exception(thrown);
}

Status pin_thread(unsigned index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return Status::NotSupported(
        "the system does not report which processors this thread may run on; run without pinning");
  }
  unsigned left = index % static_cast<unsigned>(CPU_COUNT(&allowed));
  size_t processor = 0;
  while (!CPU_ISSET(processor, &allowed) || left-- > 0) ++processor;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  if (sched_setaffinity(0, sizeof(one), &one) == 0) return Status::OK();
  return Status::NotSupported("the system refuses to bind a thread to a processor; run without pinning");
}

// A thread that is a coroutine.
struct Thread::Simulated {
  std::string name;
  std::function<void()> body;
  bool ended = false;
  Scheduler::Token joiner;
};

// A thread that waits for its body.
struct Thread::Reserved {
  std::string name;
  Event given;
  std::function<void()> body;  // if it is still empty after the wait, the thread ends
};

namespace {

Scheduler* virtual_scheduler() {
  Scheduler* const scheduler = Scheduler::current();
  return scheduler != nullptr && scheduler->is_virtual() ? scheduler : nullptr;
}

bool is_granted() {
  int64_t left = threads_granted_for_test.load(std::memory_order_relaxed);
  while (left > 0 && !threads_granted_for_test.compare_exchange_weak(left, left - 1)) {
  }
  return left != 0;
}

Status refused(const std::string& name, const std::string& why) {
  return Status::NoSpace("the system gives no thread for " + name + " (" + why +
                         "); raise the limit of processes (ulimit -u, the pids limit of the container) or of memory " +
                         "(ulimit -v), or ask for fewer threads");
}

Status make_thread(std::string name, std::function<void()> body, std::thread* thread) {
  if (!is_granted()) return refused(name, "a test refuses it");
  try {
    *thread = std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
      body();
    });
    return Status::OK();
  } catch (const std::system_error& error) {
    return refused(name, error.code().message());
  } catch (const std::bad_alloc&) {
    return refused(name, "no memory");
  }
}

}  // namespace

Status Thread::start(std::string name, std::function<void()> body, Thread* thread) {
  Thread made;
  if (Scheduler* const scheduler = virtual_scheduler(); scheduler != nullptr) {
    made.simulated_ = std::make_shared<Simulated>(Simulated{std::move(name), std::move(body), false, {}});
    scheduler->spawn(
        [self = made.simulated_, scheduler] {
          std::exchange(self->body, nullptr)();
          self->ended = true;
          scheduler->wake(self->joiner);
        },
        made.simulated_->name.c_str());
  } else if (const Status status = make_thread(std::move(name), std::move(body), &made.thread_); !status.ok()) {
    return status;
  }
  *thread = std::move(made);
  return Status::OK();
}

Thread::Thread(std::string name, std::function<void()> body) {
  BONSAI_CHECK(start(std::move(name), std::move(body), this).ok());
}

Status Thread::reserve(std::string name, Thread* thread) {
  Thread made;
  made.reserved_ = std::make_shared<Reserved>();
  made.reserved_->name = name;
  if (virtual_scheduler() == nullptr) {  // a virtual scheduler always has coroutines
    const auto wait = [reserved = made.reserved_] {
      while (!reserved->given.wait_for(kUnboundedMs)) {
      }
      if (reserved->body) std::exchange(reserved->body, nullptr)();
    };
    const Status status = make_thread(std::move(name), wait, &made.thread_);
    if (!status.ok()) return status;
  }
  *thread = std::move(made);
  return Status::OK();
}

void Thread::begin(std::function<void()> body) {
  BONSAI_CHECK(reserved_ != nullptr);
  const std::shared_ptr<Reserved> reserved = std::exchange(reserved_, nullptr);
  if (!thread_.joinable()) return static_cast<void>(start(reserved->name, std::move(body), this));
  reserved->body = std::move(body);
  reserved->given.signal();
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    join();
    thread_ = std::move(other.thread_);
    simulated_ = std::move(other.simulated_);
    reserved_ = std::move(other.reserved_);
  }
  return *this;
}

void Thread::join() {
  if (const std::shared_ptr<Reserved> waiting = std::exchange(reserved_, nullptr)) waiting->given.signal();
  if (thread_.joinable()) thread_.join();
  if (simulated_ == nullptr) return;
  while (!simulated_->ended) {
    BONSAI_CHECK(Scheduler::current() != nullptr);  // only a coroutine can wait for a coroutine
    simulated_->joiner = Scheduler::token();
    static_cast<void>(Scheduler::park());
  }
  simulated_.reset();
}

bool wait_on(std::condition_variable* changed, std::unique_lock<std::mutex>* lock, uint64_t limit_ms,
             const std::function<bool()>& condition) {
  constexpr uint64_t kStepMsMax = 100;
  bool may_go_on = true;
  for (uint64_t left_ms = limit_ms; left_ms > 0;) {
    const uint64_t step_ms = std::min(left_ms, kStepMsMax), begin_ns = now_ns();
    if (changed->wait_for(*lock, std::chrono::milliseconds(step_ms), condition)) return true;
    left_ms -= step_ms;
    // Woken far too late, as after a stop: the thread that would make the condition true has not run either.
    const bool late = now_ns() - begin_ns > 2 * step_ms * kNsPerMs;
    if (left_ms == 0 && late && std::exchange(may_go_on, false)) left_ms = step_ms;
  }
  return condition();
}

void Event::signal() {
  {
    std::lock_guard lock(mutex_);
    set_ = true;
  }
  signalled_.notify_one();
}

bool Event::take() { return std::exchange(set_, false); }

bool Event::wait_for(uint64_t limit_ms) {
  std::unique_lock lock(mutex_);
  if (Scheduler::current() == nullptr) {
    static_cast<void>(wait_on(&signalled_, &lock, limit_ms, [this] { return set_; }));
    return take();
  }
  for (BoundedWait wait("event", limit_ms); !set_ && !wait.expired();) {
    lock.unlock();
    wait.pause();
    lock.lock();
  }
  return take();
}

void wait_closely_until(uint64_t deadline_ns) {
  if (Scheduler::current() != nullptr) return Scheduler::wait_until(deadline_ns);
  wait_politely_until(deadline_ns);
}

void yield_until(uint64_t deadline_ns) {
  constexpr uint64_t kSpinNs = 2 * kNsPerUs;
  if (Scheduler::current() != nullptr) return Scheduler::wait_until(deadline_ns);
  const uint64_t begin_ns = now_ns();
  for (uint64_t now = begin_ns; now < deadline_ns; now = now_ns()) {
    if (now - begin_ns >= kSpinNs) sched_yield();
  }
}

void sleep_ms(uint64_t ms) { Scheduler::wait_until(now_ns() + ms * kNsPerMs); }

void sleep_us(uint64_t us) { Scheduler::wait_until(now_ns() + us * kNsPerUs); }

void sleep_until(uint64_t deadline_ns) { Scheduler::wait_until(deadline_ns); }

void wake_exactly() { static_cast<void>(prctl(PR_SET_TIMERSLACK, 1)); }

void yield_thread() {
  if (Scheduler::current() != nullptr) return Scheduler::yield();
  sched_yield();
}

bool BoundedWait::expired() {
  const bool was_over = over_;
  over_ = was_over || (counted_to_ns_ != 0 && passed_ns(now_ns()) >= limit_ms_ * kNsPerMs);
  return was_over;
}

uint64_t BoundedWait::passed_ns(uint64_t now) const {
  const uint64_t step_ns_max = std::min(kStepNsMax, limit_ms_ * (kNsPerMs / 8) + 1);
  return counted_to_ns_ == 0 ? 0 : counted_ns_ + std::min(now - counted_to_ns_, step_ns_max);
}

uint64_t BoundedWait::watch_ns() {
  const uint64_t now = now_ns();
  const uint64_t step_ns_max = std::min(kWatchStepNsMax, std::max<uint64_t>(limit_ms_ / 4, 1) * kNsPerMs);
  if (counted_to_ns_ != 0) counted_ns_ += std::min(now - counted_to_ns_, step_ns_max);
  counted_to_ns_ = now;
  return counted_ns_;
}

void BoundedWait::pause() {
  if (over_) return yield_thread();
  if (++pauses_ > kSpins) return pause_slowly();
  if (Scheduler::current() != nullptr) return Scheduler::yield();
  relax_processor();
}

void BoundedWait::pause_slowly() {
  const uint64_t now = now_ns();
  counted_ns_ = passed_ns(now);
  counted_to_ns_ = now;
  if (pauses_ <= kSpins + kYields) return yield_thread();
  const uint64_t nap_ns = nap_us(pauses_ - kSpins - kYields - 1) * kNsPerUs;
  const uint64_t left_ns = limit_ms_ * kNsPerMs - std::min(counted_ns_, limit_ms_ * kNsPerMs);
  Scheduler::wait_until(now + std::min(nap_ns, left_ns));
}

void YieldingMutex::lock() {
  BoundedWait wait(name_, kUnboundedMs);
  while (!try_lock()) wait.pause();
}

Status BoundedWait::status() const {
  return Status::Unavailable(std::string("the wait '") + name_ + "' exceeded its limit of " +
                             std::to_string(limit_ms_) + " ms; retry, and if it persists look for a stuck thread");
}

}  // namespace bonsai::base
