// SPDX-License-Identifier: Apache-2.0
// Which members of a group an update waits for, and which changes and openings are allowed. A group holds the copies of
// one target; one copy is a group of one member. docs/nodes.md has the protocol.
//
// A group may have a witness: a node that keeps pages and no bytes. It votes beside the members, by the number after
// theirs. A page is in force then when a majority of the voters has it, all that it names among them.
//
// Invariants, as long as the owner calls these functions and obeys the results
//   - Every member that any page in force names as in-sync holds all acknowledged updates.
//   - Of two openings with different members, the later one reads everything that the earlier one acknowledged.
//   - Of two openings one has reached a voter of the other.
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

// What decides, as it was when the group was made.
struct Quorum {
  size_t needed = 1;  // so many members at least hold each acknowledged update
  size_t voters = 0;  // the members and the witness; 0: there is none, and the members in sync decide

  // Requires, as witness(): there is a witness.
  [[nodiscard]] constexpr size_t majority() const { return voters / 2 + 1; }
  [[nodiscard]] constexpr size_t witness() const { return voters - 1; }
  [[nodiscard]] constexpr MemberSet witness_only() const { return voters == 0 ? 0 : only(witness()); }
  // So many voters must have granted a lease, so that each opening fences one of them.
  [[nodiscard]] constexpr size_t grants() const { return voters == 0 ? needed : majority(); }
};

// Whether a new owner may open with the voters `reached`. They have confirmed its fence, and with it their pages. The
// newest of those pages names `in_sync`; `needed` of these members hold each acknowledged update. If an unreached page
// is newer, it still names at least `needed` members, and none of them is in `reached`. With a witness no page in force
// is hidden from a majority.
[[nodiscard]] bool may_open(MemberSet in_sync, MemberSet reached, const Quorum& rule);

// The owner's view of the page: the page in force, and the one change in flight.
class InSync {
 public:
  // After opening, with the members that the owner's page names. Requires: at least `rule.needed` >= 1 of them.
  InSync(MemberSet members, const Quorum& rule, uint64_t version);

  // Begins a page that names `members`; `caught_up` are those that hold everything. A change in flight is abandoned for
  // it. False, and nothing has changed: fewer than `needed` would be left, or a member that is not caught up would be
  // named.
  [[nodiscard]] bool begin(MemberSet members, MemberSet caught_up);
  // A voter has made the page of this version durable. Answers about other versions are ignored.
  void durable(size_t voter, uint64_t version);

  // An update is acknowledged when all of these have made it durable.
  [[nodiscard]] MemberSet awaited() const { return awaited_; }
  // The members that the newest page names; it is in force when is_changing() is false.
  [[nodiscard]] MemberSet members() const { return members_; }
  [[nodiscard]] uint64_t version() const { return version_; }
  [[nodiscard]] bool is_changing() const {
    return (members_ & ~durable_) != 0 || (rule_.voters != 0 && count(durable_) < rule_.majority());
  }
  // The voters that have the newest page.
  [[nodiscard]] MemberSet durable_on() const { return durable_; }

 private:
  MemberSet awaited_, members_, durable_;
  Quorum rule_;
  uint64_t version_;
};

}  // namespace bonsai::scale::membership

#endif  // BONSAI_SCALE_MEMBERSHIP_IN_SYNC_H_
