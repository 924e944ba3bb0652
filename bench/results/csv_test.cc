// SPDX-License-Identifier: Apache-2.0
// Tables as CSV, read back by a reader written from RFC 4180: whatever a cell holds, it comes back, and a run's line
// has what results.json has.
#include "bench/results/csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "bench/testing/run.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;
using bonsai::testing::budget;

using Table = std::vector<std::vector<std::string>>;

// Nothing when the text is no CSV: a quote that is not closed, or one amid a cell that has none around it.
std::optional<Table> parsed(const std::string& text) {
  Table table;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false, was_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      if (!cell.empty() || was_quoted) return std::nullopt;
      quoted = was_quoted = true;
    } else if (c == ',' || c == '\n') {
      row.push_back(cell);
      cell.clear();
      was_quoted = false;
      if (c == '\n') {
        table.push_back(row);
        row.clear();
      }
    } else {
      if (was_quoted || c == '\r') return std::nullopt;
      cell += c;
    }
  }
  if (quoted || !cell.empty() || !row.empty()) return std::nullopt;
  return table;
}

TEST(Csv, GivesEveryTextBack) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  base::Random random(seed);
  const std::string letters = "ab,\"\n\r;' \t";
  for (int round = 0; round < budget(200, 2'000, 50'000); ++round) {
    std::vector<std::string> columns;
    for (uint64_t i = 1 + random.below(4); i > 0; --i) columns.push_back("column " + std::to_string(i));
    Json rows = Json::array();
    Table wanted = {columns};
    for (uint64_t i = random.below(6); i > 0; --i) {
      Json row = Json::object();
      wanted.emplace_back();
      for (const std::string& column : columns) {
        std::string text;
        for (uint64_t n = random.below(8); n > 0; --n) text += letters[random.below(letters.size())];
        if (random.below(5) == 0) {
          row[column] = random.below(2) == 0 ? Json(nullptr) : Json(42);
          text = row[column].is_null() ? "" : "42";
        } else {
          row[column] = text;
        }
        wanted.back().push_back(text);
      }
      rows.push_back(row);
    }
    const auto table = parsed(csv_text(columns, rows));
    ASSERT_TRUE(table.has_value()) << csv_text(columns, rows);
    EXPECT_EQ(*table, wanted);
  }
}

TEST(Csv, AReaderNoticesWhatIsNone) {
  EXPECT_TRUE(parsed("a,b\n\"1\",2\n").has_value());
  for (const char* broken : {"a,b", "\"a\n", "a\"b\n", "\"a\"b\n", "a\r\n"}) {
    EXPECT_FALSE(parsed(broken).has_value()) << broken;
  }
}

// The member of a run that a column of results.csv names by its path; null where there is none.
Json member_of(const Json& run, const std::string& column) {
  if (run.contains(column)) return run.at(column);
  for (size_t at = column.find('_'); at != std::string::npos; at = column.find('_', at + 1)) {
    const std::string head = column.substr(0, at);
    if (!run.contains(head) || !run.at(head).is_object()) continue;
    const Json found = member_of(run.at(head), column.substr(at + 1));
    if (!found.is_null()) return found;
  }
  return nullptr;
}

TEST(Csv, OfRunsHasWhatResultsHave) {
  RunResult plain;
  plain.engine = "std_map, with a comma";
  plain.workload = "c";
  const Json results = Json::parse(results_json({Manifest(), {full_run(), plain}, {}, {}}));
  const auto table = parsed(runs_csv(results));
  ASSERT_TRUE(table.has_value());
  ASSERT_EQ(table->size(), 3U);
  const std::vector<std::string>& columns = table->front();
  EXPECT_GT(columns.size(), 50U);
  size_t figures = 0;
  for (size_t line = 1; line < table->size(); ++line) {
    ASSERT_EQ(table->at(line).size(), columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      const Json member = member_of(results.at("runs").at(line - 1), columns[i]);
      const std::string& cell = table->at(line)[i];
      if (member.is_null() || member == Json::object()) {
        EXPECT_EQ(cell, "") << columns[i];
      } else {
        EXPECT_EQ(cell, member.is_string() ? member.get<std::string>() : member.dump()) << columns[i];
        ++figures;
      }
    }
  }
  EXPECT_GT(figures, 60U);
  for (const char* list : {"repeats_ops_per_s", "thread_times", "latency_us_read_curve"}) {
    EXPECT_EQ(std::count(columns.begin(), columns.end(), list), 0) << list << " has no place in a table";
  }
}

}  // namespace
}  // namespace bonsai::bench
