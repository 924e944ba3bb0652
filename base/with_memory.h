// SPDX-License-Identifier: Apache-2.0
// Where exhausted memory becomes a status: at the entries of the public interface, and at the tops of threads.
#ifndef BONSAI_BASE_WITH_MEMORY_H_
#define BONSAI_BASE_WITH_MEMORY_H_

#include <new>
#include <utility>

#include "base/memory.h"
#include "bonsai/status.h"

namespace bonsai::base {

// Runs `body`, which returns a Status. Errors: its own; out_of_memory() when it found no memory. Requires: then it
// leaves nothing half done.
template <class Body>
Status with_memory(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    memory_ran_out();
    return out_of_memory();
  }
}

// What `make` returns, a pointer; null when it found no memory.
template <class Make>
auto made_or_null(Make&& make) -> decltype(make()) {
  decltype(make()) made;
  static_cast<void>(with_memory([&] {
    made = std::forward<Make>(make)();
    return Status::OK();
  }));
  return made;
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_WITH_MEMORY_H_
