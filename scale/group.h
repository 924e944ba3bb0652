// SPDX-License-Identifier: Apache-2.0
// The members of one target while it is used: which of them updates wait for, and what is to be done when one is late.
// docs/nodes.md has the protocol, membership/in_sync.h its rules.
//
// Invariants
//   - A member is out only when all others that are in sync, and with a witness a majority of the voters, have a
//     durable page without it. Until then updates wait for it.
//   - No page names fewer members than are needed. If one more would be too few, updates wait, and then fail for good.
//   - The grants of a member count for the lease only while a page with it is in force.
//   - A page names a member that was out when it holds everything that was acknowledged (joiner.h).
//   - No update waits for a witness, and no page names it. It is out while its node does not answer, and comes back
//     as a member does, without bytes.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_GROUP_H_
#define BONSAI_SCALE_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/groups.h"
#include "bonsai/status.h"
#include "scale/connection.h"
#include "scale/group_page.h"
#include "scale/membership/in_sync.h"
#include "scale/scrub_state.h"

namespace bonsai::scale {

class Group {
 public:
  struct Actions {
    // Makes the page durable on a member. The caller holds none of its locks.
    std::function<Status(LinkTarget* member, const GroupPage& page, uint64_t version)> set_page;
    // Ends the connections of a member. The caller holds member->connecting.
    std::function<void(LinkTarget* member)> close;
    std::function<void(const std::string& text)> note;  // for the operator; null: nobody is told
    // A page with the member will be written: it is looked after from now on.
    std::function<void(LinkTarget* member)> watch;
    // A page with the member, or without it, is in force.
    std::function<void(LinkTarget*member)> entered, left;
  };
  // How the members' pools were opened, or were made.
  struct Setup {
    uint64_t bytes = 0;
    uint64_t mark = 0, first_bytes = 0;  // as TargetConfig
    uint64_t epoch = 0;                  // the owner's
    size_t replaces = 0;                 // the number of a member that may be made anew under a new name, from 1 on
  };

  // Requires: the page is in force. `voters`: the members by number, and the witness if there is one. Members that the
  // page does not name are out. They outlive it.
  Group(std::vector<LinkTarget*> voters, const VersionedPage& page, const Setup& setup, Actions actions);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // The member has not answered for too long. It is out when this returns, or it is still waited for: fewer than needed
  // would be left, another caller is changing the page, or a voter did not confirm the page. A witness is out at once.
  void take_out(LinkTarget* member);
  // Ends the connections of a member that is out, unless somebody uses them just now.
  void let_go(LinkTarget* member) const;

  // Whether the member's node may make its pool anew. Errors: InvalidArgument (none was made under its name).
  [[nodiscard]] Status check_replaced(const LinkTarget* member) const;
  // A new pool takes the place of a member that is out, under an identity of its own: the pages of all that are in
  // sync say so, and its own. Requires: it is connected. Errors: Unavailable (not all have such a page).
  Status replace(LinkTarget* member);
  // Brings a page with the member in force, which holds everything that was acknowledged and gets all updates; or one
  // that the witness has. Errors: Unavailable (not yet, as another member does not answer: come again; or it has
  // failed, and is out).
  Status enter(LinkTarget* member);

  // Another page with the same members. Errors: Unavailable (not all have it).
  Status write_next_page();
  // The store is closed, and everything that was written is on all members in sync: the next opening need not compare
  // them. No effect if that is not known, or if a member has joined: it got resident bytes as they are here, also those
  // that were stored and never flushed, which the others do not have.
  void note_equal();

  // Damage between these bytes of the member was repaired, so many bytes: counts it, and tells of it, ever more rarely.
  void note_repair(LinkTarget* member, uint64_t begin, uint64_t end, uint64_t bytes) const;
  // How often a member has joined.
  [[nodiscard]] uint64_t joins() const { return joins_.load(); }
  [[nodiscard]] ScrubState& scrub() { return scrub_; }

  // All members, by number.
  [[nodiscard]] Members members() const { return voters().first(members_); }
  // These, and the witness.
  [[nodiscard]] Members voters() const { return voters_; }
  [[nodiscard]] bool is_witness(const LinkTarget* voter) const { return number_of(voter) == members_; }
  [[nodiscard]] size_t number_of(const LinkTarget* voter) const;
  [[nodiscard]] const Setup& setup() const { return setup_; }
  [[nodiscard]] uint64_t bytes() const { return setup_.bytes; }
  // The newest page, which may not be in force yet; `self` and `equal` are 0.
  [[nodiscard]] GroupPage page() const;
  // What an operator may want to know of it, but its name. Waits while a page is written.
  [[nodiscard]] GroupInfo info() const;
  // For the operator.
  void tell(const std::string& text) const;

 private:
  [[nodiscard]] membership::MemberSet holders_without(membership::MemberSet gone) const;
  Status set_page(size_t voter, bool equal);
  bool write_page_to(size_t voter, bool equal);
  bool write_to_members(bool equal);
  bool write_page(bool equal);
  void settle();
  void settle_witness();
  void take_leave(LinkTarget* member, const std::string& consequence);
  [[nodiscard]] bool has_witness() const { return voters_.size() > members_; }

  const std::vector<LinkTarget*> voters_;
  const size_t members_;  // how many of them
  const Setup setup_;
  const Actions actions_;
  ScrubState scrub_;
  std::atomic<uint64_t> joins_{0};
  mutable base::YieldingMutex mutex_{"link.group"};
  // Under mutex_.
  GroupPage page_;  // but self, in_sync and equal
  membership::InSync in_sync_;
  membership::MemberSet in_force_;  // that the last page in force names
  bool witness_is_in_ = false;      // its grants count
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_GROUP_H_
