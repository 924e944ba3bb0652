// SPDX-License-Identifier: Apache-2.0
// The writes of a link. A thread notes what it has written; its fence posts all of that, one list for each target and
// lane, all in flight at once, and waits until it is durable.
//
// A target may have several members, which get the same: what is noted for one is noted for all, and posted together.
//
// Invariants
//   - **Writes to one word arrive in the order in which they were posted, and take resident bytes from the mirror at or
//     after posting.** The address alone decides which lane carries a write (spread.h), and posting is one critical
//     section of the lane. So of two threads that write one word the later content stays, as in a coherent cache. Reads
//     need no order beside them: what a reader looks for was durable before its read was begun, and the place is not
//     used again before the reader has left.
//   - **A copy that is not posted yet is given up when its place is written again, or becomes resident.** Its place was
//     given back before, with what was stored there (an offload that found no room, say), and whoever noted it may
//     fence only when somebody else's bytes are there.
//   - fence() answers true only when everything that its thread noted for that target before is durable, also what a
//     sibling coroutine's fence of the same thread has posted.
//   - **Writes that a connection has left unanswered are sent again**, in their order and before anything else of the
//     lane (connection.h): resident bytes as they are then, which is the same or newer. A fence waits meanwhile. It
//     answers late, or false for ever.
//   - **A member that joins gets all updates from a moment on**, and bytes that were read of others only as long as
//     they are the newest (copy_to()).
//   - A write that the node's medium has refused, or that is not answered in time, fails the target for good. Other
//     targets are not affected.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_WRITE_LANES_H_
#define BONSAI_SCALE_WRITE_LANES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/nvm/per_thread.h"
#include "scale/connection.h"
#include "scale/connector.h"
#include "scale/registered_pool.h"

namespace bonsai::scale {

class WriteLanes {
 public:
  // Requires: lanes and connector outlive it. `limit_ms`: of a fence.
  WriteLanes(std::span<const std::unique_ptr<Lane>> lanes, std::shared_ptr<RegisteredPool> pool,
             const Connector& connector, uint64_t limit_ms)
      : lanes_(lanes), pool_(std::move(pool)), connector_(connector), limit_ms_(limit_ms) {}

  // The calling thread stored the mirror's aligned word at `offset`. If the thread notes several such words, an earlier
  // one never reaches the target after a later one: stores to one line keep their order.
  void note_store(Members members, uint64_t offset);
  // The calling thread's next fence makes the mirror's bytes [offset, offset + n) durable on the target. Requires: they
  // are resident.
  void note(Members members, uint64_t offset, uint64_t n);
  // note() for a copy of [src, src + n), for bytes that are not resident. Requires: of several copies that share bytes
  // only the last one counts.
  void note_copy(Members members, uint64_t offset, const void* src, size_t n);
  // Posts the thread's notes for all targets, and waits until their bytes are durable or their target has failed.
  // False: some bytes may not be durable on `members`, from this fence or an earlier one of any thread. A member that
  // is out is not waited for. When it returns true, what the thread noted may be closed in the mirror.
  [[nodiscard]] bool fence(Members members);

  // Waits until what any thread has noted for groups before the call is durable on the members that it was noted for,
  // or has failed. A member whose state lets it get updates before the call gets all that is noted afterwards, so that
  // others have the rest when this returns. Requires: the calling thread has noted nothing since its last fence. False:
  // a thread has not fenced within the limit.
  [[nodiscard]] bool await_earlier(uint64_t limit_ms);

  // Waits until what the thread has noted for the member, and copied to it, is durable there. False: the member has
  // failed, or has not answered within the limit; nothing of it is waited for any more.
  [[nodiscard]] bool await_member(LinkTarget* member, uint64_t limit_ms);

