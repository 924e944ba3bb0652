// SPDX-License-Identifier: Apache-2.0
#include "condition.h"

#include <cstdint>

#include "bytes.h"
#include "error.h"

namespace bonsai::python {
namespace {

// Whether the condition held. `update` is one of the C interface's.
template <typename Update>
bool if_it_holds(Store& store, const Condition& condition, Update&& update) {
  const ReadOptions reader(condition.snapshot().of(store));  // keeps the snapshot
  const bonsai_condition_t required = condition.get();
  bool held = true;
  store.call([&](bonsai_t* db, char** error) {
    const int code = update(db, &required, error);
    held = code != BONSAI_CONDITION_FAILED;
    return held ? code : static_cast<int>(BONSAI_OK);
  });
  return held;
}

bool put_if(Store& store, const Condition& condition, nb::handle key, nb::handle value) {
  const Bytes k(key), v(value);
  return if_it_holds(store, condition, [&](bonsai_t* db, const bonsai_condition_t* required, char** error) {
    return bonsai_put_if(db, required, k.data(), k.size(), v.data(), v.size(), error);
  });
}

bool delete_if(Store& store, const Condition& condition, nb::handle key) {
  const Bytes k(key);
  return if_it_holds(store, condition, [&](bonsai_t* db, const bonsai_condition_t* required, char** error) {
    return bonsai_delete_if(db, required, k.data(), k.size(), error);
  });
}

int64_t increment(Store& store, nb::handle key, int64_t by) {
  const Bytes k(key);
  int64_t sum = 0;
  store.call([&](bonsai_t* db, char** error) { return bonsai_increment(db, k.data(), k.size(), by, &sum, error); });
  return sum;
}

}  // namespace

SnapshotName::SnapshotName(nb::handle object) : object_(nb::borrow(object)), snapshot_(nb::cast<Snapshot*>(object)) {}

Snapshot* SnapshotName::of(const Store& store) const {
  if (snapshot_ == nullptr) return nullptr;
  (void)snapshot_->get();  // it is live
  if (!snapshot_->is_of(store))
    throw Failure{.code = BONSAI_INVALID_ARGUMENT, .text = "the condition's snapshot is of another store"};
  return snapshot_;
}

Condition Condition::equals(nb::handle value) {
  Condition condition(BONSAI_IF_EQUALS);
  condition.value_ = Bytes(value).view();
  return condition;
}

Condition Condition::unchanged(nb::handle snapshot) {
  Condition condition(BONSAI_IF_UNCHANGED);
  condition.snapshot_ = SnapshotName(snapshot);
  return condition;
}

bonsai_condition_t Condition::get() const {
  const Snapshot* snapshot = snapshot_.snapshot();
  return {.kind = kind_,
          .value = value_.data(),
          .value_bytes = value_.size(),
          .snapshot = snapshot != nullptr ? snapshot->get() : nullptr};
}

void add_conditions(nb::module_& module, nb::class_<Store>& db) {
  nb::class_<Condition>(module, "Condition", "What must hold of a key for a conditional update to take effect.")
      .def_static("absent", &Condition::absent, "The key has no value.")
      .def_static("present", &Condition::present, "The key has a value.")
      .def_static("equals", &Condition::equals, nb::arg("value"), "The key has this value.")
      .def_static("unchanged", &Condition::unchanged, nb::arg("snapshot"),
                  "The key has not been updated since the snapshot was taken, not even to the same value.");
  db.def("put_if", put_if, nb::arg("condition"), nb::arg("key"), nb::arg("value"),
         "Stores the value if the condition holds, at one moment. Returns whether it held; else nothing is changed.")
      .def("delete_if", delete_if, nb::arg("condition"), nb::arg("key"),
           "Removes the key if the condition holds, at one moment. Returns whether it held.")
      .def("increment", increment, nb::arg("key"), nb::arg("by") = 1,
           "Adds to the decimal number of 64 bits that is the key's value, 0 if it has none. Returns the sum.");
}

}  // namespace bonsai::python
