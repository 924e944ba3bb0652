// SPDX-License-Identifier: Apache-2.0
// What the results of experiments say about a claim.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "bench/results/csv.h"
#include "bench/results/results.h"
#include "bench/results/statistics.h"
#include "bench/studies/claims/claims.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

// True if the cell reads so: "10" and 10 and 10.0 are the same number.
bool reads(const Json& cell, const std::string& text) {
  if (cell.is_string()) return cell.get<std::string>() == text;
  if (!cell.is_number()) return false;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && cell.get<double>() == number;
}

bool is_row(const Json& row, const ClaimedFigure& figure) {
  return std::all_of(figure.row.begin(), figure.row.end(), [&](const auto& wanted) {
    const auto cell = row.find(wanted.first);
    return cell != row.end() && reads(*cell, wanted.second);
  });
}

std::optional<double> number_in(const Json& row, const std::string& column) {
  const auto cell = row.find(column);
  return cell != row.end() && cell->is_number() ? std::optional(cell->get<double>()) : std::nullopt;
}

std::optional<double> sum_in(const Json& row, const std::vector<std::string>& columns) {
  double sum = 0;
  for (const std::string& column : columns) {
    const std::optional<double> one = number_in(row, column);
    if (!one) return {};
    sum += *one;
  }
  return sum;
}

std::string missing_column(const Json& result, const ClaimedFigure& figure) {
  std::vector<std::string> wanted = figure.columns;
  for (const auto& [column, text] : figure.row) wanted.push_back(column);
  for (const std::string& bound : {figure.low, figure.high}) {
    if (!bound.empty()) wanted.push_back(bound);
  }
  const Json& columns = result.at("columns");
  for (const std::string& each : wanted) {
    if (std::find(columns.begin(), columns.end(), each) == columns.end()) return "no column '" + each + "'";
  }
  return {};
}

// The index of the value that `of` names.
size_t chosen(const std::vector<double>& values, const std::string& of) {
  if (of == "first") return 0;
  if (of == "least") return static_cast<size_t>(std::min_element(values.begin(), values.end()) - values.begin());
  if (of == "most") return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  return values.size() - 1;
}

// Of the values from `low` to `high`, whether all or none are as the claim has it; otherwise undecided.
Outcome compare(const Claim& claim, double low, double high) {
  const double tolerance = std::abs(claim.expected) * claim.within;
  const double least = claim.bound == Claim::Bound::kAtMost    ? -INFINITY
                       : claim.bound == Claim::Bound::kAtLeast ? claim.expected
                                                               : claim.expected - tolerance;
  const double most = claim.bound == Claim::Bound::kAtLeast  ? INFINITY
                      : claim.bound == Claim::Bound::kAtMost ? claim.expected
                                                             : claim.expected + tolerance;
  if (low >= least && high <= most) return Outcome::kHolds;
  return high < least || low > most ? Outcome::kFails : Outcome::kOpen;
}

std::string text_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_full_size(const Json& manifest) {
  const auto flags = manifest.find("flags");
  return flags != manifest.end() && flags->is_object() && flags->value("scale", "") == "paper";
}

// Why the figures of this result are not judged; empty: they are.
std::string noise_of(const Json& result) { return text_in(result.at("manifest"), "noise"); }

Json number_or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

Json judged_json(const std::vector<Judged>& judged) {
  Json rows = Json::array();
  for (const Judged& each : judged) {
    const Claim& claim = *each.claim;
    rows.push_back({{"claim", claim.says},
                    {"from", claim.from},
                    {"quote", claim.quote},
                    {"command", claim.command},
                    {"expected", expectation_text(claim)},
                    {"origin", claim.origin},
                    {"measured", number_or_null(each.measured)},
                    {"low", number_or_null(each.low)},
                    {"high", number_or_null(each.high)},
                    {"outcome", outcome_name(each.outcome)},
                    {"reason", each.reason},
                    {"commit", each.commit}});
  }
  return {{"version", 1}, {"kind", "claims"}, {"name", "claims"}, {"title", tally(judged)}, {"claims", rows}};
}

}  // namespace

