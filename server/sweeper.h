// SPDX-License-Identifier: Apache-2.0
// Gives the space of expired keys back. It walks the pool in the order of keys, a bounded number of records and bytes
// at a time, and removes what has expired if it is still what it saw. It rests while a whole walk has found no deadline
// and the server has written none.
#ifndef BONSAI_SERVER_SWEEPER_H_
#define BONSAI_SERVER_SWEEPER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/thread.h"
#include "bonsai/status.h"
#include "server/state.h"

namespace bonsai::server {

// Thread-safety: one thread.
class Sweep {
 public:
  static constexpr uint64_t kStepRecords = 4'096;
  static constexpr uint64_t kStepBytes = uint64_t{1} << 20;

  // Requires: *state outlives it.
  explicit Sweep(State* state) : state_(*state) {}

  // Goes on, unless it rests. Errors: as DB::Scan and DB::DeleteIf; the next step goes on behind.
  Status step();
  [[nodiscard]] bool rests() const { return rests_ && state_.deadlines.load() == deadlines_; }

 private:
  State& state_;
  std::string after_;       // the last key of the step before; empty: a walk begins
  bool found_ = false;      // a deadline, in this walk
  uint64_t deadlines_ = 0;  // that were written when it began
  bool rests_ = false;
};

// A thread that sweeps.
class Sweeper {
 public:
  // `pause_ms`: between steps; 0: there is no thread. Errors: NoSpace (no further thread).
  static Status start(State* state, uint32_t pause_ms, std::unique_ptr<Sweeper>* sweeper);
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;
  ~Sweeper();

 private:
  Sweeper(State* state, uint32_t pause_ms) : sweep_(state), state_(*state), pause_ms_(pause_ms) {}
  void run();

  Sweep sweep_;
  State& state_;
  const uint32_t pause_ms_;
  base::Event stop_;
  base::Thread thread_;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_SWEEPER_H_
