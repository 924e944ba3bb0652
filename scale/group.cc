// SPDX-License-Identifier: Apache-2.0
#include "scale/group.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/probe.h"

namespace bonsai::scale {

using membership::only;

namespace {

base::Probe taken_out{"group.member_taken_out"};
base::Probe too_few{"group.too_few_left"};
base::Probe page_not_confirmed{"group.page_not_confirmed"};

}  // namespace

Group::Group(std::vector<LinkTarget*> members, const VersionedPage& page, Actions actions)
    : members_(std::move(members)),
      page_(page.page),
      actions_(std::move(actions)),
      in_sync_(page.page.in_sync, page.page.needed, page.version) {
  BONSAI_CHECK(members_.size() == page_.members);
  for (size_t i = 0; i < members_.size(); ++i) {
    BONSAI_CHECK((members_[i] != nullptr) == page_.has(i));
    if (members_[i] != nullptr) members_[i]->group.store(this, std::memory_order_release);
  }
}

size_t Group::number_of(const LinkTarget* member) const {
  const auto at = std::find(members_.begin(), members_.end(), member);
  BONSAI_CHECK(member != nullptr && at != members_.end());
  return static_cast<size_t>(at - members_.begin());
}

membership::MemberSet Group::in_sync() const {
  const std::lock_guard lock(mutex_);
  return in_sync_.members();
}

// Writes the newest page to the members that it names and that do not have it. False: not all have it. Requires:
// mutex_.
bool Group::write_page(bool equal) {
  for (size_t i = 0; i < members_.size(); ++i) {
    if ((in_sync_.members() & ~in_sync_.durable_on() & only(i)) == 0) continue;
    GroupPage next = page_;
    next.self = static_cast<uint8_t>(i);
    next.in_sync = static_cast<uint8_t>(in_sync_.members());
    next.equal = equal ? 1 : 0;
    if (!actions_.set_page(members_[i], next, in_sync_.version()).ok()) {
      page_not_confirmed.hit();
      return false;
    }
    in_sync_.durable(i, in_sync_.version());
  }
  return !in_sync_.is_changing();
}

// All that hold everything, but for the member, and for those that an unfinished page leaves out and that are still
// silent. Requires: mutex_.
membership::MemberSet Group::without(size_t member) const {
  membership::MemberSet left = in_sync_.awaited() & ~only(member);
  for (size_t i = 0; i < members_.size(); ++i) {
    const bool was_left_out = (in_sync_.awaited() & ~in_sync_.members() & only(i)) != 0;
    if (was_left_out && !members_[i]->state.takes_updates()) left &= ~only(i);
  }
  return left;
}

void Group::take_out(LinkTarget* member) {
  if (!mutex_.try_lock()) return;
  const std::lock_guard lock(mutex_, std::adopt_lock);
  const membership::State state = member->state.state();
  if (state != membership::State::kInSync && state != membership::State::kSilent) return;
  if (!in_sync_.begin(without(number_of(member)), in_sync_.awaited())) return too_few.hit();
  member->state.note(TargetState::Event::kLate, Status::Unavailable("no answer for too long"));
  if (!write_page(/*equal=*/false)) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == nullptr || (in_sync_.members() & only(i)) != 0 || members_[i]->state.is_out()) continue;
    if (members_[i]->leases != nullptr) members_[i]->leases->remove(members_[i]);
    members_[i]->state.leave_page();
    taken_out.hit();
    if (!actions_.note) continue;
    actions_.note(members_[i]->state.name() + " does not answer; the store goes on with " +
                  std::to_string(membership::count(in_sync_.members())) + " members of that group, and needs " +
                  std::to_string(page_.needed) +
                  ": see to its node. It is brought up to date when the store is opened again");
  }
}

void Group::let_go(LinkTarget* member) const {
  if (!member->state.is_out() || !member->connecting.try_lock()) return;
  const std::lock_guard lock(member->connecting, std::adopt_lock);
  const bool is_open = std::any_of(member->connections.begin(), member->connections.end(),
                                   [](const auto& connection) { return connection->is_open(); });
  if (is_open) actions_.close(member);
}

void Group::note_equal() {
  const std::lock_guard lock(mutex_);
  if (in_sync_.is_changing()) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    if ((in_sync_.members() & only(i)) == 0) continue;
    const std::lock_guard connecting(members_[i]->connecting);
    const auto& connections = members_[i]->connections;
    const auto is_answered = [](const auto& each) { return each->is_whole() && each->answered(each->posted()); };
    const bool holds_all = members_[i]->state.takes_updates() && !connections.empty() &&
                           std::all_of(connections.begin(), connections.end(), is_answered);
    if (!holds_all) return;
  }
  if (in_sync_.begin(in_sync_.members(), in_sync_.awaited())) static_cast<void>(write_page(/*equal=*/true));
}

}  // namespace bonsai::scale
