// SPDX-License-Identifier: Apache-2.0
// How an experiment looks: a chart of what was measured here, one of the published figures or goals, and both tables.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

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

// Of each row one bar per series: the first has the row's name, the others are outlined and have the series'.
Svg bar_picture(const Json& experiment) {
  const Json& charted = experiment.at("charted");
  const auto first = charted.at(0).get<std::string>();
  std::vector<Bar> bars;
  for (const Json& row : experiment.at("rows")) {
    const auto name = row.at(experiment.at("columns").at(0).get<std::string>()).get<std::string>();
    for (size_t i = 0; i < charted.size(); ++i) {
      const auto series = charted.at(i).get<std::string>();
      Bar bar{.label = i == 0 ? name : series, .colour = static_cast<int>(i), .outlined = i > 0};
      bar.tip = name + ", " + series;
      if (row.at(series).is_number()) bar.value = row.at(series).get<double>();
      bars.push_back(std::move(bar));
    }
  }
  return bar_chart(first + ": " + experiment.at("units").at(first).get<std::string>(), bars);
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
  std::string out = "<h2>Experiment " + escaped(experiment.at("name").get<std::string>()) +
                    "</h2>\n<p class=\"soft\">" + escaped(experiment.at("title").get<std::string>()) + " (" +
                    escaped(experiment.at("source").get<std::string>()) + "). Commit " +
                    escaped(fact("commit").substr(0, 12)) + ", " + escaped(fact("started")) + ", " +
                    escaped(fact("cpu")) + ", medium " + escaped(fact("medium")) + ".</p>\n<div class=\"label\">";
  for (const Json& label : experiment.at("labels")) out += escaped(label.get<std::string>()) + "<br>";
  out += "</div>\n<div class=\"grid one\"><figure class=\"experiment\">" + picture(experiment).element() +
         "</figure></div>\n";
  out += table(experiment.at("columns"), experiment.at("rows"));
  for (const auto& [column, reason] : experiment.at("absent").items()) {
    out += "<p class=\"soft\">" + std::string(kDash) + " " + escaped(column) + ": " +
           escaped(reason.get<std::string>()) + ".</p>\n";
  }
  if (experiment.at("reference").empty()) return out;
  out += "<p><b>" + escaped(reference_heading(experiment)) + "</b></p>\n";
  Json columns = Json::array();
  for (const auto& [column, value] : experiment.at("reference").at(0).items()) columns.push_back(column);
  return out + table(columns, experiment.at("reference"));
}

}  // namespace bonsai::bench
