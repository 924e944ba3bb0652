// SPDX-License-Identifier: Apache-2.0
#include "bench/results/csv.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void flatten(const std::string& prefix, const Json& value, Json* row) {
  for (const auto& [name, member] : value.items()) {
    if (member.is_object()) {
      flatten(prefix + name + "_", member, row);
    } else if (!member.is_array()) {
      (*row)[prefix + name] = member;
    }
  }
}

// True when `name` is null in every row and stands for members that other rows have.
bool is_absent_whole(const std::string& name, const std::vector<std::string>& columns, const Json& rows) {
  const bool has_members = std::any_of(columns.begin(), columns.end(),
                                       [&](const std::string& other) { return other.rfind(name + "_", 0) == 0; });
  return has_members && std::all_of(rows.begin(), rows.end(),
                                    [&](const Json& row) { return !row.contains(name) || row.at(name).is_null(); });
}

}  // namespace

std::string csv_text(const std::vector<std::string>& columns, const Json& rows) {
  std::string text;
  for (size_t i = 0; i < columns.size(); ++i) text.append(i > 0 ? "," : "").append(cell(columns[i]));
  text += "\n";
  for (const Json& row : rows) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto found = row.find(columns[i]);
      text.append(i > 0 ? "," : "").append(found == row.end() ? std::string() : cell(*found));
    }
    text += "\n";
  }
  return text;
}

std::string runs_csv(const Json& results) {
  std::vector<std::string> columns;
  Json rows = Json::array();
  for (const Json& run : results.at("runs")) {
    Json row = Json::object();
    flatten("", run, &row);
    for (const auto& [name, value] : row.items()) {
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
    rows.push_back(std::move(row));
  }
  const auto all = columns;
  std::erase_if(columns, [&](const std::string& name) { return is_absent_whole(name, all, rows); });
  return csv_text(columns, rows);
}

}  // namespace bonsai::bench
