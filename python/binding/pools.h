// SPDX-License-Identifier: Apache-2.0
// Pools that are not open: opening, checking, salvaging.
#ifndef BONSAI_PYTHON_BINDING_POOLS_H_
#define BONSAI_PYTHON_BINDING_POOLS_H_

#include <bonsai/c.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "store.h"

namespace bonsai::python {

// The options of bonsai::Options by their names, from keyword arguments.
class OpenOptions {
 public:
  // Errors: TypeError, for a name that there is none of; ValueError, for a value out of bounds.
  OpenOptions(bool create, const nb::kwargs& options);
  OpenOptions(const OpenOptions&) = delete;
  OpenOptions& operator=(const OpenOptions&) = delete;
  ~OpenOptions() { bonsai_options_destroy(options_); }
  [[nodiscard]] const bonsai_options_t* get() const { return options_; }

 private:
  bonsai_options_t* options_;
};

// A path, or several separated by commas, as str, bytes or os.PathLike. Errors: TypeError.
std::string path_of(nb::handle path);

// Errors: Failure.
std::shared_ptr<Store> open_store(nb::handle path, const OpenOptions& options);

void add_pools(nb::module_& module);

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_POOLS_H_
