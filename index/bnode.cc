// SPDX-License-Identifier: Apache-2.0
#include "index/bnode.h"

namespace bonsai::index {

std::unique_ptr<Slots> Slots::make(uint32_t capacity, uint32_t arena_bytes) {
  BONSAI_INVARIANT(std::has_single_bit(capacity) && capacity <= kCapacityLimit && arena_bytes <= kArenaBytesMax);
  void* block = base::allocate_block(block_bytes(capacity, arena_bytes), base::Lifetime::kUpdates);
  std::unique_ptr<Slots> slots(new (block) Slots(capacity, arena_bytes));
  std::uninitialized_value_construct_n(slots->marks(), marks_count(capacity));
  std::uninitialized_value_construct_n(slots->words(), capacity);
  std::uninitialized_value_construct_n(slots->locks(), capacity);
  return slots;
}

Slots::~Slots() {
  for (Chunk* chunk = chunks_.load(std::memory_order_relaxed); chunk != nullptr;) {
    Chunk* below = chunk->below;
    base::free_block<base::kLineBytes>(chunk);
    chunk = below;
  }
}

uint64_t Slots::dram_bytes() const {
  const Chunk* chunk = chunks_.load(std::memory_order_acquire);
  const uint64_t chunks = chunk != nullptr ? chunk->number : 0;
  const uint64_t own = base::bytes_of_block(this, block_bytes(capacity_, arena_bytes_));
  return own + (chunk != nullptr ? chunks * base::bytes_of_block(chunk, sizeof(Chunk) + kChunkBytes) : 0);
}

// The loop ends: each turn except the last finds a full chunk, and there are kChunksMax chunks.
void* Slots::cell_in_chunk(size_t node_bytes, bool* reached_high_mark) {
  *reached_high_mark = false;
  if (node_bytes > kArenaNodeBytesMax) return nullptr;
  for (;;) {
    Chunk* top = chunks_.load(std::memory_order_acquire);
    if (top != nullptr && top->taken.load(std::memory_order_relaxed) + node_bytes <= kChunkBytes) {
      const uint32_t at = top->taken.fetch_add(static_cast<uint32_t>(node_bytes), std::memory_order_relaxed);
      if (at + node_bytes <= kChunkBytes) return top->nodes() + at;
    }
    if (top != nullptr && top->number == kChunksMax) return nullptr;
    void* block = base::allocate_block<base::kLineBytes>(sizeof(Chunk) + kChunkBytes, base::Lifetime::kUpdates);
    auto* fresh = new (block) Chunk{top, top != nullptr ? top->number + 1 : 1};
    fresh->taken.store(static_cast<uint32_t>(node_bytes), std::memory_order_relaxed);
    if (chunks_.compare_exchange_strong(top, fresh, std::memory_order_acq_rel)) {
      *reached_high_mark = fresh->number == kChunksMax && report_high_mark();
      return fresh->nodes();
    }
    base::free_block<base::kLineBytes>(fresh);
  }
}

Slots* Layer::closed_slots() {
  static Slots* const closed = [] {
    Slots* slots = Slots::make(Slots::kBatchCapacityMax).release();
    for (uint32_t i = 0; i < Slots::kBatchCapacityMax; ++i) slots->freeze(i);
    return slots;
  }();
  return closed;
}

Bnode::~Bnode() {
  Slots* slots = slots_.load(std::memory_order_relaxed);
  if (slots == nullptr || slots == Layer::closed_slots()) return;
  for (uint32_t i = 0; i < slots->capacity() && slots->has_blocks(); ++i) {
    for (Node* node = slots->head(i); node != nullptr;) {
      Node* next = node->next.load(std::memory_order_relaxed);
      Node::destroy(node);
      node = next;
    }
  }
  delete slots;
}

Slots* Bnode::slots_or_make(size_t node_bytes, bool* made) {
  *made = false;
  if (Slots* slots = this->slots()) return slots;
  auto fresh = Slots::make(capacity_, Slots::arena_bytes_for(capacity_, node_bytes));
  Slots* expected = nullptr;
  if (!slots_.compare_exchange_strong(expected, fresh.get(), std::memory_order_seq_cst)) return expected;
  *made = true;
  return fresh.release();
}

void Bnode::freeze() {
  BONSAI_CHECK(slots() != nullptr || capacity_ <= Slots::kBatchCapacityMax);
  Slots* slots = nullptr;
  if (slots_.compare_exchange_strong(slots, Layer::closed_slots(), std::memory_order_seq_cst)) return;
  if (slots == Layer::closed_slots()) return;
  for (uint32_t i = 0; i < slots->capacity(); ++i) {
    base::step("freeze head");
    slots->freeze(i);
  }
}

bool Bnode::frozen() const {
  const Slots* slots = this->slots();
  if (slots == nullptr) return false;
  for (uint32_t i = 0; i < slots->capacity(); ++i) {
    if (!slots->frozen(i)) return false;
  }
  return true;
}

uint64_t Bnode::dram_bytes() const {
  uint64_t bytes = sizeof *this + sizeof(Range);
  const Slots* slots = this->slots();
  if (slots == nullptr || slots == Layer::closed_slots()) return bytes;
  bytes += slots->dram_bytes();
  for (uint32_t i = 0; i < slots->capacity(); ++i) {
    for (Node* node = slots->head(i); node != nullptr; node = node->next.load(std::memory_order_acquire)) {
      bytes += node->dram_bytes();
    }
  }
  return bytes;
}

}  // namespace bonsai::index
