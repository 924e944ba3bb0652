// SPDX-License-Identifier: Apache-2.0
// bonsai-bench: its commands are those that are linked (bench/cli/command.h).
#include <string>
#include <vector>

#include "admin/log_sink.h"
#include "bench/cli/command.h"

int main(int argc, char** argv) {
  bonsai::admin::start_log(argv[0]);
  return bonsai::bench::run_command(std::vector<std::string>(argv + 1, argv + argc));
}
