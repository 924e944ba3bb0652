// SPDX-License-Identifier: Apache-2.0
// A macro that returns a failed status to the caller.
#ifndef BONSAI_BASE_STATUS_MACROS_H_
#define BONSAI_BASE_STATUS_MACROS_H_

#include "bonsai/status.h"

#define BONSAI_RETURN_IF_ERROR(expression)             \
  do {                                                 \
    ::bonsai::Status status_of_step_ = (expression);   \
    if (!status_of_step_.ok()) return status_of_step_; \
  } while (false)

#endif  // BONSAI_BASE_STATUS_MACROS_H_
