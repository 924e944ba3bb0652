// SPDX-License-Identifier: Apache-2.0
// Defragments the data area. It is needed when no free piece is long enough for a dnode, although the free space
// suffices in sum. Then the relocation reserve (held by Space) moves through the area: run after run is copied across
// it, and the free blocks between the runs join it, until a long enough part of it can be freed. Where a block cannot
// move, another stretch becomes the reserve, and its runs move into the old one.
//
// Only runs move, one at a time. Header slots, large values and log segments stay. To move a run is to write its dnode
// again, with the same range, generation and entries. So no record of the log changes its meaning, and a crash
// When: only inside run(), which offloading calls when it finds no space.
// The defragmenter does not know the owners of dnodes: a callback (Owners, by an index or a test) names them.
//
// Invariants
//  - a run's old place is reused only after the new dnode is durable, the owner has exchanged the two, the old dnode is
//    durably retired, and all guards that were alive at the exchange have ended;
//  - the reserve stays long enough to let a run cross, so that a full pool can always be offloaded. An exchange that
//    had to be given up may shorten it; the next exchanges let it grow again;
//  - after a failed fence nothing is moved, and neither place of the run in flight is reused.
//
// Thread-safety: all methods; a concurrent second call returns false. Memory ordering: nothing is shared with readers
// here. A moved dnode is complete before Owners::exchange() publishes it, which must release it to them; the old one is
// retired to the epoch domain after that, so that a reader that loaded it inside a guard may read it and its run until
// that guard ends.
#ifndef BONSAI_PERSIST_DEFRAGMENTER_H_
#define BONSAI_PERSIST_DEFRAGMENTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/epoch.h"
#include "base/thread.h"
#include "persist/dnode_store.h"

namespace bonsai::persist {

class Defragmenter {
 public:
  // The owners of dnodes that may be moved, for one run(). Called only by its thread, always inside a guard.
  class Owners {
   public:
    using Visit = std::function<void(size_t owner, const Dnode& dnode)>;
    // Calls visit() once for each owner that has a dnode, under a number of the caller's choice. This is a first
    // survey: dnodes that other threads replace or add meanwhile are not moved. Called once, before anything else.
    virtual void for_each(const Visit& visit) = 0;
    // Until release() no other thread replaces the dnode of this owner, or of its present successor. True also if this
    // caller already holds it. False: another thread is replacing it.
    virtual bool hold(size_t owner) = 0;
    // The owner's present dnode; null if it must not be moved. Requires: it is held.
    virtual const Dnode* dnode(size_t owner) = 0;
    // Replaces dnode(owner) by `moved`, which is durable, for readers and as the owner's. Requires: it is held.
    virtual void exchange(size_t owner, const Dnode* moved) = 0;
    // Ends all calls of hold(), failed ones included.
    virtual void release() = 0;

   protected:
    ~Owners() = default;
  };

  // Requires: both outlive it.
  Defragmenter(DnodeStore& store, base::EpochDomain& epochs) : store_(store), epochs_(epochs) {}
  Defragmenter(const Defragmenter&) = delete;
  Defragmenter& operator=(const Defragmenter&) = delete;

  // Moves runs until a free piece has `bytes_wanted`. False: the longest one has not become longer, or another thread
  // is defragmenting. Waits for readers, boundedly. Requires: the caller is outside any guard.
  bool run(Owners* owners, uint64_t bytes_wanted);

  // Calls work() while the reserve is lent to offloading threads (Space::lend_relocation_reserve). False, without
  // calling it: another thread uses the reserve.
  template <class Work>
  bool with_reserve_lent(Work work) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    store_.space().lend_relocation_reserve(true);
    work();
    store_.space().lend_relocation_reserve(false);
    return true;
  }

 private:
  class Pass;

  DnodeStore& store_;
  base::EpochDomain& epochs_;
  base::YieldingMutex mutex_{"relocation reserve"};
  bool upwards_ = true;  // direction of the reserve; under the mutex
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_DEFRAGMENTER_H_
