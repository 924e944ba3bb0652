// SPDX-License-Identifier: Apache-2.0
// Tests of the published figures: each says where it is from, is as it was copied, and is in the project's seeds.
#include "bench/studies/published/published.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

namespace bonsai::bench {
namespace {

// Rows and the sum of all figures but those of the first column, added up from the sources and not from the file.
struct Sum {
  const char* table;
  size_t rows;
  double sum;
};
constexpr Sum kSums[] = {
    {"index-technique", 5, 178.38},
    {"pipelining", 5, 66.28},
    {"offloading", 5, 401.79},
    {"replication", 2, 2134},
    {"striping", 4, 8325669.6},
    {"synthesis, Load, integers", 7, 165.2},
    {"synthesis, A, integers", 7, 132.88},
    {"synthesis, C, integers", 7, 137.14},
    {"synthesis, D, integers", 7, 131.73},
    {"synthesis, E, integers", 7, 8.16},
    {"synthesis, Load, strings", 7, 18.53},
    {"synthesis, A, strings", 7, 57.1},
    {"synthesis, C, strings", 7, 97.57},
    {"synthesis, D, strings", 7, 95.77},
    {"synthesis, E, strings", 7, 5.2},
    {"synthesis-costs", 4, 4647},
    {"log-packing", 3, 1.94},
    {"value-staging", 1, 189.2},
    {"kiwi-gets", 1, 3.75},
    {"kiwi-puts", 1, 0.91},
    {"kiwi-scans", 1, 1.4},
    {"kiwi-beside", 1, 2},
    {"kiwi-memory", 1, 1.2},
    {"kiwi-order", 1, 739.9936},
    {"rcuckoo-throughput", 8, 621.26},
    {"rcuckoo-latency", 9, 97.56},
    {"rcuckoo-messages", 9, 37093.65},
    {"rcuckoo-search", 7, 345},
    {"rcuckoo-hashing", 9, 811.3},
    {"rcuckoo-threshold", 7, 62.03},
    {"rcuckoo-locks", 10, 442},
    {"model, RACE, reads", 8, 173.324},
    {"model, RACE, updates by skew", 6, 16.16},
    {"model, RACE, updates", 7, 60.684},
    {"model, RACE, updates with backoff", 7, 65.967},
    {"model, Sherman, reads", 7, 117.14},
    {"model, Sherman, half updates", 7, 82.79},
    {"model, Clover, reads", 9, 214.61},
    {"model, Clover, one update in twenty", 9, 95.25},
    {"model, Clover, half updates", 9, 25.775},
    {"model, RCuckoo, reads", 7, 182.24},
    {"model, RCuckoo, one update in twenty", 6, 103.41},
    {"model, RCuckoo, half updates, uniform", 6, 57.07},
    {"model, RCuckoo, half updates, .90", 6, 42.62},
    {"model, RCuckoo, half updates, .99", 6, 21.345},
};

std::vector<std::string> faults_of(const Published& all) {
  std::vector<std::string> faults;
  for (const auto& [name, source] : all.sources) {
    const bool in_repository = !source.repository.empty() && source.commit.size() >= 7 && !source.path.empty();
    if (in_repository == !source.page.empty()) faults.push_back(name + " is neither a file at a commit nor a page");
  }
  for (const auto& [name, table] : all.tables) {
    if (!all.sources.contains(table.source)) faults.push_back(name + ": unknown source " + table.source);
    if (table.place.empty()) faults.push_back(name + " has no place in its source");
    if (table.rows.empty()) faults.push_back(name + " has no rows");
    if (!table.quote.empty() && table.seed.empty()) faults.push_back(name + " quotes no seed");
    std::set<std::optional<double>> places;
    const bool by_one = table.columns.at(0) != "threads" || !name.starts_with("model");
    for (const auto& row : table.rows) {
      if (row.size() != table.columns.size()) faults.push_back(name + " has a row of another length");
      if (by_one && !places.insert(row.front()).second) faults.push_back(name + " has a row twice");
    }
  }
  return faults;
}

TEST(PublishedFigures, SayWhereTheyAreFrom) { EXPECT_EQ(faults_of(published()), std::vector<std::string>()); }

TEST(PublishedFigures, AreNotAcceptedWithoutAnOrigin) {
  const auto first_fault = [](const std::function<void(Published*)>& breaks) {
    Published all = published();
    breaks(&all);
    const std::vector<std::string> faults = faults_of(all);
    return faults.empty() ? std::string() : faults.front();
  };
  EXPECT_NE(first_fault([](Published* all) { all->sources["scheme"].commit = "main"; }), "");
  EXPECT_NE(first_fault([](Published* all) { all->sources["kiwi"].page = ""; }), "");
  EXPECT_NE(first_fault([](Published* all) { all->tables["offloading"].source = "hearsay"; }), "");
  EXPECT_NE(first_fault([](Published* all) { all->tables["offloading"].rows[1].pop_back(); }), "");
  EXPECT_NE(first_fault([](Published* all) { all->tables["offloading"].rows[1][0] = 0; }), "");
}

TEST(PublishedFigures, AreThoseThatWereAddedUp) {
  std::set<std::string> known;
  for (const Sum& expected : kSums) {
    known.insert(expected.table);
    const PublishedTable& table = published_table(expected.table);
    EXPECT_EQ(table.rows.size(), expected.rows) << expected.table;
    double sum = 0;
    for (const auto& row : table.rows) {
      for (size_t i = 1; i < row.size(); ++i) sum += row[i].value_or(0);
    }
    EXPECT_NEAR(sum, expected.sum, 1e-4) << expected.table;
  }
  for (const auto& [name, table] : published().tables) EXPECT_TRUE(known.contains(name)) << name << " has no sum here";
}

TEST(PublishedFigures, AreFoundByRowAndColumn) {
  EXPECT_EQ(published_table("synthesis, C, integers").at(1, "DINOMO"), .22);
  EXPECT_EQ(published_table("synthesis, C, integers").at(2, "DINOMO"), std::nullopt);
  EXPECT_EQ(published_table("synthesis, E, strings").at(36, "DINOMO"), std::nullopt) << "it has no scans";
  EXPECT_EQ(published_table("offloading").column("B: Mop/s").size(), 5U);
  EXPECT_EQ(published_table("synthesis-costs").words.at(2), "DINOMO");
  EXPECT_EQ(origin_of(published_table("offloading")),
            "miaogecm/BonsaiKV-2.0 at ad8e1b9, evaluation/Evaluation Scheme.md, index tier, (c)");
  EXPECT_EQ(origin_of(published_table("kiwi-gets")), "KiWi, its evaluation, PPoPP 2017, section 6.2, figure 3 (a)");
}

// The cells of a row of a Markdown table as numbers; others are left out. "uni" is an exponent of 0.
std::vector<double> numbers_of(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream cells(line);
  for (std::string cell; std::getline(cells, cell, '|');) {
    const size_t first = cell.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    char* end = nullptr;
    const double number = std::strtod(cell.c_str() + first, &end);
    if (end != cell.c_str() + first) numbers.push_back(number);
    if (cell.compare(first, 3, "uni") == 0) numbers.push_back(0);
  }
  return numbers;
}

// True if a line of the text has these figures in this order, with or without the first.
bool has_row(const std::string& text, const std::vector<std::optional<double>>& row) {
  std::vector<double> all;
  for (const auto& cell : row) all.push_back(*cell);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<double> numbers = numbers_of(line);
    if (numbers == all || numbers == std::vector(all.begin() + 1, all.end())) return true;
  }
  return false;
}

// The text with each run of blanks, and each break of a line, as one blank.
std::string in_one_line(const std::string& text) { return std::regex_replace(text, std::regex("\\s+"), " "); }

std::string seed_of(const std::filesystem::path& folder, const std::string& number) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with(number + "_")) continue;
    std::ifstream in(entry.path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  return {};
}

