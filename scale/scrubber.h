// SPDX-License-Identifier: Apache-2.0
// Scrubbing: compares what the members of groups hold, piece by piece and paced, while the store serves, so that damage
// of what nobody reads is found and repaired while a member has the truth (docs/nodes.md, Scrubbing).
//
// Members hold the same where nothing was posted since all earlier updates have been durable on all of them. So a
// window is opened, earlier updates are waited for, all members in sync are read, and blocks that were written since
// are left for later. What differs then is damaged on some members, or bytes that nobody uses. Which bytes are right is
// decided by this node's memory, where they are resident; by their check, where they have one (ScrubState::judge); else
// by most of three members or more. Where none of these says it, nothing is changed. In a block of
// something that has a check nobody uses what is beside it: that becomes equal, too.
//
// Invariants
//   - No update waits for scrubbing, and none costs a request more.
//   - A repair never replaces a newer byte: it is posted over the lane of its address, and only if nothing was posted
//     to that block since the window was opened (WriteLanes::repair_to()).
//   - What differs and is not repaired is counted, and told of.
//   - Scrubbing reads at most ScrubState::bytes_per_s of each member, but for a pass that was asked for.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_SCRUBBER_H_
#define BONSAI_SCALE_SCRUBBER_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "scale/group.h"
#include "scale/group_rounds.h"
#include "scale/member_copies.h"
#include "scale/read_lanes.h"
#include "scale/write_lanes.h"

namespace bonsai::scale {

class Scrubber {
 public:
  // Requires: both outlive it. `limit_ms`: of each wait for members, or for earlier updates.
  Scrubber(WriteLanes* writes, ReadLanes* reads, uint64_t limit_ms)
      : writes_(*writes), reads_(*reads), limit_ms_(limit_ms) {}
  ~Scrubber() { stop(); }

  // Errors: NoSpace (no thread).
  Status start();
  // Returns when nothing is compared.
  void stop();
  // From now on the group is scrubbed, as its ScrubState says. It outlives stop(), or remove().
  void add(Group* group) { rounds_.add(group); }
  // Returns when the group is not compared, and will not be.
  void remove(Group* group) { rounds_.remove(group); }
  // A pass over all of the group, without pauses: returns when one has ended that began after the call. Requires: it
  // was added, and is not removed meanwhile. Errors: Unavailable (fewer than two of its members are in sync, or they do
  // not answer).
  Status scrub_now(Group* group);

 private:
  // Of one group; the thread's.
  struct Pass {
    uint64_t next = 0;  // where it goes on
    uint64_t unsettled = 0, missed = 0;
    uint64_t asked = 0;      // ScrubState::asked when it began
    uint64_t joins = 0;      // Group::joins() when the last one began
    uint64_t joins_now = 0;  // when this one did
    uint64_t due_ns = 0;     // when the next window may be compared
  };
  // A window of a group, and what its members hold there.
  struct Window {
    Group* group;
    uint64_t begin, bytes;
    MemberCopies copies = {};
    std::vector<DifferingBlock> differing = {};  // of what was not written meanwhile
    // Bytes; of the last attempt.
    uint64_t unsettled = 0, missed = 0;
  };
  // Bytes [begin, begin + bytes) of a block, and what is right there.
  struct Fix {
    const DifferingBlock* block;
    uint64_t begin, bytes;
    base::FarReads::Memory right;
  };
  using Fixes = std::vector<Fix>;
  void run();
  uint64_t scrub_next(Group* group);
  void end_pass(Group* group, Pass* pass) const;
  Status scrub_window(Window* window, Pass* pass);
  Status compare(Window* window);
  void settle(Window* window, const Pass& pass);
  void judge(Window* window, std::span<const DifferingBlock* const> blocks, Fixes* damaged, Fixes* unused) const;
  [[nodiscard]] Fix fix(const DifferingBlock& block, uint64_t begin, uint64_t bytes, const std::byte* right) const;
  void even_out(const Window& window, const DifferingBlock& block, const ScrubBlock& judged, Fixes* unused) const;
  void repair(Window* window, const Fixes& fixes, bool is_damage);

  WriteLanes& writes_;
  ReadLanes& reads_;
  const uint64_t limit_ms_;
  GroupRounds rounds_;
  std::map<Group*, Pass> passes_;  // the thread's
  base::Thread thread_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_SCRUBBER_H_
