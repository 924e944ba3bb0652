// SPDX-License-Identifier: Apache-2.0
// The `operator new` of a test program whose allocations fail when they are told to. The program's sources include
// failing_new.cc. Thread-safety: any.
#ifndef BONSAI_TESTING_FAILING_NEW_H_
#define BONSAI_TESTING_FAILING_NEW_H_

#include <cstdint>

namespace bonsai::testing {

// So many allocations of this process succeed from now on, then one fails, and all that follow succeed.
// Requires: succeeding >= 0.
void fail_allocation_after(int64_t succeeding);
// None fails from now on. Returns whether one has failed since the last call of fail_allocation_after().
[[nodiscard]] bool end_failing_allocations();

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_FAILING_NEW_H_
