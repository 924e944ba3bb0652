// SPDX-License-Identifier: Apache-2.0
// Facts as JSON.
#ifndef BONSAI_BENCH_RESULTS_JSON_H_
#define BONSAI_BENCH_RESULTS_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>

namespace bonsai::bench {

// An unknown fact is null.
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& fact) {
  return fact ? nlohmann::ordered_json(*fact) : nlohmann::ordered_json(nullptr);
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_JSON_H_
