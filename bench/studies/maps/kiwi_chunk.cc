// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/kiwi_chunk.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/step.h"

namespace bonsai::bench::maps::kiwi {

using base::step;

namespace {

size_t bytes_for(uint32_t cells, uint32_t pending) {
  return sizeof(Chunk) + cells * (sizeof(Cell) + sizeof(uint64_t)) + pending * sizeof(std::atomic<uint64_t>);
}

}  // namespace

Chunk* Chunk::make(Memory* memory, uint64_t min_key, uint32_t cells_max, uint32_t pending_max, Rebalance* parent,
                   uintptr_t next) {
  void* const room = memory->allocate(bytes_for(cells_max, pending_max));
  auto* const chunk = new (room)
      Chunk{.min_key = min_key, .cells_max = cells_max, .pending_max = pending_max, .parent = parent, .next = next};
  auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(chunk + 1);
  chunk->pending = new (words) std::atomic<uint64_t>[pending_max] {};
  chunk->values = new (words + pending_max) uint64_t[cells_max];
  chunk->cells = new (words + pending_max + cells_max) Cell[cells_max];
  return chunk;
}

size_t Chunk::bytes() const { return bytes_for(cells_max, pending_max); }

uint32_t Chunk::find(uint64_t key, uint64_t version, std::atomic<uint32_t>** before) {
  const auto precedes = [&](const Cell& cell) { return cell.key < key || (cell.key == key && cell.version > version); };
  const Cell* const at = std::partition_point(cells, cells + batched, precedes);
  *before = at == cells ? &first : &cells[at - cells - 1].next;
  for (;;) {
    const uint32_t i = (*before)->load(std::memory_order_acquire);
    if (i == kNone || !precedes(cells[i])) return i;
    step("hop");
    *before = &cells[i].next;
  }
}

void Chunk::insert(uint32_t i, ValueWord value) {
  Cell& own = cells[i];
  for (;;) {
    std::atomic<uint32_t>* before;
    uint32_t after = find(own.key, own.version, &before);
    step("kiwi.link");
    if (after != kNone && cells[after].key == own.key && cells[after].version == own.version) {
      uint32_t there = cells[after].value.load();
      while (ValueWord{there}.place() < value.place() && !cells[after].value.compare_exchange_weak(there, value.word)) {
      }
      return;
    }
    own.next.store(after, std::memory_order_relaxed);
    if (before->compare_exchange_strong(after, i)) break;
  }
  linked.fetch_add(1, std::memory_order_relaxed);
}

void Chunk::collect(std::vector<Item>* items) const {
  // Puts move from the array to the list: a reader that begins with the list misses those that moved in between.
  std::vector<Item> puts;
  for (uint32_t slot = 0; slot < pending_max; ++slot) {
    const Pending put{pending[slot].load()};
    if (put.is_put()) puts.push_back(item_of(put));
  }
  step("kiwi.collect");
  const size_t begin = items->size();
  for (uint32_t i = first.load(std::memory_order_acquire); i != kNone;
       i = cells[i].next.load(std::memory_order_acquire)) {
    items->push_back(item_of(cells[i]));
  }
  if (puts.empty()) return;
  items->insert(items->end(), puts.begin(), puts.end());
  const auto from = items->begin() + static_cast<ptrdiff_t>(begin);
  std::sort(from, items->end(), is_before);
  const auto same = [](const Item& a, const Item& b) { return a.key == b.key && a.version == b.version; };
  items->erase(std::unique(from, items->end(), same), items->end());
}

void Chunk::fill(const Item* begin, const Item* end) {
  batched = static_cast<uint32_t>(end - begin);
  BONSAI_CHECK(batched < cells_max);
  for (uint32_t i = 0; i < batched; ++i) {
    cells[i].key = begin[i].key;
    cells[i].version = begin[i].version;
    cells[i].value.store(ValueWord::of(i, begin[i].order.removes()).word, std::memory_order_relaxed);
    cells[i].next.store(i + 1 < batched ? i + 1 : kNone, std::memory_order_relaxed);
    values[i] = begin[i].value;
  }
  allocated = linked = batched;
  first = batched > 0 ? 0 : kNone;
}

}  // namespace bonsai::bench::maps::kiwi
