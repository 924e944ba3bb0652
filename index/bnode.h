// SPDX-License-Identifier: Apache-2.0
// Bnodes: the recent updates of one key range, in DRAM, over a dnode or a layer.
//
// Slots. A bnode's keys hang in a small open-addressed table of words {fingerprint, pointer to the chain's head,
// FROZEN}. A word goes from empty to a chain once and never back, probing is linear and ends at an empty word, so a key
// has one slot without any lock. FROZEN is in the very word that a put exchanges: setting it in every word, empty ones
// too, closes the bnode permanently. The table is made by the first put; an idle range has none.
//
// Arena. Update nodes are in the table's block, one after the other in the order of their tokens, and go with it: a put
// allocates nothing, a replacer reads them in sequence, and they are freed together. The arena has room for as many
// nodes as the table has slots for keys, or a usual table has; later ones (of a wide table, or of keys that are
// overwritten again and again) are in chunks attached to the table, at most kChunksMax. The thread that creates the
// last chunk is informed that the bnode is above the high-water mark. Batches' nodes, large nodes and those after the
// last chunk are blocks of their own.
//
// Layers. A bnode that is being replaced names its successors in a Layer *before* it is frozen, so that any put that
// meets FROZEN can finish the freeze and install them. Until the new dnode is durable the successor's base is the layer
// itself; then it is the dnode, or a residue: a frozen bnode with the old versions that live scans still need.
//
// Memory ordering: every access to words, marks, base and layer is seq_cst (see put-protocol, "store buffering"); on
// x86-64 the loads are plain.
#ifndef BONSAI_INDEX_BNODE_H_
#define BONSAI_INDEX_BNODE_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <new>

#include "base/check.h"
#include "base/key.h"
#include "base/memory.h"
#include "base/step.h"
#include "index/node.h"
#include "persist/dnode.h"

namespace bonsai::index {

class Bnode;
struct Layer;

class Slots {
 public:
  static constexpr uint64_t kFrozen = 1;
  static constexpr uint32_t kCapacityMin = 16;
  static constexpr uint32_t kCapacityMax = 128;                  // of ordinary tables
  static constexpr uint32_t kWideCapacityMax = 512;              // where tables fill up before the log does
  static constexpr uint32_t kRisingCapacityMax = 1024;           // where keys come in rising order, all to one bnode
  static constexpr uint32_t kBatchCapacityMax = 4096;            // where a batch brings all of them at once
  static constexpr uint32_t kCapacityLimit = uint32_t{1} << 31;  // where recovery has found as many updates
  static constexpr uint32_t kNowhere = UINT32_MAX;

  struct Place {
    uint32_t index = kNowhere;  // kNowhere: the key is absent and there is no room
    uint64_t word = 0;
    [[nodiscard]] Node* head() const { return head_of(word); }
    [[nodiscard]] bool frozen() const { return (word & kFrozen) != 0; }
  };

  static constexpr size_t kChunkBytes = 4032;  // of nodes
  static constexpr uint32_t kChunksMax = 12;

  // One block: capacity, marks, words, locks, arena. Requires: capacity a power of two.
  static std::unique_ptr<Slots> make(uint32_t capacity, uint32_t arena_bytes = 0);
  // The size of the arena of a table whose first node takes `node_bytes`; 0 for large nodes, which gain nothing by it.
  // A wide table may stay half empty, so its arena is an ordinary one's; further nodes are in chunks, on demand.
  static uint32_t arena_bytes_for(uint32_t capacity, size_t node_bytes) {
    if (node_bytes > kArenaNodeBytesMax) return 0;
    const uint32_t nodes = full_at(capacity <= kWideCapacityMax ? std::min(capacity, kCapacityMax) : capacity);
    return static_cast<uint32_t>(std::min<uint64_t>(kArenaBytesMax, uint64_t{nodes} * node_bytes));
  }
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  static void operator delete(void* block) { base::free_block(block); }

  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] uint32_t used() const { return used_.load(std::memory_order_relaxed); }
  // Whether a successor should be made, so that writers do not meet a full table.
  [[nodiscard]] bool above_high_mark() const { return used() >= high_mark(); }
  // New keys must go to a successor.
  [[nodiscard]] bool full() const { return room() == 0; }
  // The number of new keys that fit.
  [[nodiscard]] uint32_t room() const { return full_at(capacity_) - std::min(used(), full_at(capacity_)); }
  // The table's memory, its chunks included.
  [[nodiscard]] uint64_t dram_bytes() const;

