// Figures: integers that a test counts and that the scorecard of scripts/test.sh adds up over all suites.
//
// A figure is one line `name value` in the file that the environment names in BONSAI_FIGURES (set per regime by
// scripts/test.sh). Values of one name are summed; names that end in `_max` take the largest. docs/testing.md lists
// the known names.
#ifndef BONSAI_BASE_TESTING_FIGURES_H_
#define BONSAI_BASE_TESTING_FIGURES_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace bonsai::testing {

// Adds `value` to the figure `name` of this test run; does nothing when no file is named.
//   Requires: `name` is one word of [a-z0-9_].
//   Thread-safety: any thread, any process: one O_APPEND write per figure, so lines never mix.
//   Errors: told on stderr, so that a missing figure has a cause; the test goes on.
inline void add_figure(std::string_view name, uint64_t value) {
  const char* path = std::getenv("BONSAI_FIGURES");
  if (path == nullptr || *path == '\0') return;
  const std::string line = std::string(name) + " " + std::to_string(value) + "\n";
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::perror("BONSAI_FIGURES: cannot append the figure");
  }
  if (file >= 0) ::close(file);
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_FIGURES_H_