FoundFigure find_figure(const Json& result, const ClaimedFigure& figure) {
  FoundFigure found;
  found.fault = missing_column(result, figure);
  if (!found.fault.empty()) return found;
  std::vector<double> values;
  std::vector<const Json*> rows;
  for (const Json& row : result.at("rows")) {
    const std::optional<double> sum = is_row(row, figure) ? sum_in(row, figure.columns) : std::nullopt;
    if (!sum) continue;
    values.push_back(*sum);
    rows.push_back(&row);
  }
  if (values.empty()) return found;
  if (figure.of == "median") {
    found.value = median(values);
    if (const std::optional<Interval> interval = ratio_interval(values)) {
      found.low = interval->low;
      found.high = interval->high;
    }
    return found;
  }
  const size_t at = chosen(values, figure.of);
  found.value = values[at];
  if (!figure.low.empty()) found.low = number_in(*rows[at], figure.low);
  if (!figure.high.empty()) found.high = number_in(*rows[at], figure.high);
  return found;
}

Judged judge(const Claim& claim, const ResultOf& result_of) {
  Judged judged{.claim = &claim};
  const auto ends = [&judged](Outcome outcome, std::string reason) {
    judged.outcome = outcome;
    judged.reason = std::move(reason);
    return judged;
  };
  if (!claim.why.empty()) return ends(Outcome::kUnmeasured, claim.why);
  if (!claim.test.empty()) return ends(Outcome::kByTest, claim.test);
  const Json* const result = result_of(claim.figure->experiment);
  if (result == nullptr) return ends(Outcome::kNotMeasured, "there is no " + claim.figure->experiment + ".json");
  const FoundFigure found = find_figure(*result, *claim.figure);
  if (!found.value) {
    return ends(Outcome::kNotMeasured, found.fault.empty() ? "this result has no such row: it is of another size"
                                                           : claim.figure->experiment + ".json has " + found.fault);
  }
  judged.measured = found.value;
  judged.low = found.low;
  judged.high = found.high;
  judged.commit = text_in(result->at("manifest"), "commit");
  if (claim.over) {
    const Json* const under = result_of(claim.over->experiment);
    const FoundFigure divisor = under == nullptr ? FoundFigure() : find_figure(*under, *claim.over);
    judged.measured.reset();
    judged.low.reset();
    judged.high.reset();
    if (!divisor.value || *divisor.value == 0) return ends(Outcome::kNotMeasured, "there is nothing to divide by");
    judged.measured = *found.value / *divisor.value;
  }
  if (claim.kind == ClaimKind::kTimed && !noise_of(*result).empty()) return ends(Outcome::kNoisy, noise_of(*result));
  if (claim.full_size && !is_full_size(result->at("manifest"))) {
    return ends(Outcome::kLessData, "the claim is about --scale=paper");
  }
  const double value = *judged.measured;
  const Outcome outcome = compare(claim, judged.low.value_or(value), judged.high.value_or(value));
  if (claim.kind != ClaimKind::kModelled) return ends(outcome, "");
  return ends(outcome == Outcome::kHolds ? Outcome::kModelledHolds : Outcome::kModelledFails, "");
}

Status judge_claims(const std::string& directory, std::vector<Judged>* judged) {
  std::map<std::string, Json> results;
  const ResultOf result_of = [&](const std::string& experiment) -> const Json* {
    const auto [place, is_new] = results.try_emplace(experiment);
    if (is_new) {
      std::ifstream in(directory + "/" + experiment + ".json");
      place->second = Json::parse(in, nullptr, false);
    }
    const Json& json = place->second;
    return json.is_object() && json.contains("rows") && json.contains("columns") && json.contains("manifest") ? &json
                                                                                                              : nullptr;
  };
  judged->clear();
  for (const Claim& claim : claims().claims) judged->push_back(judge(claim, result_of));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Status::IoError("cannot make " + directory + ": " + error.message() + "; give another --out");
  const Json json = judged_json(*judged);
  BONSAI_RETURN_IF_ERROR(write_file(directory + "/claims.json", json.dump(2) + "\n"));
  return write_file(directory + "/claims.csv",
                    csv_text({"claim", "from", "command", "expected", "measured", "low", "high", "outcome", "reason"},
                             json.at("claims")));
}

}  // namespace bonsai::bench
