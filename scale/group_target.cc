// SPDX-License-Identifier: Apache-2.0
#include "scale/group_target.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "scale/remote_target.h"
#include "scale/resync.h"

namespace bonsai::scale {

using membership::count;
using membership::MemberSet;
using membership::only;

namespace {

constexpr uint64_t kFirstVersion = 1;  // of a page, while the group is made
// As messages name it.
std::string place(size_t self, size_t members) {
  if (self == members) return "the witness of a group of " + std::to_string(members);
  return "member " + std::to_string(self + 1) + " of a group of " + std::to_string(members);
}

constexpr const char* kFindOut = "Find out which, and remove that file on its node: the opening makes this member anew";

}  // namespace

GroupTarget::GroupTarget(TargetName name, const TargetConfig& config, RemoteLinks* links)
    : Target(std::move(name)), config_(config), links_(*links) {
  for (const TargetName& member : name_.members) members_.emplace_back().name = member;
  for (const TargetName& witness : name_.witness) {
    members_.emplace_back().name = witness;
    members_.back().is_witness = true;
  }
}

GroupTarget::~GroupTarget() {
  stop_scrubbing();
  if (group_ == nullptr || made_ != 0) return;
  link_->stop_joining(group_);
  group_->note_equal();
}

void GroupTarget::tell(const std::string& text) const {
  if (config_.note) config_.note(text);
}

// The voters that are this process's.
MemberSet GroupTarget::taken() const {
  MemberSet taken = 0;
  for (size_t i = 0; i < members_.size(); ++i) taken |= members_[i].number.has_value() ? only(i) : 0;
  return taken;
}

// The ones of them that have bytes.
MemberSet GroupTarget::taken_members() const { return taken() & (only(members_count()) - 1); }

std::vector<size_t> GroupTarget::numbers(MemberSet voters) const {
  std::vector<size_t> all;
  for (size_t i = 0; i < members_.size(); ++i) {
    if ((voters & only(i)) != 0) all.push_back(*members_[i].number);
  }
  return all;
}

void GroupTarget::give_back(size_t member) {
  if (const auto number = std::exchange(members_[member].number, std::nullopt)) {
    static_cast<void>(link_->give_back(*number));
  }
}

void GroupTarget::give_all_back() {
  for (size_t i = 0; i < members_.size(); ++i) give_back(i);
}

// Asks all nodes what they have. Afterwards epoch_ is above everything that any of them knows.
Status GroupTarget::look_for_members() {
  BONSAI_RETURN_IF_ERROR(links_.link_of(name_, &link_));
  epoch_ = 0;
  for (Member& member : members_) {
    member.status = link_->status_of(member.name, &member.epoch, &member.page);
    const bool is_known = member.status.ok() || member.status.IsNotFound() || member.status.IsUnavailable();
    if (!is_known) return member.status;
    epoch_ = std::max({epoch_, member.epoch, member.page.written_by});
  }
  ++epoch_;
  return Status::OK();
}

// Takes all members that are there. The pages are those of the answers: later than the end of any other owner.
Status GroupTarget::take_members(bool discard_unfinished) {
  const uint64_t looked_at = bytes_looked_at(config_, discard_unfinished);
  for (Member& member : members_) {
    if (!member.status.ok()) continue;
    size_t number = 0;
    const uint64_t mark = member.is_witness ? 0 : config_.mark;
    member.status = link_->open(member.name, PoolOp::kOpen, member.is_witness ? 0 : looked_at, mark, &number,
                                {config_.take_over, config_.note, epoch_});
    if (member.status.ok()) {
      member.number = number;
      member.page = link_->pool(number).page;
      if (link_->target(number)->client->epoch() != epoch_) {
        return Status::Busy(name() + " was opened by somebody else at the same time; try again");
      }
    } else if (!member.status.IsNotFound() && !member.status.IsUnavailable()) {
      return member.status;
    }
  }
  return Status::OK();
}

Status GroupTarget::exists(bool discard_unfinished, bool* exists) {
  BONSAI_CHECK(taken() == 0);
  *exists = false;
  BONSAI_RETURN_IF_ERROR(look_for_members());
  Status status = take_members(discard_unfinished);
  if (status.ok() && taken() == 0) {
    for (const Member& member : members_) {
      if (!member.status.IsNotFound()) return member.status;
    }
    return Status::OK();
  }
  if (status.ok()) status = check_members();
  if (status.ok() && discard_unfinished && is_unfinished()) return remove();
  if (status.ok()) status = settle_members();
  for (size_t i = 0; i < members_.size() && status.ok(); ++i) {
    const Member& member = members_[i];
    if (member.status.IsNotFound()) status = may_be_made_anew(newest_.page, i, member.name.text, name_.replaces);
  }
  if (!status.ok()) give_all_back();
  *exists = status.ok();
  return status;
}

// Whether the group's creation was interrupted when some members had their names.
bool GroupTarget::is_unfinished() const {
  const auto is_first = [](const Member& each) {
    return each.number ? each.page.version == kFirstVersion : each.status.IsNotFound();
  };
  return count(taken()) < members_.size() && std::all_of(members_.begin(), members_.end(), is_first);
}

// Whether the pools are those of one group, in the order of the name.
Status GroupTarget::check_members() const {
  const GroupPage* first = nullptr;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const GroupPage& page = member.page.page;
    if (!member.number) continue;
    const std::string& text = member.name.text;
    if (page.members == 0) {
      return Status::InvalidArgument(text + " is no member of a group: name it alone; or, if it is to take a lost " +
                                     "member's place, remove it on its node: the opening makes a new one");
    }
    if (page.members == members_count() && page.voters() != members_.size()) {
      return Status::InvalidArgument(
          name() + " was made with" +
          (page.witness != 0 ? " a witness; name it, too (?witness=SCHEME://NODE/POOL)" : "out a witness; name none"));
    }
    if (page.members != members_count() || page.self != i) {
      return Status::InvalidArgument(text + " is " + place(page.self, page.members) + ", and was named as " +
                                     place(i, members_count()) + "; name the members as when the pool was made");
    }
    if (first != nullptr && page.group != first->group) {
      return Status::InvalidArgument(text + " is a member of another group than those before it; name one group's");
    }
    if (name_.replicas_min != 0 && page.needed != name_.replicas_min) {
      return Status::InvalidArgument(name() + " was made with replicas_min=" + std::to_string(page.needed) +
                                     "; name it without, or with that one");
    }
    if (first == nullptr) first = &page;
  }
  return Status::OK();
}

