// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/owner_history.h"

#include <algorithm>
#include <optional>

#include "testing/linearizability.h"

namespace bonsai::testing::sim {
namespace {

// The last tenure that has it.
std::optional<size_t> tenure_of(const std::vector<Tenure>& tenures, const Operation& operation) {
  for (size_t i = tenures.size(); i > 0; --i) {
    if (tenures[i - 1].has(operation)) return i - 1;
  }
  return std::nullopt;
}

}  // namespace

OwnersVerdict judge_owners(const History& history, const std::vector<Tenure>& tenures) {
  struct Observed {
    const Operation* operation;
    size_t tenure;
    uint64_t ret;
  };
  OwnersVerdict verdict;
  std::vector<Observed> observed;
  std::vector<uint64_t> first_answer(tenures.size(), kOpen);
  for (const Operation& operation : history.operations) {
    const std::optional<size_t> tenure = tenure_of(tenures, operation);
    if (!tenure.has_value()) {
      verdict.violation = "an operation outside of any opening: " + history.text_of(operation);
      return verdict;
    }
    const uint64_t end = tenures[*tenure].end;
    if (operation.invoke > end || (operation.ret > end && !is_update(operation.kind))) continue;
    const uint64_t ret = operation.ret > end ? kOpen : operation.ret;
    first_answer[*tenure] = std::min(first_answer[*tenure], ret);
    observed.push_back({&operation, *tenure, ret});
  }
  // By tenure: the first answer of any later one.
  std::vector<uint64_t> replaced(tenures.size() + 1, kOpen);
  for (size_t i = tenures.size(); i > 1; --i) replaced[i - 2] = std::min(replaced[i - 1], first_answer[i - 1]);
  History judged;
  std::vector<bool> outlived(tenures.size());
  for (const Observed& each : observed) {
    const bool is_late = each.operation->invoke > replaced[each.tenure];
    if (is_late) outlived[each.tenure] = true;
    if (is_late && each.ret != kOpen) {
      const std::string text = "owner " + std::to_string(each.tenure) + " after its successor's first answer at " +
                               std::to_string(replaced[each.tenure]) + ": " + history.text_of(*each.operation);
      if (is_update(each.operation->kind)) {
        verdict.violation = "an update was acknowledged by " + text;
        return verdict;
      }
      if (++verdict.old_answers == 1) verdict.old_answer = text;
      continue;
    }
    judged.add(each.operation->kind, each.operation->thread, each.operation->invoke, each.ret,
               history.cells_of(*each.operation));
    verdict.answers += each.ret != kOpen ? 1 : 0;
  }
  verdict.outlived = static_cast<uint64_t>(std::count(outlived.begin(), outlived.end(), true));
  if (const Verdict registers = check_registers(judged); !registers.ok) verdict.violation = registers.text;
  return verdict;
}

}  // namespace bonsai::testing::sim
