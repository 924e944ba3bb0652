// SPDX-License-Identifier: Apache-2.0
// Figures: integers that a test counts and that the scorecard of scripts/test.sh adds up over all suites.
//
// A figure is one line `name value` in the file that the environment names in BONSAI_FIGURES (set per regime by
// scripts/test.sh). Values of one name are summed; names that end in `_max` take the largest. docs/testing.md lists
// the known names. A row of a table, for what one figure cannot say, is one line
// `table TAB name of the table TAB name of the row TAB column=value column=value`; rows of one name are summed
// likewise.
#ifndef BONSAI_BASE_TESTING_FIGURES_H_
#define BONSAI_BASE_TESTING_FIGURES_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace bonsai::testing {

namespace detail {
inline void append_figure_line(const std::string& line) {
  const char* path = std::getenv("BONSAI_FIGURES");
  if (path == nullptr || *path == '\0') return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::perror("BONSAI_FIGURES: cannot append the figure");
  }
  if (file >= 0) ::close(file);
}
}  // namespace detail

// Adds `value` to the figure `name` of this test run; does nothing when no file is named.
//   Requires: `name` is one word of [a-z0-9_].
//   Thread-safety: any thread, any process: one O_APPEND write per figure, so lines never mix.
//   Errors: reported on stderr, so that a missing figure has a cause; the test goes on.
inline void add_figure(std::string_view name, uint64_t value) {
  detail::append_figure_line(std::string(name) + " " + std::to_string(value) + "\n");
}

// Adds to one row of a table of this test run. Requires: no tab or line feed in the names, columns are words.
// Thread-safety and errors: as add_figure.
inline void add_row(std::string_view table, std::string_view row,
                    std::initializer_list<std::pair<std::string_view, uint64_t>> columns) {
  std::string line = "table\t" + std::string(table) + "\t" + std::string(row) + "\t";
  for (const auto& [column, value] : columns) line += std::string(column) + "=" + std::to_string(value) + " ";
  line.back() = '\n';
  detail::append_figure_line(line);
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_FIGURES_H_
