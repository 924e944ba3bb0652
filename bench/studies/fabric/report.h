// SPDX-License-Identifier: Apache-2.0
// The results of `bonsai-bench fabric` as JSON (docs/results.md), and everything that is made of it: the table on the
// terminal, CSV, a picture, a section of report.html.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_REPORT_H_
#define BONSAI_BENCH_STUDIES_FABRIC_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/results/results.h"
#include "bench/studies/fabric/plan.h"

namespace bonsai::bench {

// The subject of the measurements, and in what sense their times are real.
struct FabricSubject {
  std::string name;    // of the provider
  std::string text;    // Capabilities::text
  std::string label;   // what a reader must know
  std::string litmus;  // what the litmus tests found; empty: not run
};

struct FabricRow {
  std::string provider;
  FabricCell cell;
  std::vector<FabricSample> samples;  // one per run
  std::vector<double> perftest;       // its figure, per run: microseconds for a cell that is alone, else messages/s
};

struct FabricReport {
  std::vector<FabricSubject> subjects;
  std::vector<FabricRow> rows;
  unsigned runs = 0;
  std::string polling;
  std::vector<std::string> notes;
  Manifest manifest;
};

[[nodiscard]] nlohmann::ordered_json fabric_json(const FabricReport& report);
// True when `json` is what fabric_json() makes.
[[nodiscard]] bool is_fabric(const nlohmann::ordered_json& json);

// All from such JSON.
[[nodiscard]] std::string fabric_table(const nlohmann::ordered_json& fabric);
[[nodiscard]] std::string fabric_svg(const nlohmann::ordered_json& fabric);
[[nodiscard]] std::string fabric_section(const nlohmann::ordered_json& fabric);

// Writes fabric.json, fabric.csv and fabric.svg. Errors: IoError.
Status write_fabric(const std::string& directory, const nlohmann::ordered_json& fabric);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_REPORT_H_
