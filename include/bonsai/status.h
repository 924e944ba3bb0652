// SPDX-License-Identifier: Apache-2.0
// Status: the result of an operation that can fail at run time (a broken invariant ends the process instead).
//
// A Status is OK, or has a code and a message. The message states what failed, where, and what to do about it.
// Thread-safety: a value type; distinct objects are independent.
// Cost: an OK status is one null pointer, so success neither allocates nor copies.
#ifndef BONSAI_STATUS_H_
#define BONSAI_STATUS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "bonsai/cxx20.h"

namespace bonsai {

class [[nodiscard]] Status {
 public:
  enum class Code : int {
    kOk = 0,
    kNotFound = 1,         // the key has no value; not an error of the store
    kInvalidArgument = 2,  // an argument is out of its stated bounds; nothing changed
    kNoSpace = 3,          // log, pool or DRAM budget is full; nothing changed; deletes still work
    kCorruption = 4,       // stored bytes fail their checksum; the message names the key range
    kIoError = 5,          // the operating system reported an error; the message has its reason
    kUnavailable = 6,      // a wait timed out, or a node does not answer; an update may or may not take effect
    kBusy = 7,             // open elsewhere, or a snapshot, iterator or session is still open
    kNotSupported = 8,     // this build, medium or format version cannot do it
    kConditionFailed = 9,  // a condition of the update does not hold; nothing changed; not an error of the store
  };

  Status() noexcept = default;
  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  static Status OK() { return {}; }
  static Status NotFound(std::string message = {}) { return {Code::kNotFound, std::move(message)}; }
  static Status InvalidArgument(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
  static Status NoSpace(std::string message) { return {Code::kNoSpace, std::move(message)}; }
  static Status Corruption(std::string message) { return {Code::kCorruption, std::move(message)}; }
  static Status IoError(std::string message) { return {Code::kIoError, std::move(message)}; }
  static Status Unavailable(std::string message) { return {Code::kUnavailable, std::move(message)}; }
  static Status Busy(std::string message) { return {Code::kBusy, std::move(message)}; }
  static Status NotSupported(std::string message) { return {Code::kNotSupported, std::move(message)}; }
  static Status ConditionFailed(std::string message = {}) { return {Code::kConditionFailed, std::move(message)}; }

  [[nodiscard]] bool ok() const noexcept { return rep_ == nullptr; }
  [[nodiscard]] Code code() const noexcept { return rep_ ? rep_->code : Code::kOk; }
  [[nodiscard]] bool IsNotFound() const noexcept { return code() == Code::kNotFound; }
  [[nodiscard]] bool IsInvalidArgument() const noexcept { return code() == Code::kInvalidArgument; }
  [[nodiscard]] bool IsNoSpace() const noexcept { return code() == Code::kNoSpace; }
  [[nodiscard]] bool IsCorruption() const noexcept { return code() == Code::kCorruption; }
  [[nodiscard]] bool IsIoError() const noexcept { return code() == Code::kIoError; }
  [[nodiscard]] bool IsUnavailable() const noexcept { return code() == Code::kUnavailable; }
  [[nodiscard]] bool IsBusy() const noexcept { return code() == Code::kBusy; }
  [[nodiscard]] bool IsNotSupported() const noexcept { return code() == Code::kNotSupported; }
  [[nodiscard]] bool IsConditionFailed() const noexcept { return code() == Code::kConditionFailed; }

  // The message without the code; empty when OK.
  [[nodiscard]] std::string_view message() const noexcept { return rep_ ? std::string_view(rep_->message) : ""; }

  // A status with this code and another message; OK stays OK.
  [[nodiscard]] Status WithMessage(std::string message) const {
    return ok() ? Status() : Status(rep_->code, std::move(message));
  }

  // "OK", or "<code name>: <message>".
  [[nodiscard]] std::string ToString() const {
    if (ok()) return "OK";
    std::string text(CodeName(rep_->code));
    if (!rep_->message.empty()) text.append(": ").append(rep_->message);
    return text;
  }

  static std::string_view CodeName(Code code) noexcept {
    switch (code) {
      case Code::kOk:
        return "OK";
      case Code::kNotFound:
        return "not found";
      case Code::kInvalidArgument:
        return "invalid argument";
      case Code::kNoSpace:
        return "no space";
      case Code::kCorruption:
        return "corruption";
      case Code::kIoError:
        return "I/O error";
      case Code::kUnavailable:
        return "unavailable";
      case Code::kBusy:
        return "busy";
      case Code::kNotSupported:
        return "not supported";
      case Code::kConditionFailed:
        return "condition failed";
    }
    return "unknown";
  }

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  Status(Code code, std::string message) : rep_(std::make_unique<Rep>(Rep{code, std::move(message)})) {}

  std::unique_ptr<Rep> rep_;
};

}  // namespace bonsai

#endif  // BONSAI_STATUS_H_
