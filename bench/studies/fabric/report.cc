// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/report.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/status_macros.h"
#include "bench/pages/page_part.h"
#include "bench/report/charts.h"
#include "bench/report/terminal.h"
#include "bench/results/csv.h"
#include "bench/studies/fabric/perftest.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFabricVersion = 1;
constexpr double kLatencyGoal = 1.3, kRateGoal = 0.8;
constexpr const char* kDash = "\xe2\x80\x93";
constexpr double kChartWidth = 340, kChartHeight = 240;

struct ColumnOf {
  const char* name;
  const char* title;
};
constexpr ColumnOf kColumns[] = {{"provider", "provider"},
                                 {"request", "request"},
                                 {"bytes", "bytes"},
                                 {"batch", "batch"},
                                 {"depth", "depth"},
                                 {"p50_us", "p50 us"},
                                 {"p99_us", "p99 us"},
                                 {"one_way_us", "one way us"},
                                 {"messages_per_s", "messages/s"},
                                 {"perftest_us", "perftest us"},
                                 {"perftest_messages_per_s", "perftest messages/s"},
                                 {"ratio", "ours/perftest"}};

Json row_json(const FabricRow& row) {
  const FabricSample middle = median(row.samples);
  std::vector<double> p50, rates;
  for (const FabricSample& sample : row.samples) {
    p50.push_back(sample.p50_us);
    rates.push_back(sample.messages_per_s);
  }
  Json json = {{"provider", row.provider},
               {"request", rdma::verb_name(row.cell.verb)},
               {"bytes", row.cell.bytes},
               {"batch", row.cell.batch},
               {"depth", row.cell.depth},
               {"p50_us", middle.p50_us},
               {"p99_us", middle.p99_us},
               {"one_way_us", middle.one_way_us ? Json(*middle.one_way_us) : Json(nullptr)},
               {"messages_per_s", middle.messages_per_s},
               {"perftest_us", nullptr},
               {"perftest_messages_per_s", nullptr},
               {"ratio", nullptr},
               {"perftest", nullptr},
               {"goal", nullptr},
               {"runs_p50_us", p50},
               {"runs_messages_per_s", rates},
               {"runs_perftest", row.perftest}};
  if (row.perftest.empty()) return json;
  const double theirs = median(row.perftest);
  const bool latency = perftest_tells_latency(row.cell);
  const double ours = latency ? middle.one_way_us.value_or(middle.p50_us) : middle.messages_per_s;
  json["perftest"] = perftest_program(row.cell);
  json[latency ? "perftest_us" : "perftest_messages_per_s"] = theirs;
  json["ratio"] = ours / theirs;
  json["goal"] = latency ? kLatencyGoal : kRateGoal;
  return json;
}

// Whether a ratio is within its bound: for a time an upper bound, for a rate a lower one.
bool meets_goal(const Json& row) {
  const auto ratio = row.at("ratio").get<double>();
  return row.at("perftest_us").is_number() ? ratio <= kLatencyGoal : ratio >= kRateGoal;
}

std::string cell_text(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  char text[32];
  const auto number = value.get<double>();
  if (number >= 1e4) return short_number(number);
  std::snprintf(text, sizeof text, number < 10 ? "%.2f" : "%.1f", number);
  return text;
}

std::string goal_line(const Json& fabric) {
  size_t compared = 0, met = 0;
  for (const Json& row : fabric.at("rows")) {
    if (!row.at("ratio").is_number()) continue;
    ++compared;
    met += meets_goal(row) ? 1 : 0;
  }
  if (compared == 0) return "no comparison with perftest";
  return std::to_string(met) + " of " + std::to_string(compared) +
         " cells are within the goal (times at most 1.3 x perftest's, rates at least 0.8 x)";
}

// ---- pictures

using Key = double (*)(const Json& row);
double size_of(const Json& row) { return row.at("bytes").get<double>(); }
double in_flight(const Json& row) { return row.at("batch").get<double>() * row.at("depth").get<double>(); }

