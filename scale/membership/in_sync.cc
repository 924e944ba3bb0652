// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/in_sync.h"

#include "base/check.h"

namespace bonsai::scale::membership {

bool may_open(MemberSet in_sync, MemberSet reached, size_t needed) {
  return count(in_sync & ~reached) < needed && count(in_sync & reached) >= needed;
}

InSync::InSync(MemberSet members, size_t needed, uint64_t version)
    : awaited_(members), members_(members), durable_(members), needed_(needed), version_(version) {
  BONSAI_CHECK(needed >= 1 && count(members) >= needed && members >> kMembersMax == 0);
}

bool InSync::begin(MemberSet members, MemberSet caught_up) {
  if (count(members) < needed_ || (members & ~caught_up) != 0 || members >> kMembersMax != 0) return false;
  ++version_;
  members_ = members;
  durable_ = 0;
  awaited_ |= members;  // from the page's first byte on: a crash may leave it on some members only
  return true;
}

void InSync::durable(size_t member, uint64_t version) {
  BONSAI_CHECK(member < kMembersMax);
  if (version != version_) return;
  durable_ |= only(member) & members_;
  BONSAI_CHECK((durable_ & ~members_) == 0);
  if (durable_ == members_) awaited_ = members_;
}

}  // namespace bonsai::scale::membership
