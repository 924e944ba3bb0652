// SPDX-License-Identifier: Apache-2.0
// Work in a child process. The program goes on when the child ends by a signal, for example in a library's assertion.
// The child has a copy of the program's memory as it is when the work begins.
#ifndef BONSAI_BENCH_DRIVER_APART_H_
#define BONSAI_BENCH_DRIVER_APART_H_

#include <atomic>
#include <functional>
#include <string_view>

#include "bonsai/status.h"

namespace bonsai::bench {

// Sends whole messages from the child to the program, in order. Thread-safety: one caller at a time.
using Send = std::function<void(std::string_view message)>;

// Gets each message of the child. When it returns an error the child is killed.
using Receive = std::function<Status(std::string_view message)>;

// Carries out `work` in a child process and returns what it returned. When `stop` becomes true the child gets SIGTERM,
// as it does when this process ends: the program's handler sets the child's own copy of `stop`. No message is received
// after `stop`, even if the child had sent it before. A child that ends by a signal leaves what it had made outside its
// memory.
//   Requires: the caller is the only thread of the process. `work` returns soon after its `stop` is true.
//   Errors: those of `work` and of `receive`; IoError (no child can be made); Unavailable (it ended by a signal, which
//   the message names; it was silent for kSilentMsMax, or went on for kStopMsMax after `stop`; `stop` is true, so that
//   messages may be missing, and `work` has returned no error).
[[nodiscard]] Status run_apart(const std::function<Status(const Send& send)>& work, const Receive& receive,
                               const std::atomic<bool>& stop);

inline constexpr uint64_t kSilentMsMax = 24 * 3'600'000;
inline constexpr uint64_t kStopMsMax = 300'000;

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_APART_H_
