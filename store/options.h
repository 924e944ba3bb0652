// SPDX-License-Identifier: Apache-2.0
// First and last steps of every function of the public interface: options are checked before anything is touched, and
// exhausted memory becomes a status.
#ifndef BONSAI_STORE_OPTIONS_H_
#define BONSAI_STORE_OPTIONS_H_

#include <new>
#include <utility>

#include "base/memory.h"
#include "bonsai/testing.h"

namespace bonsai::store {

// Checks that each option is inside its bounds. Errors: InvalidArgument, which names the option and its bounds.
Status check_bounds(const Options& options);
Status check_bounds(const TestOptions& options);
// Checks the options of a copy, whose pool_bytes of 0 leaves the size to the copy.
Status check_bounds_of_copy(const Options& options);

// Runs `body`, which returns a Status. Errors: its own; NoSpace when it found no memory. Requires: then it leaves
// nothing half done.
template <class Body>
Status with_memory(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    base::memory_ran_out();
    return base::out_of_memory();
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

}  // namespace bonsai::store

#endif  // BONSAI_STORE_OPTIONS_H_
