// SPDX-License-Identifier: Apache-2.0
// The exit codes of the program.
#ifndef BONSAI_ADMIN_EXIT_CODE_H_
#define BONSAI_ADMIN_EXIT_CODE_H_

#include "bonsai/status.h"

namespace bonsai::admin {

enum ExitCode : int {
  kExitOk = 0,
  kExitNotFound = 1,  // the key has no value, or a condition does not hold
  kExitUsage = 2,     // unknown command or flag, or input out of bounds; nothing changed
  kExitFailed = 3,    // the pool or the machine cannot do it now
  kExitDamaged = 4,   // stored bytes fail their checks
};

inline ExitCode exit_code(const Status& status) {
  switch (status.code()) {
    case Status::Code::kOk:
      return kExitOk;
    case Status::Code::kNotFound:
    case Status::Code::kConditionFailed:
      return kExitNotFound;
    case Status::Code::kInvalidArgument:
      return kExitUsage;
    case Status::Code::kCorruption:
      return kExitDamaged;
    default:
      return kExitFailed;
  }
}

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_EXIT_CODE_H_
