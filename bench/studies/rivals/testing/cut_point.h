// SPDX-License-Identifier: Apache-2.0
// Where the power is to be cut: soon after a step of the code under test was begun so often, by chance.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_CUT_POINT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_CUT_POINT_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "base/step.h"

namespace bonsai::bench::rivals {

// One at a time. It takes the hook of all steps for as long as it lives. Not thread-safe: for simulations.
class CutPoint {
 public:
  struct Step {
    std::string_view name;
    uint64_t times_max;  // the cut is at the first to the last of these
  };
  // One of `steps`. After end_ns it is reached in any case.
  CutPoint(std::span<const Step> steps, uint64_t end_ns, base::Random* random) : end_ns_(end_ns) {
    const Step& step = steps[random->below(steps.size())];
    name_ = step.name;
    left_ = 1 + random->below(step.times_max);
    base::step_hook.store([](const char* name) { left_ -= std::min<uint64_t>(left_, name_ == name ? 1 : 0); });
  }
  ~CutPoint() { base::step_hook.store(nullptr); }
  CutPoint(const CutPoint&) = delete;
  CutPoint& operator=(const CutPoint&) = delete;

  [[nodiscard]] bool reached() const { return left_ == 0 || base::now_ns() > end_ns_; }

 private:
  static inline std::string_view name_;
  static inline uint64_t left_ = 0;
  const uint64_t end_ns_;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_CUT_POINT_H_
