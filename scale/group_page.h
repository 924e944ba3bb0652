// SPDX-License-Identifier: Apache-2.0
// The page of a group as messages carry it, and the rules by which a node takes one. The members of a group are the
// pools of several nodes that hold the same bytes. docs/nodes.md has the protocol, membership/page.h the file.
//
// Members are numbered as the target's name lists them, and a witness, if there is one, after them. Each has a random
// identity of its own in the group: so a pool that takes a lost member's place is not taken for that member, nor the
// lost one for it.
//
// Thread-safety: values.
#ifndef BONSAI_SCALE_GROUP_PAGE_H_
#define BONSAI_SCALE_GROUP_PAGE_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "bonsai/groups.h"
#include "bonsai/status.h"
#include "scale/membership/in_sync.h"
#include "scale/membership/page.h"

namespace bonsai::scale {

struct GroupPage {
  uint64_t group = 0;  // random, drawn when the group is made
  std::array<uint64_t, membership::kMembersMax> ids{};
  uint8_t members = 0;  // 0: the pool is a target alone
  uint8_t needed = 0;   // so many members at least hold what is acknowledged (replicas_min)
  uint8_t self = 0;     // which member the pool is; `members`: the witness
  uint8_t in_sync = 0;  // a membership::MemberSet
  uint8_t equal = 0;    // those in sync have all that was written, and nothing was written since; damage apart
  uint8_t witness = 0;  // 1: there is one (membership/in_sync.h)
  std::array<uint8_t, 2> zeros{};

  [[nodiscard]] bool has(size_t member) const { return (in_sync >> member & 1) != 0; }
  // The members and the witness.
  [[nodiscard]] size_t voters() const { return size_t{members} + witness; }
  [[nodiscard]] membership::Quorum rule() const { return {.needed = needed, .voters = witness != 0 ? voters() : 0}; }
  bool operator==(const GroupPage&) const = default;
};
static_assert(sizeof(GroupPage) == 80 && membership::kMembersMax == 8);

struct VersionedPage {
  GroupPage page;
  uint64_t written_by = 0;  // the owner's epoch
  uint64_t version = 0;

  [[nodiscard]] bool is_newer_than(const VersionedPage& other) const {
    return std::pair(written_by, version) > std::pair(other.written_by, other.version);
  }
  bool operator==(const VersionedPage&) const = default;
};
static_assert(sizeof(VersionedPage) == 96);

// The size of a witness's pool, which holds nothing: its page is beside it, as that of every pool.
inline constexpr uint64_t kWitnessBytes = 4096;

// A random identity.
[[nodiscard]] uint64_t fresh_group_id();
// That of a member which is made under that name, "SCHEME://NODE/POOL": its upper half is random.
[[nodiscard]] uint64_t fresh_member_id(const std::string& name);
// Whether a member that its node does not have may be made anew there: it was made under that name, or is the one that
// the group's name `replaces` (TargetName). A name that was misspelt names none, too. Errors: InvalidArgument.
Status may_be_made_anew(const GroupPage& page, size_t member, const std::string& name, size_t replaces);

// Whether a page, which another machine may have sent, says something that a page can say: a group of two members at
// least, itself among them, `needed` of them in sync.
[[nodiscard]] bool is_sound(const GroupPage& page);

// Whether a pool whose page is `own` may get `next`. Errors: InvalidArgument (it is of another group, another member,
// or not sound), Busy (it is no newer page).
Status may_follow(const VersionedPage& own, const VersionedPage& next);

// The page in a record, and back; other fields of the record stay.
[[nodiscard]] VersionedPage group_page_of(const membership::Page& record);
void set_group_page(const VersionedPage& page, membership::Page* record);

// What a page says to an operator: members that it does not name are out, others in sync. `name`: of the target that
// has it; its members are numbered where their names are not known.
[[nodiscard]] GroupInfo info_of(const VersionedPage& page, const std::string& name);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_GROUP_PAGE_H_
