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

// One operation, carried out `times`.
struct BudgetRow {
  std::string operation;
  uint64_t times = 0;
  uint64_t round_trips = 0, messages = 0, bytes = 0;  // of all
  double round_trips_max = 0, messages_max = 0;       // of one

  [[nodiscard]] bool kept() const {
    const auto within = [this](uint64_t asked, double max) {
      return static_cast<double>(asked) <= max * static_cast<double>(times);
    };
    return times > 0 && round_trips > 0 && within(round_trips, round_trips_max) && within(messages, messages_max);
  }
  // One line, of one operation.
  [[nodiscard]] std::string text() const;
};

struct Asked {
  uint64_t round_trips = 0, messages = 0, bytes = 0;
};
// What a store that DB::Open has opened has asked so far.
[[nodiscard]] Asked asked_by(DB* db);

// Of a store whose rows are counted: log segments hold some twenty groups of puts.
[[nodiscard]] Options budget_options();

// Fills the store, then counts puts, groups of puts, offloading, gets of keys that are there and that are not, large
// values and scans. Requires: an empty store of budget_options(), all of whose targets are far; nobody else
// uses it. `asked` says what it has asked so far. Errors: of the store; Corruption for a wrong answer.
Status count_remote_budgets(DB* db, const std::function<Asked()>& asked, std::vector<BudgetRow>* rows);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_REMOTE_BUDGETS_H_
