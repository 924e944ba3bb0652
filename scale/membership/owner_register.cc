// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/owner_register.h"

#include <algorithm>

#include "base/check.h"

namespace bonsai::scale::membership {

OwnerRegister::OwnerRegister(const OwnerRecord& stored, uint64_t started_ns) : record_(stored) {
  if (!record_.session.is_nobody()) lease_until_ns_ = started_ns + record_.lease_ns;
}

OwnerRegister OwnerRegister::without_record(uint64_t started_ns, uint64_t lease_ns_max) {
  OwnerRegister made(OwnerRecord(), started_ns);
  made.lease_until_ns_ = started_ns + lease_ns_max;
  return made;
}

bool OwnerRegister::is_owner(const Sender& sender) const {
  return !sender.session.is_nobody() && sender.session == record_.session && sender.epoch == record_.epoch;
}

bool OwnerRegister::lease_runs(uint64_t now_ns) const { return now_ns < lease_until_ns_; }

OwnerRegister::Reply OwnerRegister::fence(const Sender& sender, uint64_t seen, uint64_t lease_ns, bool force,
                                          uint64_t now_ns) {
  const bool rises = sender.epoch > seen && sender.epoch - seen <= kEpochStepMax && sender.epoch <= kEpochMax;
  if (sender.session.is_nobody() || !rises || !lease_in_range(lease_ns)) return reply(Answer::kInvalid);
  if (is_owner(sender)) return go_on(sender, now_ns);
  if (seen != record_.epoch) return reply(Answer::kReplaced);
  if (phase_ == Phase::kPersisting) return reply(Answer::kAgain);
  if (lease_runs(now_ns)) {
    if (force) denied_until_ns_ = lease_until_ns_ + std::max(record_.lease_ns, kLeaseNsMin);
    return reply(Answer::kLeaseRuns, lease_until_ns_ - now_ns);
  }
  record_ = {sender.epoch, sender.session, lease_ns};
  connection_ = sender.connection;
  denied_until_ns_ = 0;
  phase_ = Phase::kPersisting;
  return reply(Answer::kAgain);
}

OwnerRegister::Reply OwnerRegister::resume(const Sender& sender, uint64_t now_ns) {
  if (!is_owner(sender)) return reply(Answer::kReplaced);
  return go_on(sender, now_ns);
}

OwnerRegister::Reply OwnerRegister::go_on(const Sender& sender, uint64_t now_ns) {
  if (sender.connection < connection_) return reply(Answer::kReplaced);  // late: a newer one is there
  const bool newer = sender.connection > connection_;
  connection_ = sender.connection;
  if (phase_ == Phase::kPersisting) return reply(Answer::kAgain);
  if (newer || phase_ == Phase::kIdle) phase_ = Phase::kEnding;
  return phase_ == Phase::kServing ? grant(now_ns) : reply(Answer::kAgain);
}

OwnerRegister::Reply OwnerRegister::renew(const Sender& sender, uint64_t now_ns) {
  if (!is_owner(sender)) return reply(Answer::kReplaced);
  return serves(sender) ? grant(now_ns) : reply(Answer::kAgain);
}

OwnerRegister::Reply OwnerRegister::grant(uint64_t now_ns) {
  if (now_ns < denied_until_ns_) return reply(Answer::kDenied);
  lease_until_ns_ = std::max(lease_until_ns_, now_ns + record_.lease_ns);
  return reply(Answer::kGranted, record_.lease_ns);
}

OwnerRegister::Reply OwnerRegister::leave(const Sender& sender) {
  const bool left = record_.session.is_nobody() && record_.epoch == sender.epoch;
  if (left) return reply(phase_ == Phase::kPersisting ? Answer::kAgain : Answer::kDone);
  if (!is_owner(sender)) return reply(Answer::kReplaced);
  if (phase_ == Phase::kPersisting) return reply(Answer::kAgain);
  record_.session = SessionId();
  phase_ = Phase::kPersisting;
  return reply(Answer::kAgain);
}

bool OwnerRegister::serves(const Sender& sender) const {
  return phase_ == Phase::kServing && is_owner(sender) && sender.connection == connection_;
}

OwnerRegister::Work OwnerRegister::work() const {
  if (phase_ == Phase::kPersisting) return Work::kPersist;
  return phase_ == Phase::kEnding ? Work::kEndEarlier : Work::kNone;
}

void OwnerRegister::persisted() {
  BONSAI_CHECK(phase_ == Phase::kPersisting);
  phase_ = Phase::kEnding;
  if (!record_.session.is_nobody()) return;
  phase_ = Phase::kIdle;
  lease_until_ns_ = 0;
}

void OwnerRegister::earlier_ended(uint64_t connection) {
  if (phase_ == Phase::kEnding && connection == connection_) phase_ = Phase::kServing;
}

}  // namespace bonsai::scale::membership
