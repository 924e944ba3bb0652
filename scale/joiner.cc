// SPDX-License-Identifier: Apache-2.0
#include "scale/joiner.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "base/probe.h"
#include "base/status_macros.h"
#include "scale/await_read.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kPauseMsMin = 100, kPauseMsMax = 10'000;
constexpr uint64_t kIdleMs = 1'000;  // between two looks, if no member is out
constexpr uint64_t kBlockBytes = WrittenBlocks::kBlockBytes;
constexpr uint64_t kBlocksAtOnce = 4;  // at first; half as many after each attempt

base::Probe joined{"group.member_joined"};
base::Probe made_anew{"group.member_made_anew"};
base::Probe join_failed{"group.attempt_to_join_failed"};
base::Probe block_written{"group.block_was_written_meanwhile"};

Status not_taken(const LinkTarget* member, const std::string& why) {
  return Status::InvalidArgument(member->state.name() + " " + why);
}

// Whether the pool that a node has is the member.
Status check_page(const GroupPage& group, size_t number, const GroupPage& found, const LinkTarget* member) {
  if (found.members == 0)
    return not_taken(member, "is no member of a group; remove it on its node to have it replaced");
  if (found.group != group.group || found.self != number || found.members != group.members) {
    return not_taken(member,
                     "is a member of another group, or another one of this; remove it on its node to have it "
                     "replaced");
  }
  if (found.ids[number] == group.ids[number]) return Status::OK();
  return not_taken(member, "was replaced as a member by another pool; remove it on its node");
}

}  // namespace

Status Joiner::start() {
  return base::Thread::start(
      "joining", [this] { run(); }, &thread_);
}

void Joiner::stop() {
  rounds_.end();
  thread_.join();
}

void Joiner::run() {
  bool some_are_out = true;
  while (!rounds_.has_ended()) {
    rounds_.await(some_are_out ? kPauseMsMin : kIdleMs);
    some_are_out = look_for_members();
  }
}

// False: no member is out.
bool Joiner::look_for_members() {
  bool some_are_out = false;
  size_t number = 0;
  while (Group* const group = rounds_.next(number++)) {
    for (LinkTarget* const member : group->voters()) {
      if (rounds_.is_over() || !member->state.is_out()) continue;
      some_are_out = true;
      try_to_join(group, member);
    }
  }
  return some_are_out;
}

void Joiner::try_to_join(Group* group, LinkTarget* member) {
  Attempts& attempts = attempts_[member];
  if (base::now_ns() < attempts.due_ns) return;
  const Status status = join(group, member);
  if (status.ok()) {
    joined.hit();
    attempts = {};
    return;
  }
  abandon(member);
  member->state.note_attempt(status);
  if (rounds_.is_over()) return;
  join_failed.hit();
  attempts.pause_ms = std::clamp(2 * attempts.pause_ms, kPauseMsMin, kPauseMsMax);
  attempts.due_ns = base::now_ns() + attempts.pause_ms * base::kNsPerMs;
  // That a node is away was said when its member was left out.
  if (!status.IsUnavailable() && attempts.told != status.message()) group->tell(std::string(status.message()));
  attempts.told = status.message();
}

Status Joiner::join(Group* group, LinkTarget* member) {
  bool is_new = false;
  BONSAI_RETURN_IF_ERROR(connect(group, member, &is_new));
  if (is_new) {
    BONSAI_RETURN_IF_ERROR(group->replace(member));
    BONSAI_RETURN_IF_ERROR(complete_(member));
    made_anew.hit();
  }
  if (is_new || !group->is_witness(member)) {
    group->tell(member->state.name() + (is_new ? " is made anew on its node, which does not have it" : " is back") +
                ", and is brought up to date");
  }
  member->copied_bytes.store(0);
  member->state.note(TargetState::Event::kConfirmed);
  if (!group->is_witness(member)) BONSAI_RETURN_IF_ERROR(copy(group, member));
  return enter(group, member);
}

