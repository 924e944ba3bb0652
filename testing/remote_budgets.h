// SPDX-License-Identifier: Apache-2.0
// What the operations of a store may ask of the node that holds its pool: the same budgets on every fabric, in shared
// memory, in simulation and through verbs.
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

// At most so much for one operation.
struct Budget {
  double round_trips = 0, messages = 0, bytes = 0;
};

// One operation, carried out `times`.
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

// What a store that DB::Open has opened has asked so far.
[[nodiscard]] Asked asked_by(DB* db);

// Of a store whose rows are counted: log segments hold some twenty groups of puts.
[[nodiscard]] Options budget_options();

// Fills the store, then counts puts, groups of puts, offloading, gets of keys that are there, over several runs and
// over one, and that are not, large values, short scans and long ones. Requires: an empty store of budget_options(),
// all of whose targets are far; nobody else uses it. `asked` says what it has asked so far. Errors: of the store;
// Corruption for a wrong answer.
Status count_remote_budgets(DB* db, const std::function<Asked()>& asked, std::vector<BudgetRow>* rows);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_REMOTE_BUDGETS_H_
