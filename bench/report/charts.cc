// SPDX-License-Identifier: Apache-2.0
#include "bench/report/charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace bonsai::bench {
namespace {

constexpr double kWidth = 340;
constexpr double kTitleHeight = 26;
constexpr double kRowHeight = 24;
constexpr double kBarHeight = 15;
constexpr double kLabelWidth = 104;      // and wider where a label is
constexpr double kCharacterWidth = 6.6;  // of a label; a wide one
constexpr double kValueWidth = 58;
constexpr std::string_view kDash = "\xe2\x80\x93";

std::string colour(int series) { return "var(--c" + std::to_string(series % kSeriesColours) + ")"; }

// A mark of the shape that belongs to a series.
std::string mark_shape(int series, double x, double y) {
  constexpr double kSize = 3.6;
  const auto at = [&](double dx, double dy) { return coordinate(x + dx * kSize) + " " + coordinate(y + dy * kSize); };
  switch (series % 5) {
    case 0:  // circle
      return "M" + at(-1, 0) + "a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z";
    case 1:  // square
      return "M" + at(-0.9, -0.9) + "L" + at(0.9, -0.9) + "L" + at(0.9, 0.9) + "L" + at(-0.9, 0.9) + "z";
    case 2:  // triangle
      return "M" + at(0, -1.2) + "L" + at(1.1, 0.8) + "L" + at(-1.1, 0.8) + "z";
    case 3:  // diamond
      return "M" + at(0, -1.3) + "L" + at(1.3, 0) + "L" + at(0, 1.3) + "L" + at(-1.3, 0) + "z";
    default:  // triangle on its tip
      return "M" + at(0, 1.2) + "L" + at(1.1, -0.8) + "L" + at(-1.1, -0.8) + "z";
  }
}

// A round number at or above `value`: 1, 2, 2.5 or 5 times a power of ten.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (value <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

void absent_row(double x, double y, std::string_view why, Svg* svg) {
  svg->text(x, y, std::string(kDash) + " " + std::string(why), "class=\"soft small absent\"");
}

// The axes of a line chart: from values to places.
class Axes {
 public:
  static constexpr double kLeft = 44;
  static constexpr double kTop = kTitleHeight + 14;
  static constexpr double kPlotWidth = 190;
  static constexpr double kPlotHeight = 150;
  static constexpr double kHeight = kTop + kPlotHeight + 40;

  explicit Axes(const LineChart& chart) : log_(chart.y_log), x_high_(chart.x_max) {
    double low = INFINITY;
    double high = 0;
    for (const Curve& curve : chart.curves) {
      for (const auto& [x, y] : curve.points) {
        low = std::min(low, y);
        high = std::max(high, y);
      }
    }
    if (high <= 0 && !(low < 0)) low = high = 1;
    if (log_) {
      y_low_ = std::floor(std::log10(low) + 1e-9);
      y_high_ = std::max(y_low_ + 1, std::ceil(std::log10(high) - 1e-9));
    } else {
      // Round steps from zero: 2 in quarters, 1, 2.5, 5 and 10 in fifths.
      const double largest = round_up(std::max(high, -low));
      const double digit = largest / std::pow(10, std::floor(std::log10(largest) + 1e-9));
      step_ = largest / (std::abs(digit - 2) < 1e-6 ? 4 : 5);
      y_high_ = low < 0 ? step_ * std::ceil(high / step_) : largest;
      y_low_ = low < 0 ? step_ * std::floor(low / step_) : 0;
    }
  }

  [[nodiscard]] double x(double value) const { return kLeft + kPlotWidth * value / x_high_; }
  [[nodiscard]] double y(double value) const {
    const double place = log_ ? std::log10(value) : value;
    return kTop + kPlotHeight * (1 - (place - y_low_) / (y_high_ - y_low_));
  }

  void draw(const LineChart& chart, Svg* svg) const {
    const double bottom = kTop + kPlotHeight;
    const std::vector<bool> named = ticks_with_names(chart.x_ticks);
    for (size_t i = 0; i < chart.x_ticks.size(); ++i) {
      const Tick& tick = chart.x_ticks[i];
      svg->line(x(tick.at), kTop, x(tick.at), bottom, "class=\"grid\"");
      if (named[i]) svg->text(x(tick.at), bottom + 15, tick.label, "class=\"soft small middle num\"");
    }
    for (const double value : y_values()) {
      svg->line(kLeft, y(value), kLeft + kPlotWidth, y(value), "class=\"grid\"");
      svg->text(kLeft - 6, y(value) + 4, short_number(value), "class=\"soft small end num\"");
    }
    svg->line(kLeft, bottom, kLeft + kPlotWidth, bottom, "class=\"axis\"");
    svg->text(kLeft - 36, kTop - 8, chart.y_label, "class=\"soft small\"");
    svg->text(kLeft + kPlotWidth / 2, bottom + 31, chart.x_label, "class=\"soft small middle\"");
  }