// *is_new: its node did not have the pool and has made one.
Status Joiner::connect(Group* group, LinkTarget* member, bool* is_new) {
  const std::lock_guard lock(member->connecting);
  if (member->client->replaced()) {
    return not_taken(member, "was opened by another owner meanwhile; it joins when the store is opened again");
  }
  member->state.note(TargetState::Event::kJoin);
  return connector_.connect_anew(member, [&](PoolRequests* requests, rdma::Peer* peer, ServedPool* pool) {
    return take(group, member, requests, peer, pool, is_new);
  });
}

// Its pool was this session's, another owner's, or is not there.
Status Joiner::take(Group* group, LinkTarget* member, PoolRequests* requests, rdma::Peer* peer, ServedPool* pool,
                    bool* is_new) const {
  PoolClient* const client = member->client.get();
  Group::Setup setup = group->setup();
  if (group->is_witness(member)) {
    setup.bytes = kWitnessBytes;
    setup.mark = setup.first_bytes = 0;
  }
  const TakeOver take_over = {false, nullptr, setup.epoch};
  const bool was_ours = client->epoch() == setup.epoch;
  Status status = was_ours
                      ? requests->ask(client, peer, PoolOp::kResume, 0, 0, pool)
                      : requests->take(client, peer, PoolOp::kOpen, setup.first_bytes, setup.mark, pool, take_over);
  if (status.IsNotFound()) {
    BONSAI_RETURN_IF_ERROR(group->check_replaced(member));
    *is_new = true;
    status = requests->take(client, peer, PoolOp::kCreateUnnamed, setup.bytes, setup.mark, pool, take_over);
  }
  BONSAI_RETURN_IF_ERROR(status);
  if (client->epoch() != setup.epoch) {
    return not_taken(member, "had owners of later epochs; it joins when the store is opened again");
  }
  if (!*is_new) BONSAI_RETURN_IF_ERROR(check_page(group->page(), group->number_of(member), pool->page.page, member));
  if (pool->region.bytes < setup.bytes) {
    BONSAI_RETURN_IF_ERROR(requests->ask(client, peer, PoolOp::kResize, setup.bytes, 0, pool));
  }
  if (pool->region.bytes == setup.bytes) return Status::OK();
  return not_taken(member, "has " + std::to_string(pool->region.bytes) + " bytes, and the others of its group " +
                               std::to_string(setup.bytes) + "; remove it on its node to have it replaced");
}

Status Joiner::gone(const LinkTarget* member) const {
  return Status::Unavailable(member->state.name() + " has stopped to answer while it was brought up to date");
}

// Blocks that updates go to meanwhile are copied again, after those updates are durable on the others.
Status Joiner::copy(Group* group, LinkTarget* member) {
  std::vector<Window> left;
  for (uint64_t at = 0; at < group->bytes(); at += WrittenBlocks::kWindowBytes) {
    left.push_back({at, WrittenBlocks::blocks_of(at, 0, group->bytes())});
  }
  while (!left.empty()) {
    std::vector<Window> again;
    for (Window& window : left) {
      BONSAI_RETURN_IF_ERROR(copy_window(group, member, &window));
      if (window.left != 0) again.push_back(window);
    }
    left = std::move(again);
  }
  return Status::OK();
}

// After some attempts blocks may be left.
Status Joiner::copy_window(Group* group, LinkTarget* member, Window* window) {
  const WrittenBlocks::Set all = window->left;
  for (uint64_t blocks_max = kBlocksAtOnce; window->left != 0 && blocks_max > 0; blocks_max /= 2) {
    const uint64_t begin_ns = base::now_ns();
    member->written.watch(window->begin);
    if (!writes_.await_earlier(member_ms_)) {
      return Status::Unavailable("updates from before " + member->state.name() + " joined have not ended yet");
    }
    BONSAI_RETURN_IF_ERROR(copy_once(group, member, blocks_max, window));
    if (!writes_.await_member(member, member_ms_) || rounds_.is_over()) return gone(member);
    if (window->left != 0) block_written.hit();
    pause_after(begin_ns);
  }
  const auto blocks = static_cast<uint64_t>(std::popcount(all & ~window->left));
  member->copied_bytes.fetch_add(std::min(blocks * kBlockBytes, group->bytes() - window->begin));
  return Status::OK();
}

