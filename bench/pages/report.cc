// SPDX-License-Identifier: Apache-2.0
#include "bench/pages/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "base/status_macros.h"
#include "bench/pages/page_part.h"
#include "bench/report/charts.h"
#include "bench/report/report_style.h"
#include "bench/results/results.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDash = "\xe2\x80\x93";

std::string number(double value, int digits) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

// A cell: the number, or a dash for null.
std::string number_or_dash(const Json& value, int digits, double scale = 1) {
  return value.is_number() ? number(value.get<double>() / scale, digits) : kDash;
}

std::string text_or(const Json& value, const std::string& other) {
  return value.is_string() ? value.get<std::string>() : other;
}

std::string panel(const Svg& picture, const std::string& caption = {}) {
  return "<figure>" + picture.element() +
         (caption.empty() ? "" : "<figcaption>" + escaped(caption) + "</figcaption>\n") + "</figure>\n";
}

std::string section(const std::string& title, const std::string& says) {
  return "<h2>" + escaped(title) + "</h2>\n<p class=\"soft\">" + escaped(says) + "</p>\n";
}

// Members of `runs` in the order of their first run, without doubles.
std::vector<std::string> in_order(const Json& runs, const char* member) {
  std::vector<std::string> names;
  for (const Json& run : runs) {
    const auto name = run.at(member).get<std::string>();
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

bool is_load(const std::string& workload) { return workload == "load" || workload == "reload"; }

std::string workload_title(const std::string& name) {
  if (name == "load") return "Load";
  if (name == "reload") return "Load again";
  if (name.size() == 1) return std::string("Workload ") + static_cast<char>(std::toupper(name[0]));
  return "Workload " + name;
}

class RunReport {
 public:
  explicit RunReport(const Json& results)
      : manifest_(results.at("manifest")),
        runs_(results.at("runs")),
        left_out_(results.at("left_out")),
        errors_(results.at("errors")),
        engines_(in_order(runs_, "engine")),
        workloads_(in_order(runs_, "workload")) {
    // Engines that were there for nothing but what they cannot do still have their place.
    for (const Json& one : left_out_) {
      const auto name = one.at("engine").get<std::string>();
      if (std::find(engines_.begin(), engines_.end(), name) == engines_.end()) engines_.push_back(name);
    }
  }

  [[nodiscard]] std::string html() const {
    if (runs_.empty()) return header() + labels() + "<p>No run has ended yet.</p>\n" + manifest();
    return header() + labels() + throughput() + latency() + memory() + table() + manifest();
  }

 private:
  // The last run of an engine and workload, or null.
  [[nodiscard]] const Json* find(const std::string& engine, const std::string& workload) const {
    const Json* found = nullptr;
    for (const Json& run : runs_) {
      if (run.at("engine") == engine && run.at("workload") == workload) found = &run;
    }
    return found;
  }

  [[nodiscard]] std::string why_absent(const std::string& engine, const std::string& workload) const {
    for (const Json& one : left_out_) {
      if (one.at("engine") == engine && one.at("workload") == workload) return one.at("reason").get<std::string>();
    }
    return "not run";
  }

  [[nodiscard]] std::string any(const char* member) const {
    const std::vector<std::string> all = in_order(runs_, member);
    return all.empty() ? kDash : all[0] + (all.size() > 1 ? " and others" : "");
  }

  [[nodiscard]] std::string range(const char* member) const {
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (const Json& run : runs_) {
      const auto value = run.at(member).get<uint64_t>();
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (high < low) return kDash;
    const auto shown = [](uint64_t value) { return short_number(static_cast<double>(value)); };
    return low == high ? shown(low) : shown(low) + " to " + shown(high);
  }

  [[nodiscard]] std::string header() const {
    std::string out = "<h1>bonsai-bench</h1>\n<p class=\"soft\">" + std::to_string(engines_.size()) +
                      (engines_.size() == 1 ? " store" : " stores") + " under one harness, " +
                      escaped(manifest_.at("started").get<std::string>()) + ", commit " +
                      escaped(text_or(manifest_.at("commit"), "unknown").substr(0, 12)) + "</p>\n<ul class=\"facts\">";
    const auto fact = [&out](const std::string& value, const char* name) {
      out += "<li><b>" + escaped(value) + "</b><span>" + name + "</span></li>";
    };
    fact(range("records"), "records");
    fact(any("key") + " + " + range("value_size") + " B", "key and value");
    fact(range("operations"), "operations per phase");
    fact(range("threads"), "client threads");
    fact(range("depth"), "reads and writes submitted at once");
    fact(std::to_string(manifest_.at("processors").get<unsigned>()), "processors");
    return out + "</ul>\n";
  }

  // Warnings at the top of the page.
  [[nodiscard]] std::string labels() const {
    std::string out;
    uint64_t failures = 0;
    for (const Json& run : runs_) failures += run.at("failures").get<uint64_t>();
    if (failures > 0) {
      out += "<div class=\"label alarm\"><strong>FAILURES:</strong> " + std::to_string(failures) +
             " operations failed; see the table.</div>\n";
    }
    for (const Json& error : errors_) {
      out += "<div class=\"label alarm\"><strong>ENDED EARLY:</strong> " +
             escaped(error.at("engine").get<std::string>()) + ": " + escaped(error.at("message").get<std::string>()) +
             "</div>\n";
    }
    std::string emulated;
    for (const Json& what : manifest_.at("emulated")) emulated += escaped(what.get<std::string>()) + "<br>";
    if (!emulated.empty()) {
      out += "<div class=\"label emulated\"><strong>EMULATED</strong><br>" + emulated +
             "Instructions, counts and behaviour are real, the speed of the medium is not: no figure here is a "
             "statement about a real device.</div>\n";
    }
    const std::string commit = text_or(manifest_.at("commit"), "");
    if (commit.ends_with("-dirty")) {
      out +=
          "<div class=\"label\"><strong>NOT A COMMIT:</strong> the work tree had changes beyond the commit that is "
          "named here.</div>\n";
    }
    return out;
  }

  [[nodiscard]] int colour_of(const std::string& engine) const {
    return static_cast<int>(std::find(engines_.begin(), engines_.end(), engine) - engines_.begin());
  }

  [[nodiscard]] std::string legend() const {
    return "<ul class=\"legend\"><li><i style=\"background:var(--soft)\"></i>durable or buffered: updates survive "
           "a crash</li><li><i style=\"border:1.5px solid var(--soft)\"></i>volatile: everything is lost with the "
           "process</li></ul>\n";
  }

  // Describes the requests of a workload, as they were carried out.
  [[nodiscard]] std::string mix(const std::string& workload) const {
    for (const Json& run : runs_) {
      if (run.at("workload") != workload) continue;
      std::string text;
      const auto operations = run.at("operations").get<double>();
      for (const auto& [kind, count] : run.at("operations_of").items()) {
        text += (text.empty() ? "" : ", ") + number(100 * count.get<double>() / operations, 0) + " % " + kind;
      }
      return text + "; " + run.at("distribution").get<std::string>();
    }
    return {};
  }

  [[nodiscard]] Bar bar_of(const std::string& engine, const std::string& workload) const {
    Bar bar;
    bar.label = engine;
    bar.colour = colour_of(engine);
    const Json* run = find(engine, workload);
    if (run == nullptr) {
      bar.absent = why_absent(engine, workload);
      return bar;
    }
    const auto threads = run->at("threads").get<unsigned>();
    if (threads_differ(workload)) bar.label += ", " + threads_text(threads);
    bar.outlined = run->at("durability").is_null();
    bar.value = run->at("throughput_ops_per_s").get<double>();
    if (const Json& repeats = run->at("repeats_ops_per_s"); repeats.size() > 1) {
      const auto rates = repeats.get<std::vector<double>>();
      bar.spread = {*std::min_element(rates.begin(), rates.end()), *std::max_element(rates.begin(), rates.end())};
    }
    bar.tip = engine + ", " + workload_title(workload) + ": " + short_number(*bar.value) + " operations/s, " +
              threads_text(threads) + ", " + text_or(run->at("durability"), "volatile") + ", medium " +
              text_or(run->at("medium"), "not reported");
    return bar;
  }

  [[nodiscard]] std::string throughput() const {
    std::string out = section(
        "Throughput",
        "Operations per second, more is better. Each chart has its own scale. Of several repetitions the bar is the "
        "median and the line across its end goes from the slowest to the fastest.");
    out += legend() + "<div class=\"grid\" id=\"throughput\">\n";
    for (const std::string& workload : workloads_) {
      if (workload == "reload") continue;
      std::vector<Bar> bars;
      for (const std::string& engine : engines_) bars.push_back(bar_of(engine, workload));
      out += panel(bar_chart(workload_title(workload) + ", operations/s", bars),
                   mix(workload) + threads_note(workload) + emulation_note(workload));
    }
    return out + "</div>\n";
  }

  static std::string threads_text(unsigned threads) {
    return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }

  // Whether engines took fewer threads than others in the same workload.
  [[nodiscard]] bool threads_differ(const std::string& workload) const {
    std::set<unsigned> taken;
    for (const std::string& engine : engines_) {
      if (const Json* run = find(engine, workload)) taken.insert(run->at("threads").get<unsigned>());
    }
    return taken.size() > 1;
  }

  [[nodiscard]] std::string threads_note(const std::string& workload) const {
    return threads_differ(workload) ? "; UNEQUAL threads: compare those that took as many" : "";
  }

  // Engines whose medium is emulated.
  [[nodiscard]] std::string emulation_note(const std::string& workload) const {
    std::string emulated;
    for (const std::string& engine : engines_) {
      const Json* run = find(engine, workload);
      if (run == nullptr || run->at("emulated") != true) continue;
      emulated += (emulated.empty() ? "" : ", ") + engine;
    }
    return emulated.empty() ? "" : "; EMULATED medium: " + emulated;
  }

  [[nodiscard]] std::string latency() const {
    std::string out =
        section("Latency",
                "Microseconds that an operation took, by percentile, on a logarithmic scale; "
                "lower is better. Timed is a sample of the operations; curves end where the sample "
                "gets too small. A reading of many records at once is timed as a whole. With a star: from "
                "the moment at which the operation should have begun (open loop).");
    out += "<div class=\"grid\" id=\"latency\">\n";
    for (const std::string& workload : workloads_) {
      for (const char* kind : {"read", "update", "insert", "scan", "rmw", "delete"}) {
        if (workload != "reload") out += latency_panel(workload, kind);
      }
    }
    return out + "</div>\n";
  }

  // Where a percentile is on the axis: each nine is as wide as the one before it.
  [[nodiscard]] static double place(double percent) { return -std::log10(1 - percent / 100); }

  static void add_curve(const std::string& name, int colour, bool dashed, const Json& latency, LineChart* chart) {
    Curve curve{name, colour, dashed, {}};
    for (const Json& point : latency.at("curve")) {
      const double percent = point.at(0).get<double>();
      const double us = point.at(1).get<double>();
      const bool dense = percent > 1 && percent < 25;
      if (percent < 100 && us > 0 && !dense) curve.points.emplace_back(place(percent), us);
    }
    if (curve.points.empty()) return;
    chart->x_max = std::max(chart->x_max, curve.points.back().first);
    chart->curves.push_back(std::move(curve));
  }

  [[nodiscard]] std::string latency_panel(const std::string& workload, const char* kind) const {
    LineChart chart;
    chart.title = workload_title(workload) + ", " + kind;
    chart.y_label = "\xc2\xb5s";
    chart.x_label = "percentile";
    chart.y_log = true;
    for (const std::string& engine : engines_) {
      const Json* run = find(engine, workload);
      if (run == nullptr) continue;
      for (const char* member : {"latency_us", "intended_latency_us"}) {
        const bool intended = std::string_view(member) == "intended_latency_us";
        if (run->at(member).is_null() || !run->at(member).contains(kind)) continue;
        add_curve(engine + (intended ? "*" : ""), colour_of(engine), intended, run->at(member).at(kind), &chart);
      }
    }
    if (chart.curves.empty()) return {};
    for (const auto& [percent, name] : std::vector<std::pair<double, const char*>>{
             {1, "1"}, {50, "50"}, {90, "90"}, {99, "99"}, {99.9, "99.9"}, {99.99, "99.99"}, {99.999, "99.999"}}) {
      if (place(percent) <= chart.x_max) chart.x_ticks.push_back({place(percent), name});
    }
    return panel(line_chart(chart));
  }

  [[nodiscard]] std::string memory() const {
    std::string out = section("Memory",
                              "Bytes per record after the phase has settled; fewer is better. The line is what "
                              "the user stored. + ?: and DRAM that the engine does not report.");
    out +=
        "<ul class=\"legend\"><li><i style=\"background:var(--dram)\"></i>DRAM</li><li><i style=\"background:"
        "color-mix(in srgb,var(--nvm) 35%,transparent);border:1.5px solid var(--nvm)\"></i>NVM or file</li></ul>\n";
    out += "<div class=\"grid\" id=\"memory\">\n";
    std::vector<std::string> shown;
    for (const std::string& workload : workloads_) {
      if (is_load(workload) || workload == workloads_.back()) shown.push_back(workload);
    }
    for (const std::string& workload : shown) {
      if (workload != "reload") out += memory_panel(workload);
    }
    return out + "</div>\n";
  }

  [[nodiscard]] std::string memory_panel(const std::string& workload) const {
    std::vector<Stack> stacks;
    std::optional<double> user;
    for (const std::string& engine : engines_) {
      Stack stack{engine, {}, {}, "does not report"};
      const Json* run = find(engine, workload);
      if (run == nullptr) stack.absent = why_absent(engine, workload);
      if (run != nullptr) {
        const Json& memory = run->at("memory");
        const auto records = run->at("records").get<double>();
        if (memory.at("dram_bytes").is_number()) stack.dram = memory.at("dram_bytes").get<double>() / records;
        if (memory.at("nvm_bytes").is_number()) stack.nvm = memory.at("nvm_bytes").get<double>() / records;
        if (memory.at("user_bytes").is_number()) user = memory.at("user_bytes").get<double>() / records;
      }
      stacks.push_back(std::move(stack));
    }
    return panel(memory_chart("After " + workload_title(workload) + ", bytes per record", stacks, user));
  }

  [[nodiscard]] std::string table() const {
    std::string out = section("All figures",
                              "Latencies in \xc2\xb5s. NVM writes include what the phase put off and did "
                              "afterwards (settle). A dash: the engine cannot do it or does not report it.");
    out += "<div class=\"scroll\" id=\"runs\"><table><thead><tr>";
    for (const char* name : {"workload", "engine", "level"}) out += std::string("<th class=\"l\">") + name + "</th>";
    for (const char* name : {"threads", "kop/s", "kind", "p50", "p99", "p99.9", "DRAM B/rec", "process B/rec",
                             "NVM B/rec", "stored B/op", "media B/op", "fences/op", "settle s", "failures"}) {
      out += std::string("<th>") + name + "</th>";
    }
    out += "</tr></thead><tbody>\n";
    for (const std::string& workload : workloads_) {
      bool first = true;
      for (const std::string& engine : engines_) {
        out += first ? "<tr class=\"first\">" : "<tr>";
        first = false;
        out += "<td class=\"l\">" + escaped(workload_title(workload)) + "</td><td class=\"l\">" + escaped(engine) +
               "</td>";
        const Json* run = find(engine, workload);
        out += run == nullptr ? absent_cells(engine, workload) : cells(*run);
        out += "</tr>\n";
      }
    }
    return out + "</tbody></table></div>\n";
  }

  [[nodiscard]] std::string absent_cells(const std::string& engine, const std::string& workload) const {
    return std::string("<td class=\"l soft\" colspan=\"15\">") + kDash + " " + escaped(why_absent(engine, workload)) +
           "</td>";
  }

  [[nodiscard]] static std::string cells(const Json& run) {
    std::string out = "<td class=\"l\">" + escaped(text_or(run.at("durability"), "volatile")) + "</td>";
    const auto cell = [&out](const std::string& text) { out += "<td>" + escaped(text) + "</td>"; };
    cell(std::to_string(run.at("threads").get<unsigned>()));
    cell(number_or_dash(run.at("throughput_ops_per_s"), 1, 1000));
    // The first kind with a good share stands for the run; the others are in the charts and in results.json.
    std::string kind;
    for (const auto& [name, count] : run.at("operations_of").items()) {
      const bool frequent = 4 * count.get<uint64_t>() > run.at("operations").get<uint64_t>();
      if (kind.empty() && frequent && run.at("latency_us").contains(name)) kind = name;
    }
    cell(kind.empty() ? kDash : kind);
    for (const char* percentile : {"p50", "p99", "p999"}) {
      cell(kind.empty() ? kDash : number_or_dash(run.at("latency_us").at(kind).at(percentile), 2));
    }
    const auto records = run.at("records").get<double>();
    cell(number_or_dash(run.at("memory").at("dram_bytes"), 1, records));
    cell(number_or_dash(run.at("memory").at("process_bytes"), 1, records));
    cell(number_or_dash(run.at("memory").at("nvm_bytes"), 1, records));
    const auto operations = std::max(1.0, run.at("operations").get<double>());
    const Json& nvm = run.at("nvm");
    for (const char* fact : {"bytes_stored", "media_bytes", "fences"}) {
      cell(nvm.is_null() ? kDash : number_or_dash(nvm.at(fact), 2, operations));
    }
    cell(number_or_dash(run.at("settle_seconds"), 2));
    const auto failures = run.at("failures").get<uint64_t>();
    return out + (failures > 0 ? "<td class=\"bad\">" : "<td>") + std::to_string(failures) + "</td>";
  }

  [[nodiscard]] std::string manifest() const {
    std::string out = section("Manifest", "Where and how these figures came about. A dash: not known.");
    out += "<dl class=\"manifest\">\n";
    const auto entry = [&out](const std::string& name, const std::string& value) {
      out += "<div><dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd></div>\n";
    };
    for (const auto& [name, value] : manifest_.items()) {
      if (value.is_object() || value.is_array()) continue;
      entry(name, value.is_null() ? kDash : value.is_string() ? value.get<std::string>() : value.dump());
    }
    for (const auto& [name, value] : manifest_.at("flags").items()) entry("--" + name, text_or(value, value.dump()));
    return out + "</dl>\n";
  }

  const Json& manifest_;
  const Json& runs_;
  const Json& left_out_;
  const Json& errors_;
  std::vector<std::string> engines_;
  std::vector<std::string> workloads_;
};

Status read_json(const std::string& path, Json* json) {
  std::ifstream in(path);
  if (!in) return Status::NotFound(path);
  std::stringstream text;
  text << in.rdbuf();
  *json = Json::parse(text.str(), nullptr, false);
  if (json->is_discarded()) return Status::Corruption(path + " is no JSON; remove it and run again");
  return Status::OK();
}

// The kind of the file, or null: this build does not have it.
const PagePart* part_of(const Json& json) {
  for (const PagePart& each : Registered<PagePart>::all()) {
    if (each.is_mine(json)) return &each;
  }
  return nullptr;
}

// The files in `directory` that have sections of their own, in the order of the sections.
std::vector<Json> find_parts(const std::string& directory) {
  std::vector<Json> parts;
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".json" && entry.path().stem() != "results") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    Json json;
    if (read_json(path, &json).ok() && part_of(json) != nullptr) parts.push_back(std::move(json));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Json& a, const Json& b) { return part_of(a)->place(a) < part_of(b)->place(b); });
  return parts;
}