  [[nodiscard]] uint32_t arena_bytes() const { return arena_bytes_; }
  [[nodiscard]] std::byte* arena() { return reinterpret_cast<std::byte*>(this) + block_bytes(capacity_, 0); }
  // A place for a node in a chunk; null if there is none: allocate the node as a block. `*reached_high_mark` as in
  // push().
  [[nodiscard]] void* cell_in_chunk(size_t node_bytes, bool* reached_high_mark);
  // Whether a pushed node may be a block of its own.
  [[nodiscard]] bool has_blocks() const { return has_blocks_.load(std::memory_order_relaxed); }

  // The place of `key`, or the place where it would go.
  [[nodiscard]] Place find(const base::Key& key, uint64_t hash) const { return find(this, capacity_, key, hash); }
  // find() for callers that know the capacity: the table's first line is not read.
  static Place find(const Slots* slots, uint32_t capacity, const base::Key& key, uint64_t hash) {
    return find_from(static_cast<uint32_t>(hash), slots, capacity, key, hash);
  }
  // Repeats a search from `place`, since all slots in front of it belong to other keys, permanently. Requires: find()
  // or find_again() returned `place` for the key.
  [[nodiscard]] Place find_again(const Place& place, const base::Key& key, uint64_t hash) const {
    return find_from(place.index, this, capacity_, key, hash);
  }

  // Calls visit(index) for each slot that has a chain, and maybe for some that are about to have one.
  template <class Visit>
  void for_each_marked(Visit visit) const {
    visit_marked([] { base::step("load marks"); }, visit);
  }
  // Calls visit() for the head of each chain.
  template <class Visit>
  void for_each_head(Visit visit) const {
    for_each_marked([&](uint32_t i) {
      base::step("load head");
      if (Node* node = head(i)) visit(node);
    });
  }
  // Pushes `node` in front of the chain at `place`. False if the word has changed meanwhile. `*reached_high_mark`: this
  // call took the table above the high-water mark; true for one caller alone.
  bool push(const Place& place, Node* node, uint64_t hash, bool* reached_high_mark) {
    const bool first = place.head() == nullptr;
    if (!node->in_arena() && !has_blocks()) has_blocks_.store(true, std::memory_order_relaxed);
    if (first) mark(place.index);
    uint64_t expected = place.word;
    const uint64_t desired = print(hash) << 48 | reinterpret_cast<uint64_t>(node) | (place.word & kFrozen);
    if (!words()[place.index].compare_exchange_strong(expected, desired, std::memory_order_seq_cst)) return false;
    *reached_high_mark =
        first && used_.fetch_add(1, std::memory_order_relaxed) + 1 == high_mark() && report_high_mark();
    return true;
  }

  [[nodiscard]] Node* head(uint32_t index) const { return head_of(words()[index].load(std::memory_order_seq_cst)); }
  [[nodiscard]] bool frozen(uint32_t index) const { return (words()[index].load() & kFrozen) != 0; }
  void freeze(uint32_t index) { words()[index].fetch_or(kFrozen, std::memory_order_seq_cst); }

  // One pruner per chain.
  bool try_lock(uint32_t index) { return locks()[index].exchange(1, std::memory_order_acquire) == 0; }
  void unlock(uint32_t index) { locks()[index].store(0, std::memory_order_release); }

 private:
  friend class Prefetch;

  static Node* head_of(uint64_t word) { return reinterpret_cast<Node*>(word & 0xffff'ffff'fffe); }
  static uint64_t print_of(uint64_t word) { return word >> 48; }
  static uint64_t print(uint64_t hash) { return hash >> 48; }

  using Marks = std::atomic<uint64_t>;  // a bit per slot
  using Word = std::atomic<uint64_t>;
  using Lock = std::atomic<uint8_t>;

  static constexpr uint32_t kMarksPerWord = 64;
  static constexpr size_t kArenaNodeBytesMax = 256;
  // A bnode counts these bytes in 32 bits (Bnode::reserve). The bound is so low that the count cannot overflow, however
  // many threads add to it at once, and enough for any table but those that recovery makes.
  static constexpr uint64_t kArenaBytesMax = uint64_t{1} << 20;
  static_assert(kArenaBytesMax >= kBatchCapacityMax * kArenaNodeBytesMax);

