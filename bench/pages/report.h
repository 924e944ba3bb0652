// SPDX-License-Identifier: Apache-2.0
// DIR/report.html: the results of a run and what else is measured in DIR (page_part.h), for a person. One file, no
// scripts, nothing is loaded; it follows the reader's light or dark setting and prints on paper.
#ifndef BONSAI_BENCH_PAGES_REPORT_H_
#define BONSAI_BENCH_PAGES_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::bench {

// The page. `results` is a results.json of this version or null. Requires: a PagePart of this build for each of
// `parts`.
[[nodiscard]] std::string report_html(const nlohmann::ordered_json& results,
                                      const std::vector<nlohmann::ordered_json>& parts);

// Writes DIR/report.html from DIR/results.json and the parts in DIR. The page omits missing parts, and files of kinds
// that this build does not have.
// Errors: IoError, NotSupported (results.json of another version), Corruption (no JSON), NotFound (nothing to report).
Status write_report(const std::string& directory);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_PAGES_REPORT_H_
