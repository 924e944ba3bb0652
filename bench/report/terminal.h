// SPDX-License-Identifier: Apache-2.0
// Output of a run for a person: a live status line while it works (only on a terminal), then a table.
#ifndef BONSAI_BENCH_REPORT_TERMINAL_H_
#define BONSAI_BENCH_REPORT_TERMINAL_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/driver.h"
#include "bench/results/results.h"

namespace bonsai::bench {

// The progress of a phase as YCSB's -s reports it, a line every kSecondsBetween. Latencies are those since the last
// line, in microseconds, of the operations that were timed; Count is their number.
class YcsbStatus {
 public:
  static constexpr double kSecondsBetween = 10;

  void start(uint64_t operations) { *this = YcsbStatus(operations); }
  // The line that is due, or nothing.
  [[nodiscard]] std::optional<std::string> line(const PhaseProgress& progress);

  YcsbStatus() = default;

 private:
  explicit YcsbStatus(uint64_t operations) : operations_(operations) {}

  uint64_t operations_ = 0;
  double next_seconds_ = kSecondsBetween;
  PhaseProgress last_;
};

// The status line, rewritten in place on `out`. Silent unless `live`.
class StatusLine {
 public:
  StatusLine(std::FILE* out, bool live) : out_(out), live_(live) {}
  ~StatusLine() { clear(); }

  void start(const std::string& engine, const std::string& phase, uint64_t operations);
  void show(const PhaseProgress& progress);
  void show_text(const std::string& text);
  void clear();

  // The text of the line, for example "bonsai, workload a: 42 %, 1.84 Mop/s, p99 1.2 us, 3 s left".
  [[nodiscard]] std::string text(const PhaseProgress& progress) const;

 private:
  std::FILE* out_;
  bool live_;
  std::string what_;
  uint64_t operations_ = 0;
};

// Rows of cells as lines of equal columns: the first `left` columns and the last one flush left, the others flush
// right.
[[nodiscard]] std::string align(const std::vector<std::vector<std::string>>& rows, size_t left);

// The table of all runs, in the order of phases and then of engines, followed by a line per kind of failure.
[[nodiscard]] std::string results_table(const std::vector<RunResult>& runs);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REPORT_TERMINAL_H_
