// SPDX-License-Identifier: Apache-2.0
// Which members of a group an update waits for, and which changes and openings are allowed. A group holds the copies of
// one target; one copy is a group of one member. docs/nodes.md has the protocol.
//
// Invariants, as long as the owner calls these functions and obeys the results
//   - Every member that any page in force names as in-sync holds all acknowledged updates.
//   - Of two openings with different members, the later one reads everything that the earlier one acknowledged.
//
// Pure. Thread-safety: values, one user at a time.
#ifndef BONSAI_SCALE_MEMBERSHIP_IN_SYNC_H_
#define BONSAI_SCALE_MEMBERSHIP_IN_SYNC_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "scale/membership/lease.h"

namespace bonsai::scale::membership {

// Members by number in the page, one bit each.
using MemberSet = uint32_t;

[[nodiscard]] constexpr MemberSet only(size_t member) { return MemberSet{1} << member; }
[[nodiscard]] constexpr size_t count(MemberSet members) { return static_cast<size_t>(std::popcount(members)); }

// Whether a new owner may open with the members `reached`. They have confirmed its fence, and with it their pages. The
// newest of those pages names `in_sync`; `needed` of these members hold each acknowledged update. If an unreached page
// is newer, it still names at least `needed` members, and none of them is in `reached`.
[[nodiscard]] bool may_open(MemberSet in_sync, MemberSet reached, size_t needed);

// The owner's view of the page: the page in force, and the one change in flight.
class InSync {
 public:
  // After opening, with the members that the owner's page names. Requires: at least `needed` >= 1 of them.
  InSync(MemberSet members, size_t needed, uint64_t version);

  // Begins a page that names `members`; `caught_up` are those that hold everything. A change in flight is abandoned for
  // it. False, and nothing has changed: fewer than `needed` would be left, or a member that is not caught up would be
  // named.
  [[nodiscard]] bool begin(MemberSet members, MemberSet caught_up);
  // Member `member` has made the page of this version durable. Answers about other versions are ignored.
  void durable(size_t member, uint64_t version);

  // An update is acknowledged when all of these have made it durable.
  [[nodiscard]] MemberSet awaited() const { return awaited_; }
  // The members that the newest page names; it is in force when is_changing() is false.
  [[nodiscard]] MemberSet members() const { return members_; }
  [[nodiscard]] uint64_t version() const { return version_; }
  [[nodiscard]] bool is_changing() const { return durable_ != members_; }
  // The ones of members() that have the newest page.
  [[nodiscard]] MemberSet durable_on() const { return durable_; }

 private:
  MemberSet awaited_, members_, durable_;
  size_t needed_;
  uint64_t version_;
};

}  // namespace bonsai::scale::membership

#endif  // BONSAI_SCALE_MEMBERSHIP_IN_SYNC_H_
