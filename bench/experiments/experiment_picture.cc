// SPDX-License-Identifier: Apache-2.0
// How an experiment looks: a chart of what was measured here, one of the published figures or goals, and both tables.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "bench/experiments/experiment.h"
#include "bench/report/charts.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDash = "\xe2\x80\x93";
constexpr double kChartWidth = 340;
constexpr double kChartHeight = 230;
constexpr double kLegendLine = 18;

std::string letter(size_t series) { return std::string(1, static_cast<char>('A' + series)); }

// Figures that differ by more than so many times get logarithmic axes.
constexpr double kLinearXMax = 1000;
constexpr double kLinearYMax = 50;

struct Scales {
  Scales(const Json& experiment, const Json& rows) {
    const auto x_column = experiment.at("columns").at(0).get<std::string>();
    double x_low = INFINITY, x_high = 0, y_low = INFINITY, y_high = 0;
    for (const Json& row : rows) {
      const auto x = row.at(x_column).get<double>();
      x_low = std::min(x_low, x);
      x_high = std::max(x_high, x);
      for (const Json& column : experiment.at("charted")) {
        const auto found = row.find(column.get<std::string>());
        if (found == row.end() || !found->is_number()) continue;
        y_low = std::min(y_low, found->get<double>());
        y_high = std::max(y_high, found->get<double>());
      }
    }
    x_log = x_low > 1 && x_high > kLinearXMax * x_low;
    y_log = y_low > 0 && y_high > kLinearYMax * y_low;
  }
  [[nodiscard]] double place(double x) const { return x_log ? std::log2(x) : x; }

  bool x_log = false;
  bool y_log = false;
};

