// SPDX-License-Identifier: Apache-2.0
#ifndef BONSAI_BENCH_DRIVER_MEETING_H_
#define BONSAI_BENCH_DRIVER_MEETING_H_

#include <atomic>

#include "base/check.h"
#include "base/thread.h"

namespace bonsai::bench {

// A barrier at which the threads of a phase wait for one another.
class Meeting {
 public:
  static constexpr uint64_t kMeetMsMax = 600'000;  // the slowest thread's warm-up

  explicit Meeting(unsigned threads) : missing_(threads) {}

  void arrive() {
    if (missing_.fetch_sub(1) == 1) all_here_.signal();
    for (base::BoundedWait wait("bench.start", kMeetMsMax); !open_.load(); wait.pause()) BONSAI_CHECK(!wait.expired());
  }
  // Signalled once, by the last to arrive.
  base::Event* all_here() { return &all_here_; }
  void open() { open_ = true; }

 private:
  std::atomic<unsigned> missing_;
  base::Event all_here_;
  std::atomic<bool> open_{false};
};

// The barriers and the start time of one phase.
struct Gate {
  explicit Gate(unsigned threads) : ready(threads), warm(threads), running(threads) {}

  Meeting ready;  // to warm up
  Meeting warm;
  uint64_t start_ns = 0;  // of all threads; set before `warm` opens
  std::atomic<unsigned> running;
  base::Event finished;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_MEETING_H_
