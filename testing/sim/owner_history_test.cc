// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/owner_history.h"

#include <gtest/gtest.h>

namespace bonsai::testing::sim {
namespace {

// Owner 0 has lane 0 from ordinal 1 on, owner 1 has lane 1 from ordinal 20 on.
const std::vector<Tenure> kTwo = {{0, 1, 1, kOpen}, {1, 1, 20, kOpen}};

TEST(OwnerHistory, OneOwnerAfterTheOtherIsRight) {
  History history;
  history.add(OpKind::kPut, 0, 2, 3, {{7, 70}});
  history.add(OpKind::kGet, 1, 21, 22, {{7, 70}});
  history.add(OpKind::kPut, 1, 23, 24, {{7, 71}});
  const OwnersVerdict verdict = judge_owners(history, kTwo);
  EXPECT_EQ(verdict.violation, "");
  EXPECT_EQ(verdict.old_answers, 0U);
  EXPECT_EQ(verdict.answers, 3U);
  EXPECT_EQ(verdict.outlived, 0U);
}

TEST(OwnerHistory, AReadAfterTheNextOwnersFirstAnswerIsOldWhateverItReturns) {
  for (const uint64_t value : {70, 71}) {
    History history;
    history.add(OpKind::kPut, 0, 2, 3, {{7, 70}});
    history.add(OpKind::kPut, 1, 21, 22, {{7, 71}});
    history.add(OpKind::kGet, 0, 23, 24, {{7, value}});
    const OwnersVerdict verdict = judge_owners(history, kTwo);
    EXPECT_EQ(verdict.violation, "");
    EXPECT_EQ(verdict.old_answers, 1U);
    EXPECT_NE(verdict.old_answer.find("k7"), std::string::npos) << verdict.old_answer;
    EXPECT_EQ(verdict.outlived, 1U);
  }
}

TEST(OwnerHistory, AReadThatWasAskedBeforeMayReturnLater) {
  History history;
  history.add(OpKind::kPut, 0, 2, 3, {{7, 70}});
  history.add(OpKind::kPut, 1, 21, 22, {{7, 71}});
  history.add(OpKind::kGet, 0, 19, 24, {{7, 70}});
  const OwnersVerdict verdict = judge_owners(history, kTwo);
  EXPECT_EQ(verdict.violation, "");
  EXPECT_EQ(verdict.old_answers, 0U);
}

TEST(OwnerHistory, AnUpdateThatIsAcknowledgedAfterTheNextOwnersFirstAnswerIsWrong) {
  History history;
  history.add(OpKind::kGet, 1, 21, 22, {{7, kAbsent}});
  history.add(OpKind::kPut, 0, 23, 24, {{7, 70}});
  EXPECT_NE(judge_owners(history, kTwo).violation, "");
  History refused;
  refused.add(OpKind::kGet, 1, 21, 22, {{7, kAbsent}});
  refused.add(OpKind::kPut, 0, 23, kOpen, {{7, 70}});
  EXPECT_EQ(judge_owners(refused, kTwo).violation, "");
}

TEST(OwnerHistory, AnAcknowledgedUpdateThatTheNextOwnerDoesNotFindIsLost) {
  History history;
  history.add(OpKind::kPut, 0, 2, 3, {{7, 70}});
  history.add(OpKind::kGet, 1, 21, 22, {{7, kAbsent}});
  EXPECT_NE(judge_owners(history, kTwo).violation, "");
}

TEST(OwnerHistory, WhatAnEndedProcessWasStillAnsweredNobodyObserved) {
  const std::vector<Tenure> killed = {{0, 1, 1, 10}, {1, 1, 20, kOpen}};
  History history;
  history.add(OpKind::kPut, 0, 9, 11, {{7, 70}});  // in flight: it may be there, or not
  history.add(OpKind::kPut, 0, 12, 13, {{7, 71}});
  history.add(OpKind::kGet, 0, 9, 14, {{7, 71}});
  history.add(OpKind::kGet, 1, 21, 22, {{7, kAbsent}});
  const OwnersVerdict verdict = judge_owners(history, killed);
  EXPECT_EQ(verdict.violation, "");
  EXPECT_EQ(verdict.answers, 1U);
}

TEST(OwnerHistory, AnOperationOfNoOwnerIsAMistakeOfTheTest) {
  History history;
  history.add(OpKind::kGet, 5, 21, 22, {{7, kAbsent}});
  EXPECT_NE(judge_owners(history, kTwo).violation, "");
}

}  // namespace
}  // namespace bonsai::testing::sim
