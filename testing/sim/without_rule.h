// SPDX-License-Identifier: Apache-2.0
// Lives without a rule of the product (base/testing/mutants.h), in child processes, where a broken invariant or a hang
// ends them as well.
//
// Thread-safety: one caller, in a process with one thread.
#ifndef BONSAI_TESTING_SIM_WITHOUT_RULE_H_
#define BONSAI_TESTING_SIM_WITHOUT_RULE_H_

#include <cstdint>
#include <functional>
#include <span>

namespace bonsai::testing::sim {

struct Rule {
  uint64_t bit;
  const char* name;
};
// Whether the life of this seed breaks a promise.
using IsWrong = std::function<bool(uint64_t seed)>;

// Lives without the rule, from seed `first` on, until one is wrong. Returns an upper bound of the lives that this took;
// 0: none was wrong.
uint64_t lives_until_noticed(uint64_t bit, uint64_t first, uint64_t processes_max, const IsWrong& is_wrong);

// Leaves out one rule after the other. Prints, adds to the table, and expects that the loss of each is noticed. Returns
// for how many it was.
uint64_t rules_noticed(const char* table, std::span<const Rule> rules, uint64_t first, uint64_t processes_max,
                       const IsWrong& is_wrong);

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_WITHOUT_RULE_H_
