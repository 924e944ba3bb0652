// SPDX-License-Identifier: Apache-2.0
// The end of what a program prints.
#ifndef BONSAI_ADMIN_OUTPUT_H_
#define BONSAI_ADMIN_OUTPUT_H_

namespace bonsai::admin {

// Makes sure that all that was printed has arrived. Returns `exit`, the code with which the program is about to end. If
// that is 0 and something has not arrived, says so on standard error and returns `failed`.
[[nodiscard]] int end_output(const char* program, int exit, int failed);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_OUTPUT_H_
