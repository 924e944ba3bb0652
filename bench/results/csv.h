// SPDX-License-Identifier: Apache-2.0
// Tables as CSV (RFC 4180, one line of names first). A fact that is absent is an empty cell.
#ifndef BONSAI_BENCH_RESULTS_CSV_H_
#define BONSAI_BENCH_RESULTS_CSV_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace bonsai::bench {

// `rows` are JSON objects; each column is a member of theirs.
[[nodiscard]] std::string csv_text(const std::vector<std::string>& columns, const nlohmann::ordered_json& rows);

// One line per run of a results.json. Members of members are named by their path: latency_us_read_p50. Lists have no
// place in a table and are left out.
[[nodiscard]] std::string runs_csv(const nlohmann::ordered_json& results);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_CSV_H_
