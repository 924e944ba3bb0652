// Any bytes as a property file: an answer without a crash, and a refusal always says something.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bench/ycsb/workload.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace bonsai::bench;
  Properties properties;
  Workload workload;
  std::vector<std::string> notes;
  bonsai::Status status = properties.parse({reinterpret_cast<const char*>(data), bytes}, "fuzz");
  if (status.ok()) status = make_workload("fuzz", properties, &workload, &notes);
  if (!status.ok()) {
    BONSAI_CHECK(!status.message().empty());
    return 0;
  }
  double sum = 0;
  for (const double share : workload.shares) sum += share;
  BONSAI_CHECK(sum > 0.999 && sum < 1.001);
  BONSAI_CHECK(workload.scan_length_min >= 1 && workload.scan_length_min <= workload.scan_length_max);
  return 0;
}

extern "C" std::vector<uint8_t>* fuzz_seed_input(size_t i) {
  static const std::string_view kSeeds[] = {
      "readproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian\n",
      "# text\nscanproportion: 1\nminscanlength 2\nmaxscanlength=\\\n 50\nscanlengthdistribution=uniform\n",
      "insertproportion=1e3\ninsertorder=ordered\nzeropadding=20\nfieldcount=3\nfieldlength=7\nmongodb.url=x\n"};
  static std::vector<uint8_t> input;
  if (i >= std::size(kSeeds)) return nullptr;
  input.assign(kSeeds[i].begin(), kSeeds[i].end());
  return &input;
}

extern "C" int fuzz_full_seconds() { return 20; }
