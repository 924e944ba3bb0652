// SPDX-License-Identifier: Apache-2.0
// What becomes of answers when the lease of a remote store has lapsed (scale/leases.h). Local stores never come here.
#include <algorithm>
#include <string>
#include <utility>

#include "store/db_impl.h"

namespace bonsai::store {

Status DbImpl::await_lease(bool waits) const { return leases_->await(waits ? options_.fabric_wait_ms_max : 0); }

Status DbImpl::answer_without_lease(Status read) const {
  if (read.IsUnavailable()) return read;
  Status owned = await_lease();
  return owned.ok() ? std::move(read) : std::move(owned);
}

void DbImpl::answer_without_lease(std::span<const Read> reads) const {
  const auto is_unavailable = [](const Read& read) { return read.status->IsUnavailable(); };
  const Status owned = await_lease(/*waits=*/std::none_of(reads.begin(), reads.end(), is_unavailable));
  if (owned.ok()) return;
  for (const Read& read : reads) {
    if (!read.status->IsInvalidArgument() && !read.status->IsUnavailable()) *read.status = owned;
  }
}

Status DbImpl::await_acknowledgement() const {
  const Status owned = await_lease();
  if (owned.ok()) return owned;
  return Status::Unavailable("this update may or may not have taken effect: " + std::string(owned.message()));
}

}  // namespace bonsai::store
