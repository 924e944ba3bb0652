// SPDX-License-Identifier: Apache-2.0
// The index tier: an ordered map from keys to updates in DRAM over dnodes, with atomic snapshots.
//
// The put protocol is *reserve -> persist -> publish -> version*, as model-checked (docs/put-protocol.md); each event
// has a file of its own: put.cc, batch.cc, read.cc; the Replacer does the rest (replacer.h).
//
// Invariants (besides those of node.h, versions.h, bnode.h)
//  1. Below a possibly unversioned head all nodes are versioned; down a chain versions never rise, tokens fall.
//  2. Published (for a batch: ready) => its record is durable. Record dead => its value or a later one is in a durable
//     dnode, or superseded by a durable record.
//  3. A frozen bnode's heads never change; its successors become reachable only after that.
//  4. Unlinked => no registered scan picks the node, and every later scan has a version >= that of the node above it.
//
// Progress: reads are wait-free; puts are lock-free except for back-pressure (Outcome::kLogFull, kStalled).
//
// Thread-safety: all methods unless stated otherwise. Methods that follow shared pointers require the caller to be
// inside a guard of `epochs`, and to leave it between attempts that did not finish.
#ifndef BONSAI_INDEX_INDEX_H_
#define BONSAI_INDEX_INDEX_H_

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/epoch.h"
#include "base/key.h"
#include "base/step.h"
#include "bonsai/rows.h"
#include "bonsai/status.h"
#include "index/bnode.h"
#include "index/compaction_queue.h"
#include "index/replacer.h"
#include "index/tree.h"
#include "index/versions.h"
#include "persist/dnode_cursor.h"
#include "persist/dnode_search.h"
#include "persist/dnode_store.h"
#include "persist/large.h"
#include "persist/log.h"
#include "persist/pool.h"
#include "persist/recovery.h"

namespace bonsai::index {

class Index {
 public:
  struct Config {
    persist::Limits limits;
    size_t snapshots_max = SIZE_MAX;
    uint32_t tokens_max = uint32_t{1} << 31;  // updates that a bnode takes before it is replaced
  };

  // Requires: all references outlive the index.
  Index(Config config, persist::Log& log, persist::DnodeStore& dnodes, persist::LargeStore& large,
        base::EpochDomain& epochs);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // Adopts the result of recovery, on `threads` threads. Requires: called once, before anything else; gen is above all
  // earlier ones.
  void start(std::vector<persist::RecoveredRange> ranges, uint64_t gen, unsigned threads = 1);

  // ---- updates (put.cc, batch.cc)

  enum class Outcome {
    kDone,
    kLogFull,  // no log segment: offload, then call again with the same arguments
    kStalled,  // the bnode is full and its predecessor's offload unfinished: offload, then call again
    kFailed,   // the volume has failed: recovery may or may not find the update
  };

  // One update in flight; it survives unfinished attempts. Between attempts it holds nothing, in particular no log
  // segment that others wait for, so it may be abandoned by destroying it. Requires: the views outlive it.
  struct Put {
    base::Key key;
    std::string_view value;
    bool tombstone = false;
    bool large = false;
    persist::Log::Use use = persist::Log::Use::kOrdinary;
    uint32_t record_segment = persist::kNoSegment;  // kept alive by an unpublished record, inside put()
    bool recorded = false;  // an attempt has made a record durable: to give up now would leave the outcome unknown
  };
  Outcome put(Put* put);
  // Puts several updates; those of one key take effect in this order. Their cache misses overlap, and one log record
  // and fence make them durable together. Not atomic as a whole.
  // Returns how many are done from the first on; if not all, *outcome has the reason, and the rest must be put again.
  // Requires: at most kPutManyMax.
  static constexpr size_t kPutManyMax = Tree::kFindManyMax;
  size_t put_many(std::span<Put> puts, Outcome* outcome);
  // Publishes a batch (items sorted by key, each key once) atomically, or, if it has conditions, may refuse it: see
  // Batch::cell. The caller keeps its reference and calls again until kDone: a batch that has begun must be completed.
  Outcome write(Batch* batch);
  // Abandons a batch that has not begun (no item has a node) or is refused.
  void dismiss(Batch* batch);
  // Refuses a batch with conditions if it is not decided yet. False: it is.
  static bool give_up(Batch* batch);

  // ---- reads (read.cc)

