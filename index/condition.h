// SPDX-License-Identifier: Apache-2.0
// What must hold of a key for a conditional update, and what became of it.
#ifndef BONSAI_INDEX_CONDITION_H_
#define BONSAI_INDEX_CONDITION_H_

#include <cstdint>
#include <string_view>

namespace bonsai::index {

// Thread-safety: a value type.
struct Condition {
  enum class Kind : uint8_t {
    kAbsent,     // the key has no value
    kPresent,    // it has one
    kEquals,     // it has this one
    kUnchanged,  // it has not been updated since a registered scan took its version
  };

  Kind kind = Kind::kAbsent;
  std::string_view value = {};  // kEquals: valid as long as the update may be in flight
  uint64_t version = 0;         // kUnchanged: of a registration that lasts until the update is decided
  uint32_t number = 0;          // the caller's
};

// Why a conditional update has changed nothing.
enum class Refusal : uint8_t {
  kNone,         // it was not refused
  kFails,        // a condition does not hold
  kDamaged,      // the value that it is about is damaged
  kUnavailable,  // a far target did not deliver it
  kGivenUp,      // its owner stopped waiting before it was decided
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_CONDITION_H_
