// SPDX-License-Identifier: Apache-2.0
// Updates of a key by what it has: conditions, conditional updates, counters.
#ifndef BONSAI_PYTHON_BINDING_CONDITION_H_
#define BONSAI_PYTHON_BINDING_CONDITION_H_

#include <bonsai/c.h>
#include <nanobind/nanobind.h>

#include <string>

#include "store.h"

namespace bonsai::python {

// A snapshot that something keeps alive to name it later. The user may release it before, or close its store.
class SnapshotName {
 public:
  SnapshotName() = default;
  // Errors: TypeError, if it is no snapshot.
  explicit SnapshotName(nb::handle object);

  // For a call of `store`; null: it names none. Errors: Failure, if it was released, or is of another store.
  [[nodiscard]] Snapshot* of(const Store& store) const;
  // Null: it names none.
  [[nodiscard]] const Snapshot* snapshot() const { return snapshot_; }

 private:
  nb::object object_;
  Snapshot* snapshot_ = nullptr;
};

// What must hold of a key. Immutable.
class Condition {
 public:
  static Condition absent() { return Condition(BONSAI_IF_ABSENT); }
  static Condition present() { return Condition(BONSAI_IF_PRESENT); }
  static Condition equals(nb::handle value);  // copies it
  static Condition unchanged(nb::handle snapshot);

  [[nodiscard]] const SnapshotName& snapshot() const { return snapshot_; }
  // In the form of the C interface; valid as long as the condition, and its snapshot is live. Errors: Failure, if the
  // snapshot was released.
  [[nodiscard]] bonsai_condition_t get() const;

 private:
  explicit Condition(int kind) : kind_(kind) {}

  int kind_;
  std::string value_;
  SnapshotName snapshot_;
};

void add_conditions(nb::module_& module, nb::class_<Store>& db);

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_CONDITION_H_
