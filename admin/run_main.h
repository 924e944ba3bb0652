// SPDX-License-Identifier: Apache-2.0
// What every program does around its work.
#ifndef BONSAI_ADMIN_RUN_MAIN_H_
#define BONSAI_ADMIN_RUN_MAIN_H_

#include <functional>
#include <string_view>

namespace bonsai::admin {

// To be called first in main(); returns the exit code. Runs `work`, which returns one.
//  - The descriptors 0 to 2 exist from then on, so that nothing that the program or a library opens becomes one of them
//    and gets what is printed. Those that were closed can neither be read nor written.
//  - A write beyond the limit of file sizes fails, and does not end the program.
//  - An exit code of 0 becomes kExitFailed, with a message, if what was printed has not arrived.
//  - Memory that has run out is a message and kExitFailed.
[[nodiscard]] int run_main(std::string_view name, const std::function<int()>& work);

// Makes sure that all that was printed has arrived. Returns `exit`. If that is 0 and something has not arrived, says so
// on standard error and returns `failed`.
[[nodiscard]] int end_output(std::string_view name, int exit, int failed);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_RUN_MAIN_H_
