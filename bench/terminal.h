// What a person sees of a run: a live status line while it works (only on a terminal), then a table.
#ifndef BONSAI_BENCH_TERMINAL_H_
#define BONSAI_BENCH_TERMINAL_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/driver.h"
#include "bench/results.h"

namespace bonsai::bench {

// The status line, rewritten in place on `out`. Silent unless `live`.
class StatusLine {
 public:
  StatusLine(std::FILE* out, bool live) : out_(out), live_(live) {}
  ~StatusLine() { clear(); }

  void start(const std::string& engine, const std::string& phase, uint64_t operations);
  void show(const PhaseProgress& progress);
  void clear();

  // The text of the line, for example "bonsai, workload a: 42 %, 1.84 Mop/s, 3 s left".
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

#endif  // BONSAI_BENCH_TERMINAL_H_
