// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/kiwi.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "base/step.h"
#include "bench/studies/maps/kiwi_rebalance.h"

namespace bonsai::bench::maps {

using base::step;
using kiwi::Cell;
using kiwi::Item;
using kiwi::kFrozen;
using kiwi::kNone;
using kiwi::kNoVersion;
using kiwi::Pending;
using kiwi::ValueWord;

namespace {

// The policy of the paper: with this chance when the sorted prefix is below this share of the list.
constexpr uint64_t kRebalancePercent = 15;
constexpr uint32_t kSortedNumerator = 5, kSortedDenominator = 8;

}  // namespace

Kiwi::Kiwi(const KiwiOptions& options)
    : options_(options), slots_(options.updates_max), scans_(new PendingScan[options.updates_max]) {
  BONSAI_CHECK(options.updates_max < options.chunk_cells / 4);
  Chunk* const first = Chunk::make(&memory_, 0, options.chunk_cells, options.updates_max, nullptr, 0);
  head_ = Chunk::link_to(first);
  index_.put(0, head_);
}

Kiwi::~Kiwi() {
  for (Chunk* chunk = Chunk::of(head_); chunk != nullptr;) {
    Chunk* const next = chunk->successor();
    let_go(&memory_, chunk->parent);
    chunk->free(&memory_);
    chunk = next;
  }
}

size_t Kiwi::chunks() const {
  size_t count = 0;
  for (const Chunk* chunk = Chunk::of(head_); chunk != nullptr; chunk = chunk->successor()) ++count;
  return count;
}

// The chunk of the key. It may be replaced at any time.
Kiwi::Chunk* Kiwi::locate(uint64_t key) {
  const std::optional<Record> indexed = index_.floor(key);
  Chunk* chunk = Chunk::of(indexed ? indexed->value : head_.load());
  for (;;) {
    step("kiwi.locate");
    Chunk* const next = chunk->successor();
    if (next == nullptr || next->min_key > key) return chunk;
    chunk = next;
  }
}

// Whether the chunk takes puts and needs no rebalance. If not, this call has normalized or rebalanced it.
bool Kiwi::is_settled(Chunk* chunk, uint64_t key) {
  if (kiwi::is_infant(chunk)) {
    normalize(chunk->parent);
    return false;
  }
  const uint32_t allocated = chunk->allocated.load(std::memory_order_relaxed);
  const uint32_t linked = chunk->linked.load(std::memory_order_relaxed);
  const bool is_unsorted = chunk->batched * kSortedDenominator < linked * kSortedNumerator;
  const bool is_due = is_unsorted && base::splitmix64(key ^ base::splitmix64(allocated)) % 100 < kRebalancePercent;
  if (!is_due && allocated < chunk->cells_max && !chunk->frozen.load()) return true;
  rebalance(chunk);
  return false;
}

void Kiwi::update(uint64_t key, uint64_t value, bool removes) {
  const auto guard = memory_.enter();
  const Slots::Slot slot = slots_.take();
  for (;;) {
    Chunk* const chunk = locate(key);
    if (!is_settled(chunk, key)) continue;
    if (try_update(chunk, slot.number(), key, value, removes)) return;
    rebalance(chunk);
  }
}

// False when the chunk is full or frozen.
bool Kiwi::try_update(Chunk* chunk, uint32_t slot, uint64_t key, uint64_t value, bool removes) {
  const uint32_t i = chunk->allocated.fetch_add(1);
  if (i >= chunk->cells_max) return false;
  const ValueWord word = ValueWord::of(i, removes);
  Cell& cell = chunk->cells[i];
  cell.key = key;
  cell.value.store(word.word, std::memory_order_relaxed);
  chunk->values[i] = value;
  step("kiwi.publish");
  std::atomic<uint64_t>& entry = chunk->pending[slot];
  const Pending published = Pending::of(kNoVersion, word);
  uint64_t nothing = 0;
  if (!entry.compare_exchange_strong(nothing, published.word)) return false;
  const Pending put = help(&entry, published);
  if (!put.is_put()) return false;
  cell.version = put.version();
  chunk->insert(i, word);
  step("kiwi.clear");
  entry.store(0);
  return true;
}

// Gives a put that was seen without a version one. Returns what its entry then holds.
Pending Kiwi::help(std::atomic<uint64_t>* entry, Pending put) {
  // The version must be read after the put was seen, else a scan may have begun and passed in between.
  step("kiwi.read_version");
  const uint64_t version = version_.load();
  step("kiwi.help");
  const Pending versioned = put.with_version(version);
  if (entry->compare_exchange_strong(put.word, versioned.word)) return versioned;
  return put;
}

// The pending puts of the range whose version is at most `version`, in order; those without one get one.
void Kiwi::pending_in(Chunk* chunk, uint64_t from, uint64_t to, uint64_t version, std::vector<Item>* puts) {
  puts->clear();
  const uint32_t used = slots_.used();
  for (uint32_t slot = 0; slot < used; ++slot) {
    Pending put{chunk->pending[slot].load()};
    if (!put.has_cell()) continue;
    const ValueWord seen = put.value();
    const uint64_t key = chunk->cells[seen.place()].key;
    if (key < from || key > to) continue;
    if (put.version() == kNoVersion) put = help(&chunk->pending[slot], put);
    // Another put of the slot is a later one, and this one is in the list.
    if (put.is_put() && put.value().word == seen.word && put.version() <= version) puts->push_back(chunk->item_of(put));
  }
  if (puts->size() > 1) std::sort(puts->begin(), puts->end(), kiwi::is_before);
}

bool Kiwi::get(uint64_t key, uint64_t* value) {
  const auto guard = memory_.enter();
  Chunk* const chunk = locate(key);
  std::optional<Item> newest;
  const uint32_t used = slots_.used();
  for (uint32_t slot = 0; slot < used; ++slot) {
    Pending put{chunk->pending[slot].load(std::memory_order_acquire)};
    if (!put.has_cell()) continue;
    const ValueWord seen = put.value();
    if (chunk->cells[seen.place()].key != key) continue;
    if (put.version() == kNoVersion) put = help(&chunk->pending[slot], put);
    if (!put.is_put() || put.value().word != seen.word) continue;
    const Item item = chunk->item_of(put);
    if (!newest || kiwi::is_before(item, *newest)) newest = item;
  }
  step("kiwi.get");
  std::atomic<uint32_t>* before;
  const uint32_t i = chunk->find(key, kiwi::kNewest, &before);
  if (i != kNone && chunk->cells[i].key == key) {
    const Item item = chunk->item_of(chunk->cells[i]);
    if (!newest || kiwi::is_before(item, *newest)) newest = item;
  }
  if (!newest || newest->order.removes()) return false;
  *value = newest->value;
  return true;
}

// Makes the scan known, then takes its version, or the one that a rebalance gave it.
uint64_t Kiwi::begin_scan(uint32_t slot, uint64_t from, uint64_t to) {
  PendingScan& scan = scans_[slot];
  scan.from.store(from);
  scan.to.store(to);
  uint64_t waiting = 2 * version_.load() + 1;
  step("kiwi.announce");
  scan.word.store(waiting);
  step("kiwi.scan_version");
  const uint64_t version = version_.fetch_add(1);
  step("kiwi.scan_begin");
  scan.word.compare_exchange_strong(waiting, 2 * version);
  return scan.word.load() / 2;
}

void Kiwi::scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) {
  const auto guard = memory_.enter();
  const Slots::Slot slot = slots_.take();
  records->clear();
  const uint64_t version = begin_scan(slot.number(), from, to);
  std::vector<Item> puts;
  for (Chunk* chunk = locate(from); chunk != nullptr && chunk->min_key <= to; chunk = chunk->successor()) {
    pending_in(chunk, from, to, version, &puts);
    step("kiwi.scan");
    if (!scan_chunk(chunk, puts, from, to, version, limit, records)) break;
  }
  scans_[slot.number()].word.store(0);
}

// Appends the chunk's records of the range. False when the scan is at its end.
bool Kiwi::scan_chunk(Chunk* chunk, const std::vector<Item>& puts, uint64_t from, uint64_t to, uint64_t version,
                      size_t limit, std::vector<Record>* records) {
  std::atomic<uint32_t>* before;
  uint32_t i = chunk->find(from, kiwi::kNewest, &before);
  auto put = puts.begin();
  while (records->size() < limit) {
    step("hop");
    while (i != kNone && chunk->cells[i].version > version) i = chunk->cells[i].next.load(std::memory_order_acquire);
    const bool has_cell = i != kNone && chunk->cells[i].key <= to;
    if (!has_cell && put == puts.end()) return i == kNone;
    Item item = has_cell ? chunk->item_of(chunk->cells[i]) : *put;
    if (put != puts.end() && kiwi::is_before(*put, item)) item = *put;
    if (!item.order.removes()) records->push_back({item.key, item.value});
    while (put != puts.end() && put->key == item.key) ++put;
    while (i != kNone && chunk->cells[i].key == item.key) i = chunk->cells[i].next.load(std::memory_order_acquire);
  }
  return false;
}

}  // namespace bonsai::bench::maps
