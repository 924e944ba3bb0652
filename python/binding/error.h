// SPDX-License-Identifier: Apache-2.0
// Codes of the C interface as Python exceptions.
#ifndef BONSAI_PYTHON_BINDING_ERROR_H_
#define BONSAI_PYTHON_BINDING_ERROR_H_

#include <bonsai/c.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>

namespace bonsai::python {

namespace nb = nanobind;

// A failed call on its way to the interpreter.
struct Failure {
  int code;
  std::string text;
  std::optional<size_t> failed = std::nullopt;  // of a batch: the number of the condition that does not hold
};

// The message of one C call. Pass out() as errptr.
class Message {
 public:
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { bonsai_free(text_); }

  char** out() { return &text_; }
  // Throws Failure unless `code` is OK or NOT_FOUND. Without a message the code's name is the text.
  void require(int code) const;

 private:
  char* text_ = nullptr;
};

// Adds the exception classes to the module and has Failure translated to them.
void add_errors(nb::module_& module);

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_ERROR_H_
