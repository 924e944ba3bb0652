// SPDX-License-Identifier: Apache-2.0
// Waits for a list of reads that has begun.
#ifndef BONSAI_SCALE_AWAIT_READ_H_
#define BONSAI_SCALE_AWAIT_READ_H_

#include <cstdint>

#include "base/thread.h"
#include "bonsai/status.h"

namespace bonsai::scale {

// Waits until the list has ended, and returns its status. When the wait has expired the list is forgotten, and the
// status is the wait's. `reads`: a base::FarReads or a ReadLanes. Lets siblings run.
template <class Reads>
[[nodiscard]] Status await_read(Reads* reads, uint64_t ticket, base::BoundedWait* wait) {
  Status status;
  for (; !reads->ended(ticket, &status); wait->pause()) {
    if (!wait->expired()) continue;
    reads->forget(ticket);
    return wait->status();
  }
  return status;
}

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_AWAIT_READ_H_