  // Memory for nodes, taken from front to end; `below` was full, or is about to be.
  struct Chunk {
    Chunk* const below;
    const uint32_t number;  // from 1 on
    std::atomic<uint32_t> taken{0};
    uint8_t padding[48] = {};

    [[nodiscard]] std::byte* nodes() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  static_assert(sizeof(Chunk) == base::kLineBytes);

  Slots(uint32_t capacity, uint32_t arena_bytes) : capacity_(capacity), arena_bytes_(arena_bytes) {}
  static Place find_from(uint32_t first, const Slots* slots, uint32_t capacity, const base::Key& key, uint64_t hash) {
    const Word* words = words_of(slots, capacity);
    for (uint32_t i = 0; i < capacity; ++i) {
      const uint32_t at = (first + i) & (capacity - 1);
      base::step("load head");
      const uint64_t word = words[at].load(std::memory_order_seq_cst);
      const Node* head = head_of(word);
      if (head == nullptr || (print_of(word) == print(hash) && head->key() == key)) return {at, word};
    }
    return {};
  }
  template <class Before, class Visit>
  void visit_marked(Before before_word, Visit visit) const {
    for (uint32_t first = 0; first < capacity_; first += kMarksPerWord) {
      before_word();
      for (uint64_t left = marks()[first / kMarksPerWord].load(std::memory_order_seq_cst); left != 0;
           left &= left - 1) {
        visit(first + static_cast<uint32_t>(std::countr_zero(left)));
      }
    }
  }
  bool report_high_mark() { return !high_mark_reported_.exchange(true, std::memory_order_relaxed); }
  void mark(uint32_t index) {
    base::step("mark slot");
    marks()[index / kMarksPerWord].fetch_or(uint64_t{1} << (index % kMarksPerWord), std::memory_order_seq_cst);
  }
  [[nodiscard]] uint32_t high_mark() const { return capacity_ - capacity_ / 8; }
  static uint32_t full_at(uint32_t capacity) { return capacity - capacity / 16; }
  static size_t marks_count(uint32_t capacity) { return (capacity + kMarksPerWord - 1) / kMarksPerWord; }
  static size_t block_bytes(uint32_t capacity, uint32_t arena_bytes) {
    const size_t bytes =
        sizeof(Slots) + marks_count(capacity) * sizeof(Marks) + capacity * (sizeof(Word) + sizeof(Lock));
    return (bytes + alignof(Node) - 1) / alignof(Node) * alignof(Node) + arena_bytes;
  }
  [[nodiscard]] const Marks* marks() const { return reinterpret_cast<const Marks*>(this + 1); }
  [[nodiscard]] Marks* marks() { return reinterpret_cast<Marks*>(this + 1); }
  [[nodiscard]] const Word* words() const { return words_of(this, capacity_); }
  [[nodiscard]] Word* words() { return const_cast<Word*>(words_of(this, capacity_)); }
  [[nodiscard]] Lock* locks() { return reinterpret_cast<Lock*>(words() + capacity_); }
  static const Word* words_of(const Slots* slots, uint32_t capacity) {
    return reinterpret_cast<const Word*>(reinterpret_cast<const Marks*>(slots + 1) + marks_count(capacity));
  }

  const uint32_t capacity_;
  std::atomic<uint32_t> used_{0};
  const uint32_t arena_bytes_;
  std::atomic<bool> has_blocks_{false};
  std::atomic<bool> high_mark_reported_{false};
  std::atomic<Chunk*> chunks_{nullptr};  // newest first
};

// The base of a bnode: one word.
class Base {
 public:
  Base() = default;
  static Base of(const persist::Dnode* dnode) { return Base(reinterpret_cast<uintptr_t>(dnode)); }
  static Base of(const Layer* layer) { return Base(reinterpret_cast<uintptr_t>(layer) | kLayer); }
  static Base of(Bnode* residue) { return Base(reinterpret_cast<uintptr_t>(residue) | kResidue); }

  [[nodiscard]] const persist::Dnode* dnode() const { return as<const persist::Dnode>(kDnode); }
  [[nodiscard]] const Layer* layer() const { return as<const Layer>(kLayer); }
  [[nodiscard]] Bnode* residue() const { return as<Bnode>(kResidue); }

