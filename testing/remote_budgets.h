// SPDX-License-Identifier: Apache-2.0
// The most round trips, messages and bytes that a store's operations may take at the node that holds its pool. The
// budgets are the same on every fabric: shared memory, simulation, verbs.
#ifndef BONSAI_TESTING_REMOTE_BUDGETS_H_
#define BONSAI_TESTING_REMOTE_BUDGETS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bonsai/db.h"

namespace bonsai::testing {

struct Asked {
  uint64_t round_trips = 0, messages = 0, bytes = 0;
};

// The bound for one operation.
struct Budget {
  double round_trips = 0, messages = 0, bytes = 0;
};

// The cost of one kind of operation, carried out `times`.
struct BudgetRow {
  std::string operation;
  uint64_t times = 0;
  Asked asked;  // of all
  Budget budget;

  [[nodiscard]] bool kept() const {
    const auto within = [this](uint64_t all, double max) {
      return static_cast<double>(all) <= max * static_cast<double>(times);
    };
    return times > 0 && asked.round_trips > 0 && within(asked.round_trips, budget.round_trips) &&
           within(asked.messages, budget.messages) && within(asked.bytes, budget.bytes);
  }
  // One line, of one operation.
  [[nodiscard]] std::string text() const;
};

// Returns the requests of an open store so far.
[[nodiscard]] Asked asked_by(DB* db);

// The options of a store whose costs are counted: a log segment holds some twenty groups of puts.
[[nodiscard]] Options budget_options();

// Fills the store, then counts puts, groups of puts, offloading, gets (of present keys over several runs and over one,
// and of absent keys), large values, short scans and long scans. Requires: an empty store of budget_options(), all of
// whose targets are far; no other user. `asked` returns its requests so far. Errors: of the store; Corruption for a
// wrong result.
Status count_remote_budgets(DB* db, const std::function<Asked()>& asked, std::vector<BudgetRow>* rows);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_REMOTE_BUDGETS_H_
