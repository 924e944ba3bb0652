// SPDX-License-Identifier: Apache-2.0
#include "error.h"

#include <array>
#include <exception>
#include <string>

namespace bonsai::python {
namespace {

// By code of the C interface; OK and NOT_FOUND have none.
std::array<PyObject*, BONSAI_CONDITION_FAILED + 1> classes{};

PyObject* new_class(nb::module_& module, const char* name, const char* doc, nb::handle bases) {
  const std::string path = std::string("bonsai.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(path.c_str(), doc, bases.ptr(), nullptr);
  if (made == nullptr) throw nb::python_error();
  module.attr(name) = nb::handle(made);
  return made;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Failure& failure) {
    const size_t index = static_cast<size_t>(failure.code);
    PyObject* kind = index < classes.size() ? classes[index] : nullptr;
    if (kind == nullptr) kind = classes[0];
    if (!failure.failed.has_value()) return PyErr_SetString(kind, failure.text.c_str());
    const nb::object error = nb::handle(kind)(failure.text.c_str());
    error.attr("failed") = *failure.failed;
    PyErr_SetObject(kind, error.ptr());
  }
}

}  // namespace

void Message::require(int code) const {
  if (code == BONSAI_OK || code == BONSAI_NOT_FOUND) return;
  throw Failure{.code = code, .text = text_ != nullptr ? text_ : bonsai_code_name(code)};
}

void add_errors(nb::module_& module) {
  PyObject* base = new_class(module, "Error", "What the store reports; its subclasses name the kind.", PyExc_Exception);
  const auto add = [&](int code, const char* name, const char* doc, PyObject* also) {
    const nb::object bases = also == nullptr ? nb::object(nb::make_tuple(nb::handle(base)))
                                             : nb::object(nb::make_tuple(nb::handle(base), nb::handle(also)));
    classes[static_cast<size_t>(code)] = new_class(module, name, doc, bases);
  };
  classes[0] = base;
  add(BONSAI_INVALID_ARGUMENT, "InvalidArgumentError", "An argument is out of bounds; nothing changed.",
      PyExc_ValueError);
  add(BONSAI_NO_SPACE, "NoSpaceError", "Log, pool or memory is full; nothing changed; deletes still work.", nullptr);
  add(BONSAI_CORRUPTION, "CorruptionError", "Stored bytes fail their checksum.", nullptr);
  add(BONSAI_IO_ERROR, "IoError", "The operating system reported an error.", PyExc_OSError);
  add(BONSAI_UNAVAILABLE, "UnavailableError",
      "A wait timed out, or a node does not answer; an update may or may not take effect.", nullptr);
  add(BONSAI_BUSY, "BusyError", "The pool is open elsewhere, or another thread uses the object.", nullptr);
  add(BONSAI_NOT_SUPPORTED, "NotSupportedError", "This build, medium or format version cannot do it.", nullptr);
  add(BONSAI_CONDITION_FAILED, "ConditionFailedError", "A condition of the update does not hold; nothing changed.",
      nullptr);
  nb::register_exception_translator(translate);
}

}  // namespace bonsai::python