  enum class Found {
    kValue,
    kAbsent,
    kDamaged,
    kUnavailable,  // a far target did not deliver the bytes
  };
  struct Value {
    std::string_view bytes;  // valid inside the guard; a LargeRef's bytes if `large`
    bool large = false;
    bool from_dnode = false;

    // One by one: to assign a fresh struct as a whole waits for its bytes.
    void set(std::string_view new_bytes, bool is_large, bool is_from_dnode) {
      bytes = new_bytes;
      large = is_large;
      from_dnode = is_from_dnode;
    }
  };
  struct Lookup {
    base::Key key;
    Found found = Found::kAbsent;  // the result
    Value value = {};
  };
  // The value of the lookup's key as of `version` (kLatest: now).
  void get(uint64_t version, Lookup* lookup);
  // Looks up many keys, each on its own; their cache misses and reads of NVM overlap.
  class Asker {
   public:
    // Sets *key for the i-th lookup; its bytes must stay until answer(). False: there is no such lookup. Called in the
    // order of i.
    virtual bool key(size_t i, base::Key* key) = 0;
    // Receives the result of the i-th lookup. Called once for each, in any order.
    virtual void answer(size_t i, const Lookup& lookup) = 0;

   protected:
    ~Asker() = default;
  };
  void get_many(uint64_t version, size_t count, Asker* asker);

  // ---- conditional updates (change.cc)

  // A conditional update of one key. Nothing of it is left between attempts. Requires: the views outlive it.
  class Change {
   public:
    base::Key key;
    std::string_view value;
    bool tombstone = false;
    bool large = false;
    persist::Log::Use use = persist::Log::Use::kOrdinary;

    // Whether the update may be made of the key's present value; may set the members above, `key` excepted. `version`:
    // of the present value's node, or below every registered scan's. May be called several times.
    virtual Refusal decide(const Lookup& now, uint64_t version) = 0;

   protected:
    ~Change() = default;
  };
  // Makes the update, or none if it is refused: *why. Any other outcome than kDone: nothing is changed (kFailed: as
  // for a put).
  Outcome change(Change* change, Refusal* why);
  // What a condition says to a value of its key.
  [[nodiscard]] Refusal judge(const Condition& condition, const Lookup& now, uint64_t version) const;
  // Reads a key's value as of `at` (kLatest: now), and its version as Change::decide() gets it.
  void read_versioned(uint64_t at, Lookup* now, uint64_t* version);

  // Calls visit() for each dnode that a read of a key of the bnode at `from` may come to. Returns where the next bnode
  // begins. Requires: `from` is not infinite; a guard, which keeps the dnodes.
  [[nodiscard]] base::Fence visit_dnodes(const base::Fence& from,
                                         const std::function<void(const persist::Dnode&)>& visit) const;

  // ---- scans (read.cc)

  struct Piece {
    Rows rows;
    bool large = false;  // the values are LargeRefs' bytes
  };
  // The records of one bnode's range as of a version; for a scan of few records perhaps only of the range's first part,
  // if that suffices.
  struct Window {
    base::Fence lo, hi;
    boost::container::small_vector<Piece, 32> pieces;    // in key order; bytes valid inside the guard
    persist::Trouble trouble = persist::Trouble::kNone;  // the pieces end before it

    // How the dnodes' entries are verified; set by the caller before a read.
    persist::DnodeCursor::Verify verify = persist::DnodeCursor::Verify::kAlways;

    // Memory of read_window(), kept for the next one.
    std::vector<char> together;  // rows of pieces that were scattered
    std::vector<persist::Entry> updates;
    persist::Merge merge;
  };
  // Reads the first `records_max` records, from `from` on, of the window that contains `from`. `whole`: from the
  // window's beginning. `ahead`: as left by find_starts() or the last call inside this guard. It saves a scan of many
  // windows most searches of the tree, and reads several windows in one list.
  void read_window(const base::Key& from, uint64_t version, bool whole, uint64_t records_max, Window* window,
                   ScanAhead* ahead);
  // Reads the whole window that has the last key below `fence`. Requires: `fence` is not the empty key.
  void read_window_below(const base::Fence& fence, uint64_t version, Window* window);

  // Finds the first bnodes of several short scans that are about to begin. Requires: at most kStartsMax; a guard that
  // is kept as long as the bnodes are used.
  static constexpr size_t kStartsMax = Tree::kFindManyMax;
  void find_starts(std::span<ScanAhead> scans) const;
  // Prefetches the lines that a scan will read, in stages 0, 1, ... Each stage reads lines that the last one fetched,
  // so do other work in between.
  static constexpr size_t kStartStages = 4;
  void prefetch_start(ScanAhead* scan, size_t stage) const;