LineChart chart_of(const Json& experiment, const Json& rows, const std::string& title) {
  LineChart chart;
  chart.title = title;
  const auto x_column = experiment.at("columns").at(0).get<std::string>();
  chart.x_label = x_column + "s";
  const Json& charted = experiment.at("charted");
  if (!charted.empty()) chart.y_label = experiment.at("units").at(charted.at(0).get<std::string>());
  const Scales scales(experiment, rows);
  for (const Json& row : rows) {
    const auto x = row.at(x_column).get<double>();
    chart.x_max = std::max(chart.x_max, scales.place(x));
    chart.x_ticks.push_back({scales.place(x), short_number(x)});
  }
  chart.y_log = scales.y_log;
  for (size_t i = 0; i < charted.size(); ++i) {
    Curve curve{letter(i), static_cast<int>(i), false, {}};
    for (const Json& row : rows) {
      const auto found = row.find(charted.at(i).get<std::string>());
      if (found == row.end() || !found->is_number()) continue;
      curve.points.emplace_back(scales.place(row.at(x_column).get<double>()), found->get<double>());
    }
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  return chart;
}

// Whether the rows have names instead of places on an axis.
bool has_names(const Json& experiment) {
  const Json& rows = experiment.at("rows");
  return !rows.empty() && rows.at(0).at(experiment.at("columns").at(0).get<std::string>()).is_string();
}

// The names of the rows: what the first column says, and, where rows would share it, the columns after it.
std::vector<std::string> names_of(const Json& experiment) {
  const Json& charted = experiment.at("charted");
  const auto text = [](const Json& cell) {
    return cell.is_string() ? cell.get<std::string>() : cell.is_number() ? short_number(cell.get<double>()) : kDash;
  };
  std::vector<std::string> names(experiment.at("rows").size());
  for (const Json& column : experiment.at("columns")) {
    if (std::set(names.begin(), names.end()).size() == names.size()) break;
    if (std::find(charted.begin(), charted.end(), column) != charted.end()) break;
    for (size_t i = 0; i < names.size(); ++i) {
      const Json& row = experiment.at("rows").at(i);
      if (row.contains(column)) names[i] += (names[i].empty() ? "" : ", ") + text(row.at(column.get<std::string>()));
    }
  }
  return names;
}

std::optional<double> figure_of(const Json& row, const std::string& series) {
  const auto found = row.find(series);
  return found != row.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string with_unit(const Json& experiment, const std::string& series) {
  const auto unit = experiment.at("units").at(series).get<std::string>();
  return unit.empty() ? series : series + ": " + unit;
}

// A row's figures of the series, side by side: the first bar has the row's name, the others are outlined and have the
// series'.
void add_row(const Json& experiment, size_t row, const std::string& name, std::vector<Bar>* bars) {
  const Json& charted = experiment.at("charted");
  for (size_t i = 0; i < charted.size(); ++i) {
    const auto series = charted.at(i).get<std::string>();
    Bar bar{.label = i == 0 ? name : series, .colour = static_cast<int>(i), .outlined = i > 0};
    bar.tip = name + ", " + series;
    bar.value = figure_of(experiment.at("rows").at(row), series);
    bars->push_back(std::move(bar));
  }
}

// Series that can be compared share a chart if that is not too long; else each row has one if there are many series,
// and each series if there are few. What has no figure is left out.
std::vector<Svg> bar_charts(const Json& experiment) {
  constexpr size_t kBarsTogetherMax = 36, kFewSeries = 4;
  const Json& charted = experiment.at("charted");
  const Json& rows = experiment.at("rows");
  const std::vector<std::string> names = names_of(experiment);
  const auto unit_of = [&](size_t series) { return experiment.at("units").at(charted.at(series).get<std::string>()); };
  bool comparable = unit_of(0) != "";
  for (size_t i = 1; i < charted.size(); ++i) comparable = comparable && unit_of(i) == unit_of(0);
  std::vector<Svg> charts;
  const auto add = [&charts](const std::string& title, const std::vector<Bar>& bars) {
    if (std::any_of(bars.begin(), bars.end(), [](const Bar& bar) { return bar.value.has_value(); })) {
      charts.push_back(bar_chart(title, bars));
    }
  };
  const auto first = charted.at(0).get<std::string>();
  std::vector<Bar> bars;
  if (comparable && rows.size() * charted.size() <= kBarsTogetherMax) {
    for (size_t row = 0; row < rows.size(); ++row) add_row(experiment, row, names[row], &bars);
    add(with_unit(experiment, first), bars);
  } else if (comparable && charted.size() > kFewSeries) {
    for (size_t row = 0; row < rows.size(); ++row, bars.clear()) {
      add_row(experiment, row, first, &bars);
      add(names[row] + ": " + unit_of(0).get<std::string>(), bars);
    }
  } else {
    for (size_t i = 0; i < charted.size(); ++i, bars.clear()) {
      const auto series = charted.at(i).get<std::string>();
      for (size_t row = 0; row < rows.size(); ++row) {
        const std::optional<double> value = figure_of(rows.at(row), series);
        if (value) {
          bars.push_back({.label = names[row], .colour = static_cast<int>(i), .value = value, .tip = names[row]});
        }
      }
      add(with_unit(experiment, series), bars);
    }
  }
  return charts;
}

// Two in a row, each row as high as its higher one.
Svg bar_picture(const Json& experiment) {
  constexpr double kGap = 20;
  const std::vector<Svg> charts = bar_charts(experiment);
  double column_width = kChartWidth, height = 0;
  std::vector<double> tops;
  for (size_t i = 0; i < charts.size(); i += 2) {
    tops.push_back(height);
    const double higher =
        i + 1 < charts.size() ? std::max(charts[i].height(), charts[i + 1].height()) : charts[i].height();
    height += higher + kGap;
    for (size_t k = i; k < std::min(i + 2, charts.size()); ++k)
      column_width = std::max(column_width, charts[k].width());
  }
  Svg svg(2 * column_width + kGap, std::max(height, kGap), experiment.at("title").get<std::string>());
  for (size_t i = 0; i < charts.size(); ++i) {
    svg.place(charts[i], i % 2 == 0 ? 0 : column_width + kGap, tops[i / 2]);
  }
  return svg;
}

Svg curve_picture(const Json& experiment) {
  const Json& charted = experiment.at("charted");
  const double height = kChartHeight + 12 + kLegendLine * static_cast<double>(charted.size());
  Svg svg(2 * kChartWidth + 20, height, experiment.at("title").get<std::string>());
  svg.place(line_chart(chart_of(experiment, experiment.at("rows"), "Measured here")), 0, 0);
  const bool goals = experiment.value("reference_is", "") == "goals";
  const LineChart reference =
      chart_of(experiment, experiment.at("reference"), goals ? "Goals" : "Published, on other hardware");
  if (!reference.curves.empty()) svg.place(line_chart(reference), kChartWidth + 20, 0);
  for (size_t i = 0; i < charted.size(); ++i) {
    const auto name = charted.at(i).get<std::string>();
    const auto absent = experiment.at("absent").find(name);
    const double y = kChartHeight + 12 + kLegendLine * static_cast<double>(i);
    svg.text(0, y, letter(i), "class=\"strong\"");
    svg.text(18, y, name + (absent == experiment.at("absent").end() ? "" : std::string(" ") + kDash + " not measured"),
             "class=\"small\"");
  }
  return svg;
}

Svg picture(const Json& experiment) {
  return has_names(experiment) ? bar_picture(experiment) : curve_picture(experiment);
}

// Whether there is anything to be drawn, or to be compared with.
bool has_figures(const Json& experiment) {
  for (const char* part : {"rows", "reference"}) {
    for (const Json& row : experiment.at(part)) {
      for (const Json& series : experiment.at("charted")) {
        if (figure_of(row, series.get<std::string>())) return true;
      }
    }
  }
  return false;
}

// Why columns are not measured: each reason with the names of its columns, in the order of the first ones.
std::vector<std::pair<std::string, std::string>> columns_by_reason(const Json& absent) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [column, reason] : absent.items()) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first == reason; });
    same == all.end() ? static_cast<void>(all.emplace_back(reason, column))
                      : static_cast<void>(same->second += ", " + column);
  }
  return all;
}