 private:
  // The ticks whose names have room: the last, and from the left each that ends before the next one begins.
  [[nodiscard]] std::vector<bool> ticks_with_names(const std::vector<Tick>& ticks) const {
    constexpr double kWidest = 6.2, kApart = 5;  // of a character, and between names
    const auto half = [](const Tick& tick) { return kWidest * static_cast<double>(tick.label.size()) / 2; };
    std::vector<bool> named(ticks.size());
    double free_from = -INFINITY;
    for (size_t i = 0; i < ticks.size(); ++i) {
      const bool last = i + 1 == ticks.size();
      const double end = x(ticks[i].at) + half(ticks[i]) + kApart;
      const bool leaves_room = last || end <= x(ticks.back().at) - half(ticks.back());
      if (x(ticks[i].at) - half(ticks[i]) < free_from || !leaves_room) continue;
      named[i] = true;
      free_from = end;
    }
    return named;
  }

  [[nodiscard]] std::vector<double> y_values() const {
    std::vector<double> values;
    if (log_) {
      for (double power = y_low_; power <= y_high_; ++power) values.push_back(std::pow(10, power));
    } else {
      for (double i = std::round(y_low_ / step_); i <= y_high_ / step_ + 1e-6; ++i) values.push_back(step_ * i);
    }
    return values;
  }

  bool log_;
  double x_high_;
  double y_low_ = 0;
  double y_high_ = 1;
  double step_ = 1;
};

// Names at the ends of the curves, moved apart where they would overlap.
void name_curves(const LineChart& chart, const Axes& axes, Svg* svg) {
  constexpr double kApart = 13;
  struct Name {
    const Curve* curve;
    double end_x, end_y, y;
  };
  std::vector<Name> names;
  for (const Curve& curve : chart.curves) {
    if (curve.points.empty()) continue;
    const auto& [x, y] = curve.points.back();
    names.push_back({&curve, axes.x(x), axes.y(y), axes.y(y)});
  }
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.end_y < b.end_y; });
  double lowest = Axes::kTop + Axes::kPlotHeight + kApart;
  for (size_t i = 1; i < names.size(); ++i) names[i].y = std::max(names[i].y, names[i - 1].y + kApart);
  for (size_t i = names.size(); i-- > 0;) {
    names[i].y = std::min(names[i].y, lowest - kApart);
    lowest = names[i].y;
  }
  const double x = Axes::kLeft + Axes::kPlotWidth + 14;
  for (const Name& name : names) {
    const std::string stroke = "class=\"leader\" stroke=\"" + colour(name.curve->colour) + "\"";
    svg->line(name.end_x + 4, name.end_y, x - 2, name.y, stroke);
    svg->text(x, name.y + 4, name.curve->label, "class=\"small\"");
  }
}

}  // namespace

std::string short_number(double value) {
  static constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}}};
  double scale = 1;
  std::string unit;
  for (const auto& [size, name] : kUnits) {
    if (std::abs(value) >= size * 0.9995) {
      scale = size;
      unit = name;
      break;
    }
  }
  const double shown = value / scale;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3g", shown);
  return text.data() + unit;
}

