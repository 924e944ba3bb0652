// SPDX-License-Identifier: Apache-2.0
// An owner's right to answer reads from its own memory, for a limited time. docs/nodes.md has the protocol.
//
// A node grants a lease of L with each answer to the owner, and gives the pool to no other session before L has passed
// on the node's clock since that answer. The owner counts from the moment at which it sent the request, which is
// earlier, and stops before L has passed on its own clock.
//
// Clocks: each machine's clock runs monotonically, in suspend too (CLOCK_BOOTTIME), at a rate within
// 1 +- kClockDriftPercentMax / 100 of real time. Clocks of different machines are never compared.
//
// Why owner_ns(L) = L - L / 50 is enough: the node waits at least L / 1.01 of real time. The owner stops after at most
// 0.98 L / 0.99 of real time, and 0.98 / 0.99 < 1 / 1.01.
#ifndef BONSAI_SCALE_MEMBERSHIP_LEASE_H_
#define BONSAI_SCALE_MEMBERSHIP_LEASE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "bonsai/status.h"

namespace bonsai::scale::membership {

inline constexpr size_t kMembersMax = 8;
inline constexpr uint64_t kLeaseNsMin = 200'000'000;
inline constexpr uint64_t kLeaseNsMax = 60'000'000'000;
inline constexpr uint64_t kClockDriftPercentMax = 1;

[[nodiscard]] constexpr bool lease_in_range(uint64_t lease_ns) {
  return lease_ns >= kLeaseNsMin && lease_ns <= kLeaseNsMax;
}

// How long the owner relies on a grant of lease_ns, from the moment at which it sent the request. Rounded down.
[[nodiscard]] constexpr uint64_t owner_ns(uint64_t lease_ns) {
  constexpr uint64_t kDivisor = 100 / (2 * kClockDriftPercentMax);
  return lease_ns - (lease_ns + kDivisor - 1) / kDivisor;
}

// Guarantees: while valid(now_ns) is true, fewer than `needed` members of the group have given the pool away.
// Thread-safety: one caller at a time. Threads that read compare their clock with a copy of until_ns().
class Lease {
 public:
  // Requires: 1 <= needed <= members <= kMembersMax. The grants of `needed` members make the lease valid.
  Lease(size_t members, size_t needed);

  // Member `member` answered, at arrived_ns, a request that was sent at sent_ns, both on the owner's clock, and granted
  // lease_ns. A late or repeated answer never shortens the lease. Errors, after which nothing has changed:
  // InvalidArgument (a length out of range: the node is of another version or damaged), IoError (the clock went back
  // between sending and arrival), Unavailable (the lease has been ended).
  Status granted(size_t member, uint64_t sent_ns, uint64_t arrived_ns, uint64_t lease_ns);

  // This owner has left, or was replaced: it is never valid again.
  void end();

  // Whether a read that has been done may be answered. Requires: now_ns was read from the owner's clock after the read,
  // and before anything of it is returned.
  [[nodiscard]] bool valid(uint64_t now_ns) const { return now_ns < until_ns_; }
  // The first moment at which it is not valid; 0: it never was, or has been ended.
  [[nodiscard]] uint64_t until_ns() const { return until_ns_; }
  // When an idle owner sends its next request for a grant: after a third of the lease.
  [[nodiscard]] uint64_t renew_ns() const { return renew_ns_; }

 private:
  size_t members_, needed_;
  bool ended_ = false;
  std::array<uint64_t, kMembersMax> untils_ns_{};  // by member
  uint64_t until_ns_ = 0, renew_ns_ = 0;
};

}  // namespace bonsai::scale::membership

#endif  // BONSAI_SCALE_MEMBERSHIP_LEASE_H_
