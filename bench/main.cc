// SPDX-License-Identifier: Apache-2.0
// bonsai-bench: its commands are those that are linked (bench/cli/command.h).
#include <string>
#include <vector>

#include "admin/log_sink.h"
#include "admin/run_main.h"
#include "bench/cli/command.h"

int main(int argc, char** argv) {
  return bonsai::admin::run_main("bonsai-bench", [argc, argv] {
    bonsai::admin::start_log(argv[0]);
    const int exit = bonsai::bench::run_command(std::vector<std::string>(argv + 1, argv + argc));
    return bonsai::admin::end_output("bonsai-bench", exit, bonsai::bench::kExitFailures);
  });
}
