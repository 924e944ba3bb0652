// SPDX-License-Identifier: Apache-2.0
// Pictures of an experiment: a chart of its figures, one of the published figures or goals, and both tables.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/pages/page_part.h"
#include "bench/report/charts.h"
#include "bench/studies/experiments/experiment.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDash = "\xe2\x80\x93";
constexpr double kChartWidth = 340;
constexpr double kChartHeight = 230;
constexpr double kLegendLine = 18;
constexpr double kGap = 20;  // between charts

// The key of a curve. Not a letter: those are YCSB's workloads.
std::string key_of(size_t series) { return std::to_string(series + 1); }

// The title of the horizontal axis: "threads" for the column `thread` in threads, "operations in flight" for that in
// operations, "fill (%)" for another one. A column whose name is no words is called by its unit.
std::string axis_title(const Json& experiment, const std::string& column) {
  const auto unit = experiment.at("units").at(column).get<std::string>();
  if (unit == column + "s" || column.find('_') != std::string::npos) return unit;
  return unit.empty() || column.find(unit) != std::string::npos ? column : column + " (" + unit + ")";
}

// The series that a chart of bars brings out: that of Bonsai, or the first if there is none of it.
size_t brought_out(const Json& charted) {
  for (size_t i = 0; i < charted.size(); ++i) {
    const auto name = charted.at(i).get<std::string>();
    if (name.starts_with("Bonsai") || name.starts_with("bonsai") || name.starts_with("ours")) return i;
  }
  return 0;
}

std::optional<double> figure_of(const Json& row, const std::string& series) {
  const auto found = row.find(series);
  return found != row.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string text_of(const Json& cell) {
  return cell.is_string() ? cell.get<std::string>() : cell.is_number() ? short_number(cell.get<double>()) : kDash;
}

// Axes are logarithmic when figures differ by more than this factor.
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
        const std::optional<double> y = figure_of(row, column.get<std::string>());
        if (!y) continue;
        y_low = std::min(y_low, *y);
        y_high = std::max(y_high, *y);
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
  chart.x_label = axis_title(experiment, x_column);
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
    Curve curve{key_of(i), static_cast<int>(i), false, {}};
    for (const Json& row : rows) {
      const std::optional<double> y = figure_of(row, charted.at(i).get<std::string>());
      if (y) curve.points.emplace_back(scales.place(row.at(x_column).get<double>()), *y);
    }
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  return chart;
}

// The points of the rows that have this word and a figure, from left to right.
Curve curve_of(const std::vector<Json>& rows, const Json& chart, const std::string& word, const char* figure,
               const std::set<double>& places) {
  Curve curve;
  for (const Json& row : rows) {
    if (row.at(chart.at("curves")) != word) continue;
    const auto place = places.find(row.at(chart.at("axis")).get<double>());
    const std::optional<double> y = figure_of(row, chart.at(figure).get<std::string>());
    if (y) curve.points.emplace_back(static_cast<double>(std::distance(places.begin(), place)), *y);
  }
  std::sort(curve.points.begin(), curve.points.end());
  return curve;
}