// Decides by the newest page whether those that were taken are enough.
Status GroupTarget::settle_members() {
  newest_ = {};
  for (const Member& member : members_) {
    if (member.number && member.page.is_newer_than(newest_)) newest_ = member.page;
  }
  const GroupPage& page = newest_.page;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].number && members_[i].page.page.ids[i] != page.ids[i]) {
      give_back(i);
      members_[i].status = Status::InvalidArgument("another pool has taken its place; remove its file on its node");
      tell(members_[i].name.text +
           " was replaced as a member by another pool, and is left out: remove its file on its node");
    }
    members_[i].is_named = members_[i].number && page.has(i);
  }
  return membership::may_open(page.in_sync, taken(), page.rule()) ? Status::OK() : too_few(page.in_sync);
}

Status GroupTarget::too_few(MemberSet in_sync) const {
  const membership::Quorum rule = newest_.page.rule();
  const bool by_majority = rule.voters != 0 && count(taken()) < rule.majority();
  const MemberSet asked = by_majority ? only(rule.voters) - 1 : in_sync;
  const bool hides = rule.voters == 0;  // a newer page may be on those that are missing
  const size_t wanted =
      by_majority ? rule.majority() : std::max(rule.needed, hides ? count(in_sync) - rule.needed + 1 : 0);
  std::string missing;
  bool lost = false;
  for (size_t i = 0; i < members_.size(); ++i) {
    if ((asked & ~taken() & only(i)) == 0) continue;
    lost |= members_[i].status.IsNotFound();
    missing +=
        (missing.empty() ? "" : "; ") + members_[i].name.text + " (" + std::string(members_[i].status.message()) + ")";
  }
  return Status::Unavailable(
      name() + " cannot be opened, as later updates may be on members that are missing: " + std::to_string(wanted) +
      " of the " + std::to_string(count(asked)) +
      (by_majority ? " that decide (the witness is one)" : " that are known to be in sync") + " are needed, and " +
      std::to_string(count(asked & taken())) + " are there. Missing: " + missing + ". Bring " +
      (lost
           ? "back their nodes and the pools that these do not have; or, if the group was removed or they are lost for "
             "good, copy what one of the others holds (bonsai salvage) and remove its file on its node"
           : "their nodes back"));
}

