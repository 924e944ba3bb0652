// SPDX-License-Identifier: Apache-2.0
// The error message of a call of the C interface, for tests.
#ifndef BONSAI_STORE_TESTING_MESSAGE_H_
#define BONSAI_STORE_TESTING_MESSAGE_H_

#include <string>

#include "bonsai/c.h"

namespace bonsai::testing {

// A message slot that frees itself.
class Message {
 public:
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { bonsai_free(text_); }
  char** slot() { return &text_; }
  [[nodiscard]] std::string text() const { return text_ == nullptr ? "" : text_; }
  [[nodiscard]] bool is_set() const { return text_ != nullptr; }

 private:
  char* text_ = nullptr;
};

}  // namespace bonsai::testing

#endif  // BONSAI_STORE_TESTING_MESSAGE_H_
