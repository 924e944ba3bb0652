// This node's way to the pools of other nodes, over one fabric: the connections of all remote targets of one store, for
// any number of threads and coroutines.
//
// Bytes are named by target and offset; their source is the target's mirror, this node's copy (remote_target.h). What a
// thread has noted is written and made durable by its fence: one list for each target, all in flight at once.
//
// Invariants
//   - **Writes to a target arrive in the order in which they were posted, and take their bytes from the mirror at or
//     after posting.** One connection for each target carries all of its WRITEs, and posting is one critical section.
//     So of two threads that write one word the later content stays, as in a coherent cache. Writes of one word over
//     two connections could arrive the other way round.
//   - fence() answers true only when everything that its thread had noted before is durable, also what a sibling
//     coroutine's fence of the same thread has posted.
//   - The first failure is final: whether bytes in flight are durable is not known any more, so that every later fence
//     answers false, and status() says which target failed and what to do.
//   - Every wait is bounded by limit_ms.
//
// Thread-safety: any thread, but open() and the destructor.
#ifndef BONSAI_SCALE_REMOTE_LINK_H_
#define BONSAI_SCALE_REMOTE_LINK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/nvm/per_thread.h"
#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/credentials.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"
#include "rdma/remote_persist.h"
#include "scale/pool_wire.h"
#include "scale/target_name.h"

namespace bonsai::scale {

struct LinkOptions {
  const rdma::Secret* secret = nullptr;  // null: the nodes are reached without one
  uint64_t limit_ms = 5'000;             // of each wait: for a connection, an answer, a fence
};

class RemoteLink {
 public:
  // What is known of a pool that was opened.
  struct Pool {
    rdma::RemoteRegion region;
    bool emulated = true;
    std::string text;  // e.g. "tmpfs (emulated NVM), flush clwb, domain ADR, over shm"
  };

  static Status make(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options,
                     std::unique_ptr<RemoteLink>* link);
  // Gives the pools back. Requires: no other call is in progress.
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
  // Gives back a pool whose name ends in kPartialEnding; without that ending it is its name from now on. Requires: as
  // open(). Errors: InvalidArgument (a pool has that name already), IoError, Unavailable.
  Status complete(size_t target);

  [[nodiscard]] const Pool& pool(size_t target) const { return targets_[target]->pool; }
  [[nodiscard]] const std::string& text() const { return fabric_->capabilities().text; }

  // Reserves the mirror of a target: zeros, registered. Requires: once per target, before note().
  Status make_mirror(size_t target);
  [[nodiscard]] std::span<std::byte> mirror(size_t target) const;
  // Reads [offset, offset + n) of the target into its mirror. Errors: Unavailable.
  Status fetch(size_t target, uint64_t offset, uint64_t n);

  // The calling thread stored the mirror's aligned word at `offset`. Of the words that it stores so and then notes, an
  // earlier one never reaches the target after a later one: stores to one line keep their order.
  void note_store(size_t target, uint64_t offset);
  // The calling thread's next fence makes the mirror's bytes [offset, offset + n) durable on the target.
  void note(size_t target, uint64_t offset, uint64_t n);
  // False: something may not be durable, now or at an earlier fence of any thread.
  [[nodiscard]] bool fence();

  // Why fences fail; OK as long as none did.
  [[nodiscard]] Status status() const;

  // Requests of all threads since the link was made.
  [[nodiscard]] rdma::Traffic traffic() const;

 private:
  struct Range {
    size_t target;
    uint64_t offset, bytes;
    bool apart;  // it holds words whose order counts: it joins no other
  };
  struct Posted {
    size_t target;
    size_t ticket;
    uint64_t number;  // in the order in which its thread posted
  };
  // One thread's. Coroutines of the thread share it, so no reference into it is kept where siblings may run.
  struct Noted {
    explicit Noted(uint32_t) {}
    std::vector<Range> stores;   // words, the last kStoresMax that were not noted yet
    std::vector<Range> ranges;   // not posted yet
    std::vector<Posted> posted;  // and not known to have ended
    uint64_t numbers = 0;
  };
  struct Target {
    TargetName name;
    Pool pool;
    std::unique_ptr<rdma::RemotePersist> persist;
    std::unique_ptr<rdma::RegisteredMemory> mirror;
  };
  // What a request for a pool uses; registered.
  struct Control {
    PoolRequest request;
    PoolAnswer answer;
  };

  RemoteLink(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options)
      : fabric_(std::move(fabric)), options_(options) {}

  Status start();
  Status connect(const TargetName& name, std::unique_ptr<rdma::Peer>* peer);
  Status begin_list();
  // After Unavailable the request may be in flight until the peer is closed.
  Status ask(rdma::Peer* peer, const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark, PoolAnswer* answer);
  Status release(size_t target, PoolOp op);
  [[nodiscard]] Pool pool_of(const PoolAnswer& answer) const;
  void fail(size_t target, const Status& status);
  static void note_range(Noted* mine, const Range& range);
  void post(Noted* mine);
  bool post_next(Noted* mine);
  void look(Noted* mine);

  const std::shared_ptr<rdma::Fabric> fabric_;
  const LinkOptions options_;
  uint32_t node_ = 0;
  uint64_t tokens_ = 0;
  base::PerThread<Noted> noted_;
  std::atomic<bool> failed_{false};

  mutable base::YieldingMutex mutex_{"link.worker"};  // for what follows
  Status status_;
  std::unique_ptr<rdma::RegisteredMemory> control_;
  rdma::WorkList list_;  // of a request or a fetch; one that was given up is pending until its connection is closed
  std::unique_ptr<rdma::Worker> worker_;
  std::vector<std::unique_ptr<Target>> targets_;  // fixed once the store is open
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REMOTE_LINK_H_
