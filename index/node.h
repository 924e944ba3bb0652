// SPDX-License-Identifier: Apache-2.0
// Update nodes: one put or delete of one key, on its key's chain (newest first) in a bnode.
//
// A published node is immutable, except for `next` (pruning only skips nodes), and `version`, which changes once, from
// 0 to the version that orders the node among snapshots. The nodes of a batch take their version from one cell, so that
// the batch becomes visible atomically. The node of a conditional update begins as pending: it has its place in the
// chain, is invisible, and has no record yet; who meets it makes one, and then it is as any published node.
#ifndef BONSAI_INDEX_NODE_H_
#define BONSAI_INDEX_NODE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/key.h"
#include "base/memory.h"
#include "base/small_copy.h"
#include "index/condition.h"
#include "persist/log.h"
#include "persist/record.h"

namespace bonsai::index {

struct Batch;

inline constexpr uint64_t kNoVersion = 0;
inline constexpr uint64_t kVersionOfBase = 1;           // below every scan
inline constexpr uint64_t kVersionFirst = 2;            // of the global counter
inline constexpr uint64_t kLatest = uint64_t{1} << 62;  // "as of now", for reads; above every version
// In place of a version. Both are above kLatest, so that no read sees the node.
inline constexpr uint64_t kPassed = kLatest + 1;  // the node is no update: its batch was refused, or it only checks
inline constexpr uint64_t kPendingVersion = uint64_t{1} << 63;  // it has no durable record yet

// Whether a node's version is final: another one may be pushed on top of the node. One comparison, by the sign.
constexpr bool is_settled(uint64_t version) { return static_cast<int64_t>(version) > 0; }

struct Node {
  static constexpr uint8_t kTombstone = 1;
  static constexpr uint8_t kLarge = 2;  // the value is a LargeRef
  static constexpr uint8_t kInBatch = 4;
  static constexpr uint8_t kBorrowed = 8;      // the large value belongs to the dnode below
  static constexpr uint8_t kInArena = 16;      // is in its bnode's table, and goes with it
  static constexpr uint8_t kConditional = 32;  // depends on the update below it
  static constexpr uint8_t kCheck = 64;        // of a batch: no update, it keeps others away until the batch is decided

  std::atomic<Node*> next{nullptr};
  std::atomic<uint64_t> version{kNoVersion};
  uint32_t token = 0;
  // Holds its record, kNoSegment: none (carried, pending, or in a batch). Set before the node has a version.
  std::atomic<uint32_t> segment{persist::kNoSegment};
  uint32_t value_bytes = 0;
  uint16_t key_bytes = 0;
  uint8_t flags = 0;
  uint8_t reserved = 0;

  [[nodiscard]] bool tombstone() const { return (flags & kTombstone) != 0; }
  [[nodiscard]] bool large() const { return (flags & kLarge) != 0; }
  [[nodiscard]] bool in_batch() const { return (flags & kInBatch) != 0; }
  [[nodiscard]] bool borrowed() const { return (flags & kBorrowed) != 0; }
  [[nodiscard]] bool in_arena() const { return (flags & kInArena) != 0; }
  [[nodiscard]] bool conditional() const { return (flags & kConditional) != 0; }
  [[nodiscard]] bool checks_only() const { return (flags & kCheck) != 0; }
  [[nodiscard]] std::string_view key_view() const { return {bytes(), key_bytes}; }
  [[nodiscard]] std::string_view value() const { return {bytes() + key_bytes, value_bytes}; }
  [[nodiscard]] base::Key key() const { return base::Key::of(key_view()); }
  [[nodiscard]] Batch* batch() const;  // null unless in_batch()
  [[nodiscard]] uint64_t gen() const;  // of the bnode that it was made for; requires in_batch()
  // Whether it is known to be no update. Requires: it is not the head, or has been settled.
  [[nodiscard]] bool passed() const { return version.load(std::memory_order_acquire) == kPassed; }
  // The segment of the log that holds its record, or its batch's; kNoSegment: none. Requires: it is an update.
  [[nodiscard]] uint32_t record_segment() const;
  // The first update of a settled chain; null: there is none.
  static Node* newest_update(Node* head) {
    while (head != nullptr && head->passed()) head = head->next.load(std::memory_order_acquire);
    return head;
  }
  // The node's memory outside the arena.
  [[nodiscard]] uint64_t dram_bytes() const {
    return in_arena() ? 0 : sizeof *this + key_bytes + value_bytes + link_bytes();
  }

  // Bytes of an arena that a node outside a batch takes.
  static size_t arena_bytes(std::string_view key, std::string_view value) {
    return (sizeof(Node) + std::max(key.size() + value.size(), sizeof(Batch*)) + alignof(Node) - 1) / alignof(Node) *
           alignof(Node);
  }
  // Copies key and value. `batch`, if any, gains a reference, and the node knows its bnode's generation.
  static Node* make(std::string_view key, std::string_view value, uint8_t flags, Batch* batch, uint64_t gen = 0);
  // Makes a node outside a batch in `cell`, which has arena_bytes() of an arena.
  static Node* make_in(void* cell, std::string_view key, std::string_view value, uint8_t flags);
  // Does nothing for a node in an arena.
  static void destroy(Node* node);

 private:
  struct Link {  // between a batch's node and its key
    Batch* batch;
    uint64_t gen;
  };