Svg bar_chart(const std::string& title, const std::vector<Bar>& bars) {
  double left = kLabelWidth;
  for (const Bar& bar : bars) {
    if (!bar.heading) left = std::max(left, 8 + kCharacterWidth * static_cast<double>(bar.label.size()));
  }
  Svg svg(kWidth - kLabelWidth + left, kTitleHeight + kRowHeight * static_cast<double>(bars.size()), title);
  svg.text(0, 14, title, "class=\"strong\"");
  double largest = 0;
  for (const Bar& bar : bars) {
    largest = std::max(largest, bar.value.value_or(0));
    if (bar.spread) largest = std::max(largest, bar.spread->second);
  }
  const double scale = largest > 0 ? (kWidth - kLabelWidth - kValueWidth) / largest : 0;
  double y = kTitleHeight;
  for (const Bar& bar : bars) {
    const double base = y + kBarHeight - 3;
    if (bar.heading) {
      svg.text(0, base, bar.label, "class=\"strong head\"");
      y += kRowHeight;
      continue;
    }
    svg.text(left - 8, base, bar.label, "class=\"end\"");
    if (!bar.value) {
      absent_row(left, base, bar.absent, &svg);
    } else {
      const double width = std::max(1.5, *bar.value * scale);
      const std::string paint = bar.outlined
                                    ? "class=\"bar\" rx=\"2\" fill-opacity=\".18\" stroke-width=\"1.5\" fill=\"" +
                                          colour(bar.colour) + "\" stroke=\"" + colour(bar.colour) + "\""
                                    : "class=\"bar\" rx=\"2\" fill=\"" + colour(bar.colour) + "\"";
      svg.rect(left, y, width, kBarHeight, paint, bar.tip);
      double text_x = left + width;
      if (bar.spread) {
        const double low = left + bar.spread->first * scale;
        const double high = left + bar.spread->second * scale;
        svg.line(low, y + kBarHeight / 2, high, y + kBarHeight / 2, "class=\"mark spread\"");
        text_x = std::max(text_x, high);
      }
      svg.text(text_x + 6, base, short_number(*bar.value), "class=\"num\"");
    }
    y += kRowHeight;
  }
  return svg;
}

Svg memory_chart(const std::string& title, const std::vector<Stack>& stacks, std::optional<double> user_bytes) {
  const double bottom = kTitleHeight + kRowHeight * static_cast<double>(stacks.size());
  Svg svg(kWidth, bottom + 18, title);
  svg.text(0, 14, title, "class=\"strong\"");
  double largest = user_bytes.value_or(0);
  for (const Stack& stack : stacks) largest = std::max(largest, stack.dram.value_or(0) + stack.nvm.value_or(0));
  const double scale = largest > 0 ? (kWidth - kLabelWidth - kValueWidth) / largest : 0;
  if (user_bytes) {
    const double user_x = kLabelWidth + *user_bytes * scale;
    svg.line(user_x, kTitleHeight - 5, user_x, bottom, "class=\"mark\" stroke-dasharray=\"4 3\"");
    svg.text(user_x, bottom + 12, "keys and values: " + short_number(*user_bytes), "class=\"soft small middle\"");
  }
  double y = kTitleHeight;
  for (const Stack& stack : stacks) {
    const double base = y + kBarHeight - 3;
    svg.text(kLabelWidth - 8, base, stack.label, "class=\"end\"");
    if (!stack.dram && !stack.nvm) {
      absent_row(kLabelWidth, base, stack.absent, &svg);
    } else {
      double x = kLabelWidth;
      if (stack.dram) {
        svg.rect(x, y, *stack.dram * scale, kBarHeight, "class=\"stack\" fill=\"var(--dram)\"",
                 stack.label + ", DRAM: " + short_number(*stack.dram) + " bytes per record");
        x += *stack.dram * scale;
      }
      if (stack.nvm) {
        svg.rect(x, y, *stack.nvm * scale, kBarHeight,
                 "class=\"stack\" fill=\"var(--nvm)\" fill-opacity=\".35\" stroke=\"var(--nvm)\" stroke-width=\"1.5\"",
                 stack.label + ", NVM: " + short_number(*stack.nvm) + " bytes per record");
        x += *stack.nvm * scale;
      }
      svg.text(x + 6, base, short_number(stack.dram.value_or(0) + stack.nvm.value_or(0)) + (stack.dram ? "" : " + ?"),
               "class=\"num\"");
    }
    y += kRowHeight;
  }
  return svg;
}

Svg line_chart(const LineChart& chart) {
  Svg svg(kWidth, Axes::kHeight, chart.title);
  svg.text(0, 14, chart.title, "class=\"strong\"");
  const Axes axes(chart);
  axes.draw(chart, &svg);
  for (const Curve& curve : chart.curves) {
    std::vector<std::pair<double, double>> places;
    for (const auto& [x, y] : curve.points) places.emplace_back(axes.x(x), axes.y(y));
    svg.polyline(places, "class=\"curve\" stroke=\"" + colour(curve.colour) + "\"" +
                             (curve.dashed ? " stroke-dasharray=\"5 4\"" : ""));
    for (size_t i = 0; i < places.size(); ++i) {
      const std::string tip = curve.label + ": " + short_number(curve.points[i].second) + " " + chart.y_label;
      svg.path(mark_shape(curve.colour, places[i].first, places[i].second), "fill=\"" + colour(curve.colour) + "\"",
               tip);
    }
  }
  name_curves(chart, axes, &svg);
  return svg;
}

}  // namespace bonsai::bench
