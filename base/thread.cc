#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace bonsai::base {
namespace {

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

void sleep_until_ns(uint64_t deadline_ns) {
  const timespec deadline{static_cast<time_t>(deadline_ns / kNsPerSecond),
                          static_cast<long>(deadline_ns % kNsPerSecond)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

void relax_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace

uint32_t detail::assign_thread_ordinal() {
  static thread_local OrdinalHolder holder;
  ordinal_of_thread = holder.ordinal;
  return holder.ordinal;
}

Thread::Thread(std::string name, std::function<void()> body)
    : thread_([name = std::move(name), body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body();
      }) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    join();
    thread_ = std::move(other.thread_);
  }
  return *this;
}

void Thread::join() {
  if (thread_.joinable()) thread_.join();
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
  signalled_.wait_for(lock, std::chrono::milliseconds(limit_ms), [this] { return set_; });
  return take();
}

void sleep_ms(uint64_t ms) { sleep_until_ns(now_ns() + ms * kNsPerMs); }

void yield_thread() { sched_yield(); }

bool BoundedWait::expired() const { return start_ns_ != 0 && now_ns() - start_ns_ >= limit_ms_ * kNsPerMs; }

void BoundedWait::pause() {
  ++pauses_;
  if (pauses_ <= kSpins) return relax_processor();
  pause_slowly();
}

void BoundedWait::pause_slowly() {
  const uint64_t now = now_ns();
  if (start_ns_ == 0) start_ns_ = std::max<uint64_t>(now, 1);
  if (pauses_ <= kSpins + kYields) return yield_thread();
  const uint64_t sleep_us = std::min<uint64_t>(20 * (pauses_ - kSpins - kYields), 1000);
  const uint64_t end_ns = start_ns_ + limit_ms_ * kNsPerMs;
  sleep_until_ns(std::min(now + sleep_us * kNsPerUs, std::max(end_ns, now)));
}

Status BoundedWait::status() const {
  return Status::Unavailable(std::string("the wait '") + name_ + "' exceeded its limit of " +
                             std::to_string(limit_ms_) + " ms; retry, and if it persists look for a stuck thread");
}

}  // namespace bonsai::base
