// SPDX-License-Identifier: Apache-2.0
// Budgets: how much work a randomised test does. One test, three sizes, chosen by the environment and never by
// recompiling: BONSAI_TEST_BUDGET = fast (scripts/test.sh --fast) | full (the default) | nightly (scripts/nightly.sh).
#ifndef BONSAI_BASE_TESTING_BUDGET_H_
#define BONSAI_BASE_TESTING_BUDGET_H_

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace bonsai::testing {

// Returns the amount that the budget of this run grants: `const int rounds = budget(5, 50, 1000);`.
//   Requires: BONSAI_TEST_BUDGET, if set, is one of the three words; anything else ends the test program, since a
//   misspelt budget must not pass for a full run.
template <typename Amount>
[[nodiscard]] Amount budget(Amount fast, Amount full, Amount nightly) {
  const char* word = std::getenv("BONSAI_TEST_BUDGET");
  const std::string_view chosen = word == nullptr || *word == '\0' ? "full" : word;
  if (chosen == "fast") return fast;
  if (chosen == "full") return full;
  if (chosen == "nightly") return nightly;
  std::fprintf(stderr, "BONSAI_TEST_BUDGET=%s: use fast, full or nightly\n", word);
  std::exit(2);
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_BUDGET_H_
