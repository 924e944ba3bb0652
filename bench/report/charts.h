// SPDX-License-Identifier: Apache-2.0
// The charts of the report. No chart distinguishes its series by colour alone: bars and curves carry their names,
// curves have marks of different shapes, parts of a stack have different fillings.
#ifndef BONSAI_BENCH_REPORT_CHARTS_H_
#define BONSAI_BENCH_REPORT_CHARTS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/svg.h"

namespace bonsai::bench {

// "1.84 M", "312 k", "7.25": three significant digits.
[[nodiscard]] std::string short_number(double value);

struct Bar {
  std::string label;
  int colour = 0;
  bool outlined = false;             // an outline instead of a filled bar
  bool heading = false;              // no bar, but the name of those below
  std::optional<double> value = {};  // absent = a dash and `absent`
  std::optional<std::pair<double, double>> spread = {};
  std::string absent = {};  // why there is none
  std::string tip = {};
};

// Bars of one scale, one below the other.
[[nodiscard]] Svg bar_chart(const std::string& title, const std::vector<Bar>& bars);

struct Stack {
  std::string label;
  std::optional<double> dram;
  std::optional<double> nvm;
  std::string absent;  // shown when both are absent
};

// DRAM and NVM per engine, end to end, with a line at what the user stored, if that is known. All in bytes per record.
[[nodiscard]] Svg memory_chart(const std::string& title, const std::vector<Stack>& stacks,
                               std::optional<double> user_bytes);

struct Tick {
  double at = 0;
  std::string label;
};

struct Curve {
  std::string label;
  int colour = 0;
  bool dashed = false;
  std::vector<std::pair<double, double>> points;
};

struct LineChart {
  std::string title;
  std::string y_label;
  std::string x_label;
  bool y_log = false;
  double x_max = 0;  // the end of the axis, which begins at 0
  std::vector<Tick> x_ticks;
  std::vector<Curve> curves;
};

// Requires x_max > 0; with y_log, values above 0.
[[nodiscard]] Svg line_chart(const LineChart& chart);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REPORT_CHARTS_H_
