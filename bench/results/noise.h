// SPDX-License-Identifier: Apache-2.0
// What else the machine did while something was measured: time stolen by other machines, time that other programs took,
// involuntary switches. Figures by the clock from a machine in use are not judged.
#ifndef BONSAI_BENCH_RESULTS_NOISE_H_
#define BONSAI_BENCH_RESULTS_NOISE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bonsai::bench {

// The system's counters at one moment. Absent: the system does not have them.
struct MachineCounters {
  std::optional<double> all_s = {}, busy_s = {}, stolen_s = {};  // of all processors together, since the start
  double own_s = 0;                 // of processors, by this process and its children that have ended
  uint64_t involuntary = 0;         // switches of the same
  std::optional<double> load = {};  // average of a minute
  uint64_t at_ns = 0;
};
[[nodiscard]] MachineCounters machine_counters();
// Reads the line "cpu ..." of /proc/stat, in ticks of 1 / `ticks_per_s` seconds.
void read_processors(std::string_view line, double ticks_per_s, MachineCounters* counters);

// The machine between two moments.
struct Noise {
  std::optional<double> stolen_percent = {};  // of the time of all processors
  std::optional<double> others_percent = {};  // ... that programs other than this one took
  std::optional<double> load = {};            // at the start
  std::optional<double> involuntary_per_s = {};

  // Why figures by the clock are not judged; empty: the machine was quiet, or does not say.
  [[nodiscard]] std::string verdict() const;
};
inline constexpr double kStolenPercentMax = 2, kOthersPercentMax = 5;
[[nodiscard]] Noise noise_between(const MachineCounters& start, const MachineCounters& end);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_NOISE_H_
