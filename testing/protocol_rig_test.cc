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
  return run_case({"rig", 2, "put0", programs}, store, 1, schedules);
}

TEST(ProtocolRig, EveryActionPassesOnACorrectStore) {
  const ProtocolResult result = run(
      Defect::kNone,
      "put0 delete1 get0 | batch scan batch-delete multi-get | snapshot put1 read-snapshot snapshot read-snapshot "
      "| iterate drain scan multi-put-equal session | put-if0 put-if-seen1 batch-if | delete-if1 check-if0 check-if1 "
      "batch-if-seen");
  EXPECT_TRUE(result.verdict.ok) << result.verdict.text;
  EXPECT_EQ(result.schedules, 500u);
}

TEST(ProtocolRig, PerformsFindsWholeActionsOfEveryProgram) {
  const ProtocolCase what = {"actions", 2, "put0 crowd", "multi-put | late-batch1 scan"};
  for (const char* action : {"put", "crowd", "multi-put", "late-batch", "scan"}) EXPECT_TRUE(performs(what, action));
  for (const char* action : {"batch", "late", "get", "put0", "|", ""}) EXPECT_FALSE(performs(what, action)) << action;
}

TEST(ProtocolRigDeathTest, AnUnknownActionAndAKeyOutOfRangeEndTheTest) {
  EXPECT_DEATH(run(Defect::kNone, "putt0", 1), "an action of protocol_rig.h");
  EXPECT_DEATH(run(Defect::kNone, "get2", 1), "keys");
}

TEST(ProtocolRig, SchedulesFindTornBatchesAndScansAndRepeat) {
  for (const auto& [defect, programs] :
       {std::pair{Defect::kTearsBatches, "batch | scan scan"}, std::pair{Defect::kTearsBatches, "batch | get0 get1"},
        std::pair{Defect::kReadsStale, "put0 get0 put0 get0 | get0 get0"}}) {
    const ProtocolResult first = run(defect, programs);
    EXPECT_FALSE(first.verdict.ok) << programs;
    const ProtocolResult second = run(defect, programs);
    EXPECT_EQ(first.schedules, second.schedules);
    EXPECT_EQ(first.verdict.text, second.verdict.text);
  }
}

}  // namespace
}  // namespace bonsai::testing
