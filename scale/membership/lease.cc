// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/lease.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace bonsai::scale::membership {

Lease::Lease(size_t members, size_t needed) : members_(members), needed_(needed) {
  BONSAI_CHECK(needed >= 1 && needed <= members && members <= kMembersMax);
}

Status Lease::granted(size_t member, uint64_t sent_ns, uint64_t arrived_ns, uint64_t lease_ns) {
  BONSAI_CHECK(member < members_);
  if (!lease_in_range(lease_ns)) {
    return Status::InvalidArgument("a node granted a lease of " + std::to_string(lease_ns) + " ns; leases have " +
                                   std::to_string(kLeaseNsMin) + " to " + std::to_string(kLeaseNsMax) +
                                   " ns: use the same version of bonsaid and store");
  }
  if (arrived_ns < sent_ns) {
    return Status::IoError("this machine's clock went back during a request, so the grant does not count");
  }
  if (ended_) return Status::Unavailable("this owner has left the pool or was replaced; open the store again");
  const uint64_t from_ns = sent_ns;
  const uint64_t until_ns = from_ns + owner_ns(lease_ns);
  if (until_ns < from_ns) return Status::IoError("this machine's clock is at its end");
  untils_ns_[member] = std::max(untils_ns_[member], until_ns);
  for (const uint64_t each : untils_ns_) {
    const auto reach_it = std::count_if(untils_ns_.begin(), untils_ns_.end(), [&](uint64_t ns) { return ns >= each; });
    if (static_cast<size_t>(reach_it) >= needed_) until_ns_ = std::max(until_ns_, each);
  }
  renew_ns_ = std::max(renew_ns_, sent_ns + lease_ns / 3);
  return Status::OK();
}

void Lease::end() {
  ended_ = true;
  until_ns_ = 0;
}

}  // namespace bonsai::scale::membership
