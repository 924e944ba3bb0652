// SPDX-License-Identifier: Apache-2.0
// The rules of the product whose loss the simulations must notice, and which of them: lives of one compute node
// (life.h), lives of two (owner_life.h), or both.
#ifndef BONSAI_TESTING_SIM_RULES_H_
#define BONSAI_TESTING_SIM_RULES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "persist/testing/mutants.h"
#include "scale/testing/mutants.h"
#include "store/testing/mutants.h"
#include "testing/sim/without_rule.h"

namespace bonsai::testing::sim {

enum Lives : uint8_t { kOneNode = 1, kTwoNodes = 2, kAnyNodes = kOneNode | kTwoNodes };

struct NoticedRule {
  Rule rule;
  Lives lives;  // that notice its loss
};

inline constexpr NoticedRule kNoticedRules[] = {
    {{scale::kFenceNotAwaited, "acknowledged before the answer"}, kAnyNodes},
    {{scale::kFenceFailureIgnored, "a failed fence of remote targets is ignored"}, kAnyNodes},
    {{scale::kFailureForgotten, "a failed request is forgotten"}, kOneNode},
    {{scale::kAnswerBeforeFlush, "the server answers and flushes nothing"}, kAnyNodes},
    {{scale::kFlushFirstOnly, "the server flushes one range of several"}, kAnyNodes},
    {{scale::kFlushNotAwaited, "the server answers before its thread has flushed"}, kOneNode},
    {{scale::kReadNotAwaited, "a buffer is used again before its READ is complete"}, kAnyNodes},
    {{scale::kCopyUsedAgain, "a buffer is used again before its WRITE is complete"}, kAnyNodes},
    {{scale::kSendAgainSkipped, "unanswered writes are not sent again"}, kAnyNodes},
    {{scale::kReadAgainSkipped, "unanswered reads are not repeated"}, kAnyNodes},
    {{scale::kOwnerReplaced, "two owners of a pool at once"}, kOneNode},
    {{scale::kRecordSkipped, "an owner is served before its record is durable"}, kTwoNodes},
    {{scale::kReplacedResumes, "a replaced owner takes the pool back"}, kTwoNodes},
    {{scale::kRestartNotAwaited, "a restarted node does not wait out the lease"}, kTwoNodes},
    {{scale::kLeaseNotAwaited, "a pool is given away while a lease runs"}, kTwoNodes},
    {{scale::kLeaseNotChecked, "a lease is valid for ever"}, kTwoNodes},
    {{scale::kLeaseByArrival, "a grant counts from its arrival"}, kTwoNodes},
    {{scale::kEarlierGrantCovers, "an earlier grant covers a read"}, kTwoNodes},
    {{scale::kStandingClockTrusted, "lease=checked relies on the clock"}, kTwoNodes},
    {{store::kGetNotChecked, "gets do not look at the lease"}, kTwoNodes},
    {{store::kMultiGetNotChecked, "groups of gets do not look at the lease"}, kTwoNodes},
    {{store::kScanNotChecked, "scans do not look at the lease"}, kTwoNodes},
    {{store::kIteratorNotChecked, "iterators do not look at the lease"}, kTwoNodes},
    {{persist::kAppendFailureIgnored, "a failed append is taken for durable"}, kAnyNodes},
    {{persist::kHeaderWithRuns, "headers go with their runs"}, kOneNode},
    {{persist::kCommitFailureIgnored, "a failed commit is taken for durable"}, kOneNode},
    {{persist::kLargeNotFenced, "a large value is referred to before it is durable"}, kOneNode},
    {{persist::kEpochClosedEarly, "an epoch is closed before its records are durable"}, kOneNode},
    {{persist::kRecoveredNotWritten, "recovery builds on what may not be durable"}, kAnyNodes},
};

// Else the loss of one would hide that of another.
inline constexpr bool kEachHasItsBit = [] {
  std::array<uint64_t, std::size(kNoticedRules)> bits{};
  std::transform(std::begin(kNoticedRules), std::end(kNoticedRules), bits.begin(),
                 [](const NoticedRule& each) { return each.rule.bit; });
  std::sort(bits.begin(), bits.end());
  return std::adjacent_find(bits.begin(), bits.end()) == bits.end();
}();
static_assert(kEachHasItsBit);

inline std::vector<Rule> rules_noticed_by(Lives lives) {
  std::vector<Rule> rules;
  for (const NoticedRule& each : kNoticedRules) {
    if ((each.lives & lives) != 0) rules.push_back(each.rule);
  }
  return rules;
}

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_RULES_H_
