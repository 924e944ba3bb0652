// SPDX-License-Identifier: Apache-2.0
// Any bytes as a property file: an answer without a crash, and a refusal always says something.
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "bench/ycsb/workload.h"

namespace bonsai::bench {
namespace {

void run(std::string_view input) {
  Properties properties;
  Workload workload;
  std::vector<std::string> notes;
  Status status = properties.parse(input, "fuzz");
  if (status.ok()) status = make_workload("fuzz", properties, &workload, &notes);
  if (!status.ok()) {
    BONSAI_CHECK(!status.message().empty());
    return;
  }
  double sum = 0;
  for (const double share : workload.shares) sum += share;
  BONSAI_CHECK(sum > 0.999 && sum < 1.001);
  BONSAI_CHECK(workload.scan_length_min >= 1 && workload.scan_length_min <= workload.scan_length_max);
}

std::vector<std::string> seeds() {
  return {"readproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian\n",
          "# text\nscanproportion: 1\nminscanlength 2\nmaxscanlength=\\\n 50\nscanlengthdistribution=uniform\n",
          "insertproportion=1e3\ninsertorder=ordered\nzeropadding=20\nfieldcount=3\nfieldlength=7\nmongodb.url=x\n"};
}

const testing::FuzzRegistration workload("bench_properties", run, seeds);

}  // namespace
}  // namespace bonsai::bench
