// SPDX-License-Identifier: Apache-2.0
// The published figures that results are compared with, each with where it is from. They are in published.json and
// nowhere else, and are built into the program.
#ifndef BONSAI_BENCH_STUDIES_PUBLISHED_PUBLISHED_H_
#define BONSAI_BENCH_STUDIES_PUBLISHED_PUBLISHED_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::bench {

// Where figures are from: a file of a repository, or a page of a paper.
struct PublishedSource {
  std::string what;
  std::string repository, commit, path;  // empty: a paper
  std::string page;                      // empty: a repository
  std::string says;                      // what a reader must know of it, or empty
};

struct PublishedTable {
  std::string source;  // its name in Published::sources
  std::string place;   // in the source
  std::string seed;    // the number of the project's seed that has these figures, too; or empty
  std::string quote;   // the seed's sentence, where it has no table
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<double>>> rows = {};  // absent: not published
  std::vector<std::string> words = {};                        // of the first column, if that has no numbers

  // The column of that name. Requires: there is one.
  [[nodiscard]] std::vector<std::optional<double>> column(std::string_view name) const;
  // The figure of that column in the row that begins with `first`; absent: not published. Requires: the column exists.
  [[nodiscard]] std::optional<double> at(double first, std::string_view name) const;
};

struct Published {
  std::map<std::string, PublishedSource> sources;
  std::map<std::string, PublishedTable> tables;
};

// Reads figures in the form of published.json. Requires: `text` has that form; a test holds the file to it.
[[nodiscard]] Published read_published(std::string_view text);

// The figures of this build. Thread-safety: any thread.
[[nodiscard]] const Published& published();
// The table of that name. Requires: there is one.
[[nodiscard]] const PublishedTable& published_table(std::string_view name);

// "miaogecm/BonsaiKV-2.0 at ad8e1b9, evaluation/Evaluation Scheme.md, index tier, (a)".
[[nodiscard]] std::string origin_of(const PublishedTable& table);

// The text of published.json, as it was built in.
[[nodiscard]] std::string_view published_text();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_PUBLISHED_PUBLISHED_H_
