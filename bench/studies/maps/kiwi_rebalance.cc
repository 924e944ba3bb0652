// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/kiwi_rebalance.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/step.h"
#include "bench/studies/maps/kiwi.h"

namespace bonsai::bench::maps {

using base::step;
using kiwi::Item;
using kiwi::kFrozen;
using kiwi::kNoVersion;
using kiwi::Pending;
using kiwi::Section;

// Returns when the chunk is replaced, and its successors take puts.
void Kiwi::rebalance(Chunk* chunk) {
  Rebalance* own = memory_.make<Rebalance>(chunk, chunk->next.load() & ~Chunk::kMark);
  Rebalance* agreed = nullptr;
  step("kiwi.rebalance");
  if (chunk->rebalance.compare_exchange_strong(agreed, own)) {
    agreed = own;
  } else {
    memory_.destroy(own);
  }
  engage(agreed);
  if (agreed->section.load() == nullptr) build(agreed);
  const bool is_ours = link(agreed);
  normalize(agreed);
  if (!is_ours) return;
  rebalances_.fetch_add(1, std::memory_order_relaxed);
  retire(agreed->section.load()->old);
}

// ---- 1. agree on the chunks

// As the paper's program: whenever that makes the chunks fewer.
bool Kiwi::is_worth_engaging(const Rebalance& rebalance, const Chunk* next) const {
  if (kiwi::is_infant(next) || next->frozen.load()) return false;
  const uint32_t half = options_.chunk_cells / 2;
  uint64_t records = 0;
  for (const Chunk* chunk = rebalance.first; chunk != nullptr && chunk->rebalance.load() == &rebalance;
       chunk = chunk->successor()) {
    records += chunk->linked.load(std::memory_order_relaxed);
  }
  const auto chunks_for = [half](uint64_t all) { return std::max<uint64_t>(1, (all + half - 1) / half); };
  return chunks_for(records + next->linked.load(std::memory_order_relaxed)) <= chunks_for(records);
}

// The chunks from `first` on that have this rebalance are its own when this returns.
void Kiwi::engage(Rebalance* rebalance) const {
  for (uintptr_t word = rebalance->next.load(); word != 0;) {
    Chunk* const next = reinterpret_cast<Chunk*>(word & ~Rebalance::kClaim);
    uintptr_t then = 0;
    if ((word & Rebalance::kClaim) == 0) {
      if (is_worth_engaging(*rebalance, next)) then = word | Rebalance::kClaim;
    } else {
      Rebalance* owner = nullptr;
      step("kiwi.claim");
      if (next->rebalance.compare_exchange_strong(owner, rebalance) || owner == rebalance) {
        then = next->next.load() & ~Chunk::kMark;
      }
    }
    step("kiwi.engage");
    if (rebalance->next.compare_exchange_strong(word, then)) word = then;
  }
}

// ---- 2. freeze, 3. what scans need, 4. build

// No put gets a version in the chunks any more when this returns.
void Kiwi::freeze(const std::vector<Chunk*>& chunks) const {
  for (Chunk* chunk : chunks) {
    step("kiwi.freeze");
    chunk->frozen.store(true);
    for (uint32_t slot = 0; slot < chunk->pending_max; ++slot) {
      std::atomic<uint64_t>& entry = chunk->pending[slot];
      uint64_t word = entry.load();
      while (Pending{word}.version() == kNoVersion) {
        if (entry.compare_exchange_weak(word, Pending{word}.with_version(kFrozen).word)) break;
      }
    }
  }
}

// The versions of scans that read keys from min_key to the end, falling; scans without one are given one. Scans that
// begin later have versions above all that frozen chunks hold.
std::vector<uint64_t> Kiwi::needed_versions(uint64_t min_key, const Chunk* end) {
  const uint32_t used = slots_.used();
  std::vector<uint64_t> versions;
  std::vector<std::pair<uint32_t, uint64_t>> without;
  for (uint32_t slot = 0; slot < used; ++slot) {
    const PendingScan& scan = scans_[slot];
    const uint64_t word = scan.word.load();
    const bool concerns = min_key <= scan.to.load() && (end == nullptr || end->min_key > scan.from.load());
    // A word that has changed belongs to a scan that began later, or just got its version.
    if (word % 2 == 1) without.emplace_back(slot, word);
    if (word % 2 == 0 && word != 0 && (concerns || scan.word.load() != word)) versions.push_back(word / 2);
  }
  if (!without.empty()) {
    step("kiwi.help_scan");
    const uint64_t version = version_.fetch_add(1);
    for (auto& [slot, word] : without) {
      if (scans_[slot].word.compare_exchange_strong(word, 2 * version)) word = 2 * version;
      if (word % 2 == 0 && word != 0) versions.push_back(word / 2);
    }
  }
  std::sort(versions.begin(), versions.end(), std::greater<>());
  return versions;
}

namespace {

// For each key: the newest version, and for each scan the newest one that it may read. A removal without an older
// version is left out.
std::vector<Item> needed_of(const std::vector<Item>& items, const std::vector<uint64_t>& versions) {
  std::vector<Item> needed;
  for (size_t i = 0; i < items.size();) {
    const uint64_t key = items[i].key;
    const size_t begin = needed.size();
    needed.push_back(items[i]);
    auto scan = versions.begin();
    for (; i < items.size() && items[i].key == key; ++i) {
      // Scans above this version read it, or a newer one that was kept for them.
      const auto next = std::find_if(scan, versions.end(), [&](uint64_t v) { return v < items[i].version; });
      if (next != scan && needed.back().version != items[i].version) needed.push_back(items[i]);
      scan = next;
    }
    while (needed.size() > begin && needed.back().order.removes()) needed.pop_back();
  }
  return needed;
}

}  // namespace

// Half full chunks; a rest below a quarter goes to the last one. Versions of a key stay together.
std::vector<Kiwi::Chunk*> Kiwi::make_chunks(const std::vector<Item>& items, Rebalance* rebalance) {
  const size_t half = options_.chunk_cells / 2;
  std::vector<Chunk*> chunks;
  size_t begin = 0;
  do {
    size_t end = std::min(items.size(), begin + half);
    if (items.size() - end < half / 2) end = items.size();
    while (end < items.size() && items[end].key == items[end - 1].key) ++end;
    const uint64_t min_key = chunks.empty() ? rebalance->first->min_key : items[begin].key;
    Chunk* const chunk =
        Chunk::make(&memory_, min_key, options_.chunk_cells, options_.updates_max, rebalance, Chunk::kUnset);
    chunk->fill(items.data() + begin, items.data() + end);
    if (!chunks.empty()) chunks.back()->next = Chunk::link_to(chunk);
    chunks.push_back(chunk);
    begin = end;
  } while (begin < items.size());
  return chunks;
}

void Kiwi::build(Rebalance* rebalance) {
  auto* own = new Section;
  Chunk* end = rebalance->first;
  for (; end != nullptr && end->rebalance.load() == rebalance; end = end->successor()) own->old.push_back(end);
  freeze(own->old);
  const std::vector<uint64_t> versions = needed_versions(rebalance->first->min_key, end);
  std::vector<Item> items;
  for (const Chunk* chunk : own->old) chunk->collect(&items);
  own->fresh = make_chunks(needed_of(items, versions), rebalance);
  step("kiwi.built");
  Section* agreed = nullptr;
  if (rebalance->section.compare_exchange_strong(agreed, own)) {
    // Chunks let go of it when they are reclaimed, which is not before our guard ends.
    rebalance->holders.fetch_add(static_cast<uint32_t>(own->old.size() + own->fresh.size()));
    return;
  }
  for (Chunk* chunk : own->fresh) chunk->free(&memory_);
  delete own;
}

// ---- 5. replace

// The link to the chunk of that key or, if it is gone, to the next chunk; *owner is null for the list's head.
std::atomic<uintptr_t>* Kiwi::link_before(uint64_t min_key, Chunk** owner) {
  *owner = nullptr;
  std::atomic<uintptr_t>* before = &head_;
  if (min_key > 0) {
    if (const std::optional<Record> indexed = index_.floor(min_key - 1)) {
      *owner = Chunk::of(indexed->value);
      before = &(*owner)->next;
    }
  }
  for (Chunk* next = Chunk::of(before->load()); next != nullptr && next->min_key < min_key; next = next->successor()) {
    *owner = next;
    before = &next->next;
  }
  return before;
}

// True in the thread that put the section in the place of the old chunks; it is linked when this returns.
bool Kiwi::link(Rebalance* rebalance) {
  Section* const section = rebalance->section.load();
  step("kiwi.seal");
  const uintptr_t after = section->old.back()->next.fetch_or(Chunk::kMark) & ~Chunk::kMark;
  uintptr_t unset = Chunk::kUnset;
  section->fresh.back()->next.compare_exchange_strong(unset, after);
  Chunk* const fresh = section->fresh.front();
  const uintptr_t old = Chunk::link_to(rebalance->first);
  while (!rebalance->linked.load()) {
    Chunk* owner;
    std::atomic<uintptr_t>* const before = link_before(rebalance->first->min_key, &owner);
    uintptr_t found = before->load();
    step("kiwi.replace");
    if (found == old && before->compare_exchange_strong(found, Chunk::link_to(fresh))) {
      rebalance->linked.store(true);
      return true;
    }
    if (found == (old | Chunk::kMark)) {
      this->rebalance(owner);  // it is being replaced, too
    } else if (Chunk::of(found) == fresh || fresh->rebalance.load() != nullptr) {
      rebalance->linked.store(true);
    }
    // Else the index led to a chunk that has been replaced.
  }
  return false;
}

// ---- 6. update the index, 7. let puts in

void Kiwi::normalize(Rebalance* rebalance) {
  if (rebalance->normalized.load()) return;
  const Section* const section = rebalance->section.load();
  step("kiwi.index");
  {
    const std::lock_guard lock(index_lock_);
    for (const Chunk* chunk : section->fresh) {
      if (!chunk->frozen.load()) index_.put(chunk->min_key, Chunk::link_to(chunk));
    }
    for (const Chunk* chunk : section->old) {
      const std::optional<Record> indexed = index_.floor(chunk->min_key);
      if (indexed && indexed->value == Chunk::link_to(chunk)) index_.remove(chunk->min_key);
    }
  }
  step("kiwi.normalize");
  rebalance->normalized.store(true);
}

// ---- memory

void Kiwi::retire(const std::vector<Chunk*>& chunks) {
  const auto reclaim = [](void* dead, void* memory) {
    auto* const chunk = static_cast<Chunk*>(dead);
    let_go(static_cast<Memory*>(memory), chunk->rebalance.load());
    let_go(static_cast<Memory*>(memory), chunk->parent);
    chunk->free(static_cast<Memory*>(memory));
  };
  for (Chunk* chunk : chunks) memory_.retire(chunk, reclaim, &memory_, chunk->bytes());
}

void Kiwi::let_go(Memory* memory, Rebalance* rebalance) {
  if (rebalance == nullptr || rebalance->holders.fetch_sub(1) != 1) return;
  delete rebalance->section.load();
  memory->destroy(rebalance);
}

}  // namespace bonsai::bench::maps
