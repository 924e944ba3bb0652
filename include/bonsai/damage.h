// SPDX-License-Identifier: Apache-2.0
// One finding of Check, Salvage or a recovery: stored bytes that differ from what was written.
#ifndef BONSAI_DAMAGE_H_
#define BONSAI_DAMAGE_H_

#include <cstdint>
#include <string>

#include "bonsai/cxx20.h"

namespace bonsai {

struct Damage {
  std::string where;      // e.g. "dnode header at target 0 offset 0x12100"
  std::string what;       // what is wrong
  std::string key_range;  // keys whose values may be affected, printable; empty = none
};

// What is left of a range of keys.
struct RangeState {
  enum class Left : uint8_t {
    kWhole = 0,    // all that its dnodes and the log hold, as far as the log is there
    kPart = 1,     // some records are lost, or may have older values
    kNothing = 2,  // no record
  };
  std::string key_range;  // printable
  Left left = Left::kWhole;
  uint64_t records = 0;  // that are left
};

}  // namespace bonsai

#endif  // BONSAI_DAMAGE_H_
