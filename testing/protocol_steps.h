// SPDX-License-Identifier: Apache-2.0
// What protocol_rig.cc does with texts of programs and with steps.
#ifndef BONSAI_TESTING_PROTOCOL_STEPS_H_
#define BONSAI_TESTING_PROTOCOL_STEPS_H_

#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/step.h"

namespace bonsai::testing {

// The actions of each program.
inline std::vector<std::vector<std::string>> parse(const char* text) {
  std::vector<std::vector<std::string>> programs(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "|") {
      programs.emplace_back();
    } else {
      programs.back().push_back(word);
    }
  }
  return programs;
}

// Counts the steps of a run and calls back at one of them.
struct StepWatch {
  uint64_t steps = 0;
  uint64_t crash_at = UINT64_MAX;
  std::function<void()> crash;
};
inline StepWatch* watch = nullptr;

inline void on_step(const char*) {
  if (base::Scheduler::current() == nullptr) return;
  if (watch != nullptr && ++watch->steps == watch->crash_at) watch->crash();
  base::Scheduler::yield();
}

inline void set_hook(bool on) {
#ifdef BONSAI_STEPPED
  base::step_hook.store(on ? &on_step : nullptr);
#else
  static_cast<void>(on);
#endif
}

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_PROTOCOL_STEPS_H_
