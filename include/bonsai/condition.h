// SPDX-License-Identifier: Apache-2.0
// What must hold of a key for a conditional update (DB::PutIf, DB::DeleteIf, WriteBatch::Require) to take effect.
//
//   db->PutIf(bonsai::Condition::Absent(), key, value);          // an insert
//   db->PutIf(bonsai::Condition::Equals(seen), key, value);      // compare and set
//   db->GetSnapshot(&snapshot), db->Get({.snapshot = snapshot.get()}, key, &seen);
//   db->PutIf(bonsai::Condition::Unchanged(*snapshot), key, value);  // nobody has updated it since that read
#ifndef BONSAI_CONDITION_H_
#define BONSAI_CONDITION_H_

#include <cstdint>
#include <string_view>

#include "bonsai/cxx20.h"

namespace bonsai {

class Snapshot;

// Thread-safety: a value type. Requires: the bytes and the snapshot outlive the call that takes the condition; of a
// WriteBatch the snapshot outlives the Write.
class Condition {
 public:
  enum class Kind : uint8_t {
    kAbsent,     // the key has no value
    kPresent,    // the key has a value
    kEquals,     // the key has this value
    kUnchanged,  // the key has not been updated since the snapshot was taken, not even to the same value
  };

  static Condition Absent() { return {Kind::kAbsent, {}, nullptr}; }
  static Condition Present() { return {Kind::kPresent, {}, nullptr}; }
  static Condition Equals(std::string_view value) { return {Kind::kEquals, value, nullptr}; }
  // Requires: a snapshot of the same store.
  static Condition Unchanged(const Snapshot& snapshot) { return {Kind::kUnchanged, {}, &snapshot}; }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::string_view value() const { return value_; }       // kEquals
  [[nodiscard]] const Snapshot* snapshot() const { return snapshot_; }  // kUnchanged

 private:
  Condition(Kind kind, std::string_view value, const Snapshot* snapshot)
      : kind_(kind), value_(value), snapshot_(snapshot) {}

  Kind kind_;
  std::string_view value_;
  const Snapshot* snapshot_;
};

}  // namespace bonsai

#endif  // BONSAI_CONDITION_H_
