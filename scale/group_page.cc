// SPDX-License-Identifier: Apache-2.0
#include "scale/group_page.h"

#include <algorithm>
#include <span>

#include "base/crc.h"
#include "base/random.h"

namespace bonsai::scale {

using membership::kMembersMax;
using membership::Role;

uint64_t fresh_group_id() {
  uint64_t id = 0;
  while (id == 0) base::random_secret(std::as_writable_bytes(std::span(&id, 1)));
  return id;
}

uint64_t fresh_member_id(const std::string& name) {
  uint64_t id = 0;
  while (id >> 32 == 0) id = fresh_group_id();
  return id >> 32 << 32 | base::crc32c(name.data(), name.size());
}

Status may_be_made_anew(const GroupPage& page, size_t member, const std::string& name, size_t replaces) {
  const bool is_made_as = static_cast<uint32_t>(page.ids[member]) == base::crc32c(name.data(), name.size());
  if (is_made_as || replaces == member + 1) return Status::OK();
  const std::string which = std::to_string(member + 1);
  return Status::InvalidArgument(name + ": its node has no such pool, and member " + which +
                                 " of the group was made under another name; correct the name, or, if a new pool is " +
                                 "to take that member's place there, add ?replace=" + which);
}

bool is_sound(const GroupPage& page) {
  if (page.group == 0 || page.members < 2 || page.witness > 1) return false;
  if (page.voters() > kMembersMax || page.self >= page.voters()) return false;
  if (page.needed == 0 || page.needed > page.members || page.equal > 1 || page.zeros != GroupPage().zeros) return false;
  if (page.in_sync >> page.members != 0 || membership::count(page.in_sync) < page.needed) return false;
  const auto named = page.ids.begin() + static_cast<ptrdiff_t>(page.voters());
  return std::none_of(page.ids.begin(), named, [](uint64_t id) { return id == 0; }) &&
         std::all_of(named, page.ids.end(), [](uint64_t id) { return id == 0; });
}

Status may_follow(const VersionedPage& own, const VersionedPage& next) {
  if (!is_sound(next.page)) {
    return Status::InvalidArgument("the page of a group makes no sense; run the same version on all nodes");
  }
  if (std::max(next.written_by, next.version) > membership::kEpochMax) {
    return Status::InvalidArgument("the page of a group has a version out of range");
  }
  if (own.page.members != 0) {
    const bool is_same = own.page.group == next.page.group && own.page.self == next.page.self &&
                         own.page.ids[own.page.self] == next.page.ids[next.page.self];
    if (!is_same)
      return Status::InvalidArgument("the pool is a member of another group, or another member of this one");
  }
  if (!next.is_newer_than(own))
    return Status::Busy("the pool has a newer page, of another owner; open the store again");
  return Status::OK();
}

GroupInfo info_of(const VersionedPage& page, const std::string& name) {
  GroupInfo info;
  info.name = name;
  info.needed = page.page.needed;
  info.epoch = page.written_by;
  info.page = page.version;
  for (size_t i = 0; i < page.page.members; ++i) {
    GroupMember& member = info.members.emplace_back();
    member.name = "member " + std::to_string(i + 1);
    member.state = page.page.has(i) ? MemberState::kInSync : MemberState::kOut;
  }
  if (page.page.witness != 0) {
    info.witness.emplace().name = "witness";
    info.witness->state = MemberState::kInSync;
  }
  return info;
}

VersionedPage group_page_of(const membership::Page& record) {
  VersionedPage made;
  if (record.members == 0) return made;
  GroupPage& page = made.page;
  page.witness = record.member[record.members - 1].role == Role::kWitness ? 1 : 0;
  page.members = static_cast<uint8_t>(record.members - page.witness);
  page.needed = static_cast<uint8_t>(record.needed);
  page.self = static_cast<uint8_t>(record.self);
  page.equal = record.equal ? 1 : 0;
  for (size_t i = 0; i < record.members; ++i) {
    page.group = record.member[i].id[0];
    page.ids[i] = record.member[i].id[1];
    if (record.member[i].role == Role::kInSync) page.in_sync |= static_cast<uint8_t>(1u << i);
  }
  made.written_by = record.written_by;
  made.version = record.version;
  return made;
}

void set_group_page(const VersionedPage& page, membership::Page* record) {
  record->written_by = page.written_by;
  record->version = page.version;
  record->members = page.page.voters();
  record->needed = std::max<uint64_t>(page.page.needed, 1);
  record->self = page.page.self;
  record->equal = page.page.equal != 0;
  for (size_t i = 0; i < kMembersMax; ++i) {
    record->member[i] = {};
    if (i >= page.page.voters()) continue;
    record->member[i].id = {page.page.group, page.page.ids[i]};
    record->member[i].role = i == page.page.members ? Role::kWitness : page.page.has(i) ? Role::kInSync : Role::kOut;
  }
}

}  // namespace bonsai::scale
