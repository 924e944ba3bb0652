// SPDX-License-Identifier: Apache-2.0
// Replacement, second half: moving the updates of frozen bnodes into new dnodes, many ranges at a time.
//
// Order of events, per group of ranges (docs/put-protocol.md, replace):
//   every head of the old bnodes has a version -> registrations are read -> contents of the new dnodes and of the
//   residues (old versions that live scans need) are collected -> new dnodes durable -> successors' bases switched ->
//   tree updated -> predecessors retired durably -> their log records dead -> memory and space freed after a grace
//   period
//
// One group costs three fences, however many ranges it has. Not thread-safe; lives inside one epoch guard.
#ifndef BONSAI_INDEX_OFFLOAD_H_
#define BONSAI_INDEX_OFFLOAD_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bonsai/status.h"
#include "index/replacer.h"
#include "persist/merge.h"
#include "persist/run_reader.h"

namespace bonsai::index {

// The dnode of a bnode, or under its residue. Requires: it has no layer below.
inline const persist::Dnode& dnode_under(const Bnode& bnode) {
  const Base base = bnode.base();
  return base.residue() != nullptr ? *base.residue()->base().dnode() : *base.dnode();
}

class Replacer::Offload {
 public:
  explicit Offload(Replacer& replacer) : replacer_(replacer), writer_(replacer.dnodes_) {}
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  // A new reader for the runs of the layers that are about to be planned and added. It drops the last reader and its
  // bytes.
  [[nodiscard]] persist::RunReader& fresh_reader() { return reader_.emplace(replacer_.dnodes_.volume()); }
  // Reads, in one list, the carried runs that add() is likely to need for these layers and that are not here yet.
  void expect(std::span<Layer* const> layers);
  // Takes in an installed layer. Errors, each leaving the layer as it was: NoSpace, Corruption (its old dnode),
  // Unavailable (its old dnode cannot be read now), Busy (a batch on it cannot be completed yet, or a pruner was
  // preempted: add it again later). Requires: its predecessor is offloaded; a fresh reader was made since the last
  // commit().
  Status add(Layer* layer);
  [[nodiscard]] size_t size() const { return jobs_.size(); }

  // Bytes that the last commit() wrote.
  [[nodiscard]] uint64_t media_bytes() const { return media_bytes_; }
  // Makes everything that was added durable and makes it the successors' base. Errors: Unavailable (mode buffered: the
  // epoch could not be closed): the layers are appended to *again; IoError (the volume has failed): likewise, or the
  // new dnodes are the successors' bases, and the old ones and their log records are kept, too.
  Status commit(std::vector<Layer*>* again);

 private:
  // The updates of one key, newest first: of the bnode, then of its residue.
  struct Chain {
    base::Key key;
    Node* updates;  // heads, one of them perhaps null
    Node* residue;

    [[nodiscard]] const Node& newest() const { return updates != nullptr ? *updates : *residue; }
    [[nodiscard]] bool single() const {
      return newest().next.load(std::memory_order_acquire) == nullptr && (updates == nullptr || residue == nullptr);
    }
    template <class Visit>
    void for_each_older(Visit visit) const {
      for (const Node* head : {updates, residue}) {
        for (const Node* node = head; node != nullptr; node = node->next.load(std::memory_order_acquire)) {
          if (node != &newest() && !node->passed()) visit(*node);
        }
      }
    }
  };
  struct Piece {
    Bnode* successor = nullptr;
    persist::Dnode* dnode = nullptr;  // the writer's until commit
    bool kept_runs = false;           // it has taken over those of its predecessor
    std::unique_ptr<Bnode> residue;
  };
  struct Job {
    Layer* layer;
    std::vector<Piece> pieces;
    std::vector<uint32_t> records;  // that die, by segment
    std::vector<persist::LargeRef> dropped;
    uint64_t updates = 0;
    uint64_t compactions = 0;
  };
  struct Garbage;
  static constexpr uint64_t kPrunerWaitMsMax = 1000;

  Status settle(Layer* layer);
  static Status lock_chains(Layer* layer);
  void collect(const Bnode& old, Job* job);
  Status build(Job* job);
  Status build_piece(Job* job, Bnode* successor, std::span<const Chain> chains);
  bool likely_appends(const Layer& layer) const;
  bool may_append(const Layer& layer, const policy::Weight& updates) const;
  bool append_suffices(const Layer& layer, const std::vector<persist::Entry>& updates) const;
  Status append(const Job& job, const Bnode& successor, uint64_t gen, const persist::Dnode& old,
                const std::vector<persist::Entry>& updates, persist::Dnode** dnode);
  Status merge(const persist::Dnode& dnode, const Bnode& successor, const std::vector<persist::Entry>& updates,
               std::vector<persist::Entry>::const_iterator* update, std::vector<persist::Entry>* merged);
  Status carry(Job* job, const Chain& chain, std::vector<std::vector<Node*>>* carried);
  void make_residue(Piece* piece, const std::vector<std::vector<Node*>>& carried);
  void fetch_paths() const;
  void switch_over(Job* job);
  void put_back(std::vector<Layer*>* again);
  enum class Predecessors { kGivenBack, kKept };  // on NVM
  void release_layer(Job* job, Predecessors predecessors);

  Replacer& replacer_;
  persist::DnodeWriter writer_;
  std::vector<Job> jobs_;
  uint64_t media_bytes_ = 0;
  LiveScans live_;
  // Buffers of the job that is being added; members, so that their memory is reused.
  std::vector<Chain> chains_;  // in key order
  std::vector<persist::Entry> updates_, newest_, merged_;
  persist::Merge merge_;
  std::optional<persist::RunReader> reader_;
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_OFFLOAD_H_