std::string table(const Json& columns, const Json& rows) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (const Json& column : columns) out += "<th class=\"wrap\">" + escaped(column.get<std::string>()) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const Json& row : rows) {
    out += "<tr>";
    for (const Json& column : columns) {
      const auto found = row.find(column.get<std::string>());
      const Json cell = found == row.end() ? Json(nullptr) : *found;
      out += "<td>" +
             (cell.is_string()   ? escaped(cell.get<std::string>())
              : cell.is_number() ? short_number(cell.get<double>())
                                 : std::string(kDash)) +
             "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string experiment_svg(const Json& experiment) { return picture(experiment).file(); }

std::string experiment_section(const Json& experiment) {
  const Json& manifest = experiment.at("manifest");
  const auto fact = [&manifest](const char* name) {
    return manifest.at(name).is_string() ? manifest.at(name).get<std::string>() : std::string("unknown");
  };
  const std::string name = escaped(experiment.at("name").get<std::string>());
  std::string out = "<h2 id=\"" + name + "\">Experiment " + name + "</h2>\n<p class=\"soft\">" +
                    escaped(experiment.at("title").get<std::string>()) + " (" +
                    escaped(experiment.at("source").get<std::string>()) + "). Commit " +
                    escaped(fact("commit").substr(0, 12)) + ", " + escaped(fact("started")) + ", " +
                    escaped(fact("cpu")) + ", medium " + escaped(fact("medium")) + ".</p>\n<div class=\"label\">";
  for (const Json& label : experiment.at("labels")) out += escaped(label.get<std::string>()) + "<br>";
  out += "</div>\n";
  if (has_figures(experiment)) {
    out +=
        "<div class=\"grid one\"><figure class=\"experiment\">" + picture(experiment).element() + "</figure></div>\n";
  }
  out += table(experiment.at("columns"), experiment.at("rows"));
  for (const auto& [reason, columns] : columns_by_reason(experiment.at("absent"))) {
    out += "<p class=\"soft\">" + std::string(kDash) + " " + escaped(columns) + ": " + escaped(reason) + ".</p>\n";
  }
  if (experiment.at("reference").empty()) return out;
  out += "<p><b>" + escaped(reference_heading(experiment)) + "</b></p>\n";
  Json columns = Json::array();
  for (const auto& [column, value] : experiment.at("reference").at(0).items()) columns.push_back(column);
  return out + table(columns, experiment.at("reference"));
}

}  // namespace bonsai::bench
