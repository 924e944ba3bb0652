// SPDX-License-Identifier: Apache-2.0
// The times at which the operations of one thread are due, interval by interval: the throughput control of MELT.
//
// All intervals of all threads are equally long. In each, a thread carries out the operations that are due by its end,
// at once, and sleeps for the rest. The end of an interval does not depend on when the thread began it, so intervals do
// not drift. The intervals of n threads are offset by an n-th of an interval, so that the threads do not all begin at
// the same time; for that, the first interval of each thread but the first is shorter.
//
// MELT rounds the operations of an interval down. Here the fraction that is left over is due in the next interval, so
// the rate is the requested one.
#ifndef BONSAI_BENCH_DRIVER_PACE_H_
#define BONSAI_BENCH_DRIVER_PACE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace bonsai::bench {

// A value type. Units: nanoseconds since the start of the phase, which is that of all its threads.
class IntervalPace {
 public:
  // Requires: ops_per_s > 0, over all threads; interval_ns > 0; thread < threads.
  IntervalPace(double ops_per_s, uint64_t interval_ns, unsigned thread, unsigned threads)
      : ops_per_ns_(ops_per_s / threads * 1e-9),
        interval_ns_(interval_ns),
        first_end_ns_(thread == 0 ? interval_ns : interval_ns * thread / threads) {}

  // When the interval ends.
  [[nodiscard]] uint64_t end_of(uint64_t interval) const { return first_end_ns_ + interval * interval_ns_; }
  // Operations that are due by then.
  [[nodiscard]] uint64_t due_by(uint64_t ns) const {
    return static_cast<uint64_t>(ops_per_ns_ * static_cast<double>(ns) + kRounding);
  }
  // When the first `operations` are all due.
  [[nodiscard]] uint64_t time_of(uint64_t operations) const {
    return static_cast<uint64_t>(std::ceil(static_cast<double>(operations) / ops_per_ns_));
  }

 private:
  static constexpr double kRounding = 1e-6;  // so that the time of the n-th operation has n due

  double ops_per_ns_;
  uint64_t interval_ns_;
  uint64_t first_end_ns_;
};

// Selects the operations of an interval that are timed: `samples` of them, evenly spread, or all if there are fewer.
class SampleChoice {
 public:
  SampleChoice(uint64_t operations, uint64_t samples)
      : operations_(operations), samples_(std::min(operations, samples)), next_(place(0)) {}

  // Called for each operation of the interval, in order.
  [[nodiscard]] bool takes(uint64_t operation) {
    if (chosen_ == samples_ || operation != next_) return false;
    next_ = place(++chosen_);
    return true;
  }

 private:
  // In the middle of its share of the interval: the first one, after a sleep, stands for no other.
  [[nodiscard]] uint64_t place(uint64_t sample) const {
    return samples_ == 0 ? 0 : (2 * sample + 1) * operations_ / (2 * samples_);
  }

  uint64_t operations_;
  uint64_t samples_;
  uint64_t chosen_ = 0;
  uint64_t next_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_PACE_H_
