// SPDX-License-Identifier: Apache-2.0
// The first section of the report: all claims with their outcomes, the failures first.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/pages/page_part.h"
#include "bench/report/charts.h"
#include "bench/report/svg.h"
#include "bench/studies/claims/claims.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

// The order of the outcomes on the page: what a reader must not miss comes first.
constexpr std::array kShown = {
    Outcome::kFails, Outcome::kModelledFails, Outcome::kOpen,        Outcome::kHolds,  Outcome::kModelledHolds,
    Outcome::kNoisy, Outcome::kLessData,      Outcome::kNotMeasured, Outcome::kByTest, Outcome::kUnmeasured};
static_assert(kShown.size() == kOutcomes);

bool is_claims(const Json& json) {
  return json.is_object() && json.value("kind", Json()) == "claims" && json.value("version", Json()) == 1 &&
         json.contains("claims") && json.at("claims").is_array() && json.value("name", Json()).is_string();
}

std::string cell(const std::string& text, const char* attributes = "") {
  return "<td" + std::string(attributes) + ">" + escaped(text) + "</td>";
}

std::string measured_text(const Json& row) {
  if (!row.at("measured").is_number()) return "\xe2\x80\x93";
  std::string text = short_number(row.at("measured"));
  if (row.at("low").is_number() && row.at("high").is_number()) {
    text += " (" + short_number(row.at("low")) + " to " + short_number(row.at("high")) + ")";
  }
  return text;
}

std::string line(const Json& row) {
  const auto outcome = row.at("outcome").get<std::string>();
  const bool bad = outcome == outcome_name(Outcome::kFails) || outcome == outcome_name(Outcome::kModelledFails);
  const auto reason = row.at("reason").get<std::string>();
  std::string expected = row.at("expected");
  if (const auto origin = row.at("origin").get<std::string>(); !origin.empty()) expected += " (published)";
  return "<tr>" + cell(outcome, bad ? " class=\"l say bad\"" : " class=\"l say\"") +
         cell(row.at("claim"), " class=\"l say\"") + cell(row.at("from"), " class=\"l say\"") +
         cell(row.at("command"), " class=\"l say\"") + cell(expected, " class=\"say\"") + cell(measured_text(row)) +
         cell(reason, " class=\"l say\"") + "</tr>\n";
}

std::string section(const Json& json) {
  std::string out =
      "<h2 id=\"claims\">Claims and what was measured</h2>\n<p class=\"soft\">Each sentence of the README, the docs "
      "and the "
      "papers that has a figure, and what the results of this directory say about it. " +
      escaped(json.at("title").get<std::string>()) +
      ".</p>\n<p class=\"soft\">In brackets: the 95 % confidence interval of the measured ratio, where "
      "several rounds were taken. Undecided: the bound is within it. Modelled: in virtual time on "
      "modelled devices, which is no measurement. Published figures come from other hardware.</p>\n"
      "<div class=\"scroll\"><table class=\"claims\"><thead><tr>";
  for (const char* head : {"outcome", "claim", "from", "command"})
    out += "<th class=\"l\">" + std::string(head) + "</th>";
  out += "<th>expected</th><th>measured</th><th class=\"l\">why</th></tr></thead><tbody>\n";
  for (const Outcome shown : kShown) {
    for (const Json& row : json.at("claims")) {
      if (row.at("outcome") == outcome_name(shown)) out += line(row);
    }
  }
  return out + "</tbody></table></div>\n";
}

const Registered<PagePart> kClaimsPart("claims", []() -> std::vector<PagePart> {
  return {{.is_mine = is_claims,
           .section = section,
           .place = [](const Json&) -> size_t { return 0; },
           .chapter = [](const Json&) { return std::string("Claims"); }}};
});

}  // namespace
}  // namespace bonsai::bench