// Links to the sections, by name, where there are more than can be seen at once.
std::string contents(const std::vector<Json>& parts) {
  constexpr size_t kSeenAtOnce = 3;
  if (parts.size() <= kSeenAtOnce) return {};
  std::string out = "<nav aria-label=\"Experiments\"><ul class=\"contents\">\n", chapter;
  for (const Json& one : parts) {
    if (const std::string its = part_of(one)->chapter(one); its != chapter) {
      chapter = its;
      out += "<li class=\"chapter\">" + escaped(its) + "</li>\n";
    }
    const std::string name = escaped(one.at("name").get<std::string>());
    out += "<li><a href=\"#" + name + "\">" + name + "</a> <span class=\"soft\">" +
           escaped(one.at("title").get<std::string>()) + "</span></li>\n";
  }
  return out + "</ul></nav>\n";
}

}  // namespace

std::string report_html(const Json& results, const std::vector<Json>& parts) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>bonsai-bench</title>\n<style>";
  out.append(svg_style()).append(kReportStyle).append("</style></head>\n<body><main>\n");
  out += results.is_null() ? "<h1>bonsai-bench</h1>\n" : RunReport(results).html();
  out += contents(parts);
  std::string chapter;
  for (const Json& one : parts) {
    if (const std::string its = part_of(one)->chapter(one); its != chapter) {
      chapter = its;
      out += "<h1 class=\"chapter\">" + escaped(its) + "</h1>\n";
    }
    out += part_of(one)->section(one);
  }
  return out + "</main></body></html>\n";
}

Status write_report(const std::string& directory) {
  Json results;
  const Status status = read_json(directory + "/results.json", &results);
  if (!status.ok() && !status.IsNotFound()) return status;
  const bool is_ours = results.is_object() && results.value("version", Json()) == kResultsVersion;
  if (status.ok() && !is_ours) {
    return Status::NotSupported(directory + "/results.json is not of version " + std::to_string(kResultsVersion) +
                                "; run again with this program");
  }
  try {
    const std::vector<Json> parts = find_parts(directory);
    if (results.is_null() && parts.empty()) {
      return Status::NotFound("there are no results in " + directory + "; run something with --out=" + directory);
    }
    return write_file(directory + "/report.html", report_html(results, parts));
  } catch (const Json::exception& error) {
    return Status::Corruption("the results in " + directory + " lack what this program writes (" + error.what() +
                              "); run again");
  }
}

}  // namespace bonsai::bench
