// SPDX-License-Identifier: Apache-2.0
// Any words as the command line of `bonsai-bench run`: refused with a remedy, or a request within its bounds.
#include <gflags/gflags.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/flags.h"

namespace bonsai::bench {
namespace {

void run(std::string_view input) {
  const std::string text(input);
  // A file that has no end is read to its bound, which takes long; a terminal is not read at all.
  if (text.find("/dev") != std::string::npos || text.find("/proc") != std::string::npos) return;
  std::vector<std::string> words;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    words.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  const google::FlagSaver saver;
  RunRequest request;
  Status status = read_flags(words);
  if (status.ok()) status = request_of_flags(&request);
  if (!status.ok()) {
    BONSAI_CHECK(!status.message().empty());
    return;
  }
  const RunConfig& config = request.config;
  BONSAI_CHECK(config.records >= 1 && config.operations >= 1 && config.threads >= 1 && config.depth >= 1);
  BONSAI_CHECK(config.target_ops_per_s >= 0 && request.repeat >= 1);
  BONSAI_CHECK(config.latency_every == 1 || config.latency_every == kLatencySampled);
  BONSAI_CHECK(!request.engines.empty() && !request.steps.empty() && !config.out_dir.empty());
  BONSAI_CHECK(flag_values().count("records") == 1);
}

std::vector<std::string> seeds() {
  return {"--records=100\n--operations\n50\n--threads=2\n--depth=4\n--seed=7\n--engines=dummy\n--workloads=load,a,e",
          "-P\nconf/workloads/workloada\n-p\nrecordcount=10\n-p\noperationcount=20\n-threads\n2\n-target\n100\n-s",
          "--key=string\n--value-bytes=file\n--durability=buffered\n--draw=live\n--latency=all\n--pin\n--repeat=3",
          "--warmup=10\n--draw=ahead\n--latency=sampled\n--key=fixed8\n--value_bytes=0\n--text=table\n--out=x",
          "--workload-dir=conf/workloads\n--workloads=c,workloadd\n-p\nrequestdistribution=plain_zipf\n--engines=,"};
}

const testing::FuzzRegistration flags("bench_flags", run, seeds);

}  // namespace
}  // namespace bonsai::bench
