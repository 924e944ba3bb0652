// SPDX-License-Identifier: Apache-2.0
#include "admin/doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace bonsai::admin {
namespace {

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size() + 2, width), ' ');
  return text;
}

size_t count(const std::vector<Finding>& findings, Mark mark) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [mark](const Finding& f) { return f.mark == mark; }));
}

}  // namespace

const char* mark_name(Mark mark) { return mark == Mark::kOk ? "ok" : mark == Mark::kWarn ? "warn" : "missing"; }

bool can_run(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.required && f.mark == Mark::kMissing; });
}

std::string doctor_table(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text +=
        padded(mark_name(finding.mark), 9) + padded(finding.area, 8) + padded(finding.name, 24) + finding.found + "\n";
    if (!finding.remedy.empty()) text += std::string(9, ' ') + "-> " + finding.remedy + "\n";
  }
  text += "\n" + std::to_string(count(findings, Mark::kOk)) + " ok, " + std::to_string(count(findings, Mark::kWarn)) +
          " warn, " + std::to_string(count(findings, Mark::kMissing)) + " missing. ";
  return text + (can_run(findings) ? "Bonsai can run here.\n"
                                   : "Bonsai cannot run here until the missing required things are there.\n");
}

std::string doctor_json(const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  Json json = {{"can_run", can_run(findings)},
               {"ok", count(findings, Mark::kOk)},
               {"warn", count(findings, Mark::kWarn)},
               {"missing", count(findings, Mark::kMissing)},
               {"findings", Json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"area", finding.area},
                                {"name", finding.name},
                                {"mark", mark_name(finding.mark)},
                                {"found", finding.found},
                                {"remedy", finding.remedy},
                                {"required", finding.required}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace bonsai::admin