  // What became of a copy: it is posted; one of its blocks was written, or closed, meanwhile, and it is not posted, or
  // not as a whole; or the member takes none.
  enum class Copied : uint8_t { kPosted, kWritten, kNotTaken };
  // Posts bytes of another member to one that is joining, unless its `written` has them: an update that is posted later
  // arrives later. Requires: the bytes are in the window, and were read after the window was opened and await_earlier()
  // had then returned.
  [[nodiscard]] Copied copy_to(LinkTarget* member, uint64_t offset, uint64_t n,
                               const std::shared_ptr<std::byte>& bytes) {
    return copy(member, {offset, n, false, bytes}, Copying::kOthers);
  }
  // The same for resident bytes as they are when they are posted, unless they are closed before; `to`: memory for them.
  [[nodiscard]] Copied copy_resident_to(LinkTarget* member, uint64_t offset, uint64_t n,
                                        const std::shared_ptr<std::byte>& to) {
    return copy(member, {offset, n, false, to}, Copying::kResident);
  }
  // Posts what is right in the place of damage to a member in sync, unless its `scrubbed` has a block of it: an update
  // that is posted later arrives later. Requires: as copy_to().
  [[nodiscard]] Copied repair_to(LinkTarget* member, uint64_t offset, uint64_t n,
                                 const std::shared_ptr<std::byte>& bytes) {
    return copy(member, {offset, n, false, bytes}, Copying::kRepair);
  }

 private:
  struct Store {
    const LinkTarget* target;  // the first member
    uint64_t offset;
  };
  // The work of one connection.
  struct Queue {
    LinkTarget* target;
    size_t lane;
    std::vector<WriteRange> ranges;
    uint64_t postings = 0;  // of the last post()
  };
  struct Posted {
    LinkTarget* target;
    size_t lane;
    uint64_t number;  // of the connection
    uint64_t order;   // among the thread's
  };
  // One thread's. Coroutines of the thread share it, so no reference into it is kept where siblings may run.
  struct Noted {
    explicit Noted(uint32_t) {}
    std::vector<Store> stores;   // the last kStoresMax that were not noted yet
    std::vector<Queue> queues;   // not posted yet; some may be empty
    std::vector<Posted> posted;  // and not known to be durable
    uint64_t lanes = 0;          // by bit: those that have something in a queue or posted
    uint64_t orders = 0;
    bool is_known = false;               // in all_
    std::atomic<bool> noted{false};      // something for a group, and since then it was not empty
    std::atomic<uint64_t> fenced_at{0};  // moment_ as the last fence that is done began

    [[nodiscard]] bool all_posted() const;
    [[nodiscard]] bool uses(size_t lane) const;
  };

  Noted& mine();
  enum class Copying : uint8_t { kOthers, kResident, kRepair };
  [[nodiscard]] Copied copy(LinkTarget* member, WriteRange all, Copying copying);
  [[nodiscard]] static bool takes(const LinkTarget& member, size_t lane, Copying copying);
  void note_range(Noted* mine, Members members, const WriteRange& range);
  void note_for(Noted* mine, LinkTarget* target, WriteRange range);
  static void add_to(Queue* queue, WriteRange range);
  void advance(Noted* mine);
  void post(Noted* mine, size_t lane);
  bool post_next(Noted* mine, Queue* queue, bool is_update = true);
  [[nodiscard]] static uint64_t shared_postings(const Noted& mine, size_t lane);
  // The writes of one posting, while they are chosen.
  struct Batch {
    std::array<rdma::RemotePersist::Write, rdma::RemotePersist::kWritesMax> writes;
    size_t count = 0;
    size_t whole = 0;    // ranges that are in it to their end
    uint64_t begun = 0;  // bytes of the next range that are in it, too
    std::vector<std::shared_ptr<std::byte>> bounced = {};
  };
  void choose(const LinkTarget& target, size_t lane, std::span<const WriteRange> ranges, Batch* batch);
  static void note_written(LinkTarget* target, std::span<const WriteRange> ranges, const Batch& batch);
  [[nodiscard]] bool send_again(LinkTarget* target, size_t lane);
  void look_for(Noted* mine);
  [[nodiscard]] static std::vector<LinkTarget*> apart(const Noted& mine);
  [[nodiscard]] rdma::Slice source(const LinkTarget& target, const WriteRange& range, Batch* batch);
  void retire(Noted* mine, size_t lane);
  static void settle(Noted* mine);
  void fail_late(Noted* mine, uint64_t last, const Status& why);
  static void fail(LinkTarget* target, size_t lane, const Status& why);

  const std::span<const std::unique_ptr<Lane>> lanes_;
  const std::shared_ptr<RegisteredPool> pool_;
  const Connector& connector_;
  const uint64_t limit_ms_;
  base::PerThread<Noted> noted_;
  std::atomic<uint64_t> moment_{1};
  std::mutex all_mutex_;
  std::vector<const Noted*> all_;  // under all_mutex_
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_WRITE_LANES_H_
