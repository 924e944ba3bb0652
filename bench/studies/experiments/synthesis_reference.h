// SPDX-License-Identifier: Apache-2.0
// The published rates of the synthesis benchmark: those of the BonsaiKV scheme's later version.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_SYNTHESIS_REFERENCE_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_SYNTHESIS_REFERENCE_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace bonsai::bench {

// Load and YCSB's workloads, in the order in which they run.
inline constexpr std::string_view kSynthesisLetters = "labcde";
[[nodiscard]] std::string workload_name(char letter);

// Millions of operations a second, each by names().
struct SynthesisRates {
  static constexpr size_t kSystems = 4;
  std::array<std::optional<double>, kSystems> mops;

  [[nodiscard]] static const std::array<std::string_view, kSystems>& names();
  // The published rate of the system whose place ours takes; `system` as in bench/studies/cluster/system.h.
  [[nodiscard]] std::optional<double> of(std::string_view system) const;
};

// Absent: not published.
[[nodiscard]] std::optional<SynthesisRates> synthesis_rates(bool strings, char letter, size_t threads);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_SYNTHESIS_REFERENCE_H_
