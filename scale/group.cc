// SPDX-License-Identifier: Apache-2.0
#include "scale/group.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
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

Group::Group(std::vector<LinkTarget*> voters, const VersionedPage& page, const Setup& setup, Actions actions)
    : voters_(std::move(voters)),
      members_(page.page.members),
      setup_(setup),
      actions_(std::move(actions)),
      page_(page.page),
      in_sync_(page.page.in_sync, page.page.rule(), page.version),
      in_force_(page.page.in_sync) {
  BONSAI_CHECK(voters_.size() == page_.voters());
  page_.self = page_.equal = 0;
  for (size_t i = 0; i < voters_.size(); ++i) {
    BONSAI_CHECK(i >= members_ || voters_[i]->state.is_out() != page_.has(i));
    voters_[i]->group.store(this, std::memory_order_release);
  }
  witness_is_in_ = has_witness() && !voters_[members_]->state.is_out();
}

size_t Group::number_of(const LinkTarget* voter) const {
  const auto at = std::find(voters_.begin(), voters_.end(), voter);
  BONSAI_CHECK(voter != nullptr && at != voters_.end());
  return static_cast<size_t>(at - voters_.begin());
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
  info.scrub_bytes_per_s = scrub_.bytes_per_s;
  info.scrub_compared_bytes = scrub_.compared.load();
  info.scrub_passes = scrub_.passes.load();
  info.scrub_unsettled_bytes = scrub_.unsettled.load();
  info.scrub_missed_bytes = scrub_.missed.load();
  const uint64_t ended_ns = scrub_.ended_ns.load();
  if (ended_ns != 0) info.scrub_ended_s_ago = (base::now_ns() - ended_ns) / base::kNsPerSecond;
  for (size_t i = 0; i < voters_.size(); ++i) {
    const LinkTarget& from = *voters_[i];
    GroupMember& to = i < members_ ? info.members[i] : *info.witness;
    to.name = from.state.name();
    to.state = state_of(from.state.state());
    if (i == members_ && to.state != MemberState::kInSync) to.state = MemberState::kOut;
    to.repaired_bytes = from.repaired_bytes.load();
    if (to.state == MemberState::kJoining) to.copied_bytes = from.copied_bytes.load();
    if (to.state == MemberState::kAway || to.state == MemberState::kOut) to.failure = from.state.attempt().message();
  }
  return info;
}

// The first repair is told, then each that doubles their number: so there are 64 lines at most.
void Group::note_repair(LinkTarget* member, uint64_t begin, uint64_t end, uint64_t bytes) const {
  const uint64_t all_bytes = member->repaired_bytes.fetch_add(bytes) + bytes;
  const uint64_t all = member->repairs.fetch_add(1) + 1;
  if (!std::has_single_bit(all)) return;
  tell(member->state.name() + " had damage between bytes " + std::to_string(begin) + " and " + std::to_string(end) +
       ", which was repaired; " + std::to_string(all_bytes) + " bytes in " + std::to_string(all) +
       (all == 1 ? " place" : " places") + " since the store was opened. If that goes on, replace its device");
}

void Group::tell(const std::string& text) const {
  if (actions_.note) actions_.note(text);
}

// Requires, as what follows: mutex_.
Status Group::set_page(size_t voter, bool equal) {
  GroupPage next = page_;
  next.self = static_cast<uint8_t>(voter);
  next.in_sync = static_cast<uint8_t>(in_sync_.members());
  next.equal = equal ? 1 : 0;
  return actions_.set_page(voters_[voter], next, in_sync_.version());
}

// False: the voter does not have the newest page.
bool Group::write_page_to(size_t voter, bool equal) {
  if ((in_sync_.durable_on() & only(voter)) != 0) return true;
  if (!set_page(voter, equal).ok()) {
    page_not_confirmed.hit();
    return false;
  }
  in_sync_.durable(voter, in_sync_.version());
  return true;
}

// Writes the newest page to the members that it names and that do not have it. False: not all have it.
bool Group::write_to_members(bool equal) {
  for (size_t i = 0; i < members_; ++i) {
    if ((in_sync_.members() & only(i)) != 0 && !write_page_to(i, equal)) return false;
  }
  return true;
}

// False: the page is not in force. The witness has it when all members have: what it alone has would keep the group
// closed although others hold everything.
bool Group::write_page(bool equal) {
  if (!write_to_members(equal)) return false;
  if (has_witness() && !voters_[members_]->state.is_out()) static_cast<void>(write_page_to(members_, equal));
  return !in_sync_.is_changing();
}

// All that hold everything, but for those, and for those that an unfinished page leaves out and that are still silent.
membership::MemberSet Group::holders_without(membership::MemberSet gone) const {
  membership::MemberSet left = in_sync_.awaited() & ~gone;
  for (size_t i = 0; i < members_; ++i) {
    const bool was_left_out = (in_sync_.awaited() & ~in_sync_.members() & only(i)) != 0;
    if (was_left_out && !voters_[i]->state.takes_updates()) left &= ~only(i);
  }
  return left;
}

