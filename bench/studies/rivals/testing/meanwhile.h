// SPDX-License-Identifier: Apache-2.0
// Actions of another client in the middle of a test's operation.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_MEANWHILE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_MEANWHILE_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "base/step.h"

namespace bonsai::bench::rivals {

// Acts once, at the step of that name (base/step.h) after `skipped` earlier ones. Fails the test if the step does not
// come. Requires: one at a time, and no thread but the test's.
class Meanwhile {
 public:
  Meanwhile(const char* step, std::function<void()> action, int skipped = 0) {
    step_ = step;
    action_ = std::move(action);
    skipped_ = skipped;
    base::step_hook.store([](const char* name) {
      if (!action_ || step_ != name || skipped_-- > 0) return;
      std::exchange(action_, nullptr)();
    });
  }
  ~Meanwhile() {
    base::step_hook.store(nullptr);
    EXPECT_FALSE(action_) << "the step " << step_ << " did not come";
    action_ = nullptr;
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  static inline std::string step_;
  static inline std::function<void()> action_;
  static inline int skipped_ = 0;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_MEANWHILE_H_
