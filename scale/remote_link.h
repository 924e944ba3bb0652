// SPDX-License-Identifier: Apache-2.0
// This node's way to the pools of other nodes, over one fabric: the connections of all remote targets of one store, for
// any number of threads and coroutines.
//
// Several workers of the fabric carry them, each with a lock of its own and a connection to every target. The first
// worker carries requests and writes; the others carry reads, by thread, and writes to a spread range, by unit
// (spread()). A single worker carries everything.
//
// Bytes are named by target and offset. What is resident is in the target's mirror, this node's copy (remote_target.h);
// all else is carried: read to memory of the link's pool, and written from there. What a thread has noted is written
// and made durable by its fence: one list for each target and worker, all in flight at once. Reads are posted when they
// are begun.
//
// Invariants
//   - **Writes to one word arrive in the order in which they were posted, and take resident bytes from the mirror at or
//     after posting.** The address alone decides which connection carries a WRITE, and posting is one critical section
//     of the worker. So of two threads that write one word the later content stays, as in a coherent cache. Writes of
//     one word over two connections could arrive the other way round. Reads need no order beside them: what a reader
//     looks for was durable before its read was begun, and the place is not used again before the reader has left.
//   - **A copy that is not posted yet is given up when its place is written again, or becomes resident.** Its place was
//     given back before, with what was stored there (an offload that found no room, say), and whoever noted it may
//     fence only when somebody else's bytes are there.
//   - fence() answers true only when everything that its thread had noted before is durable, also what a sibling
//     coroutine's fence of the same thread has posted.
//   - The first failure is final: whether bytes in flight are durable is not known any more, so that every later fence
//     answers false, and status() says which target failed and what to do. The end of any connection is one, as soon as
//     a read or a fence meets it: from then on no worker reads from that target.
//   - A read that is refused here, or is given up, fails nothing else. Its memory is in use until it has ended.
//   - Every wait is bounded by limit_ms; that for a pool's making or resizing begins anew at each sign that the node is
//     at work on it, for at most an hour.
//
// Thread-safety: any thread, but open() and the destructor.
#ifndef BONSAI_SCALE_REMOTE_LINK_H_
#define BONSAI_SCALE_REMOTE_LINK_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/nvm/far_reads.h"
#include "base/nvm/per_thread.h"
#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/credentials.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"
#include "rdma/remote_persist.h"
#include "scale/pool_wire.h"
#include "scale/registered_pool.h"
#include "scale/target_name.h"

namespace bonsai::scale {

struct LinkOptions {
  static constexpr size_t kWorkersMax = 64;

  const rdma::Secret* secret = nullptr;  // null: the nodes are reached without one
  uint64_t limit_ms = 5'000;             // of each wait: for a connection, an answer, a fence
  size_t workers = 4;                    // 1 to kWorkersMax
  uint64_t read_unit_bytes = 0;          // READs end where a unit of a target does (software striping); 0: anywhere
};

class RemoteLink {
 public:
  // What is known of a pool that was opened.
  struct Pool {
    rdma::RemoteRegion region;
    bool emulated = true;
    std::string text;  // e.g. "tmpfs (emulated NVM), flush clwb, domain ADR, over shm"
  };

  // Errors: InvalidArgument (workers), those of Fabric::make_worker().
  static Status make(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options,
                     std::unique_ptr<RemoteLink>* link);
  // Gives the pools back, to all nodes at once: it waits for those that are silent no longer than for one. Requires: no
  // other call is in progress.
  ~RemoteLink();
  RemoteLink(const RemoteLink&) = delete;
  RemoteLink& operator=(const RemoteLink&) = delete;

  // Connects to the target's node and takes the pool; *target is its number here. `bytes` and `mark` as in PoolRequest.
  // Requires: no other call is in progress. Errors: NotFound (kOpen: there is no such pool; the others as Mapping::open
  // gives them on that node), Unavailable (nobody answers there), InvalidArgument (secret).
  Status open(const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark, size_t* target);
  // Gives the pool back and removes it from its node. Requires: as open().
  Status remove(size_t target);
  // Makes the pool so large on its node. Requires: as open(); it has no mirror that is still used.
  // Errors: those of open(), NoSpace; the pool is given back then.
  Status resize(size_t target, uint64_t bytes);
  // Gives a pool that was made by kCreateUnnamed its name; it stays this link's. Requires: as open().
  // Errors: InvalidArgument (it has one), Busy (the name is taken), IoError, Unavailable.
  Status complete(size_t target);

  [[nodiscard]] const Pool& pool(size_t target) const { return targets_[target]->pool; }
  [[nodiscard]] const std::string& text() const { return fabric_->capabilities().text; }