// The picture of a CurveChart.
Svg described_chart(const Json& experiment, const Json& described) {
  LineChart chart;
  chart.title = described.at("title");
  const auto axis = described.at("axis").get<std::string>();
  chart.x_label = axis_title(experiment, axis);
  chart.y_label = experiment.at("units").at(described.at("figure").get<std::string>());
  std::vector<Json> rows;
  std::set<double> places;
  std::vector<std::string> words;
  for (const Json& index : described.at("rows")) {
    const Json& row = rows.emplace_back(experiment.at("rows").at(index.get<size_t>()));
    places.insert(row.at(axis).get<double>());
    const auto word = row.at(described.at("curves")).get<std::string>();
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  for (const double place : places) {
    chart.x_ticks.push_back({static_cast<double>(chart.x_ticks.size()), cell_text({}, place)});
  }
  chart.x_max = std::max<double>(1, static_cast<double>(places.size()) - 1);
  for (size_t i = 0; i < words.size(); ++i) {
    for (const char* figure : {"figure", "beside"}) {
      Curve curve = curve_of(rows, described, words[i], figure, places);
      if (curve.points.empty()) continue;
      curve.colour = static_cast<int>(i);
      curve.dashed = figure == std::string_view("beside");
      if (!curve.dashed) curve.label = words[i];
      chart.curves.push_back(std::move(curve));
    }
  }
  chart.y_log = std::all_of(chart.curves.begin(), chart.curves.end(), [](const Curve& curve) {
    return std::all_of(curve.points.begin(), curve.points.end(), [](const auto& point) { return point.second > 0; });
  });
  return line_chart(chart);
}

std::vector<Svg> described_charts(const Json& experiment) {
  std::vector<Svg> charts;
  for (const Json& described : experiment.value("charts", Json::array())) {
    charts.push_back(described_chart(experiment, described));
  }
  return charts;
}

// True if rows have names instead of positions on an axis.
bool has_names(const Json& experiment) {
  const Json& rows = experiment.at("rows");
  return !rows.empty() && rows.at(0).at(experiment.at("columns").at(0).get<std::string>()).is_string();
}

// The names of the rows: the first column's text and, where rows would share it, the text of the next columns.
std::vector<std::string> names_of(const Json& experiment) {
  const Json& charted = experiment.at("charted");
  std::vector<std::string> names(experiment.at("rows").size());
  for (const Json& column : experiment.at("columns")) {
    if (std::set(names.begin(), names.end()).size() == names.size()) break;
    if (std::find(charted.begin(), charted.end(), column) != charted.end()) break;
    for (size_t i = 0; i < names.size(); ++i) {
      const Json& row = experiment.at("rows").at(i);
      if (row.contains(column)) names[i] += (names[i].empty() ? "" : ", ") + text_of(row.at(column.get<std::string>()));
    }
  }
  return names;
}

std::string with_unit(const Json& experiment, const std::string& series) {
  const auto unit = experiment.at("units").at(series).get<std::string>();
  return unit.empty() ? series : series + ": " + unit;
}

// Adds a row's figures, a bar for each series, which carries the name of its series.
void add_row(const Json& experiment, size_t row, const std::string& row_name, std::vector<Bar>* bars) {
  const Json& charted = experiment.at("charted");
  for (size_t i = 0; i < charted.size(); ++i) {
    const auto series = charted.at(i).get<std::string>();
    bars->push_back({.label = series,
                     .colour = static_cast<int>(i),
                     .outlined = i != brought_out(charted),
                     .value = figure_of(experiment.at("rows").at(row), series),
                     .tip = row_name + ", " + series});
  }
}

// The series' figure of each row that has one.
std::vector<Bar> bars_of_series(const Json& experiment, size_t series, const std::vector<std::string>& names) {
  std::vector<Bar> bars;
  const auto series_name = experiment.at("charted").at(series).get<std::string>();
  for (size_t row = 0; row < names.size(); ++row) {
    const std::optional<double> value = figure_of(experiment.at("rows").at(row), series_name);
    if (!value) continue;
    bars.push_back({.label = names[row],
                    .colour = static_cast<int>(series),
                    .value = value,
                    .tip = names[row] + ", " + series_name});
  }
  return bars;
}

// True if all series have one unit.
bool can_be_compared(const Json& experiment) {
  const Json& charted = experiment.at("charted");
  const auto unit_of = [&](const Json& series) { return experiment.at("units").at(series.get<std::string>()); };
  const Json unit = unit_of(charted.at(0));
  return unit != "" && std::all_of(charted.begin(), charted.end(), [&](const Json& s) { return unit_of(s) == unit; });
}

// Series of one unit share a chart if it is not too long. Otherwise each row has a chart if there are many series, and
// each series has one if there are few. Rows and series without figures are left out.
std::vector<Svg> bar_charts(const Json& experiment) {
  constexpr size_t kBarsTogetherMax = 36, kFewSeries = 4;
  const Json& charted = experiment.at("charted");
  const std::vector<std::string> names = names_of(experiment);
  const bool comparable = can_be_compared(experiment);
  const auto first = charted.at(0).get<std::string>();
  std::vector<Svg> charts;
  const auto add = [&charts](const std::string& title, const std::vector<Bar>& bars) {
    if (std::any_of(bars.begin(), bars.end(), [](const Bar& bar) { return bar.value.has_value(); })) {
      charts.push_back(bar_chart(title, bars));
    }
  };
  if (comparable && names.size() * charted.size() <= kBarsTogetherMax) {
    std::vector<Bar> bars;
    if (charted.size() == 1) {
      bars = bars_of_series(experiment, 0, names);
    } else {
      for (size_t row = 0; row < names.size(); ++row) {
        bars.push_back({.label = names[row], .heading = true});
        add_row(experiment, row, names[row], &bars);
      }
    }
    const auto unit = experiment.at("units").at(first).get<std::string>();
    add(charted.size() == 1 ? with_unit(experiment, first) : unit, bars);
  } else if (comparable && charted.size() > kFewSeries) {
    const auto unit = experiment.at("units").at(first).get<std::string>();
    for (size_t row = 0; row < names.size(); ++row) {
      std::vector<Bar> bars;
      add_row(experiment, row, names[row], &bars);
      add(names[row] + ": " + unit, bars);
    }
  } else {
    for (size_t i = 0; i < charted.size(); ++i) {
      add(with_unit(experiment, charted.at(i)), bars_of_series(experiment, i, names));
    }
  }
  return charts;
}

// Puts two charts in a row, each row as high as its higher chart.
Svg in_two_columns(const Json& experiment, const std::vector<Svg>& charts) {
  double column_width = kChartWidth, height = 0;
  std::vector<double> heights((charts.size() + 1) / 2);
  for (size_t i = 0; i < charts.size(); ++i) {
    column_width = std::max(column_width, charts[i].width());
    heights[i / 2] = std::max(heights[i / 2], charts[i].height() + kGap);
  }
  for (const double each : heights) height += each;
  Svg svg(2 * column_width + kGap, std::max(height, kGap), experiment.at("title").get<std::string>());
  double top = 0;
  for (size_t i = 0; i < charts.size(); ++i) {
    svg.place(charts[i], i % 2 == 0 ? 0 : column_width + kGap, top);
    if (i % 2 != 0) top += heights[i / 2];
  }
  return svg;
}

Svg curve_picture(const Json& experiment) {
  const Json& charted = experiment.at("charted");
  const double height = kChartHeight + 12 + kLegendLine * static_cast<double>(charted.size());
  Svg svg(2 * kChartWidth + kGap, height, experiment.at("title").get<std::string>());
  svg.place(line_chart(chart_of(experiment, experiment.at("rows"), "Measured here")), 0, 0);
  const bool goals = experiment.value("reference_is", "") == "goals";
  const LineChart reference =
      chart_of(experiment, experiment.at("reference"), goals ? "Goals" : "Published, on other hardware");
  if (!reference.curves.empty()) svg.place(line_chart(reference), kChartWidth + kGap, 0);
  for (size_t i = 0; i < charted.size(); ++i) {
    const auto name = charted.at(i).get<std::string>();
    const auto absent = experiment.at("absent").find(name);
    const double y = kChartHeight + 12 + kLegendLine * static_cast<double>(i);
    svg.text(0, y, key_of(i), "class=\"strong\"");
    svg.text(18, y, name + (absent == experiment.at("absent").end() ? "" : std::string(" ") + kDash + " not measured"),
             "class=\"small\"");
  }
  return svg;
}

Svg picture(const Json& experiment) {
  if (const std::vector<Svg> charts = described_charts(experiment); !charts.empty()) {
    return in_two_columns(experiment, charts);
  }
  return has_names(experiment) ? in_two_columns(experiment, bar_charts(experiment)) : curve_picture(experiment);
}

// True if there are figures to draw or to compare with.
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

// The reasons why columns are not measured, each with the names of its columns, in the order of the first columns.
std::vector<std::pair<std::string, std::string>> columns_by_reason(const Json& absent) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [column, reason] : absent.items()) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first == reason; });
    if (same == all.end()) {
      all.emplace_back(reason, column);
    } else {
      same->second += ", " + column;
    }
  }
  return all;
}