// A member of that size, or the witness.
Status GroupTarget::make_member(size_t member, PoolOp op, uint64_t bytes) {
  size_t number = 0;
  const bool is_witness = members_[member].is_witness;
  BONSAI_RETURN_IF_ERROR(link_->open(members_[member].name, op, is_witness ? kWitnessBytes : bytes,
                                     is_witness ? 0 : config_.mark, &number, {false, config_.note, epoch_}));
  members_[member].number = number;
  made_ |= only(member);
  if (link_->target(number)->client->epoch() == epoch_) return Status::OK();
  return Status::Busy(members_[member].name.text + " had owners of later epochs; try again");
}

Status GroupTarget::create(uint64_t bytes) {
  if (link_ == nullptr) BONSAI_RETURN_IF_ERROR(look_for_members());
  for (size_t i = 0; i < members_.size(); ++i) {
    BONSAI_RETURN_IF_ERROR(make_member(i, PoolOp::kCreateUnnamed, bytes));
    if (members_[i].is_witness) continue;
    const uint64_t made = link_->pool(*members_[i].number).region.bytes;
    if (i > 0 && made != bytes_) {
      return Status::InvalidArgument(members_[i].name.text + " has " + std::to_string(made) + " bytes and " +
                                     members_[0].name.text + " " + std::to_string(bytes_) +
                                     "; the members of a group have equal sizes");
    }
    bytes_ = made;
  }
  GroupPage& page = newest_.page;
  page.group = fresh_group_id();
  for (size_t i = 0; i < members_.size(); ++i) page.ids[i] = fresh_member_id(members_[i].name.text);
  page.members = static_cast<uint8_t>(members_count());
  page.witness = static_cast<uint8_t>(name_.witness.size());
  const size_t needed = page.witness != 0 ? 1 : members_count() / 2 + 1;
  page.needed = static_cast<uint8_t>(name_.replicas_min != 0 ? name_.replicas_min : needed);
  BONSAI_RETURN_IF_ERROR(write_page(taken_members(), taken()));
  return serve();
}

// A page with these members, of this owner, durable on each of `to`, which has all of them. It is in force then. The
// witness is the last: what it alone has would keep the group closed although others hold everything.
Status GroupTarget::write_page(MemberSet in_sync, MemberSet to) {
  newest_.page.in_sync = static_cast<uint8_t>(in_sync);
  newest_.page.equal = 0;
  newest_.written_by = epoch_;
  ++newest_.version;
  for (size_t i = 0; i < members_.size(); ++i) {
    if ((to & only(i)) == 0) continue;
    newest_.page.self = static_cast<uint8_t>(i);
    BONSAI_RETURN_IF_ERROR(link_->set_page(target(i), newest_.page, newest_.version));
  }
  return Status::OK();
}

Status GroupTarget::serve() {
  BONSAI_RETURN_IF_ERROR(check_medium(name(), config_));
  const size_t first = numbers(taken_members())[0];
  medium_text_ = link_->pool(first).text;
  emulated_ = link_->pool(first).emulated;
  for (Member& member : members_) {
    size_t number = 0;
    if (member.number) continue;
    BONSAI_RETURN_IF_ERROR(link_->add_absent(member.name, first, &number));
    link_->target(number)->state.note_attempt(member.status);
    member.number = number;
  }
  BONSAI_RETURN_IF_ERROR(RemoteMedium::make(link_, numbers(taken_members()), &medium_));
  std::vector<LinkTarget*> targets;
  for (const size_t number : numbers(taken())) targets.push_back(link_->target(number));
  const Group::Setup setup = {bytes_, config_.mark, config_.first_bytes, epoch_, name_.replaces};
  return link_->make_group(std::move(targets), newest_, setup, config_.note, &group_);
}

