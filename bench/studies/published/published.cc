// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/published/published.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownOfCommit = 7;

PublishedSource source_of(const Json& json) {
  return {.what = json.at("what"),
          .repository = json.value("repository", ""),
          .commit = json.value("commit", ""),
          .path = json.value("path", ""),
          .page = json.value("page", ""),
          .says = json.value("says", "")};
}

PublishedTable table_of(const Json& json) {
  PublishedTable table{.source = json.at("source"),
                       .place = json.at("place"),
                       .seed = json.value("seed", ""),
                       .quote = json.value("quote", ""),
                       .columns = json.at("columns")};
  for (const Json& line : json.at("rows")) {
    std::vector<std::optional<double>>& row = table.rows.emplace_back();
    for (const Json& cell : line) {
      if (cell.is_string()) {
        row.emplace_back(static_cast<double>(table.words.size()));
        table.words.push_back(cell);
      } else {
        row.push_back(cell.is_number() ? std::optional(cell.get<double>()) : std::nullopt);
      }
    }
  }
  return table;
}

size_t place_of(const PublishedTable& table, std::string_view name) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), name);
  BONSAI_CHECK(found != table.columns.end());
  return static_cast<size_t>(found - table.columns.begin());
}

}  // namespace

std::vector<std::optional<double>> PublishedTable::column(std::string_view name) const {
  std::vector<std::optional<double>> figures;
  for (const auto& row : rows) figures.push_back(row.at(place_of(*this, name)));
  return figures;
}

std::optional<double> PublishedTable::at(double first, std::string_view name) const {
  const size_t at_place = place_of(*this, name);
  for (const auto& row : rows) {
    if (row.front() == first) return row.at(at_place);
  }
  return {};
}

Published read_published(std::string_view text) {
  const Json json = Json::parse(text);
  Published all;
  for (const auto& [name, source] : json.at("sources").items()) all.sources.emplace(name, source_of(source));
  for (const auto& [name, table] : json.at("tables").items()) all.tables.emplace(name, table_of(table));
  return all;
}

const Published& published() {
  static const Published kAll = read_published(published_text());
  return kAll;
}

const PublishedTable& published_table(std::string_view name) {
  const auto found = published().tables.find(std::string(name));
  BONSAI_CHECK(found != published().tables.end());
  return found->second;
}

std::string origin_of(const PublishedTable& table) {
  const PublishedSource& source = published().sources.at(table.source);
  if (source.repository.empty()) return source.what + ", " + source.page + ", " + table.place;
  return source.repository + " at " + source.commit.substr(0, kShownOfCommit) + ", " + source.path + ", " + table.place;
}

}  // namespace bonsai::bench
