// SPDX-License-Identifier: Apache-2.0
// The start and end that all programs share.
#ifndef BONSAI_ADMIN_RUN_MAIN_H_
#define BONSAI_ADMIN_RUN_MAIN_H_

#include <functional>
#include <string_view>

namespace bonsai::admin {

// To be called first in main(); returns the exit code. Runs `work`, which returns one.
//  - The descriptors 0 to 2 exist from then on. Otherwise a file that the program or a library opens could become one
//    of them and receive the output. A descriptor that was closed can be neither read nor written.
//  - A write beyond the limit of file sizes fails, and does not end the program.
//  - An exit code of 0 becomes kExitFailed, with a message, if output could not be written.
//  - Without memory it prints a message and returns kExitFailed.
[[nodiscard]] int run_main(std::string_view name, const std::function<int()>& work);

// Flushes the output. Returns `exit`, but if that is 0 and output could not be written, prints so on standard error and
// returns `failed`.
[[nodiscard]] int end_output(std::string_view name, int exit, int failed);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_RUN_MAIN_H_