void Group::take_out(LinkTarget* member) {
  if (!mutex_.try_lock()) return;
  const std::lock_guard lock(mutex_, std::adopt_lock);
  if (!member->state.awaits_updates() || !member->state.is_in_page()) return;
  const bool witness = is_witness(member);
  const membership::MemberSet left = holders_without(only(number_of(member)));
  if (!witness && !in_sync_.begin(left, in_sync_.awaited())) return too_few.hit();
  const Status late = Status::Unavailable("no answer for too long");
  if (member->state.attempt().ok()) member->state.note_attempt(late);
  member->state.note(TargetState::Event::kLate, late);
  if (witness) {
    witness_is_in_ = false;
    return take_leave(member, "no member can be left out until it is back");
  }
  if (write_page(/*equal=*/false)) settle();
}

// The newest page is in force.
void Group::settle() {
  const membership::MemberSet now = in_sync_.members();
  for (size_t i = 0; i < members_; ++i) {
    LinkTarget* const member = voters_[i];
    if ((now & only(i)) == 0) {
      if (!member->state.is_in_page()) continue;
      take_leave(member, "the store goes on with " + std::to_string(membership::count(now)) +
                             " members of that group, and needs " + std::to_string(page_.needed));
      continue;
    }
    member->state.note(TargetState::Event::kInForce);
    if ((in_force_ & only(i)) != 0) continue;
    joins_.fetch_add(1);
    actions_.entered(member);
    came_in.hit();
    tell(member->state.name() + " is up to date; the store has " + std::to_string(membership::count(now)) +
         " members of that group");
  }
  in_force_ = now;
}

// The witness may have the newest page, which is in force.
void Group::settle_witness() {
  LinkTarget* const witness = voters_[members_];
  const bool has_page = (in_sync_.durable_on() & only(members_)) != 0;
  if (!has_page || witness_is_in_ || witness->state.is_out()) return;
  witness_is_in_ = true;
  witness->state.note(TargetState::Event::kInForce);
  actions_.entered(witness);
  came_in.hit();
  tell(witness->state.name() + ", the witness, is back");
}

void Group::take_leave(LinkTarget* member, const std::string& consequence) {
  actions_.left(member);
  member->state.leave_page();
  taken_out.hit();
  tell(member->state.name() + " does not answer; " + consequence +
       ": see to its node. It is brought up to date when it is back");
}

Status Group::check_replaced(const LinkTarget* member) const {
  return may_be_made_anew(page(), number_of(member), member->state.name(), setup_.replaces);
}

Status Group::replace(LinkTarget* member) {
  const std::lock_guard lock(mutex_);
  const size_t number = number_of(member);
  const bool witness = is_witness(member);  // that a change may wait for
  if (!witness && in_sync_.is_changing() && !write_page(/*equal=*/false)) {
    return Status::Unavailable(member->state.name() + " is not replaced while another member is late");
  }
  if (!in_sync_.is_changing()) settle();
  page_.ids[number] = fresh_member_id(member->state.name());
  const bool begun = in_sync_.begin(in_sync_.members(), in_sync_.awaited());
  BONSAI_CHECK(begun);
  const bool is_known = witness ? write_to_members(/*equal=*/false) : write_page(/*equal=*/false);
  if (is_known) return set_page(number, /*equal=*/false);
  return Status::Unavailable("the members of " + member->state.name() + " do not all have a page that replaces it");
}

Status Group::enter(LinkTarget* member) {
  const std::lock_guard lock(mutex_);
  const auto not_yet = [member] {
    return Status::Unavailable(member->state.name() + " is not in a page in force yet");
  };
  if (in_sync_.is_changing()) {
    page_finished_later.hit();
    static_cast<void>(in_sync_.begin(holders_without(0), in_sync_.awaited()));  // one may be back meanwhile
    if (!write_page(/*equal=*/false)) return not_yet();
    settle();
  }
  const bool witness = is_witness(member);
  const membership::MemberSet with = in_sync_.members() | (witness ? 0 : only(number_of(member)));
  if (!witness && with == in_sync_.members()) return Status::OK();
  actions_.watch(member);
  if (!member->state.enter_page()) return Status::Unavailable(member->state.name() + " has failed again");
  const bool begun = in_sync_.begin(with, in_sync_.awaited() | with);
  BONSAI_CHECK(begun);
  if (!write_page(/*equal=*/false)) return not_yet();
  settle();
  if (!witness) return Status::OK();
  settle_witness();
  return witness_is_in_ ? Status::OK() : not_yet();
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
  return Status::Unavailable("the members of " + voters_.front()->state.name() + " do not all have their page");
}

void Group::note_equal() {
  const std::lock_guard lock(mutex_);
  if (in_sync_.is_changing() || joins() != 0) return;
  for (size_t i = 0; i < members_; ++i) {
    if ((in_sync_.members() & only(i)) == 0) continue;
    const std::lock_guard connecting(voters_[i]->connecting);
    const auto& connections = voters_[i]->connections;
    const auto is_answered = [](const auto& each) { return each->is_whole() && each->answered(each->posted()); };
    const bool holds_all = voters_[i]->state.takes_updates() && !connections.empty() &&
                           std::all_of(connections.begin(), connections.end(), is_answered);
    if (!holds_all) return;
  }
  if (in_sync_.begin(in_sync_.members(), in_sync_.awaited())) static_cast<void>(write_page(/*equal=*/true));
}

}  // namespace bonsai::scale
