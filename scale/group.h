// SPDX-License-Identifier: Apache-2.0
// The members of one target while it is used: which of them updates wait for, and what is to be done when one is late.
// docs/nodes.md has the protocol, membership/in_sync.h its rules.
//
// Invariants
//   - A member is out only when all others that are in sync have made a page without it durable. Until then updates
//     wait for it.
//   - No page names fewer members than are needed. If one more would be too few, updates wait, and then fail for good.
//   - The grants of a member that is out do not count for the lease.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_GROUP_H_
#define BONSAI_SCALE_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "scale/connection.h"
#include "scale/group_page.h"
#include "scale/membership/in_sync.h"

namespace bonsai::scale {

class Group {
 public:
  struct Actions {
    // Makes the page durable on a member. The caller holds none of its locks.
    std::function<Status(LinkTarget* member, const GroupPage& page, uint64_t version)> set_page;
    // Ends the connections of a member. The caller holds member->connecting.
    std::function<void(LinkTarget* member)> close;
    std::function<void(const std::string& text)> note;  // for the operator; null: nobody is told
  };

  // Requires: the page is in force. `members`: by number; null: one that it does not name. They outlive it.
  Group(std::vector<LinkTarget*> members, const VersionedPage& page, Actions actions);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // The member has not answered for too long. It is out when this returns, or it is still waited for: fewer than needed
  // would be left, another caller is changing the page, or a member did not confirm the page.
  void take_out(LinkTarget* member);
  // Ends the connections of a member that is out, unless somebody uses them just now.
  void let_go(LinkTarget* member) const;

  // The store is closed, and everything that was written is on all members in sync: the next opening need not compare
  // them. No effect if that is not known.
  void note_equal();

  // The members that the newest page names.
  [[nodiscard]] membership::MemberSet in_sync() const;

 private:
  [[nodiscard]] size_t number_of(const LinkTarget* member) const;
  [[nodiscard]] membership::MemberSet without(size_t member) const;
  bool write_page(bool equal);

  const std::vector<LinkTarget*> members_;
  const GroupPage page_;  // but self, in_sync and equal
  const Actions actions_;
  mutable base::YieldingMutex mutex_{"link.group"};
  membership::InSync in_sync_;  // under mutex_
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_GROUP_H_
