// SPDX-License-Identifier: Apache-2.0
// Moments as people read them.
#ifndef BONSAI_BASE_CALENDAR_H_
#define BONSAI_BASE_CALENDAR_H_

#include <array>
#include <cstdint>
#include <ctime>
#include <string>

namespace bonsai::base {

// Seconds since 1970, e.g. "2026-11-30 01:20:00 UTC"; "?" where no calendar has them. Thread-safety: any thread.
inline std::string calendar_text(uint64_t seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&whole, &parts) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CALENDAR_H_
