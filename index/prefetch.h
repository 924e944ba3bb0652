// SPDX-License-Identifier: Apache-2.0
// Prefetching: fetches the parts of the index that operations are about to read while they do something else, so that
// cache misses overlap. Each function fetches what another one reads, in stages where an address is known only after an
// earlier line has arrived. It changes nothing, reads only what it states, and is no step of the protocol: it may hold
// a lock.
//
// Thread-safety: within the epoch guard, or under the reference, that keeps the bnode.
#ifndef BONSAI_INDEX_PREFETCH_H_
#define BONSAI_INDEX_PREFETCH_H_

#include <cstddef>
#include <cstdint>

#include "base/memory.h"
#include "index/bnode.h"
#include "persist/dnode.h"

namespace bonsai::index {

class Prefetch {
 public:
  // ---- a bnode
  // Fetches what a get reads first.
  static void bnode(const Bnode& bnode) { __builtin_prefetch(&bnode); }
  // Fetches what lo() and hi() read. Reads the bnode.
  static void range(const Bnode& bnode) {
    const auto* range = reinterpret_cast<const char*>(bnode.range_.get());
    __builtin_prefetch(range);
    __builtin_prefetch(range + base::kLineBytes);
  }
  // The metadata that locates a range's updates and records. Reads the bnode.
  static void directory(const Bnode& bnode) {
    range(bnode);
    if (const Slots* slots = bnode.slots()) __builtin_prefetch(slots);
    if (const persist::Dnode* dnode = bnode.base().dnode()) dnode->prefetch_samples();
  }
  // After directory(): the words of the updates, and up to `records_max` records from `from` on, which it locates.
  // Returns an estimate of the number of records.
  static uint64_t records(const Bnode& bnode, const scale::Volume& volume, const base::Key& from, uint64_t records_max,
                          persist::Dnode::Located* located) {
    if (const Slots* slots = bnode.slots()) words(*slots);
    const persist::Dnode* dnode = bnode.base().dnode();
    return dnode != nullptr ? dnode->prefetch_scan(volume, from, records_max, located) : UINT64_MAX;
  }

  // ---- a table of updates
  // Fetches the marks of words that have chains; a part of them for a very large table.
  static void marks(const Slots& slots) {
    for (size_t i = 0; i < kMarkLines; ++i) {
      __builtin_prefetch(reinterpret_cast<const char*>(&slots) + i * base::kLineBytes);
    }
  }
  // The words, and then the heads, of all chains.
  static void words(const Slots& slots) {
    slots.visit_marked([] {}, [&](uint32_t i) { __builtin_prefetch(slots.words() + i); });
  }
  static void heads(const Slots& slots) {
    slots.visit_marked(
        [] {},
        [&](uint32_t i) { __builtin_prefetch(Slots::head_of(slots.words()[i].load(std::memory_order_relaxed))); });
  }

  // ---- one key of many. First stage: the word at which a search begins, and for gets what a DnodeSearch reads, for
  // updates the first line, which a push writes. Reads the bnode.
  static void to_get(const Bnode& bnode, uint64_t hash) {
    if (const Slots* slots = bnode.slots()) first_word(slots, bnode.capacity(), hash);
    if (const persist::Dnode* dnode = bnode.base().dnode()) dnode->prefetch_search();
  }
  static void to_update(const Bnode& bnode, uint64_t hash) {
    const Slots* slots = bnode.slots();
    if (slots == nullptr) return;
    __builtin_prefetch(slots, 1);
    first_word(slots, bnode.capacity(), hash);
  }
  // Second stage: the node at which a search looks first.
  static void first_node(const Bnode& bnode, uint64_t hash) {
    const Slots* slots = bnode.slots();
    if (slots == nullptr) return;
    const uint64_t word =
        Slots::words_of(slots, bnode.capacity())[hash & (bnode.capacity() - 1)].load(std::memory_order_relaxed);
    if (Slots::print_of(word) == Slots::print(hash)) __builtin_prefetch(Slots::head_of(word));
  }
  // Fetches what a push at `place` writes besides the word and the first line, and its node's memory.
  static void to_push(Slots* slots, const Slots::Place& place) {
    if (place.head() != nullptr) __builtin_prefetch(slots->locks() + place.index, 1);
  }
  static void to_write(const void* node) { __builtin_prefetch(node, 1); }

  // ---- a replacement, in stages. A bnode that others replaced before its writer queued it is looked at, too, so that
  // its dnode may be freed.
  static constexpr size_t kReplaceStages = 3;
  static void to_replace(const Bnode& of, size_t stage) {
    if (stage == 0) return bnode(of);
    const Slots* slots = of.slots();
    if (stage == 1) {
      range(of);
      if (slots != nullptr) all_but_nodes(slots, of.capacity());
      if (const persist::Dnode* dnode = of.base().dnode()) dnode->prefetch_search();
    } else {
      if (slots != nullptr) heads(*slots);
      if (of.layer() != nullptr) return;
      if (const persist::Dnode* dnode = of.base().dnode()) dnode->prefetch_parts();
    }
  }

 private:
  static constexpr size_t kMarkLines =
      (sizeof(Slots) + Slots::kWideCapacityMax / 8 + base::kLineBytes - 1) / base::kLineBytes;

  static void first_word(const Slots* slots, uint32_t capacity, uint64_t hash) {
    __builtin_prefetch(Slots::words_of(slots, capacity) + (hash & (capacity - 1)));
  }
  static void all_but_nodes(const Slots* slots, uint32_t capacity) {
    const auto* bytes = reinterpret_cast<const char*>(slots);
    const size_t end = Slots::block_bytes(capacity, 0);
    for (size_t at = 0; at < end; at += base::kLineBytes) __builtin_prefetch(bytes + at);
  }
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_PREFETCH_H_
