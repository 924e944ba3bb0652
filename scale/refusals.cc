// SPDX-License-Identifier: Apache-2.0
#include "scale/refusals.h"

#include <utility>

#include "base/clock.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kMinuteNs = 60 * base::kNsPerSecond;
constexpr size_t kLinesMax = 4 * Refusals::kPerMinuteMax;  // that nobody takes

}  // namespace

// Requires: the mutex.
void Refusals::begin_minute() {
  const uint64_t minute = base::now_ns() / kMinuteNs;
  if (minute == minute_) return;
  if (in_minute_ > kPerMinuteMax && lines_.size() < kLinesMax) {
    lines_.push_back(std::to_string(in_minute_ - kPerMinuteMax) +
                     " further connections were refused within that minute");
  }
  minute_ = minute;
  in_minute_ = 0;
}

void Refusals::add(const std::string& from, const Status& why) {
  const std::lock_guard lock(mutex_);
  begin_minute();
  if (++in_minute_ > kPerMinuteMax || lines_.size() >= kLinesMax) return;
  lines_.push_back("a connection from " + from + " was refused: " + std::string(why.message()));
}

std::vector<std::string> Refusals::take() {
  const std::lock_guard lock(mutex_);
  begin_minute();
  return std::exchange(lines_, {});
}

}  // namespace bonsai::scale
