// SPDX-License-Identifier: Apache-2.0
// Fuzzes the command lines of the experiment `fabric` and of its far side: any words are refused with a remedy, or give
// a request within its bounds.
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
  const Status status = read_flags(split(std::string(input), '\n'));
  FabricConfig config;
  ServeRequest request;
  const Status near = status.ok() ? fabric_of_flags(&config) : status;
  const Status far = status.ok() ? serve_of_flags(&request) : status;
  BONSAI_CHECK(near.ok() || !near.message().empty());
  BONSAI_CHECK(far.ok() || !far.message().empty());
  BONSAI_CHECK(!near.ok() || (!fabric_cells(config.grid).empty() && config.runs >= 1));
  BONSAI_CHECK(!far.ok() || request.address.provider != nullptr);
  BONSAI_CHECK(!near.ok() || !far.ok());  // a command line is for one end
}

std::vector<std::string> seeds() {
  return {"--providers=shm,sim\n--sizes=8,64\n--batches=1,32\n--depths=1,64\n--waits=block\n--peer=a:1\n--serve=/b/c",
          "--peer=10.0.0.2:7000\n--requests=read,cas\n--repeat=3\n--cell-ms\n20\n--perftest=false\n--once\n--out=x"};
}

const testing::FuzzRegistration flags("bench_study_flags", run, seeds);

}  // namespace
}  // namespace bonsai::bench
