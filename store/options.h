// SPDX-License-Identifier: Apache-2.0
// First and last steps of every function of the public interface: options are checked before anything is touched, and
// exhausted memory becomes a status.
#ifndef BONSAI_STORE_OPTIONS_H_
#define BONSAI_STORE_OPTIONS_H_

#include "base/with_memory.h"
#include "bonsai/testing.h"

namespace bonsai::store {

// Checks that each option is inside its bounds. Errors: InvalidArgument, which names the option and its bounds.
Status check_bounds(const Options& options);
Status check_bounds(const TestOptions& options);
// Checks the options of a copy, whose pool_bytes of 0 leaves the size to the copy.
Status check_bounds_of_copy(const Options& options);

using base::made_or_null;
using base::with_memory;

}  // namespace bonsai::store

#endif  // BONSAI_STORE_OPTIONS_H_