// Names of tables of which a seed has another figure.
std::vector<std::string> not_in_seeds(const Published& all, const std::filesystem::path& folder) {
  std::vector<std::string> wrong;
  for (const auto& [name, table] : all.tables) {
    if (table.seed.empty()) continue;
    const std::string text = seed_of(folder, table.seed);
    bool found = !text.empty();
    if (table.quote.empty()) {
      for (const auto& row : table.rows) found = found && has_row(text, row);
    } else {
      found = in_one_line(text).find(table.quote) != std::string::npos;
    }
    if (!found) wrong.push_back(name);
  }
  return wrong;
}

TEST(PublishedFigures, AreThoseOfTheSeeds) {
  const char* const folder = std::getenv("BONSAI_SEEDS");
  if (folder == nullptr) {
    GTEST_SKIP() << "this tree has no shared/seeds; BONSAI_SEEDS=FOLDER names them";
  }
  EXPECT_EQ(not_in_seeds(published(), folder), std::vector<std::string>());
  Published wrong = published();
  wrong.tables["offloading"].rows[2][1] = 24.34;
  wrong.tables["kiwi-gets"].quote = "by 1.26x to 2.5x";
  EXPECT_EQ(not_in_seeds(wrong, folder), (std::vector<std::string>{"kiwi-gets", "offloading"}));
}

}  // namespace
}  // namespace bonsai::bench
