// SPDX-License-Identifier: Apache-2.0
// Measures how long this process could run, for tests with a time limit. A suspended machine or a stopped process then
// fails no test.
#ifndef BONSAI_BASE_TESTING_RUNNING_TIME_H_
#define BONSAI_BASE_TESTING_RUNNING_TIME_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/thread.h"

namespace bonsai::testing {

// Counts while it lives, on its own thread, which wakes every 5 ms. Between two wakes it counts at most as much time as
// a BoundedWait counts between two pauses. Thread-safety: any.
class RunningTime {
 public:
  RunningTime()
      : ticks_("running-time", [this] {
          for (uint64_t last_ns = base::now_ns(); !stop_.load();) {
            base::sleep_ms(5);
            const uint64_t now_ns = base::now_ns();
            ns_.fetch_add(std::min(now_ns - last_ns, base::BoundedWait::kStepNsMax));
            last_ns = now_ns;
          }
        }) {}
  ~RunningTime() {
    stop_.store(true);
    ticks_.join();
  }
  RunningTime(const RunningTime&) = delete;
  RunningTime& operator=(const RunningTime&) = delete;

  [[nodiscard]] uint64_t ms() const { return ns_.load() / base::kNsPerMs; }

 private:
  std::atomic<uint64_t> ns_{0};
  std::atomic<bool> stop_{false};
  base::Thread ticks_;
};

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_RUNNING_TIME_H_
