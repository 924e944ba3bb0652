// SPDX-License-Identifier: Apache-2.0
// One finding of Check, Salvage or a recovery: stored bytes that differ from what was written.
#ifndef BONSAI_DAMAGE_H_
#define BONSAI_DAMAGE_H_

#include <string>

#include "bonsai/cxx20.h"

namespace bonsai {

struct Damage {
  std::string where;      // e.g. "dnode header at target 0 offset 0x12100"
  std::string what;       // what is wrong
  std::string key_range;  // keys whose values may be affected, printable; empty = none
};

}  // namespace bonsai

#endif  // BONSAI_DAMAGE_H_