Status GroupTarget::open(uint64_t grow_bytes) {
  bool found = taken() != 0;
  if (!found) BONSAI_RETURN_IF_ERROR(exists(/*discard_unfinished=*/false, &found));
  if (!found) return Status::IoError(name() + " does not exist; name another, or set create_if_missing");
  BONSAI_RETURN_IF_ERROR(set_sizes(grow_bytes));
  BONSAI_RETURN_IF_ERROR(replace_lost());
  BONSAI_RETURN_IF_ERROR(make_all_equal());
  if (made_ != 0) BONSAI_RETURN_IF_ERROR(name_made());
  BONSAI_RETURN_IF_ERROR(write_page(taken_members(), taken()));
  for (const Member& member : members_) {
    if (member.number) continue;
    tell(member.name.text + (member.is_witness ? ", the witness, is away (" : " is left out of its group (") +
         std::string(member.status.message()) + "); it is brought up to date when its node is back");
  }
  return serve();
}

// Members that were made get their names before a page counts on them: a pool without a name is gone with its owner.
Status GroupTarget::name_made() {
  MemberSet named = 0;
  for (size_t i = 0; i < members_.size(); ++i) named |= members_[i].is_named ? only(i) : 0;
  BONSAI_RETURN_IF_ERROR(write_page(named, taken()));
  for (const size_t number : numbers(std::exchange(made_, 0))) BONSAI_RETURN_IF_ERROR(link_->complete(number));
  return Status::OK();
}

// All have the size of the largest that is in sync, or the one that is asked for: an earlier growth may have reached
// some of them.
Status GroupTarget::set_sizes(uint64_t grow_bytes) {
  uint64_t least = UINT64_MAX, most = 0;
  for (const Member& member : members_) {
    if (!member.is_named) continue;
    least = std::min(least, link_->pool(*member.number).region.bytes);
    most = std::max(most, link_->pool(*member.number).region.bytes);
  }
  bytes_ = std::max(most, grow_bytes);
  if (bytes_ > least) bytes_before_ = least;
  for (const Member& member : members_) {
    if (!member.number || member.is_witness) continue;
    if (link_->pool(*member.number).region.bytes != bytes_) {
      BONSAI_RETURN_IF_ERROR(link_->resize(*member.number, bytes_));
    }
    if (link_->pool(*member.number).region.bytes == bytes_) continue;
    return Status::InvalidArgument(member.name.text + " cannot have " + std::to_string(bytes_) +
                                   " bytes; the members of a group have equal sizes");
  }
  return Status::OK();
}

// Makes members anew whose nodes are there and do not have them.
Status GroupTarget::replace_lost() {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].status.IsNotFound()) continue;
    BONSAI_RETURN_IF_ERROR(make_member(i, PoolOp::kCreateUnnamed, bytes_));
    newest_.page.ids[i] = fresh_member_id(members_[i].name.text);
    tell(members_[i].name.text + " is made anew on its node, which does not have it");
  }
  return Status::OK();
}

bool GroupTarget::are_known_equal() const {
  return std::all_of(members_.begin(), members_.end(), [this](const Member& member) {
    return !member.number || member.is_witness ||
           (member.is_named && newest_.page.equal != 0 && member.page.version == newest_.version &&
            member.page.written_by == newest_.written_by);
  });
}

// A page is beside the bytes that it is about: somebody may have put other bytes there since.
Status GroupTarget::check_equal() const {
  const Member* first = nullptr;
  for (const Member& member : members_) {
    if (!member.number || member.is_witness) continue;
    if (first == nullptr) first = &member;
    if (first == &member) continue;
    bool equally = false;
    BONSAI_RETURN_IF_ERROR(begin_equally(&link_->reads(), link_->target(*first->number), link_->target(*member.number),
                                         bytes_, link_->limit_ms(), &equally));
    if (equally) continue;
    return Status::Corruption(
        first->name.text + " and " + member.name.text +
        " held the same bytes when the group was closed, and do not now: the file of one of them was replaced since. " +
        kFindOut);
  }
  return Status::OK();
}