// One chart of a provider: rows that `wanted` takes, evenly spaced by `key`, ours and perftest's.
LineChart chart_of(const Json& fabric, const std::string& provider, bool (*wanted)(const Json&), Key key,
                   const char* ours, const char* theirs) {
  LineChart chart;
  chart.y_log = true;
  std::set<double> places;
  std::vector<std::string> verbs;
  const auto each = [&](const auto& visit) {
    for (const Json& row : fabric.at("rows")) {
      if (row.at("provider") == provider && wanted(row)) visit(row);
    }
  };
  each([&](const Json& row) {
    places.insert(key(row));
    const auto verb = row.at("request").get<std::string>();
    if (std::find(verbs.begin(), verbs.end(), verb) == verbs.end()) verbs.push_back(verb);
  });
  const auto place = [&](const Json& row) {
    return static_cast<double>(std::distance(places.begin(), places.find(key(row))));
  };
  chart.x_max = std::max<double>(1, static_cast<double>(places.size()) - 1);
  for (const double at : places) {
    chart.x_ticks.push_back({static_cast<double>(chart.x_ticks.size()), std::to_string(static_cast<uint64_t>(at))});
  }
  for (size_t i = 0; i < verbs.size(); ++i) {
    Curve mine{verbs[i], static_cast<int>(i), false, {}}, other{"", static_cast<int>(i), true, {}};
    each([&](const Json& row) {
      if (row.at("request") != verbs[i]) return;
      const Json& time =
          row.at("one_way_us").is_number() && std::string(ours) == "p50_us" ? row.at("one_way_us") : row.at(ours);
      mine.points.emplace_back(place(row), time.get<double>());
      if (row.at(theirs).is_number()) other.points.emplace_back(place(row), row.at(theirs).get<double>());
    });
    std::sort(mine.points.begin(), mine.points.end());
    std::sort(other.points.begin(), other.points.end());
    chart.curves.push_back(std::move(mine));
    if (!other.points.empty()) chart.curves.push_back(std::move(other));
  }
  return chart;
}

bool is_alone(const Json& row) { return in_flight(row) == 1; }
// Sizes have rates of their own: only the size that batches and depths were measured in.
bool is_of_the_rates(const Json& row) { return row.at("is_base").get<bool>(); }

Svg picture(const Json& fabric) {
  const Json& subjects = fabric.at("subjects");
  Svg svg(2 * kChartWidth + 20, kChartHeight * static_cast<double>(subjects.size()) + 18, "The fabric");
  double y = 0;
  for (const Json& subject : subjects) {
    const auto name = subject.at("name").get<std::string>();
    LineChart times = chart_of(fabric, name, is_alone, size_of, "p50_us", "perftest_us");
    times.title = name + ": time of one request";
    times.y_label = "us";
    times.x_label = "bytes";
    LineChart rates = chart_of(fabric, name, is_of_the_rates, in_flight, "messages_per_s", "perftest_messages_per_s");
    rates.title = name + ": requests per second";
    rates.y_label = "requests/s";
    rates.x_label = "requests in flight";
    svg.place(line_chart(times), 0, y);
    svg.place(line_chart(rates), kChartWidth + 20, y);
    y += kChartHeight;
  }
  svg.text(0, y + 12, "Dashed: perftest. WRITE and SEND: one way, half of a ping-pong. All scales are logarithmic.",
           "class=\"soft small\"");
  return svg;
}

}  // namespace

Json fabric_json(const FabricReport& report) {
  Json subjects = Json::array(), rows = Json::array();
  for (const FabricSubject& subject : report.subjects) {
    subjects.push_back({{"name", subject.name},
                        {"text", subject.text},
                        {"label", subject.label},
                        {"litmus", subject.litmus.empty() ? Json(nullptr) : Json(subject.litmus)}});
  }
  for (const FabricRow& row : report.rows) {
    if (row.samples.empty()) continue;
    Json json = row_json(row);
    uint64_t least = row.cell.bytes;
    for (const FabricRow& other : report.rows) {
      if (other.provider == row.provider && other.cell.verb == row.cell.verb) least = std::min(least, other.cell.bytes);
    }
    json["is_base"] = row.cell.bytes == least;
    rows.push_back(std::move(json));
  }
  return {{"version", kFabricVersion}, {"name", "fabric"},
          {"runs", report.runs},       {"polling", report.polling},
          {"subjects", subjects},      {"rows", rows},
          {"notes", report.notes},     {"manifest", manifest_json(report.manifest)}};
}

