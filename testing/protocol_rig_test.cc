// SPDX-License-Identifier: Apache-2.0
// The rig on stores of known quality. The model and its broken variants switch where they call base::yield_thread.
#include "testing/protocol_rig.h"

#include <gtest/gtest.h>

#include "testing/broken_db.h"

namespace bonsai::testing {
namespace {

ProtocolResult run(Defect defect, const char* programs, uint64_t schedules = 500) {
  ProtocolStore store;
  store.open = [&] { return std::make_unique<BrokenDb>(Options(), defect); };
  return run_case({"rig", 2, "p0", programs}, store, 1, schedules);
}

TEST(ProtocolRig, EveryActionPassesOnACorrectStore) {
  const ProtocolResult result = run(Defect::kNone, "p0 x1 g0 | b s B m | n p1 o n o | i r s E S");
  EXPECT_TRUE(result.verdict.ok) << result.verdict.text;
  EXPECT_EQ(result.schedules, 500u);
}

TEST(ProtocolRig, SchedulesFindTornBatchesAndScansAndRepeat) {
  for (const auto& [defect, programs] :
       {std::pair{Defect::kTearsBatches, "b | s s"}, std::pair{Defect::kTearsBatches, "b | g0 g1"},
        std::pair{Defect::kReadsStale, "p0 g0 p0 g0 | g0 g0"}}) {
    const ProtocolResult first = run(defect, programs);
    EXPECT_FALSE(first.verdict.ok) << programs;
    const ProtocolResult second = run(defect, programs);
    EXPECT_EQ(first.schedules, second.schedules);
    EXPECT_EQ(first.verdict.text, second.verdict.text);
  }
}

}  // namespace
}  // namespace bonsai::testing