// A name with its unit.
std::string heading(const Json& units, const std::string& column) {
  const auto unit = units.value(column, "");
  return escaped(column) + (unit.empty() || unit == column ? "" : " <span class=\"unit\">" + escaped(unit) + "</span>");
}

std::string cell(const Json& row, const std::string& column) {
  const auto found = row.find(column);
  return escaped(text_of(found == row.end() ? Json(nullptr) : *found));
}

// A row for each row.
std::string upright_table(const Json& columns, const Json& units, const Json& rows) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (const Json& column : columns) out += "<th class=\"wrap\">" + heading(units, column) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const Json& row : rows) {
    out += "<tr>";
    for (const Json& column : columns) out += "<td>" + cell(row, column) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// A row for each column: what has few rows and many columns would not fit into the width of a page.
std::string lying_table(const Json& columns, const Json& units, const Json& rows) {
  const std::string first = columns.at(0);
  std::string out = "<div class=\"scroll\"><table><thead><tr><th class=\"l\">" + heading(units, first) + "</th>";
  for (const Json& row : rows) out += "<th class=\"wrap\">" + cell(row, first) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (size_t i = 1; i < columns.size(); ++i) {
    out += "<tr><td class=\"l say\">" + heading(units, columns.at(i)) + "</td>";
    for (const Json& row : rows) out += "<td>" + cell(row, columns.at(i)) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// A table that fits into the width of a page: of many columns it makes rows if the rows are few, and otherwise several
// tables, each with the first column.
std::string table(const Json& columns, const Json& units, const Json& rows) {
  constexpr size_t kColumnsMax = 10, kColumnsOfPart = 8;
  if (columns.size() <= kColumnsMax) return upright_table(columns, units, rows);
  std::set<std::string> names;  // of the rows, which a lying table has nothing but the first column for
  for (const Json& row : rows) names.insert(cell(row, columns.at(0)));
  if (rows.size() <= kColumnsMax && names.size() == rows.size()) return lying_table(columns, units, rows);
  std::string out;
  for (size_t from = 1; from < columns.size(); from += kColumnsOfPart) {
    Json part = {columns.at(0)};
    for (size_t i = from; i < std::min(from + kColumnsOfPart, columns.size()); ++i) part.push_back(columns.at(i));
    out += upright_table(part, units, rows);
  }
  return out;
}

// True of labels that say what is not real about a figure, or why it is not judged.
bool is_warning(const std::string& label) {
  for (const char* word :
       {"EMULATED", "MODELLED", "SAMPLED", "SIMULATED", "SOFTWARE", "NO NETWORK", "NOT JUDGED", "NOISY", "TRIAL"}) {
    if (label.find(word) != std::string::npos) return true;
  }
  return false;
}

// Warnings in a box of their own, what else a reader must know as a list.
std::string labels_of(const Json& experiment, bool warnings) {
  std::string out;
  for (const Json& label : experiment.at("labels")) {
    const auto text = label.get<std::string>();
    if (is_warning(text) == warnings) out += warnings ? escaped(text) + "<br>" : "<li>" + escaped(text) + "</li>\n";
  }
  if (out.empty()) return out;
  return warnings ? "<div class=\"label\">" + out + "</div>\n" : "<ul class=\"notes\">\n" + out + "</ul>\n";
}

}  // namespace

std::string experiment_svg(const Json& experiment) { return picture(experiment).file(); }

std::string experiment_section(const Json& experiment) {
  const Json& manifest = experiment.at("manifest");
  const auto fact = [&manifest](const char* name) {
    return manifest.at(name).is_string() ? manifest.at(name).get<std::string>() : std::string("unknown");
  };
  const std::string name = escaped(experiment.at("name").get<std::string>());
  std::string out =
      "<h2 id=\"" + name + "\">Experiment " + name + "</h2>\n<p class=\"soft\">" +
      escaped(experiment.at("title").get<std::string>()) + " (" + escaped(experiment.at("source").get<std::string>()) +
      "). Commit " + escaped(fact("commit").substr(0, 12)) + ", " + escaped(fact("started")) + ", " +
      escaped(fact("cpu")) + ", medium " + escaped(fact("medium")) + ".</p>\n" + labels_of(experiment, true);
  if (has_figures(experiment)) {
    out +=
        "<div class=\"grid one\"><figure class=\"experiment\">" + picture(experiment).element() + "</figure></div>\n";
  }
  out += table(experiment.at("columns"), experiment.at("units"), experiment.at("rows"));
  for (const auto& [reason, columns] : columns_by_reason(experiment.at("absent"))) {
    out += "<p class=\"soft\">" + std::string(kDash) + " " + escaped(columns) + ": " + escaped(reason) + ".</p>\n";
  }
  out += labels_of(experiment, false);
  if (experiment.at("reference").empty()) return out;
  out += "<p><b>" + escaped(reference_heading(experiment)) + "</b></p>\n";
  Json columns = Json::array();
  for (const auto& [column, value] : experiment.at("reference").at(0).items()) columns.push_back(column);
  return out + table(columns, experiment.at("units"), experiment.at("reference"));
}

// The chapters of the report: whose claims are measured.
constexpr std::array<std::pair<const char*, const char*>, 5> kChapters = {{{"docs/", "The project's goals"},
                                                                           {"BonsaiKV", "BonsaiKV"},
                                                                           {"KiWi", "KiWi"},
                                                                           {"MELT", "MELT"},
                                                                           {"RCuckoo", "RCuckoo and RACE"}}};
size_t chapter_of(const Json& experiment) {
  const std::string source = experiment.value("source", Json()).is_string() ? experiment.at("source") : Json("");
  for (size_t i = 0; i < kChapters.size(); ++i) {
    if (source.find(kChapters[i].first) != std::string::npos) return i;
  }
  return kChapters.size();
}

// Chapter by chapter, and in each in the order of this build's list, where an unknown one comes last.
const Registered<PagePart> kExperimentPart("experiments", []() -> std::vector<PagePart> {
  const auto place = [](const Json& json) {
    const std::vector<Experiment>& list = experiment_list();
    const auto name = json.value("name", std::string());
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const Experiment& each) { return each.name == name; });
    // The claims come first.
    return 1 + chapter_of(json) * (list.size() + 1) + static_cast<size_t>(found - list.begin());
  };
  const auto chapter = [](const Json& json) {
    const size_t at = chapter_of(json);
    return at < kChapters.size() ? std::string(kChapters[at].second) : std::string("Others");
  };
  return {{.is_mine = is_experiment, .section = experiment_section, .place = place, .chapter = chapter}};
});

}  // namespace bonsai::bench
