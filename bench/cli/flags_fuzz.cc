// Any words as the command line of `bonsai-bench run`: refused with a remedy, or a request within its bounds.
#include <gflags/gflags.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bench/cli/flags.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  // A file that has no end is read to its bound, which takes long; a terminal is not read at all.
  if (text.find("/dev") != std::string::npos || text.find("/proc") != std::string::npos) return 0;
  std::vector<std::string> words;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    words.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  const google::FlagSaver saver;
  bonsai::bench::RunRequest request;
  bonsai::Status status = bonsai::bench::read_flags(words);
  if (status.ok()) status = bonsai::bench::request_of_flags(&request);
  if (!status.ok()) {
    BONSAI_CHECK(!status.message().empty());
    return 0;
  }
  bonsai::bench::FabricRequest fabric;
  if (status = bonsai::bench::fabric_of_flags(&fabric); status.ok()) {
    BONSAI_CHECK(!bonsai::bench::fabric_cells(fabric.config.grid).empty() && fabric.config.runs >= 1);
  } else {
    BONSAI_CHECK(!status.message().empty());
  }
  const bonsai::bench::RunConfig& config = request.config;
  BONSAI_CHECK(config.records >= 1 && config.operations >= 1 && config.threads >= 1 && config.depth >= 1);
  BONSAI_CHECK(config.target_ops_per_s >= 0 && request.repeat >= 1);
  BONSAI_CHECK(config.latency_every == 1 || config.latency_every == bonsai::bench::kLatencySampled);
  BONSAI_CHECK(!request.engines.empty() && !request.steps.empty() && !config.out_dir.empty());
  BONSAI_CHECK(bonsai::bench::flag_values().count("records") == 1);
  return 0;
}

extern "C" std::vector<uint8_t>* fuzz_seed_input(size_t i) {
  static const std::string_view kSeeds[] = {
      "--records=100\n--operations\n50\n--threads=2\n--depth=4\n--seed=7\n--engines=dummy\n--workloads=load,a,e",
      "-P\nconf/workloads/workloada\n-p\nrecordcount=10\n-p\noperationcount=20\n-threads\n2\n-target\n100\n-s",
      "--key=string\n--value-bytes=file\n--durability=buffered\n--draw=live\n--latency=all\n--pin\n--repeat=3",
      "--warmup=10\n--draw=ahead\n--latency=sampled\n--key=fixed8\n--value_bytes=0\n--text=table\n--out=x",
      "--providers=shm,sim\n--sizes=8,64\n--batches=1,32\n--depths=1,64\n--waits=block\n--peer=a:1\n--serve=/b/c",
      "--workload-dir=conf/workloads\n--workloads=c,workloadd\n-p\nrequestdistribution=plain_zipf\n--engines=,"};
  static std::vector<uint8_t> input;
  if (i >= std::size(kSeeds)) return nullptr;
  input.assign(kSeeds[i].begin(), kSeeds[i].end());
  return &input;
}

extern "C" int fuzz_full_seconds() { return 20; }
