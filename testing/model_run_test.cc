// SPDX-License-Identifier: Apache-2.0
// The model agrees with itself, and single-thread defects are noticed.
#include "testing/model_run.h"

#include <gtest/gtest.h>

#include "testing/broken_db.h"

namespace bonsai::testing {
namespace {

// The model forgets all when it is closed, so its reopening returns the same store.
class Forwarder {
 public:
  Forwarder(Defect defect, KeyFormat format) : defect_(defect) { options_.key_format = format; }
  Status operator()(std::unique_ptr<DB>* db) {
    if (opened_) return Status::Unavailable("the model cannot be reopened");
    opened_ = true;
    *db = std::make_unique<BrokenDb>(options_, defect_);
    return Status::OK();
  }

 private:
  Options options_;
  Defect defect_;
  bool opened_ = false;
};

// Runs until a reopening, which the model cannot do, ends it.
Verdict run(Defect defect, KeyFormat format, uint64_t seed) {
  return run_against_model({.key_format = format, .steps = 2000, .seed = seed}, Forwarder(defect, format));
}

bool ended_by_reopening(const Verdict& verdict) { return verdict.text.find(": reopen: ") != std::string::npos; }

TEST(ModelRunTest, ModelAgreesWithItself) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed8}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const Verdict verdict = run(Defect::kNone, format, seed);
      EXPECT_TRUE(verdict.ok || ended_by_reopening(verdict)) << verdict.text;
    }
  }
}

TEST(ModelRunTest, DefectsOfOneThreadAreNoticed) {
  for (const Defect defect :
       {Defect::kLosesPuts, Defect::kReadsStale, Defect::kForgetsSnapshots, Defect::kGarblesValues,
        Defect::kRevivesDeleted, Defect::kSkipsOnPrev, Defect::kAnswersEarly}) {
    bool found = false;
    for (uint64_t seed = 1; seed <= 20 && !found; ++seed) {
      const Verdict verdict = run(defect, KeyFormat::kBytes, seed);
      found = !verdict.ok && !ended_by_reopening(verdict);
    }
    EXPECT_TRUE(found) << name_of(defect);
  }
}

}  // namespace
}  // namespace bonsai::testing
