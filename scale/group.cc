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
base::Probe came_in{"group.member_came_in"};
base::Probe too_few{"group.too_few_left"};
base::Probe page_not_confirmed{"group.page_not_confirmed"};
base::Probe page_finished_later{"group.page_finished_later"};

// As operators see it.
MemberState state_of(TargetState::State state) {
  switch (state) {
    case TargetState::State::kInSync:
      return MemberState::kInSync;
    case TargetState::State::kJoining:
      return MemberState::kJoining;
    case TargetState::State::kConnecting:
    case TargetState::State::kOut:
      return MemberState::kOut;
    default:
      return MemberState::kAway;
  }
}

}  // namespace

Group::Group(std::vector<LinkTarget*> members, const VersionedPage& page, const Setup& setup, Actions actions)
    : members_(std::move(members)),
      setup_(setup),
      actions_(std::move(actions)),
      page_(page.page),
      in_sync_(page.page.in_sync, page.page.needed, page.version),
      in_force_(page.page.in_sync) {
  BONSAI_CHECK(members_.size() == page_.members);
  page_.self = page_.equal = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    BONSAI_CHECK(members_[i]->state.is_out() != page_.has(i));
    members_[i]->group.store(this, std::memory_order_release);
  }
}

size_t Group::number_of(const LinkTarget* member) const {
  const auto at = std::find(members_.begin(), members_.end(), member);
  BONSAI_CHECK(member != nullptr && at != members_.end());
  return static_cast<size_t>(at - members_.begin());
}

GroupPage Group::page() const {
  const std::lock_guard lock(mutex_);
  GroupPage page = page_;
  page.in_sync = static_cast<uint8_t>(in_sync_.members());
  return page;
}

GroupInfo Group::info() const {
  VersionedPage newest{page(), setup_.epoch, 0};
  {
    const std::lock_guard lock(mutex_);
    newest.version = in_sync_.version();
  }
  GroupInfo info = info_of(newest, "");
  info.bytes = setup_.bytes;
  for (size_t i = 0; i < members_.size(); ++i) {
    const LinkTarget& from = *members_[i];
    GroupMember& to = info.members[i];
    to.name = from.state.name();
    to.state = state_of(from.state.state());
    to.repaired_bytes = from.repaired_bytes.load();
    if (to.state == MemberState::kJoining) to.copied_bytes = from.copied_bytes.load();
    if (to.state == MemberState::kAway || to.state == MemberState::kOut) to.failure = from.state.attempt().message();
  }
  return info;
}

void Group::tell(const std::string& text) const {
  if (actions_.note) actions_.note(text);
}

// Requires, as what follows: mutex_.
Status Group::set_page(size_t member, bool equal) {
  GroupPage next = page_;
  next.self = static_cast<uint8_t>(member);
  next.in_sync = static_cast<uint8_t>(in_sync_.members());
  next.equal = equal ? 1 : 0;
  return actions_.set_page(members_[member], next, in_sync_.version());
}

// Writes the newest page to the members that it names and that do not have it. False: not all have it.
bool Group::write_page(bool equal) {
  for (size_t i = 0; i < members_.size(); ++i) {
    if ((in_sync_.members() & ~in_sync_.durable_on() & only(i)) == 0) continue;
    if (!set_page(i, equal).ok()) {
      page_not_confirmed.hit();
      return false;
    }
    in_sync_.durable(i, in_sync_.version());
  }
  return !in_sync_.is_changing();
}

// All that hold everything, but for the member, and for those that an unfinished page leaves out and that are still
// silent.
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
  if (!member->state.awaits_updates() || !member->state.is_in_page()) return;
  if (!in_sync_.begin(without(number_of(member)), in_sync_.awaited())) return too_few.hit();
  const Status late = Status::Unavailable("no answer for too long");
  if (member->state.attempt().ok()) member->state.note_attempt(late);
  member->state.note(TargetState::Event::kLate, late);
  if (write_page(/*equal=*/false)) settle();
}

// The newest page is in force.
void Group::settle() {
  const membership::MemberSet now = in_sync_.members();
  for (size_t i = 0; i < members_.size(); ++i) {
    LinkTarget* const member = members_[i];
    if ((now & only(i)) == 0) {
      if (member->state.is_in_page()) take_leave(member);
      continue;
    }
    member->state.note(TargetState::Event::kInForce);
    if ((in_force_ & only(i)) != 0) continue;
    some_joined_ = true;
    actions_.entered(member);
    came_in.hit();
    tell(member->state.name() + " is up to date; the store has " + std::to_string(membership::count(now)) +
         " members of that group");
  }
  in_force_ = now;
}

void Group::take_leave(LinkTarget* member) {
  actions_.left(member);
  member->state.leave_page();
  taken_out.hit();
  tell(member->state.name() + " does not answer; the store goes on with " +
       std::to_string(membership::count(in_sync_.members())) + " members of that group, and needs " +
       std::to_string(page_.needed) + ": see to its node. It is brought up to date when it is back");
}

Status Group::check_replaced(const LinkTarget* member) const {
  return may_be_made_anew(page(), number_of(member), member->state.name(), setup_.replaces);
}

Status Group::replace(LinkTarget* member) {
  const std::lock_guard lock(mutex_);
  const size_t number = number_of(member);
  if (in_sync_.is_changing() && !write_page(/*equal=*/false)) {
    return Status::Unavailable(member->state.name() + " is not replaced while another member is late");
  }
  settle();
  page_.ids[number] = fresh_member_id(member->state.name());
  const bool begun = in_sync_.begin(in_sync_.members(), in_sync_.awaited());
  BONSAI_CHECK(begun);
  if (write_page(/*equal=*/false)) return set_page(number, /*equal=*/false);
  return Status::Unavailable("the members of " + member->state.name() + " do not all have a page that replaces it");
}

Status Group::enter(LinkTarget* member) {
  const std::lock_guard lock(mutex_);
  const auto not_yet = [member] {
    return Status::Unavailable(member->state.name() + " is not in a page in force yet");
  };
  if (in_sync_.is_changing()) {
    page_finished_later.hit();
    if (!write_page(/*equal=*/false)) return not_yet();
    settle();
  }
  const membership::MemberSet with = in_sync_.members() | only(number_of(member));
  if (with == in_sync_.members()) return Status::OK();
  actions_.watch(member);
  if (!member->state.enter_page()) return Status::Unavailable(member->state.name() + " has failed again");
  const bool begun = in_sync_.begin(with, in_sync_.awaited() | with);
  BONSAI_CHECK(begun);
  if (!write_page(/*equal=*/false)) return not_yet();
  settle();
  return Status::OK();
}

void Group::let_go(LinkTarget* member) const {
  if (member->state.state() != TargetState::State::kOut || !member->connecting.try_lock()) return;
  const std::lock_guard lock(member->connecting, std::adopt_lock);
  if (member->state.state() != TargetState::State::kOut) return;  // it joins again
  const bool is_open = std::any_of(member->connections.begin(), member->connections.end(),
                                   [](const auto& connection) { return connection->is_open(); });
  if (is_open) actions_.close(member);
}

Status Group::write_next_page() {
  const std::lock_guard lock(mutex_);
  const bool begun = in_sync_.begin(in_sync_.members(), in_sync_.awaited());
  BONSAI_CHECK(begun);
  if (write_page(/*equal=*/false)) return Status::OK();
  return Status::Unavailable("the members of " + members_.front()->state.name() + " do not all have their page");
}

void Group::note_equal() {
  const std::lock_guard lock(mutex_);
  if (in_sync_.is_changing() || some_joined_) return;
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
