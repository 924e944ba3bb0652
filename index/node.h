// SPDX-License-Identifier: Apache-2.0
// Update nodes: one put or delete of one key, on its key's chain (newest first) in a bnode.
//
// A published node is immutable, except for `next` (pruning only skips nodes), and `version`, which changes once, from
// 0 to the version that orders the node among snapshots. The nodes of a batch take their version from one cell, so that
// the batch becomes visible atomically.
#ifndef BONSAI_INDEX_NODE_H_
#define BONSAI_INDEX_NODE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/key.h"
#include "base/memory.h"
#include "base/small_copy.h"
#include "persist/log.h"
#include "persist/record.h"

namespace bonsai::index {

struct Batch;

inline constexpr uint64_t kNoVersion = 0;
inline constexpr uint64_t kVersionOfBase = 1;    // below every scan
inline constexpr uint64_t kVersionFirst = 2;     // of the global counter
inline constexpr uint64_t kLatest = UINT64_MAX;  // "as of now", for reads

struct Node {
  static constexpr uint8_t kTombstone = 1;
  static constexpr uint8_t kLarge = 2;  // the value is a LargeRef
  static constexpr uint8_t kInBatch = 4;
  static constexpr uint8_t kBorrowed = 8;  // the large value belongs to the dnode below
  static constexpr uint8_t kInArena = 16;  // is in its bnode's table, and goes with it

  std::atomic<Node*> next{nullptr};
  std::atomic<uint64_t> version{kNoVersion};
  uint32_t token = 0;
  uint32_t segment = persist::kNoSegment;  // holds its record, kNoSegment: none (carried, or in a batch)
  uint32_t value_bytes = 0;
  uint16_t key_bytes = 0;
  uint8_t flags = 0;
  uint8_t reserved = 0;

  [[nodiscard]] bool tombstone() const { return (flags & kTombstone) != 0; }
  [[nodiscard]] bool large() const { return (flags & kLarge) != 0; }
  [[nodiscard]] bool in_batch() const { return (flags & kInBatch) != 0; }
  [[nodiscard]] bool borrowed() const { return (flags & kBorrowed) != 0; }
  [[nodiscard]] bool in_arena() const { return (flags & kInArena) != 0; }
  [[nodiscard]] std::string_view key_view() const { return {bytes(), key_bytes}; }
  [[nodiscard]] std::string_view value() const { return {bytes() + key_bytes, value_bytes}; }
  [[nodiscard]] base::Key key() const { return base::Key::of(key_view()); }
  [[nodiscard]] Batch* batch() const;  // null unless in_batch()
  [[nodiscard]] uint64_t gen() const;  // of the bnode that it was made for; requires in_batch()
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
// While the cell is kPublishing, the batch's nodes are invisible, and a thread that would push on top of one completes
// the batch first.
struct Batch {
  static constexpr uint64_t kPublishing = 0;
  static constexpr uint64_t kReady = 1;

  struct Item {
    std::string_view key, value;  // in `storage`: helpers may come late
    uint8_t flags = 0;
    std::atomic<Node*> node{nullptr};  // the one that was published
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
  const std::string storage;

  // Adds to *packing the most bytes of log that each item takes.
  void pack(persist::Log::Packing* packing) const {
    for (const Item& item : items) {
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
