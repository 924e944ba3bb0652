// SPDX-License-Identifier: Apache-2.0
// The wait of a client after a compare-and-swap that it lost, so that clients of one word disturb each other less: the
// same policy for all rivals, truncated exponential backoff. Only SMART's RACE is published with one, so it is off by
// default.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_BACKOFF_H_
#define BONSAI_BENCH_STUDIES_RIVALS_BACKOFF_H_

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "bench/studies/rivals/connection.h"

namespace bonsai::bench::rivals {

// The backoff of one client. Thread-safety: the connection's thread.
class Backoff {
 public:
  static constexpr uint64_t kBaseNs = 1'700;  // published: 4,096 cycles
  static constexpr unsigned kDoublingsMax = 10;

  explicit Backoff(Connection* connection)
      : base_ns_(connection->backoff_ns()),
        random_(base::splitmix64(uint64_t{connection->number()} << 32 | connection->next_client())) {}

  // After one that was lost: waits, at random for up to the connection's backoff_ns, twice that after the next in a
  // row, and so on. The thread's other coroutines run meanwhile.
  void after(bool won) {
    if (won) doublings_ = 0;
    if (won || base_ns_ == 0) return;
    const uint64_t ns_max = base_ns_ << doublings_;
    doublings_ = std::min(doublings_ + 1, kDoublingsMax);
    base::yield_until(base::now_ns() + random_.below(ns_max) + 1);
  }

 private:
  const uint64_t base_ns_;  // 0: none
  unsigned doublings_ = 0;
  base::Random random_;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_BACKOFF_H_
