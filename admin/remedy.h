// SPDX-License-Identifier: Apache-2.0
// What to do about a pool that cannot be opened or used, in terms of the program `bonsai`.
#ifndef BONSAI_ADMIN_REMEDY_H_
#define BONSAI_ADMIN_REMEDY_H_

#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::admin {

// The targets that a path names, split at its commas.
std::vector<std::string> targets_of(const std::string& path);

// Whether another node serves the target, so that this machine's tools cannot examine it.
bool is_remote(const std::string& target);

// Whether the status's message has these words.
bool says(const Status& status, std::string_view words);

// `status`, which is not OK, with more text at the end of its message.
Status with_text(const Status& status, const std::string& text);

// `status` with advice for the pool at `path` appended, where there is a remedy to offer.
Status with_remedy(Status status, const std::string& path);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_REMEDY_H_
