// SPDX-License-Identifier: Apache-2.0
#include "bench/pages/output_directory.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/status_macros.h"
#include "bench/pages/report.h"
#include "bench/report/ycsb_text.h"
#include "bench/results/csv.h"
#include "bench/results/hdr_log.h"

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

Status make_empty(const std::string& path, const std::string& extension) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Status::IoError("cannot make " + path + ": " + error.message() + "; give another --out");
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == extension) fs::remove(entry.path(), error);
  }
  return Status::OK();
}

}  // namespace

Status OutputDirectory::open() {
  BONSAI_RETURN_IF_ERROR(make_empty(file("ycsb"), ".txt"));
  return make_empty(file("hdr"), ".hdr");
}

Status OutputDirectory::add(const RunResult& run) {
  std::string name = run.engine + "-" + run.workload;
  if (const int times = ++names_[name]; times > 1) name += "-" + std::to_string(times);
  BONSAI_RETURN_IF_ERROR(write_file(file("ycsb/" + name + ".txt"), ycsb_text(run)));
  for (size_t i = 0; i < kOpKinds; ++i) {
    if (run.latency[i].count() == 0) continue;
    const std::string kind(op_kind_name(static_cast<OpKind>(i)));
    const std::string what = run.engine + ", workload " + run.workload + ", " + kind;
    const HdrInterval interval{what, run.start_wall_seconds, run.seconds};
    BONSAI_RETURN_IF_ERROR(write_file(file("hdr/" + name + "-" + kind + ".hdr"), hdr_log(run.latency[i], interval)));
  }
  return Status::OK();
}

Status OutputDirectory::write(const Results& results) const {
  const std::string json = results_json(results);
  BONSAI_RETURN_IF_ERROR(write_file(file("results.json"), json));
  BONSAI_RETURN_IF_ERROR(write_file(file("results.csv"), runs_csv(nlohmann::ordered_json::parse(json))));
  return write_report(path_);
}

}  // namespace bonsai::bench