  // Reserves the addresses of a target's mirror; nothing of it can be touched. Requires: once per target, first.
  Status make_mirror(size_t target);
  [[nodiscard]] std::span<std::byte> mirror(size_t target) const { return targets_[target]->mirror; }
  // As base::FarReads has them: opens what is not resident of the mirror, and what was read there is. Requires: one
  // caller at a time for each target.
  Status open_resident(size_t target, uint64_t offset, uint64_t n, std::vector<base::FarReads::Piece>* pieces);
  void close_resident(size_t target, std::span<const base::FarReads::Piece> pieces);
  [[nodiscard]] bool resident(size_t target, uint64_t offset, uint64_t n) const;
  // So many bytes of this node's memory.
  [[nodiscard]] uint64_t resident_bytes(size_t target) const;

  // Reads, as base::FarReads has them.
  [[nodiscard]] base::FarReads::Memory memory(size_t bytes) { return pool_->take(bytes); }
  [[nodiscard]] uint64_t begin_reads(size_t target, std::span<const base::FarReads::Piece> pieces,
                                     std::shared_ptr<const void> holder);
  [[nodiscard]] bool reads_ended(uint64_t ticket, Status* status);
  void forget_reads(uint64_t ticket);
  [[nodiscard]] uint64_t limit_ms() const { return options_.limit_ms; }

  // The calling thread stored the mirror's aligned word at `offset`. Of the words that it stores so and then notes, an
  // earlier one never reaches the target after a later one: stores to one line keep their order.
  void note_store(size_t target, uint64_t offset);
  // The calling thread's next fence makes the mirror's bytes [offset, offset + n) durable on the target. Requires: they
  // are resident.
  void note(size_t target, uint64_t offset, uint64_t n);
  // The same of a copy of [src, src + n), for bytes that are not resident. Requires: of several copies that share bytes
  // only the last one counts.
  void note_copy(size_t target, uint64_t offset, const void* src, size_t n);
  // False: something may not be durable, now or at an earlier fence of any thread.
  [[nodiscard]] bool fence();

  // Why fences fail; OK as long as none did.
  [[nodiscard]] Status status() const;

  // Many threads write to [offset, offset + n), mostly each to a unit of so many bytes of its own: from now on units
  // take turns among the workers, those with the same number of several ranges at the same one. Requires: ranges are
  // disjoint and in rising order; no write to this one is noted.
  void spread(size_t target, uint64_t offset, uint64_t n, uint64_t unit_bytes);

  // Requests of all threads since the link was made.
  [[nodiscard]] rdma::Traffic traffic() const;
  // To nodes, of all workers. Requires: as open().
  [[nodiscard]] size_t connections() const;

 private:
  // The place of a copy that was noted. Under the target's copies_mutex.
  struct Place {
    uint64_t begin, end;
    bool given_up = false;
  };
  struct Range {
    size_t target;
    uint64_t offset, bytes;
    bool apart;                                 // it holds words whose order counts: it joins no other
    std::shared_ptr<std::byte> copy = nullptr;  // what is written, if it is not resident
    std::shared_ptr<Place> place = nullptr;     // and all of where it goes
  };
  // What one connection is to carry.
  struct Queue {
    size_t target, lane;
    std::vector<Range> ranges;
  };
  struct Posted {
    size_t target, lane;
    size_t ticket;
    uint64_t number;                                      // in the order in which its thread posted
    std::vector<std::shared_ptr<std::byte>> copies = {};  // that are being written
  };
  // One thread's. Coroutines of the thread share it, so no reference into it is kept where siblings may run.
  struct Noted {
    explicit Noted(uint32_t) {}
    std::vector<Range> stores;   // words, the last kStoresMax that were not noted yet
    std::vector<Queue> queues;   // not posted yet; some may be empty
    std::vector<Posted> posted;  // and not known to have ended
    uint64_t lanes = 0;          // by bit: those that have something in a queue or posted
    uint64_t numbers = 0;
  };
  struct Resident {
    std::unique_ptr<rdma::Region> region;
    bool read = false;  // it is there
  };
  struct SpreadRange {
    uint64_t offset, bytes, unit_bytes;
  };
  // What a request for a pool uses; registered.
  struct Control {
    PoolRequest request;
    PoolAnswer answer;
  };
  struct Target {
    TargetName name;
    Pool pool;
    std::unique_ptr<rdma::RegisteredMemory> control_memory;
    rdma::WorkList request;       // one that was given up is pending until its connection is closed
    rdma::Peer* asked = nullptr;  // where it goes
    std::vector<std::unique_ptr<rdma::RemotePersist>> connections;  // by worker; none: it was given back
    std::atomic<bool> broken{false};                                // one of them has ended
    std::vector<SpreadRange> spread_ranges;
    std::span<std::byte> mirror;
    mutable std::mutex residents_mutex;
    std::map<uint64_t, Resident> residents;  // by offset, disjoint
    std::mutex copies_mutex;
    std::map<uint64_t, std::shared_ptr<Place>> copies;  // that are not posted, by offset, disjoint
    ~Target() { drop_mirror(); }
    void drop_mirror();
    [[nodiscard]] Control& control() const { return *reinterpret_cast<Control*>(control_memory->data()); }
    [[nodiscard]] uint64_t answer_word(size_t offset) const;
    [[nodiscard]] bool answered() const;
  };
  struct ReadList {
    std::unique_ptr<rdma::WorkList> list;
    uint64_t bytes;
  };
  // The reads of one ticket.
  struct Reading {
    size_t target;
    std::vector<ReadList> lists;
    size_t posted = 0;  // of them
    std::shared_ptr<const void> holder;
    bool forgotten = false;
    Status refused = {};  // why some were not posted
  };
  // A worker, what it carries, and the lock for that.
  struct Lane {
    base::YieldingMutex mutex{"link.worker"};
    std::unique_ptr<rdma::Worker> worker;
    std::map<uint64_t, Reading> readings;  // by ticket, which also says the lane
    uint64_t tickets = 0;
    std::vector<std::unique_ptr<rdma::WorkList>> spare_lists;  // empty ones, at most kSpareListsMax
    std::vector<std::shared_ptr<std::byte>> lost_copies;  // of writes that failed: in use until the peers are closed
  };
  RemoteLink(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options)
      : fabric_(std::move(fabric)), options_(options) {}

