// SPDX-License-Identifier: Apache-2.0
// Brings members of groups that are out back while the store serves (docs/nodes.md, Joining). A member whose node is
// there again gets all updates from then on, and what came before is copied from the others; then a page with it is
// made durable, and it is in sync. A node that has lost its pool gets a new one in its place.
//
// Invariants
//   - A joining begins anew: with connections of its own, after the node has confirmed that nothing of earlier ones
//     will arrive, and with all bytes.
//   - No update waits for a member that stops joining. Its failure, or an answer that is later than member_ms, ends the
//     joining, and nothing else.
//   - A page names the member when everything that was acknowledged is durable on it.
//   - Copying uses at most half of the time: each piece of work is followed by a pause of its length.
//   - A witness that is out comes back in the same way, and has nothing to copy.
//   - Attempts are made after growing pauses, from a tenth of a second to ten. One member joins at a time.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_JOINER_H_
#define BONSAI_SCALE_JOINER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "scale/connector.h"
#include "scale/group.h"
#include "scale/group_rounds.h"
#include "scale/read_lanes.h"
#include "scale/write_lanes.h"

namespace bonsai::scale {

class Joiner {
 public:
  // Gives a pool that was made its name.
  using Complete = std::function<Status(LinkTarget* member)>;

  // Requires: all outlive it. `member_ms`: as LinkOptions.
  Joiner(const Connector& connector, WriteLanes* writes, ReadLanes* reads, uint64_t member_ms, Complete complete)
      : connector_(connector),
        writes_(*writes),
        reads_(*reads),
        member_ms_(member_ms),
        complete_(std::move(complete)) {}
  ~Joiner() { stop(); }

  // Errors: NoSpace (no thread).
  Status start();
  // Returns when no member is worked on.
  void stop();
  // From now on the group's members join. It outlives stop(), or remove().
  void add(Group* group) { rounds_.add(group); }
  // Returns when no member of the group is worked on. None joins any more.
  void remove(Group* group) { rounds_.remove(group); }
  // A member is out since just now.
  void wake() { rounds_.wake(); }

 private:
  // Of one member.
  struct Attempts {
    uint64_t due_ns = 0, pause_ms = 0;
    std::string told;  // why the last one failed
  };
  void run();
  bool look_for_members();
  void try_to_join(Group* group, LinkTarget* member);
  Status join(Group* group, LinkTarget* member);
  Status connect(Group* group, LinkTarget* member, bool* is_new);
  Status take(Group* group, LinkTarget* member, PoolRequests* requests, rdma::Peer* peer, ServedPool* pool,
              bool* is_new) const;
  // Blocks of the window at `begin` that are not copied yet.
  struct Window {
    uint64_t begin = 0;
    WrittenBlocks::Set left = 0;
  };
  // Bytes of a window, and the list of reads that brings them from a member in sync; 0: they were resident.
  struct Run {
    uint64_t offset, bytes;
    base::FarReads::Memory memory;
    uint64_t ticket;
  };
  Status copy(Group* group, LinkTarget* member);
  Status copy_window(Group* group, LinkTarget* member, Window* window);
  Status copy_once(Group* group, LinkTarget* member, uint64_t blocks_max, Window* window);
  Status taken(const LinkTarget* member, const Run& run, WriteLanes::Copied copied, Window* window) const;
  Status enter(Group* group, LinkTarget* member);
  void abandon(LinkTarget* member) const;
  void pause_after(uint64_t begin_ns);
  [[nodiscard]] Status gone(const LinkTarget* member) const;

  const Connector& connector_;
  WriteLanes& writes_;
  ReadLanes& reads_;
  const uint64_t member_ms_;
  const Complete complete_;
  GroupRounds rounds_;
  std::map<LinkTarget*, Attempts> attempts_;  // the thread's
  uint64_t worked_ns_ = 0;                    // without a pause for it yet; the thread's
  base::Thread thread_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_JOINER_H_
