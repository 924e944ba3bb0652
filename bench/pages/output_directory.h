// SPDX-License-Identifier: Apache-2.0
// The files of a run in its output directory, kept up to date while the run goes on:
//   results.json                     everything (docs/results.md)
//   results.csv                      one line per run
//   report.html                      for a person
//   ycsb/ENGINE-WORKLOAD.txt         as YCSB prints it
//   hdr/ENGINE-WORKLOAD-KIND.hdr     latencies, one file per kind of request
// Thread-safety: none.
#ifndef BONSAI_BENCH_PAGES_OUTPUT_DIRECTORY_H_
#define BONSAI_BENCH_PAGES_OUTPUT_DIRECTORY_H_

#include <map>
#include <string>

#include "bench/results/results.h"

namespace bonsai::bench {

class OutputDirectory {
 public:
  explicit OutputDirectory(std::string path) : path_(std::move(path)) {}

  // Makes the directories and removes what an earlier run left in ycsb/ and hdr/. Errors: IoError.
  Status open();
  // Writes the files of one run. A second run of a name gets the suffix "-2". Errors: IoError.
  Status add(const RunResult& run);
  // Writes the files about all runs. Errors: IoError.
  Status write(const Results& results) const;

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  std::map<std::string, int> names_;  // of runs, and how often each came
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_PAGES_OUTPUT_DIRECTORY_H_
