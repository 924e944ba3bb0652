// SPDX-License-Identifier: Apache-2.0
// Replaces bnodes by successors, and moves the updates of replaced bnodes into dnodes: the second half of an update's
// life, after its put has returned. In the order of events (docs/put-protocol.md, replace):
//   plan (name the successors) -> freeze -> install (puts go to the successors) -> offload (offload.h: merge, make
//   durable, switch, retire) -> tidy (old versions, missing metadata)
// The first three are short, done by the background or by a writer that finds its bnode full; the rest by the
// background alone. Pending work is in a ReplaceQueue and, on request of reads, in a CompactionQueue.
//
// Guarantees: the values that gets and snapshots find do not change; a record dies only when its value, or a later one,
// is in a durable dnode; a crash at any moment loses no acknowledged update.
// Thread-safety: all methods. Those under "background" enter guards of their own and are called outside any; those
// under "writers" need the caller's guard. Memory ordering: bnode.h; docs/put-protocol.md, section 8.
#ifndef BONSAI_INDEX_REPLACER_H_
#define BONSAI_INDEX_REPLACER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/epoch.h"
#include "base/key.h"
#include "bonsai/status.h"
#include "index/bnode.h"
#include "index/compaction_queue.h"
#include "index/policy.h"
#include "index/replace_queue.h"
#include "index/tree.h"
#include "index/versions.h"
#include "persist/defragmenter.h"
#include "persist/dnode_store.h"
#include "persist/large.h"
#include "persist/log.h"
#include "persist/pool.h"

namespace bonsai::index {

// Counters of the tier's background work; monotonic.
struct Work {
  std::atomic<uint64_t> offloads{0}, splits{0}, merges{0}, compactions{0}, updates_offloaded{0};
  std::atomic<uint64_t> offload_ns{0};                               // summed over all offloading threads
  std::atomic<uint64_t> moves{0};                                    // runs moved by defragmenting
  std::atomic<uint64_t> plans_by_writers{0}, plan_ns_of_writers{0};  // bnodes that a writer found full and replaced
};

class Replacer {
 public:
  // The tiers that it works on.
  struct Tiers {
    persist::Log& log;
    persist::DnodeStore& dnodes;
    persist::LargeStore& large;
    base::EpochDomain& epochs;
    Versions& versions;
    Tree& tree;
    ReplaceQueue& queue;
    CompactionQueue& compactions;
  };
  // settle_head(head, gen) gives a head in a bnode of generation `gen` its version; it completes the batch that it
  // belongs to, or makes its record. False: that cannot be done now. Requires: all tiers outlive it.
  Replacer(const Tiers& tiers, const persist::Limits& limits, std::function<bool(Node*, uint64_t)> settle_head);
  ~Replacer();
  Replacer(const Replacer&) = delete;
  Replacer& operator=(const Replacer&) = delete;

  // ---- writers

  // The items that a batch has left to publish, from one item on.
  struct ToPublish {
    std::span<const Batch::Item> items;
    bool begun;  // it must not wait any more

    // The items of one range, which ends at `hi`. Requires: the first item is in it.
    [[nodiscard]] std::span<const Batch::Item> below(const base::Fence& hi) const;
  };
  // Makes room for updates in a successor of the bnode. `left`: null, or the rest of a batch that found no room. False:
  // the caller must wait, because the bnode's predecessor is not offloaded yet or another thread is planning.
  bool make_room(Bnode* bnode, const ToPublish* left);

  // ---- background

  struct OffloadResult {
    size_t ranges = 0;         // ranges offloaded
    uint64_t media_bytes = 0;  // bytes written for them
    Status status;  // NoSpace: the data area is full; what was begun is kept and tried again. IoError: the volume has
                    // failed; what was begun is kept, for reads. Unavailable: some target cannot be read now, or in
                    // mode buffered the epoch not be closed; it is tried again
  };
  // kUrgent: ranges that writers wait for, then those whose bnodes are above the high-water mark; kAll: these, then the
  // longest dirty; kCompactions: ranges that reads want compacted.
  enum class Which { kUrgent, kAll, kCompactions };
  // Offloads up to `ranges_max` ranges.
  OffloadResult offload(size_t ranges_max, Which which);
  // Defragments the data area (persist/defragmenter.h), to be called when offloading finds no space. False: no
  // longer free piece was gained, or another thread is defragmenting. Waits for readers, boundedly.
  bool defragment();
  // Offloads one range into the relocation reserve, as a last resort after defragment() failed: the range's old dnode
  // then frees as much room elsewhere. Does nothing, without an error, while another thread uses the reserve.
  OffloadResult offload_into_reserve(Which which);
  // Requests the compaction of ranges without updates, as reads do: examines up to `ranges_max` ranges, starting where
  // the last call ended. Does nothing while there was no offload since all ranges were examined. False: nothing is left
  // to be examined.
  bool ask_for_compactions(size_t ranges_max);
  // Releases residues that no live scan needs, and builds missing dnode metadata. Bounded per call; returns true when a
  // whole pass found nothing to do.
  bool tidy(size_t ranges_max);
  // Builds the metadata of a dnode that recovery has found. Runs that the reader has are not read again. False if there
  // is nothing to do: another thread is replacing the bnode, or the dnode is damaged. Requires: an epoch guard.
  bool upload_metadata(Bnode* bnode, const persist::Dnode* plain, persist::RunReader* reader);
  [[nodiscard]] const Work& work() const { return work_; }

 private:
  class Offload;
  class Jobs;
  class DnodeOwners;

  // replace.cc
  [[nodiscard]] bool space_is_short() const;
  [[nodiscard]] policy::Facts facts_of(const Bnode& bnode, bool carries) const;
  void expect_to_plan(const Bnode& bnode, persist::RunReader* reader) const;
  Status plan(Bnode* bnode, bool may_merge, persist::RunReader* reader);
  bool plan_for_batch(Bnode* bnode, const ToPublish& left);
  template <class CapacityOf>
  static void make_successors(Layer* layer, const std::vector<std::string>& cuts, CapacityOf capacity_of);
  void install(Layer* layer);

  // replacer.cc
  OffloadResult offload_some(size_t ranges_max, Which which);
  std::unique_ptr<Offload> take_offload();
  void keep_offload(std::unique_ptr<Offload> offload);

  // replace.cc
  void drop_residue(Bnode* bnode);
  void release_residue(Bnode* bnode);

  static constexpr uint64_t kDnodesDefragmented = 2;  // room for this many of the largest

  const persist::Limits limits_;
  const std::function<bool(Node*, uint64_t)> settle_head_;
  persist::Log& log_;
  persist::DnodeStore& dnodes_;
  persist::LargeStore& large_;
  base::EpochDomain& epochs_;
  Versions& versions_;
  Tree& tree_;
  ReplaceQueue& queue_;
  CompactionQueue& compactions_;
  Work work_;
  std::mutex background_mutex_;                          // background only
  std::vector<std::unique_ptr<Offload>> idle_offloads_;  // kept for their memory; under it
  struct TidyPass {
    uint64_t untidy = 0;  // when it began
    bool idle = true;     // so far
  };
  std::atomic<uint64_t> untidy_{1};  // counts events that give tidy() work
  uint64_t tidied_ = 0;              // a whole pass that began with this found nothing; under the mutex, as all below
  base::Fence tidy_at_;
  TidyPass tidy_pass_;
  base::Fence ask_at_;           // where ask_for_compactions() goes on
  uint64_t ask_offloads_ = 0;    // when its pass began
  uint64_t asked_offloads_ = 0;  // when the last pass that has ended began
  persist::Defragmenter defragmenter_;
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_REPLACER_H_
