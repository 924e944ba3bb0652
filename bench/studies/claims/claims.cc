// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/claims/claims.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "bench/report/charts.h"
#include "bench/studies/published/published.h"

namespace bonsai::bench {

std::string_view claims_text();  // claims.json, as it was built in

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

ClaimedFigure figure_of(const Json& json) {
  ClaimedFigure figure{.experiment = json.at("experiment"),
                       .of = json.value("of", "last"),
                       .low = json.value("low", ""),
                       .high = json.value("high", "")};
  const Json& columns = json.at("column");
  if (columns.is_string()) figure.columns = {columns};
  if (columns.is_array()) figure.columns = columns.get<std::vector<std::string>>();
  const Json row = json.value("row", Json::object());
  for (const auto& [column, cell] : row.items()) figure.row[column] = text_of(cell);
  return figure;
}

// A number, or a cell of a published table, possibly over another of its row or column.
void read_expected(const Json& json, Claim* claim) {
  if (json.is_number()) {
    claim->expected = json;
    return;
  }
  const PublishedTable& table = published_table(json.at("table").get<std::string>());
  const std::string column = json.at("column");
  const double row = json.at("row");
  claim->expected = table.at(row, column).value();
  if (json.contains("over")) claim->expected /= table.at(row, json.at("over").get<std::string>()).value();
  if (json.contains("over_row")) claim->expected /= table.at(json.at("over_row"), column).value();
  claim->origin = origin_of(table);
}

Claim claim_of(const Json& json) {
  Claim claim{.says = json.at("says"),
              .from = json.at("from"),
              .quote = json.at("quote"),
              .command = json.at("command"),
              .test = json.value("test", ""),
              .why = json.value("why", ""),
              .within = json.value("within", .25),
              .full_size = json.value("full_size", false)};
  if (json.contains("figure")) claim.figure = figure_of(json.at("figure"));
  if (json.contains("over")) claim.over = figure_of(json.at("over"));
  for (const auto& [name, bound] : {std::pair("at_least", Claim::Bound::kAtLeast),
                                    {"at_most", Claim::Bound::kAtMost},
                                    {"about", Claim::Bound::kAbout}}) {
    if (!json.contains(name)) continue;
    claim.bound = bound;
    read_expected(json.at(name), &claim);
  }
  const std::string kind = json.value("kind", "timed");
  BONSAI_CHECK(kind == "timed" || kind == "counted" || kind == "modelled");
  claim.kind = kind == "modelled" ? ClaimKind::kModelled : kind == "counted" ? ClaimKind::kCounted : ClaimKind::kTimed;
  return claim;
}

}  // namespace

Claims read_claims(std::string_view text) {
  const Json json = Json::parse(text);
  Claims all{.papers = json.at("papers")};
  for (const Json& each : json.at("claims")) all.claims.push_back(claim_of(each));
  for (const Json& each : json.at("not_claims")) {
    all.others.push_back({each.at("from"), each.at("quote"), each.at("why")});
  }
  return all;
}

const Claims& claims() {
  static const Claims kAll = read_claims(claims_text());
  return kAll;
}

std::string_view outcome_name(Outcome outcome) {
  constexpr std::array<std::string_view, kOutcomes> kNames = {"holds",
                                                              "fails",
                                                              "undecided",
                                                              "modelled: holds",
                                                              "modelled: fails",
                                                              "not judged: noisy",
                                                              "not judged: less data",
                                                              "not measured",
                                                              "by a test",
                                                              "cannot be measured"};
  return kNames.at(static_cast<size_t>(outcome));
}

std::string expectation_text(const Claim& claim) {
  if (!claim.figure) return {};
  const std::string number = short_number(claim.expected);
  switch (claim.bound) {
    case Claim::Bound::kAtLeast:
      return "at least " + number;
    case Claim::Bound::kAtMost:
      return "at most " + number;
    case Claim::Bound::kAbout:
      break;
  }
  return number + " within " + short_number(100 * claim.within) + " %";
}

std::string tally(const std::vector<Judged>& judged) {
  std::array<size_t, kOutcomes> counts{};
  for (const Judged& each : judged) ++counts[static_cast<size_t>(each.outcome)];
  std::string text = std::to_string(judged.size()) + " claims";
  for (size_t i = 0; i < kOutcomes; ++i) {
    if (counts[i] == 0) continue;
    text += (text.find(':') == std::string::npos ? ": " : ", ") + std::to_string(counts[i]) + " " +
            std::string(outcome_name(static_cast<Outcome>(i)));
  }
  return text;
}

}  // namespace bonsai::bench
