// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/testing/leases.h"

#include <algorithm>
#include <array>
#include <vector>

#include "scale/membership/lease.h"

namespace bonsai::scale::membership::testing {
namespace {

constexpr size_t kLeaseMembers = 3, kGrantsMax = 4;
constexpr uint64_t kLeaseNs = 1'000'000'000, kTravelNs = 300'000'000;

struct Grant {
  size_t member;
  uint64_t sent_ns;
};

constexpr std::array<uint64_t, 3> kSent = {1'000, 400'000'000, 900'000'000};

// Whether the grants are enough at that moment: from `needed` members, each for 98 % of the lease from its request on.
bool is_lease_valid(const std::vector<Grant>& grants, size_t needed, uint64_t now_ns) {
  size_t members = 0;
  for (size_t member = 0; member < kLeaseMembers; ++member) {
    members += std::any_of(grants.begin(), grants.end(), [&](const Grant& each) {
      return each.member == member && now_ns < each.sent_ns + kLeaseNs / 100 * 98;
    });
  }
  return members >= needed;
}

class LeaseExplorer {
 public:
  Leases run() {
    for (size_t needed = 1; needed <= kLeaseMembers; ++needed) extend(Lease(kLeaseMembers, needed), needed);
    return leases_;
  }

 private:
  void extend(const Lease& lease, size_t needed) {
    ++leases_.sequences;
    compare(lease, needed);
    if (grants_.size() == kGrantsMax || !leases_.wrong.empty()) return;
    for (size_t member = 0; member < kLeaseMembers; ++member) {
      for (const uint64_t sent_ns : kSent) {
        Lease after = lease;
        if (!after.granted(member, sent_ns, sent_ns + kTravelNs, kLeaseNs).ok()) leases_.wrong = "a grant was refused";
        grants_.push_back({member, sent_ns});
        extend(after, needed);
        grants_.pop_back();
      }
    }
  }

  void compare(Lease lease, size_t needed) {
    for (const uint64_t sent_ns : kSent) {
      const uint64_t until_ns = sent_ns + kLeaseNs / 100 * 98;
      for (const uint64_t now_ns : {until_ns - 1, until_ns, sent_ns + kLeaseNs - 1, until_ns + kTravelNs - 1}) {
        if (lease.valid(now_ns) != is_lease_valid(grants_, needed, now_ns)) leases_.wrong = "a lease is not as defined";
      }
    }
    lease.end();
    if (lease.granted(0, kSent[2], kSent[2], kLeaseNs).ok() || lease.valid(0))
      leases_.wrong = "an ended lease is valid";
  }

  Leases leases_;
  std::vector<Grant> grants_;
};

}  // namespace

Leases explore_leases() { return LeaseExplorer().run(); }

}  // namespace bonsai::scale::membership::testing