bool is_fabric(const Json& json) {
  return json.is_object() && json.value("name", Json()) == "fabric" &&
         json.value("version", Json()) == kFabricVersion && json.contains("subjects") && json.contains("rows") &&
         json.contains("manifest");
}

std::string fabric_table(const Json& fabric) {
  std::vector<std::vector<std::string>> rows(1);
  for (const ColumnOf& column : kColumns) rows[0].emplace_back(column.title);
  for (const Json& row : fabric.at("rows")) {
    rows.emplace_back();
    for (const ColumnOf& column : kColumns) rows.back().push_back(cell_text(row.at(column.name)));
  }
  std::string text = align(rows, 2);
  for (const Json& subject : fabric.at("subjects")) {
    const auto name = subject.at("name").get<std::string>();
    text +=
        name + ": " + subject.at("text").get<std::string>() + "\n  " + subject.at("label").get<std::string>() + "\n";
    if (subject.at("litmus").is_string()) text += "  litmus tests: " + subject.at("litmus").get<std::string>() + "\n";
  }
  for (const Json& note : fabric.at("notes")) text += "note: " + note.get<std::string>() + "\n";
  return text + "Medians of " + fabric.at("runs").dump() + " runs that took turns; waits " +
         fabric.at("polling").get<std::string>() + "; " + goal_line(fabric) + ".\n";
}

std::string fabric_svg(const Json& fabric) { return picture(fabric).file(); }

std::string fabric_section(const Json& fabric) {
  std::string out = "<h2>Fabric</h2>\n<p class=\"soft\">Medians of " + fabric.at("runs").dump() +
                    " runs that took turns; waits " + escaped(fabric.at("polling").get<std::string>()) + "; " +
                    escaped(goal_line(fabric)) + ".</p>\n<div class=\"label\">";
  for (const Json& subject : fabric.at("subjects")) {
    out += "<b>" + escaped(subject.at("name").get<std::string>()) +
           "</b>: " + escaped(subject.at("label").get<std::string>()) + " (" +
           escaped(subject.at("text").get<std::string>()) + ")";
    if (subject.at("litmus").is_string()) out += "; litmus tests: " + escaped(subject.at("litmus").get<std::string>());
    out += "<br>";
  }
  for (const Json& note : fabric.at("notes")) out += escaped(note.get<std::string>()) + "<br>";
  out += "</div>\n<div class=\"grid one\"><figure class=\"experiment\">" + picture(fabric).element() +
         "</figure></div>\n<div class=\"scroll\"><table><thead><tr>";
  for (const ColumnOf& column : kColumns) out += "<th class=\"wrap\">" + std::string(column.title) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const Json& row : fabric.at("rows")) {
    out += "<tr>";
    for (const ColumnOf& column : kColumns) {
      const std::string text = cell_text(row.at(column.name));
      const bool bad = std::string(column.name) == "ratio" && row.at("ratio").is_number() && !meets_goal(row);
      out += std::string(bad ? "<td class=\"bad\">" : "<td>") + (text == "-" ? kDash : escaped(text)) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

Status write_fabric(const std::string& directory, const Json& fabric) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Status::IoError("cannot make " + directory + ": " + error.message() + "; give another --out");
  std::vector<std::string> columns;
  for (const ColumnOf& column : kColumns) columns.emplace_back(column.name);
  BONSAI_RETURN_IF_ERROR(write_file(directory + "/fabric.json", fabric.dump(2) + "\n"));
  BONSAI_RETURN_IF_ERROR(write_file(directory + "/fabric.csv", csv_text(columns, fabric.at("rows"))));
  return write_file(directory + "/fabric.svg", fabric_svg(fabric));
}

// After the experiments.
const Registered<PagePart> kFabricPart("fabric", []() -> std::vector<PagePart> {
  const auto place = [](const Json&) { return SIZE_MAX; };
  return {{.is_mine = is_fabric, .section = fabric_section, .place = place, .is_listed = false}};
});

}  // namespace bonsai::bench
