// SPDX-License-Identifier: Apache-2.0
#include "scale/lease_keeper.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "base/boot_clock.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "scale/group.h"

namespace bonsai::scale {

Status LeaseKeeper::start() {
  for (const bool of_apart : {false, true}) {
    Round* const round = &rounds_[of_apart ? 1 : 0];
    const auto body = [this, round, of_apart] { run(round, of_apart); };
    BONSAI_RETURN_IF_ERROR(base::Thread::start(of_apart ? "reconnecting" : "lease keeper", body, &round->thread));
  }
  return Status::OK();
}

void LeaseKeeper::stop() {
  over_.store(true);
  for (Round& round : rounds_) round.woken.signal();
  for (Round& round : rounds_) round.thread.join();
  for (LinkTarget* const target : targets_) leases_.remove(target);
  targets_.clear();
}

void LeaseKeeper::run(Round* round, bool of_apart) {
  while (!over_.load()) {
    static_cast<void>(round->woken.wait_for(kOwnerLeaseNs / 3 / base::kNsPerMs));
    std::vector<LinkTarget*> targets;
    {
      const std::lock_guard lock(mutex_);
      targets = targets_;
    }
    for (LinkTarget* const target : targets) {
      if (over_.load()) return;
      if (target->state.is_apart() == of_apart) static_cast<void>(renew(target, For::kThread));
      if (!of_apart && target->is_member()) look_at_member(target);
    }
  }
}

// A node that is stopped, or whose network is cut, is found by its missing grants. Time counts in steps, so that a
// process that was stopped itself asks again before it judges.
void LeaseKeeper::look_at_member(LinkTarget* target) {
  Group& group = *target->group.load();
  if (!target->state.is_in_page()) {
    ungranted_.erase(target);
    return group.let_go(target);
  }
  const uint64_t granted_ns = leases_.granted_ns(target);
  auto [at, is_new] =
      ungranted_.try_emplace(target, Ungranted{granted_ns, base::BoundedWait("link.member", 2 * member_ms_)});
  if (!is_new && at->second.granted_ns != granted_ns) {
    at->second = {granted_ns, base::BoundedWait("link.member", 2 * member_ms_)};
  }
  if (at->second.wait.watch_ns() >= member_ms_ * base::kNsPerMs) group.take_out(target);
}

void LeaseKeeper::add(LinkTarget* target) {
  target->leases = &leases_;
  const Leases::Grant grant = target->client->grant();
  leases_.add(target, grant, [this, target] { return renew(target, For::kReader); });
  {
    const std::lock_guard lock(mutex_);
    targets_.push_back(target);
  }
  const bool is_due = base::boot_ns() >= grant.sent_ns + kOwnerLeaseNs / 3;  // opening it has taken long
  if (is_due) rounds_[0].woken.signal();
}

void LeaseKeeper::watch(LinkTarget* target) {
  const std::lock_guard lock(mutex_);
  if (std::find(targets_.begin(), targets_.end(), target) == targets_.end()) targets_.push_back(target);
}

void LeaseKeeper::join_group(LinkTarget* target, std::span<const Leases::Key> members, size_t needed) {
  leases_.join_group(target, members, needed, [this, target] { return renew(target, For::kReader); });
  leases_.granted(target, target->client->grant());
  rounds_[0].woken.signal();
}

void LeaseKeeper::remove(LinkTarget* target) {
  leases_.remove(target);
  const std::lock_guard lock(mutex_);
  std::erase(targets_, target);
}

Status LeaseKeeper::renew(LinkTarget* target, For whom) {
  Status status;
  if (target->state.is_apart()) {
    connector_.reconnect(target, /*gives_up=*/whom == For::kReader && !target->is_member());
    if (target->state.is_apart()) status = target->state.attempt();
  } else if (target->state.takes_reads()) {
    status = ask(target);
  }
  if (target->state.state() == TargetState::State::kEnded) {
    leases_.end(target, Status::Unavailable(std::string(target->state.attempt().message())));
  }
  return status;
}

// Unavailable: the answer is still to come, or the connection has ended.
Status LeaseKeeper::ask(LinkTarget* target) {
  if (!target->connecting.try_lock()) return Status::Unavailable("its node is being asked");
  const std::lock_guard lock(target->connecting, std::adopt_lock);
  if (!target->state.takes_reads() || target->connections.empty()) return Status::OK();  // it has changed
  Status status = Status::Unavailable("the connection has ended");
  Connection& first = *target->connections[0];
  if (first.is_open()) status = requests_.renew(target->client.get(), &first.peer());
  if (target->client->replaced()) {
    target->state.note_attempt(status);
    target->state.note(TargetState::Event::kReplaced, status);
  } else if (target->client->is_to_resume()) {
    target->state.note(TargetState::Event::kBroken, status);
  } else if (!status.ok()) {
    const std::lock_guard lane_lock(lane_.mutex);
    target->note_broken(0, status);
  } else {
    leases_.granted(target, target->client->grant());
  }
  if (target->state.is_apart()) rounds_[1].woken.signal();  // a node waits for its end of the connection, perhaps
  return status;
}

}  // namespace bonsai::scale