  [[nodiscard]] Versions::Registration register_scan() { return versions_.register_scan(); }

  // ---- background, see Replacer; any thread, outside a guard

  using OffloadResult = Replacer::OffloadResult;
  using Which = Replacer::Which;
  OffloadResult offload(size_t ranges_max, Which which) { return replacer_.offload(ranges_max, which); }
  bool defragment() { return replacer_.defragment(); }
  OffloadResult offload_into_reserve(Which which) { return replacer_.offload_into_reserve(which); }
  bool ask_for_compactions(size_t ranges_max) { return replacer_.ask_for_compactions(ranges_max); }
  bool tidy(size_t ranges_max) { return replacer_.tidy(ranges_max); }
  [[nodiscard]] const Work& work() const { return replacer_.work(); }
  // True while there are updates that are not in dnodes yet.
  [[nodiscard]] bool dirty() const { return queue_.dirty(); }
  // Ranges with updates that no replacement has taken on yet.
  [[nodiscard]] uint64_t dirty_ranges() const { return queue_.waiting(ReplaceQueue::Kind::kDirty); }
  // The approximate number of all ranges with updates.
  [[nodiscard]] uint64_t ranges_to_offload() const { return queue_.ranges(); }
  // Offloading should begin at once (ReplaceQueue::urgent).
  [[nodiscard]] bool urgent() const { return queue_.urgent(); }
  // Reads have asked for dnodes to be compacted.
  [[nodiscard]] bool compaction_wanted() const { return !compactions_.empty(); }

  // The memory of a bnode of the tree, with its successors, which the tree may not name yet.
  [[nodiscard]] static uint64_t dram_bytes(const Bnode& bnode);

  [[nodiscard]] base::EpochDomain& epochs() { return epochs_; }
  [[nodiscard]] const Tree& tree() const { return tree_; }

 private:
  // put.cc
  enum class Push {
    kPublished,
    kSuperseded,
    kOvertaken,  // by an update that depends on what is below it: take a newer token, and write a newer record
    kFrozen,
    kFull,
    kStalled
  };
  static Bnode* newest_successor(Bnode* bnode, const base::Key& key);
  Bnode* current_bnode(const base::Key& key) const;
  enum class Fetch { kUpdates, kUpdatesAndDnode };
  void current_bnodes(std::span<const base::Key> keys, Fetch fetch, std::span<uint64_t> hashes,
                      std::span<Bnode*> bnodes) const;
  [[nodiscard]] bool no_room(const Bnode& bnode, const Slots& slots, const Slots::Place& place) const;
  struct Reservation {
    Bnode* bnode;
    Slots* slots;
    uint64_t hash;
    Slots::Place place;  // of the key when it was looked for
    void* cell;          // for the node; null: it is to be a block
    uint32_t token;
  };
  Bnode::Reserved take_token(Bnode* bnode, Slots* slots, size_t node_bytes);
  bool reserve(Bnode* bnode, uint64_t hash, const Put& put, Reservation* reserved);
  size_t put_in_turn(std::span<Put> puts, Outcome* outcome);
  static Outcome outcome_of(persist::Log::Result result);
  void persisted(uint32_t segment, Put* put);
  void unpin(Put* put);
  template <size_t kMax>
  struct Group;
  template <size_t kMax>
  size_t attempt(Group<kMax>* group, Push* why);
  template <size_t kMax>
  Outcome persist_record(const Group<kMax>& group);
  template <size_t kMax>
  static void leave_equal_keys_alone(Group<kMax>* group, size_t done);
  template <size_t kMax>
  size_t publish_in_turn(const Group<kMax>& group, size_t first, Push* why);
  Push publish(const Reservation& reserved, const Put& put);
  bool push(Bnode* bnode, Slots* slots, const Slots::Place& place, uint64_t hash, Node* node);
  Push publish(const Reservation& reserved, const base::Key& key, Node* node);
  Slots* slots_of(Bnode* bnode, size_t node_bytes);
  static Push fate_under(Node* head, uint32_t token);
  Outcome settle_head(Node* head, uint64_t gen);
  struct HeadBelow {
    Node* head = nullptr;
    uint64_t gen = 0;  // of its bnode
  };
  HeadBelow unsettled_below(Bnode* bnode, const base::Key& key, uint64_t hash) const;
  void prune(Slots* slots, uint32_t index, Node* own);
  void drop(Node* node);

