// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/in_sync.h"

#include "base/check.h"

namespace bonsai::scale::membership {

bool may_open(MemberSet in_sync, MemberSet reached, const Quorum& rule) {
  if (count(in_sync & reached) < rule.needed) return false;
  if (rule.voters != 0) return count(reached) >= rule.majority();
  return count(in_sync & ~reached) < rule.needed;
}

InSync::InSync(MemberSet members, const Quorum& rule, uint64_t version)
    : awaited_(members), members_(members), durable_(members | rule.witness_only()), rule_(rule), version_(version) {
  BONSAI_CHECK(rule.needed >= 1 && count(members) >= rule.needed && rule.voters <= kMembersMax);
  BONSAI_CHECK(members >> (rule.voters == 0 ? kMembersMax : rule.witness()) == 0);
}

bool InSync::begin(MemberSet members, MemberSet caught_up) {
  const size_t members_max = rule_.voters == 0 ? kMembersMax : rule_.witness();
  if (count(members) < rule_.needed || (members & ~caught_up) != 0 || members >> members_max != 0) return false;
  ++version_;
  members_ = members;
  durable_ = 0;
  awaited_ |= members;  // from the page's first byte on: a crash may leave it on some members only
  return true;
}

void InSync::durable(size_t voter, uint64_t version) {
  BONSAI_CHECK(voter < kMembersMax);
  if (version != version_) return;
  durable_ |= only(voter) & (members_ | rule_.witness_only());
  if (!is_changing()) awaited_ = members_;
}

}  // namespace bonsai::scale::membership