 private:
  static constexpr uintptr_t kDnode = 0, kLayer = 1, kResidue = 2, kMask = 3;
  explicit Base(uintptr_t bits) : bits_(bits) {}
  template <class T>
  [[nodiscard]] T* as(uintptr_t kind) const {
    return (bits_ & kMask) == kind ? reinterpret_cast<T*>(bits_ & ~kMask) : nullptr;
  }
  uintptr_t bits_ = 0;
};

// One cache line, all that a get reads of a bnode, so that thousands of adjacent bnodes take few pages. The range is
// stored apart.
class alignas(base::kLineBytes) Bnode {
 public:
  // `capacity`: of the table that the first put makes.
  Bnode(base::Fence lo, base::Fence hi, uint64_t gen, Base base, uint32_t capacity)
      : base_(base), range_(new Range{std::move(lo), std::move(hi), {}}), gen_(gen), capacity_(capacity) {}
  ~Bnode();
  Bnode(const Bnode&) = delete;
  Bnode& operator=(const Bnode&) = delete;
  static void* operator new(size_t bytes) {
    return base::allocate_block<base::kLineBytes>(bytes, base::Lifetime::kRanges);
  }
  static void operator delete(void* block) { base::free_block<base::kLineBytes>(block); }

  [[nodiscard]] const base::Fence& lo() const { return range_->lo; }
  [[nodiscard]] const base::Fence& hi() const { return range_->hi; }
  [[nodiscard]] uint64_t gen() const { return gen_; }
  [[nodiscard]] uint32_t capacity() const { return capacity_; }

  [[nodiscard]] Slots* slots() const { return slots_.load(std::memory_order_seq_cst); }
  // Makes the table if there is none, for nodes of `node_bytes` in the arena (0: no arena). *made: this call made it.
  Slots* slots_or_make(size_t node_bytes, bool* made);
  // Freezes the bnode: afterwards no word changes. Idempotent, by any thread.
  void freeze();
  // For invariants: whether every word is frozen.
  [[nodiscard]] bool frozen() const;
  [[nodiscard]] bool covers(const base::Key& key) const { return !(key < lo().key()) && hi().above(key); }

  [[nodiscard]] Base base() const { return base_.load(std::memory_order_seq_cst); }
  void set_base(Base base) { base_.store(base, std::memory_order_seq_cst); }
  [[nodiscard]] Layer* layer() const { return layer_.load(std::memory_order_seq_cst); }
  void set_layer(Layer* layer) { layer_.store(layer, std::memory_order_seq_cst); }

  // `token` orders updates inside the generation. `cell` is memory of the table for the node; null: allocate the node
  // as a block.
  struct Reserved {
    uint32_t token;
    void* cell;
  };
  // Reserves a token and `node_bytes` of the table's memory (0: none). `*reached_high_mark`: this call took the bnode
  // above the high-water mark; true for one caller alone. Requires: `slots` is the bnode's table.
  Reserved reserve(Slots* slots, size_t node_bytes, bool* reached_high_mark) {
    const auto fits = [&](uint64_t reserved) { return (reserved & kArenaMask) + node_bytes <= slots->arena_bytes(); };
    const bool wanted = node_bytes > 0 && fits(reserved_.load(std::memory_order_relaxed));
    const uint64_t before = reserved_.fetch_add(kToken + (wanted ? node_bytes : 0), std::memory_order_relaxed);
    const auto token = static_cast<uint32_t>(before / kToken + 1);
    BONSAI_CHECK(token != 0);
    *reached_high_mark = false;
    if (wanted && fits(before)) return {token, slots->arena() + (before & kArenaMask)};
    return {token, node_bytes > 0 ? slots->cell_in_chunk(node_bytes, reached_high_mark) : nullptr};
  }

  // Tokens reserved so far; they must not run out.
  [[nodiscard]] uint32_t tokens_used() const {
    return static_cast<uint32_t>(reserved_.load(std::memory_order_relaxed) / kToken);
  }

