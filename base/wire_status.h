// SPDX-License-Identifier: Apache-2.0
// A Status that another process has sent as the number of its code and its text.
#ifndef BONSAI_BASE_WIRE_STATUS_H_
#define BONSAI_BASE_WIRE_STATUS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "bonsai/status.h"

namespace bonsai::base {

// Guarantees: an error. A code that is none of an error becomes IoError.
inline Status status_from_wire(int32_t code, std::string text) {
  switch (static_cast<Status::Code>(code)) {
    case Status::Code::kNotFound:
      return Status::NotFound(std::move(text));
    case Status::Code::kInvalidArgument:
      return Status::InvalidArgument(std::move(text));
    case Status::Code::kCorruption:
      return Status::Corruption(std::move(text));
    case Status::Code::kNotSupported:
      return Status::NotSupported(std::move(text));
    case Status::Code::kNoSpace:
      return Status::NoSpace(std::move(text));
    case Status::Code::kBusy:
      return Status::Busy(std::move(text));
    case Status::Code::kUnavailable:
      return Status::Unavailable(std::move(text));
    case Status::Code::kConditionFailed:
      return Status::ConditionFailed(std::move(text));
    default:
      return Status::IoError(std::move(text));
  }
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_WIRE_STATUS_H_