// Chooses a member that is named: each holds all that was acknowledged. One whose file was replaced begins unlike the
// others, so it is one that begins like most of them.
Status GroupTarget::choose_source(const Member** source) const {
  size_t most = 0;
  for (const Member& each : members_) {
    size_t alike = 0;
    for (const Member& other : members_) {
      if (!each.is_named || !other.is_named) continue;
      bool equally = true;
      if (&other != &each) {
        BONSAI_RETURN_IF_ERROR(begin_equally(&link_->reads(), link_->target(*each.number), link_->target(*other.number),
                                             bytes_, link_->limit_ms(), &equally));
      }
      alike += equally ? 1 : 0;
    }
    if (alike <= most) continue;
    most = alike;
    *source = &each;
  }
  BONSAI_CHECK(most > 0);  // some are named: they were enough to open
  return most == 1 ? check_first_words(**source) : Status::OK();
}

// Without two that begin alike nobody knows which of them to go by. A crash changes other words of a pool, not its
// first one.
Status GroupTarget::check_first_words(const Member& source) const {
  for (const Member& other : members_) {
    if (!other.is_named || &other == &source) continue;
    bool equally = false;
    BONSAI_RETURN_IF_ERROR(begin_equally(&link_->reads(), link_->target(*source.number), link_->target(*other.number),
                                         sizeof(uint64_t), link_->limit_ms(), &equally));
    if (equally) continue;
    return Status::Corruption(source.name.text + " and " + other.name.text +
                              " are not both a pool of this kind: the file of one of them was replaced. " + kFindOut);
  }
  return Status::OK();
}

// Where the others that are named agree, the source may be damaged. What was in flight at the end of the last owner may
// be on any of them, line by line.
Status GroupTarget::outvote_source(const Member& source) const {
  std::vector<LinkTarget*> named = {link_->target(*source.number)};
  for (const Member& member : members_) {
    if (member.is_named && &member != &source) named.push_back(link_->target(*member.number));
  }
  if (named.size() < 3) return Status::OK();
  ResyncResult result;
  BONSAI_RETURN_IF_ERROR(outvote(&link_->reads(), &link_->writes(), named, bytes_, link_->limit_ms(), &result));
  if (result.written != 0) {
    tell(source.name.text + " got " + std::to_string(result.written) +
         " bytes that more members hold: they were being written when the last owner ended, or its own were damaged");
  }
  return Status::OK();
}

// Equal pages that say so prove that all members hold the same. Else every other one gets the bytes of one that
// holds all that was acknowledged: what was not acknowledged may be on some of them.
Status GroupTarget::make_all_equal() {
  if (are_known_equal()) return check_equal();
  const Member* source = nullptr;
  BONSAI_RETURN_IF_ERROR(choose_source(&source));
  BONSAI_RETURN_IF_ERROR(outvote_source(*source));
  LinkTarget* const from = link_->target(*source->number);
  for (const Member& member : members_) {
    if (!member.number || member.is_witness || &member == source) continue;
    ResyncResult result;
    BONSAI_RETURN_IF_ERROR(make_equal(&link_->reads(), &link_->writes(), from, link_->target(*member.number), bytes_,
                                      link_->limit_ms(), &result));
    const std::string differed =
        std::to_string(result.written) + " of " + std::to_string(result.compared) + " bytes differed";
    if (!member.is_named) {
      tell(member.name.text + " was brought up to date: " + differed);
    } else if (result.written != 0) {
      tell(member.name.text + " was made equal to " + source->name.text + " after an end without a word: " + differed +
           ". If these are more than were being written then, the file of one of them was replaced");
    }
  }
  return Status::OK();
}

// Reads from one member alone: unacknowledged bytes may differ. No other owner gets the group while enough of those
// that are in sync grant their leases.
Status GroupTarget::open_read_only() {
  bool found = taken() != 0;
  if (!found) BONSAI_RETURN_IF_ERROR(exists(/*discard_unfinished=*/false, &found));
  if (!found) return Status::IoError(name() + " does not exist");
  BONSAI_RETURN_IF_ERROR(check_medium(name(), config_));
  const auto source = std::find_if(members_.begin(), members_.end(), [](const Member& each) { return each.is_named; });
  std::vector<Leases::Key> keys;
  for (size_t i = 0; i < members_.size(); ++i) {
    const bool grants = members_[i].is_named || (members_[i].is_witness && members_[i].number);
    if (grants) {
      keys.push_back(target(i));
    } else {
      give_back(i);
    }
  }
  links_.leases().make_group(keys, newest_.page.rule().grants());
  bytes_ = link_->pool(*source->number).region.bytes;
  if (are_known_equal()) BONSAI_RETURN_IF_ERROR(check_equal());
  BONSAI_RETURN_IF_ERROR(RemoteMedium::make(link_, *source->number, &medium_));
  medium_text_ = link_->pool(*source->number).text;
  emulated_ = link_->pool(*source->number).emulated;
  return Status::OK();
}