// What is resident goes from here, as updates do, unless it is closed just now; all else is read from members in sync.
// Takes the blocks that it has posted out of the window.
Status Joiner::copy_once(Group* group, LinkTarget* member, uint64_t blocks_max, Window* window) {
  const Mirror& mirror = *member->mirror;
  const auto offset_of = [&](uint64_t block) { return window->begin + block * kBlockBytes; };
  const auto bytes_to = [&](uint64_t offset, uint64_t block) {
    return std::min(group->bytes(), offset_of(block)) - offset;
  };
  const auto is_left = [&](uint64_t block) {
    return block < WrittenBlocks::kBlocks && (window->left >> block & 1) != 0;
  };
  Status status;
  std::vector<Run> runs;
  for (uint64_t first = 0, end = 0; first < WrittenBlocks::kBlocks; first = end) {
    end = first + 1;
    if (!is_left(first)) continue;
    const bool is_resident = mirror.resident(offset_of(first), bytes_to(offset_of(first), end));
    const auto goes_on = [&] {
      return is_left(end) && end - first < blocks_max &&
             mirror.resident(offset_of(end), bytes_to(offset_of(end), end + 1)) == is_resident;
    };
    while (goes_on()) ++end;
    const uint64_t offset = offset_of(first), n = bytes_to(offset, end);
    Run run{offset, n, reads_.memory(n), 0};
    if (!is_resident) {
      const base::FarReads::Piece wanted{offset, run.memory.get(), n};
      run.ticket = reads_.begin(group->members(), {&wanted, 1}, run.memory);
      runs.push_back(std::move(run));
    } else if (status.ok()) {
      status = taken(member, run, writes_.copy_resident_to(member, offset, n, run.memory), window);
    }
  }
  base::BoundedWait wait("a member that joins", member_ms_);
  for (const Run& run : runs) {
    const Status read = await_read(&reads_, run.ticket, &wait);
    if (status.ok()) status = read;
    if (!status.ok()) continue;
    status = taken(member, run, writes_.copy_to(member, run.offset, run.bytes, run.memory), window);
  }
  return status;
}

// Blocks that were written or closed meanwhile are left.
Status Joiner::taken(const LinkTarget* member, const Run& run, WriteLanes::Copied copied, Window* window) const {
  if (copied == WriteLanes::Copied::kNotTaken) return gone(member);
  if (copied == WriteLanes::Copied::kPosted) {
    window->left &= ~WrittenBlocks::blocks_of(window->begin, run.offset, run.bytes);
  }
  return Status::OK();
}

// So that copying takes half of the time at most.
void Joiner::pause_after(uint64_t begin_ns) {
  worked_ns_ += base::now_ns() - begin_ns;
  const uint64_t ms = worked_ns_ / base::kNsPerMs;
  if (ms == 0) return;
  worked_ns_ = 0;
  base::sleep_ms(ms);
}

// Until a page with it is in force, it fails, or the store is closed.
Status Joiner::enter(Group* group, LinkTarget* member) {
  for (base::BoundedWait wait("group.enter", base::kUnboundedMs);; wait.pause()) {
    const Status status = group->enter(member);
    if (status.ok()) return status;
    if (rounds_.is_over() || member->state.is_out()) return status;
    static_cast<void>(wait.expired());
  }
}

// A member that no page names is out again.
void Joiner::abandon(LinkTarget* member) const {
  const std::lock_guard lock(member->connecting);
  if (member->state.is_joining()) {
    member->state.note(TargetState::Event::kLate, Status::Unavailable("it has not been brought up to date"));
  }
  if (member->state.is_out()) connector_.close(member);
}

}  // namespace bonsai::scale
