// SPDX-License-Identifier: Apache-2.0
// Fuzzes the command line of `bonsai-bench fabric`: any words are refused with a remedy, or give a request within its
// bounds.
#include <gflags/gflags.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "bench/cli/flag_reader.h"
#include "bench/studies/commands/requests.h"

namespace bonsai::bench {
namespace {

void run(std::string_view input) {
  const google::FlagSaver saver;
  FabricRequest fabric;
  Status status = read_flags(split(std::string(input), '\n'));
  if (status.ok()) status = fabric_of_flags(&fabric);
  if (status.ok()) {
    BONSAI_CHECK(!fabric_cells(fabric.config.grid).empty() && fabric.config.runs >= 1);
  } else {
    BONSAI_CHECK(!status.message().empty());
  }
}

std::vector<std::string> seeds() {
  return {"--providers=shm,sim\n--sizes=8,64\n--batches=1,32\n--depths=1,64\n--waits=block\n--peer=a:1\n--serve=/b/c",
          "--peer=10.0.0.2:7000\n--requests=read,cas\n--repeat=3\n--cell-ms\n20\n--perftest=false\n--once\n--out=x"};
}

const testing::FuzzRegistration flags("bench_study_flags", run, seeds);

}  // namespace
}  // namespace bonsai::bench
