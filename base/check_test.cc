// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "base/step.h"

namespace bonsai::base {
namespace {

TEST(Check, PassesWhenTrueAndEvaluatesOnce) {
  int calls = 0;
  BONSAI_CHECK(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(CheckDeath, NamesThePlaceAndTheCondition) {
  const bool sane = false;
  EXPECT_DEATH(BONSAI_CHECK(sane), "check_test.cc:.*broken invariant: sane");
}

TEST(CheckDeath, DebugChecksFollowTheBuild) {
  const bool sane = false;
#ifdef NDEBUG
  BONSAI_DCHECK(sane);
  int calls = 0;
  BONSAI_DCHECK(++calls == 1);
  EXPECT_EQ(calls, 0) << "never evaluated in release builds";
#else
  EXPECT_DEATH(BONSAI_DCHECK(sane), "broken invariant");
#endif
}

TEST(CheckDeath, InvariantsHoldInEveryBuild) {
  const bool kept = false;
  EXPECT_DEATH(BONSAI_INVARIANT(kept), "check_test.cc:.*broken invariant: kept");
}

TEST(CheckDeath, SlowInvariantsFollowTheBuild) {
  const bool kept = false;
#ifdef BONSAI_CHECKED
  EXPECT_DEATH(BONSAI_SLOW_INVARIANT(kept), "broken invariant: kept");
#else
  BONSAI_SLOW_INVARIANT(kept);
  int calls = 0;
  BONSAI_SLOW_INVARIANT(++calls == 1);
  EXPECT_EQ(calls, 0) << "never evaluated";
#endif
}

Status passes_on(const Status& inner, bool* reached_end) {
  BONSAI_RETURN_IF_ERROR(inner);
  *reached_end = true;
  return Status::OK();
}

TEST(StatusMacros, ReturnTheErrorAndOnlyTheError) {
  bool reached_end = false;
  EXPECT_TRUE(passes_on(Status::OK(), &reached_end).ok());
  EXPECT_TRUE(reached_end);
  reached_end = false;
  const Status failed = passes_on(Status::NoSpace("log full"), &reached_end);
  EXPECT_TRUE(failed.IsNoSpace());
  EXPECT_EQ(failed.message(), "log full");
  EXPECT_FALSE(reached_end);
}

#ifndef BONSAI_STEPPED
TEST(Step, IsNothingInTheProduct) { step("any"); }
#endif

}  // namespace
}  // namespace bonsai::base