  // The right to set a layer. It has one holder at a time, which keeps it once there is a layer. A new successor is
  // pending until its predecessor's replacement is finished. Only a batch may claim a pending one, because that
  // replacement may be waiting for the batch; the layer that the batch then sets is not offloaded before the bnode is
  // settled.
  enum class Claim : uint8_t { kFree, kClaimed, kPending, kPendingClaimed, kPendingInstalled };
  bool claim() { return exchange(Claim::kFree, Claim::kClaimed); }
  bool claim_pending() { return exchange(Claim::kPending, Claim::kPendingClaimed); }
  void unclaim() { BONSAI_INVARIANT(claim_.exchange(Claim::kFree) == Claim::kClaimed); }
  void set_pending() { claim_.store(Claim::kPending); }
  // Called once, when the bnode's own layer is installed. True: the caller queues that layer. False: the thread that
  // settles the bnode queues it.
  bool queue_installed() { return !exchange(Claim::kPendingClaimed, Claim::kPendingInstalled); }
  // Called when its predecessor's replacement is finished. True: the caller queues the bnode's own layer.
  [[nodiscard]] bool settle() {
    if (exchange(Claim::kPending, Claim::kFree) || exchange(Claim::kPendingClaimed, Claim::kClaimed)) return false;
    return exchange(Claim::kPendingInstalled, Claim::kClaimed);
  }
  [[nodiscard]] bool pending() const { return claim_.load() >= Claim::kPending; }

  struct Queued {
    static constexpr uint64_t kNowhere = UINT64_MAX;

    Bnode* next = nullptr;
    uint64_t place = kNowhere;  // in the queue of dirty bnodes
    Bnode* next_above_high_mark = nullptr;
    std::atomic<bool> dirty{false};  // enqueued as such, and not taken yet
  };
  Queued& queue() { return range_->queue; }  // owned by the queues of bnodes

  // Lifetime: the tree or a layer holds one reference, and each queue that contains the bnode another.
  void ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    const uint32_t before = references_.fetch_sub(1, std::memory_order_acq_rel);
    BONSAI_INVARIANT(before > 0);
    if (before == 1) delete this;
  }
  [[nodiscard]] uint64_t dram_bytes() const;

 private:
  friend class Prefetch;

  bool exchange(Claim from, Claim to) { return claim_.compare_exchange_strong(from, to); }

  std::atomic<Layer*> layer_{nullptr};
  std::atomic<Slots*> slots_{nullptr};
  std::atomic<Base> base_;
  // Upper half: the last token. Lower half: bytes taken of the arena. One addition reserves both.
  static constexpr uint64_t kToken = uint64_t{1} << 32;
  static constexpr uint64_t kArenaMask = kToken - 1;
  std::atomic<uint64_t> reserved_{0};
  struct alignas(base::kLineBytes) Range {
    const base::Fence lo, hi;
    Queued queue;

    static void* operator new(size_t bytes) {
      return base::allocate_block<base::kLineBytes>(bytes, base::Lifetime::kRanges);
    }
    static void operator delete(void* block) { base::free_block<base::kLineBytes>(block); }
  };
  const std::unique_ptr<Range> range_;
  const uint64_t gen_;
  const uint32_t capacity_;
  std::atomic<uint32_t> references_{1};
  std::atomic<Claim> claim_{Claim::kFree};
};
static_assert(sizeof(Bnode) == base::kLineBytes);

// A replacement of `olds` by `news`, which cover the same range. Both are sorted by range.
struct Layer {
  using Bnodes = boost::container::small_vector<Bnode*, 2>;

  Bnodes olds, news;
  std::atomic<bool> installed{false};  // puts go to `news`
  std::atomic<bool> settled{false};    // every head of `olds`, and of their bases, has a version
  double fresh = 0;      // of what is appended to the dnode, these updates included: the share, about, of keys that
                         // were not there before; 0 also where nobody looked
  bool compact = false;  // the new dnodes get one run each, even if the updates could be appended
  size_t locked = 0;     // number of chains of `olds`, in order, that the replacer has locked

  [[nodiscard]] Bnode* old_for(const base::Key& key) const { return cover(olds, key); }
  [[nodiscard]] Bnode* new_for(const base::Key& key) const { return cover(news, key); }
  // The table of a bnode that never had one and is frozen: the widest, so that a reader that assumes the bnode's
  // capacity finds it empty.
  static Slots* closed_slots();

 private:
  static Bnode* cover(const Bnodes& bnodes, const base::Key& key) {
    const auto above = std::upper_bound(bnodes.begin() + 1, bnodes.end(), key,
                                        [](const base::Key& k, const Bnode* each) { return k < each->lo().key(); });
    return *(above - 1);
  }
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_BNODE_H_