void GroupTarget::shrink_back() {
  const uint64_t bytes = std::exchange(bytes_before_, 0);
  if (bytes == 0) return;
  for (const size_t number : numbers(taken_members())) static_cast<void>(link_->resize(number, bytes));
}

Status GroupTarget::complete() {
  if (made_ == 0) return Status::OK();
  for (const size_t number : numbers(made_)) BONSAI_RETURN_IF_ERROR(link_->complete(number));
  BONSAI_RETURN_IF_ERROR(group_->write_next_page());
  made_ = 0;
  return Status::OK();
}

Status GroupTarget::remove() {
  stop_scrubbing();
  medium_.reset();
  if (group_ != nullptr) link_->stop_joining(group_);
  group_ = nullptr;
  Status status;
  for (Member& member : members_) {
    const auto number = std::exchange(member.number, std::nullopt);
    if (!number || link_->target(*number)->state.is_out()) continue;
    const Status removed = link_->remove(*number);
    if (status.ok()) status = removed;
  }
  return status;
}

// A pool that is read alone has no group.
Status GroupTarget::start_scrubbing(uint64_t bytes_per_s, ScrubJudge judge) {
  if (group_ == nullptr) return Status::OK();
  group_->scrub().bytes_per_s = bytes_per_s;
  group_->scrub().judge = std::move(judge);
  BONSAI_RETURN_IF_ERROR(link_->start_scrubbing(group_));
  is_scrubbed_ = true;
  return Status::OK();
}

void GroupTarget::stop_scrubbing() {
  if (std::exchange(is_scrubbed_, false)) link_->stop_scrubbing(group_);
}

void GroupTarget::add_group(std::vector<GroupInfo>* groups) const {
  if (group_ == nullptr) return;
  groups->push_back(group_->info());
  groups->back().name = name();
}

// By the newest of their pages, as an opening would.
Status GroupTarget::look_at_group(std::vector<GroupInfo>* groups) {
  BONSAI_RETURN_IF_ERROR(look_for_members());
  VersionedPage newest;
  bool some_answer = false;
  for (const Member& member : members_) {
    const GroupPage& page = member.page.page;
    const bool is_named = page.members == members_count() && (page.witness != 0 || name_.witness.empty());
    if (is_named && member.page.is_newer_than(newest)) newest = member.page;
    some_answer = some_answer || !member.status.IsUnavailable();
  }
  if (newest.page.members == 0) return some_answer ? Status::OK() : members_.front().status;
  GroupInfo info = info_of(newest, name());
  info.epoch = epoch_ - 1;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& from = members_[i];
    GroupMember& to = from.is_witness ? *info.witness : info.members[i];
    to.name = from.name.text;
    const bool is_it = from.page.page.group == newest.page.group && from.page.page.ids[i] == newest.page.ids[i];
    if (!from.status.ok()) {
      to.failure = from.status.message();
    } else if (!is_it) {
      to.failure = "the pool there is no member of this group, or was replaced as a member";
    }
    if (!to.failure.empty() && to.state == MemberState::kInSync) {
      to.state = from.is_witness ? MemberState::kOut : MemberState::kAway;
    }
  }
  groups->push_back(std::move(info));
  return Status::OK();
}

Status GroupTarget::describe(std::string* text) {
  bool found = false;
  BONSAI_RETURN_IF_ERROR(exists(/*discard_unfinished=*/false, &found));
  *text = found ? link_->pool(numbers(taken_members())[0]).text
                : "no pool yet; nodes store pools there, over " + name_.scheme;
  if (found)
    *text += ", " + std::to_string(count(taken_members())) + " of " + std::to_string(members_count()) + " members";
  return Status::OK();
}

}  // namespace bonsai::scale
