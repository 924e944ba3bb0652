// SPDX-License-Identifier: Apache-2.0
#include "scale/leases.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/thread.h"

namespace bonsai::scale {

void Leases::distrust_clock() {
  const std::lock_guard lock(mutex_);
  clock_counts_ = false;
  set_until();
}

void Leases::add(Key target, const Grant& grant, Renew renew) {
  const std::lock_guard lock(mutex_);
  members_.push_back(std::make_shared<Member>(target));
  members_.back()->renew = std::move(renew);
  note(members_.back().get(), grant);
}

void Leases::make_group(std::span<const Key> members, size_t needed) {
  const std::lock_guard lock(mutex_);
  for (const Key each : members) {
    Member* const member = find(each);
    if (member == nullptr) continue;
    member->group = members.front();
    member->needed = needed;
  }
  set_until();
}

void Leases::join_group(Key target, std::span<const Key> members, size_t needed, Renew renew) {
  const std::lock_guard lock(mutex_);
  if (find(target) != nullptr) return;
  members_.push_back(std::make_shared<Member>(target));
  members_.back()->group = members.front();
  members_.back()->needed = needed;
  members_.back()->renew = std::move(renew);
}

// The latest moment that is reached by `needed` members of a group, or by a target alone. Requires: mutex_.
uint64_t Leases::latest(Moment moment) const {
  uint64_t latest = 0;
  for (const auto& member : members_) {
    const uint64_t at = moment(*member);
    const auto reaches = [&](const auto& other) { return other->group == member->group && moment(*other) >= at; };
    const auto count = static_cast<size_t>(std::count_if(members_.begin(), members_.end(), reaches));
    if (count >= member->needed) latest = std::max(latest, at);
  }
  return latest;
}

void Leases::granted(Key target, const Grant& grant) {
  const std::lock_guard lock(mutex_);
  if (Member* const member = find(target); member != nullptr) note(member, grant);
}

uint64_t Leases::granted_ns(Key target) const {
  const std::lock_guard lock(mutex_);
  const Member* const member = find(target);
  return member != nullptr ? member->sent_ns : 0;
}

// Requires: mutex_. Null: it was given back.
Leases::Member* Leases::find(Key target) const {
  const auto is_it = [target](const auto& member) { return member->target == target; };
  const auto found = std::find_if(members_.begin(), members_.end(), is_it);
  return found != members_.end() ? found->get() : nullptr;
}

// Requires: mutex_.
void Leases::note(Member* member, const Grant& grant) {
  const uint64_t sent_ns = grant.sent_ns;
  if (grant.ns == 0 || !member->lease.granted(0, sent_ns, base::boot_ns(), grant.ns).ok()) return;
  member->sent_ns = std::max(member->sent_ns, sent_ns);
  member->sent_at = std::max(member->sent_at, grant.sent_at);
  set_until();
}

void Leases::end(Key target, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (find(target) == nullptr || std::exchange(ended_, true)) return;
  why_ended_ = why;
  set_until();
}

void Leases::remove(Key target) {
  const std::lock_guard lock(mutex_);
  std::erase_if(members_, [target](const auto& member) { return member->target == target; });
  set_until();
}

// Requires: mutex_.
void Leases::set_until() {
  const uint64_t until_ns = latest([](const Member& member) { return member.lease.until_ns(); });
  until_ns_.store(ended_ || !clock_counts_ ? 0 : until_ns, std::memory_order_release);
}

// A grant that was requested after the read proves that nobody else owned the pool when it was done, also if that grant
// has lapsed by now.
bool Leases::covers(uint64_t read_at) const {
  if (valid()) return true;
  const std::lock_guard lock(mutex_);
  const uint64_t sent_at = latest([](const Member& member) { return member.sent_at; });
  return !ended_ && sent_at >= read_at;
}

// Asks one node after another, until one has granted a lease since the read. Returns why none has.
Status Leases::renew_all(uint64_t read_at, const std::function<void()>& after_each) {
  std::vector<std::shared_ptr<Member>> members;
  {
    const std::lock_guard lock(mutex_);
    members = members_;
  }
  Status why = Status::Unavailable("no target has a lease");
  for (const auto& member : members) {
    const Status status = member->renew();
    if (covers(read_at)) return Status::OK();
    why = status.ok() ? Status::Unavailable("its node grants no lease now") : status;
    after_each();
  }
  return why;
}

Status Leases::await(uint64_t limit_ms) {
  const uint64_t read_at = now_.fetch_add(1, std::memory_order_acq_rel) + 1;
  for (base::BoundedWait wait("link.lease", limit_ms);; wait.pause()) {
    // An attempt counts as a whole.
    const Status why = renew_all(read_at, [&wait] { static_cast<void>(wait.watch_ns()); });
    if (why.ok()) return why;
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return why_ended_;
    }
    if (!wait.expired()) continue;
    return Status::Unavailable("this process has had no lease on the store for " + std::to_string(limit_ms) +
                               " ms, so another owner may have written to it since (" + std::string(why.message()) +
                               "); see that a node of it runs and can be reached, and read again");
  }
}

}  // namespace bonsai::scale
