// SPDX-License-Identifier: Apache-2.0
// Reads of many records in one call.
#ifndef BONSAI_PYTHON_BINDING_SCAN_H_
#define BONSAI_PYTHON_BINDING_SCAN_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "bytes.h"
#include "store.h"

namespace bonsai::python {

// The records that a scan visits: from `start` (none: the first) up to `end` (exclusive; none: no end), at most
// `limit`.
struct Range {
  std::optional<Bytes> start, end;
  uint64_t limit = UINT64_MAX;
};
Range make_range(nb::handle start, nb::handle end, std::optional<uint64_t> limit);

// A list of (key, value). Errors: Failure.
nb::list scan(Store& store, const Range& range, Snapshot* snapshot);
uint64_t count(Store& store, const Range& range, Snapshot* snapshot);
// Returns the number of records. Errors: Failure, also where they are more than one batch has.
uint64_t delete_range(Store& store, const Range& range);

// Keys and values of equal sizes, each put together to one bytes object: (keys, values, key size, value size).
// Errors: ValueError, if two records differ in size; Failure.
nb::tuple scan_columns(Store& store, const Range& range, Snapshot* snapshot);

// The value of each key, or None. Errors: Failure, if a get failed.
nb::list get_many(Store& store, nb::handle keys, Snapshot* snapshot);
// Puts the records of a dict, or of an iterable of pairs. Returns their number. Errors: Failure; earlier puts may have
// taken effect.
size_t put_many(Store& store, nb::handle records);

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_SCAN_H_