  Node() = default;
  [[nodiscard]] size_t link_bytes() const { return in_batch() ? sizeof(Link) : 0; }
  [[nodiscard]] Link link() const {
    Link link;
    std::memcpy(&link, this + 1, sizeof link);
    return link;
  }
  void copy(std::string_view key, std::string_view value);
  [[nodiscard]] const char* bytes() const { return reinterpret_cast<const char*>(this + 1) + link_bytes(); }
};
static_assert(sizeof(Node) == 32);

// State that the nodes of one atomic batch share.
//   cell: kPublishing -> kReady (every node is in place, and the batch's record durable) -> a version
// With conditions: kPublishing -> kHolds (every node is in place, so all conditions hold; no record yet) -> kReady
//   -> a version;  or kPublishing -> refused() (no record will be written; the nodes are no updates).
// Until the cell is kReady or refused, the batch's nodes are invisible, and a thread that would push on top of one
// completes the batch first.
struct Batch {
  static constexpr uint64_t kPublishing = 0;
  static constexpr uint64_t kReady = 1;
  static constexpr uint64_t kHolds = uint64_t{1} << 62;  // above every version, as what follows
  // The batch was refused because of the item's condition of that number.
  static constexpr uint64_t refused(Refusal why, uint32_t condition) {
    return uint64_t{1} << 63 | static_cast<uint64_t>(why) << 32 | condition;
  }
  static constexpr bool is_refused(uint64_t cell) { return cell >> 63 != 0; }
  static constexpr Refusal refusal_of(uint64_t cell) {
    return is_refused(cell) ? static_cast<Refusal>(cell >> 32 & 0xff) : Refusal::kNone;
  }
  static constexpr uint32_t condition_of(uint64_t cell) { return static_cast<uint32_t>(cell); }
  static constexpr bool is_undecided(uint64_t cell) { return cell == kPublishing || cell == kHolds; }

  struct Item {
    std::string_view key, value;  // in `storage`: helpers may come late
    uint8_t flags = 0;
    uint32_t conditions_first = 0, conditions_count = 0;  // of its key, in Batch::conditions
    std::atomic<Node*> node{nullptr};                     // the one that was published
  };

  // Requires: the items' views are set before the batch is shared; they point into bytes.
  Batch(size_t n, std::string bytes) : items(n), storage(std::move(bytes)) {}

  std::atomic<uint64_t> cell{kPublishing};
  std::atomic<uint32_t> segment{persist::kNoSegment};  // holds the durable record
  std::atomic<uint32_t> references{1};
  std::atomic<size_t> placed{0};  // items before this one are in place; there may be more
  // Set by the owner before the batch begins: log space for the record is reserved, in `log_segments` if it takes
  // several.
  bool admitted = false;
  std::vector<uint32_t> log_segments;
  std::atomic<bool> persisting{false};  // a thread writes its record to them
  std::vector<Item> items;              // in key order, each key once
  std::vector<Condition> conditions;    // their views point into `storage`, too
  const std::string storage;

  [[nodiscard]] bool conditional() const { return !conditions.empty(); }
  [[nodiscard]] std::span<const Condition> conditions_of(const Item& item) const {
    return std::span(conditions).subspan(item.conditions_first, item.conditions_count);
  }

  // Adds to *packing the most bytes of log that each item takes.
  void pack(persist::Log::Packing* packing) const {
    for (const Item& item : items) {
      if ((item.flags & Node::kCheck) != 0) continue;
      packing->add(item.key.size() + item.value.size() + persist::kUpdateOverheadBytesMax);
    }
  }
  // True: one of its nodes may be in a chain, so the batch must be completed. Requires: the caller owns or met it.
  [[nodiscard]] bool begun() const { return items.front().node.load(std::memory_order_seq_cst) != nullptr; }
  void unref() {
    const uint32_t before = references.fetch_sub(1, std::memory_order_acq_rel);
    BONSAI_INVARIANT(before > 0);
    if (before == 1) delete this;
  }
};

inline Batch* Node::batch() const { return in_batch() ? link().batch : nullptr; }
inline uint64_t Node::gen() const { return link().gen; }
inline uint32_t Node::record_segment() const {
  return in_batch() ? batch()->segment.load() : segment.load(std::memory_order_relaxed);
}

inline Node* Node::make(std::string_view key, std::string_view value, uint8_t flags, Batch* batch, uint64_t gen) {
  const size_t link_bytes = batch != nullptr ? sizeof(Link) : 0;
  // At least room for a link, so that the compiler sees no read past the end where there is none.
  const size_t tail_bytes = std::max(link_bytes + key.size() + value.size(), sizeof batch);
  Node* node = new (base::allocate_block(sizeof(Node) + tail_bytes, base::Lifetime::kUpdates)) Node();
  node->flags = flags;
  if (batch != nullptr) {
    node->flags |= kInBatch;
    batch->references.fetch_add(1, std::memory_order_relaxed);
    const Link link{batch, gen};
    std::memcpy(reinterpret_cast<char*>(node + 1), &link, sizeof link);
  }
  node->copy(key, value);
  return node;
}

inline Node* Node::make_in(void* cell, std::string_view key, std::string_view value, uint8_t flags) {
  Node* node = new (cell) Node();
  node->flags = flags | kInArena;
  node->copy(key, value);
  return node;
}

inline void Node::copy(std::string_view key, std::string_view value) {
  BONSAI_INVARIANT(key.size() <= UINT16_MAX && value.size() <= UINT32_MAX);
  key_bytes = static_cast<uint16_t>(key.size());
  value_bytes = static_cast<uint32_t>(value.size());
  base::copy_small(base::copy_small(const_cast<char*>(bytes()), key), value);
}

inline void Node::destroy(Node* node) {
  if (node->in_arena()) return;
  if (Batch* batch = node->batch()) batch->unref();
  node->~Node();
  base::free_block(node);
}

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_NODE_H_