  Status start();
  Status connect(rdma::Worker* worker, const TargetName& name, std::unique_ptr<rdma::Peer>* peer);
  Status write_request(Target* of, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark);
  Status await_answers(std::span<Target* const> targets);
  // After Unavailable the request may be in flight until the peer is closed.
  Status ask(Target* of, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark, PoolAnswer* answer);
  Status release(size_t target, PoolOp op);
  void close_all();
  [[nodiscard]] Pool pool_of(const PoolAnswer& answer) const;
  void fail(size_t target, size_t lane, const Status& status);
  void fail_as(const Target& target, std::string_view what, const Status& status);
  void note_broken(Target* target, size_t lane, const Status& status);
  [[nodiscard]] size_t lane_of_caller() const;
  [[nodiscard]] size_t lane_of(const Target& target, uint64_t offset, uint64_t* n) const;
  Status open_gap(Target* of, uint64_t offset, uint64_t n);
  [[nodiscard]] rdma::Slice resident_slice(const Target& target, uint64_t offset, uint64_t n) const;
  [[nodiscard]] rdma::Slice slice_to(const Target& target, std::byte* to, uint64_t n) const;
  static void add_read(Lane* lane, Reading* reading, rdma::Peer* peer, rdma::Remote from, const rdma::Slice& to);
  static void post_reads(const Lane& lane, Reading* reading);
  static void end_reading(Lane* lane, std::map<uint64_t, Reading>::iterator at);
  static void drop_forgotten(Lane* lane);
  void note_range(Noted* mine, Range range);
  static void add_to(Queue* queue, Range range);
  std::shared_ptr<Place> claim_place(size_t target, uint64_t offset, uint64_t n);
  static void give_up_copies(Target* target, uint64_t offset, uint64_t n);
  void drop_given_up(Queue* queue);
  void forget_place(size_t target, const Range& range);
  void post(Noted* mine, size_t lane);
  bool post_next(Noted* mine, Queue* queue);
  void look(Noted* mine, size_t lane);
  [[nodiscard]] static std::optional<size_t> target_of(const Noted& mine, size_t lane);

  const std::shared_ptr<rdma::Fabric> fabric_;
  const LinkOptions options_;
  uint32_t node_ = 0;
  uint64_t tokens_ = 0;
  std::shared_ptr<RegisteredPool> pool_;
  base::PerThread<Noted> noted_;
  std::atomic<bool> failed_{false};
  mutable std::mutex status_mutex_;
  Status status_;
  std::vector<std::unique_ptr<Lane>> lanes_;      // fixed once made
  std::vector<std::unique_ptr<Target>> targets_;  // fixed once the store is open
  // Of requests to open one that were not answered in time. A later answer may come over another target's connection,
  // which would end if the answer found no memory.
  std::vector<std::unique_ptr<Target>> given_up_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REMOTE_LINK_H_