  // batch.cc
  bool admit(Batch* batch);
  Outcome complete(Batch* batch, persist::Log::Use use);
  Outcome publish_item(Batch* batch, size_t i);
  Outcome make_durable(Batch* batch, persist::Log::Use use);
  Outcome make_shares_durable(Batch* batch, std::span<const persist::Update> updates);
  Outcome push_item(Batch* batch, size_t i, bool* done);

  // change.cc
  class Pushing;
  Outcome make_durable(Node* node, uint64_t gen);
  void recorded(Node* node, uint32_t segment);
  Outcome settle_newest(Bnode* bnode, Node* head, const base::Key& key, uint64_t hash);
  Push attempt(Bnode* bnode, uint64_t hash, Change* change, Refusal* why, Outcome* durable);
  void read_from(Bnode* bnode, Node* head, uint64_t hash, uint64_t at, Lookup* now, uint64_t* version);
  bool refuse(Batch* batch, const Batch::Item& item, Bnode* bnode, Node* head, uint64_t hash);

  // read.cc
  Node* visible(Node* head, uint64_t version);
  bool find_update(const Bnode& bnode, const base::Key& key, uint64_t hash, uint64_t version, Lookup* lookup);
  static void answer(persist::Find found, const persist::Entry& entry, Lookup* lookup);
  void note_get(Bnode* bnode, const persist::Dnode& dnode, uint64_t hash);
  void note_scan(Bnode* bnode, const persist::Dnode& dnode);
  void take_metadata(const base::Key& key, const persist::Dnode& dnode, persist::RunReader* reader) {
    if (!dnode.uploaded() && reader->has(dnode.runs())) [[unlikely]]
      upload_metadata(key, dnode, reader);
  }
  void upload_metadata(const base::Key& key, const persist::Dnode& dnode, persist::RunReader* reader);
  void search_dnode(const persist::Dnode& dnode, uint64_t hash, Lookup* lookup);
  void get_from_dnode(const persist::Dnode& dnode, uint64_t hash, Lookup* lookup);
  void get_from(Bnode* bnode, uint64_t hash, uint64_t version, Lookup* lookup);
  class Gets;
  struct Layered;
  struct Collected;
  class Pieces;
  static bool read_together(persist::DnodeCursor* cursor, const Collected& all, uint64_t records_max, Window* window);
  void collect_updates(const Bnode& bnode, uint32_t depth, const Window& window, const base::Key& from,
                       uint64_t version, Collected* all);
  void collect(const Bnode& bnode, const Window& window, const base::Key& from, uint64_t version, Collected* all);
  std::span<const char> prefetch_following(const ScanAhead& ahead) const;
  void read_few(Bnode* bnode, const persist::Dnode& dnode, const base::Key& start, uint64_t version,
                uint64_t records_max, persist::RunReader* reader, const persist::Dnode::Located& located,
                Window* window);
  void read_runs_ahead(const Bnode& first, uint64_t records_max, ScanAhead* ahead) const;
  void read_range(Bnode* bnode, const base::Key& from, uint64_t version, bool whole, uint64_t records_max,
                  persist::RunReader* reader, const persist::Dnode::Located& located, Window* window);

  // index.cc
  Bnode* recovered(persist::RecoveredRange range, uint64_t gen);

  const Config config_;
  persist::Log& log_;
  persist::DnodeStore& dnodes_;
  persist::LargeStore& large_;
  base::EpochDomain& epochs_;
  Versions versions_;
  Tree tree_;

  static constexpr uint32_t kBatchesMax = 64;  // begun at a time: each may come to help the next, which takes stack

  std::atomic<uint32_t> batch_owners_{0};  // that have reserved log space
  ReplaceQueue queue_;
  CompactionQueue compactions_;
  Replacer replacer_;
};

// A token of the bnode, and memory of its table for a node of `node_bytes` (null: allocate it as a block), as
// Bnode::reserve. Queues the bnode if this took it above the high-water mark. Inline, as every update takes one.
inline Bnode::Reserved Index::take_token(Bnode* bnode, Slots* slots, size_t node_bytes) {
  base::step("reserve token");
  bool reached_high_mark = false;
  const Bnode::Reserved reserved = bnode->reserve(slots, node_bytes, &reached_high_mark);
  if (reached_high_mark) queue_.enqueue(ReplaceQueue::Kind::kHighMark, bnode);
  return reserved;
}

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_INDEX_H_
