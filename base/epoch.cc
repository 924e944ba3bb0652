// SPDX-License-Identifier: Apache-2.0
#include "base/epoch.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

constinit std::atomic<uint64_t> domain_ids{0};

// True while a reclaim function runs on this thread: objects that it retires wait for a later collection, so that
// chains of dependent objects do not recurse.
constinit thread_local bool reclaiming = false;

}  // namespace

EpochDomain::EpochDomain(size_t slots_initial)
    : id_(domain_ids.fetch_add(1, std::memory_order_relaxed) + 1),
      first_chunk_(std::make_unique<Chunk>()),
      shards_(std::make_unique<std::array<Shard, kShards>>()) {
  Chunk* chunk = first_chunk_.get();
  for (size_t slots = kSlotsPerChunk; slots < slots_initial; slots += kSlotsPerChunk) chunk = next_chunk(*chunk);
}

EpochDomain::~EpochDomain() {
  for (Chunk* chunk = first_chunk_.get(); chunk != nullptr; chunk = chunk->next.load()) {
    for (Slot& slot : chunk->slots) {
      const bool guard_outlives_domain = slot.epoch.load() != 0;
      BONSAI_CHECK(!guard_outlives_domain);
    }
  }
  reclaim_all();
  for (Chunk* chunk = first_chunk_->next.load(); chunk != nullptr;) {
    delete std::exchange(chunk, chunk->next.load());
  }
}

EpochDomain::Slot* EpochDomain::pin_slot_in(Chunk& chunk, size_t first) {
  for (size_t i = 0; i < kSlotsPerChunk; ++i) {
    Slot& slot = chunk.slots[(first + i) % kSlotsPerChunk];
    if (slot.epoch.load(std::memory_order_relaxed) == 0 && try_pin(slot)) return &slot;
  }
  return nullptr;
}

EpochDomain::Slot* EpochDomain::pin_any_slot() {
  // Threads begin their search at different places, so that each settles on its own slots.
  const size_t first = thread_ordinal() * 8;
  for (Chunk* chunk = first_chunk_.get();; chunk = next_chunk(*chunk)) {
    if (Slot* slot = pin_slot_in(*chunk, first)) return slot;
  }
}

EpochDomain::Chunk* EpochDomain::next_chunk(Chunk& chunk) {
  if (Chunk* next = chunk.next.load()) return next;
  auto fresh = std::make_unique<Chunk>();
  Chunk* next = nullptr;
  return chunk.next.compare_exchange_strong(next, fresh.get()) ? fresh.release() : next;
}

uint64_t EpochDomain::advance_and_find_oldest() {
  uint64_t oldest = epoch_.fetch_add(1) + 1;
  barrier();
  for (Chunk* chunk = first_chunk_.get(); chunk != nullptr; chunk = chunk->next.load()) {
    step("epoch.scan");
    for (const Slot& slot : chunk->slots) {
      const uint64_t pinned = slot.epoch.load();
      if (pinned != 0) oldest = std::min(oldest, pinned);
    }
  }
  return oldest;
}

EpochDomain::Shard& EpochDomain::lock_any_shard() {
  BoundedWait wait("epoch.shard", kUnboundedMs);
  for (size_t i = thread_ordinal();; ++i) {
    Shard& shard = (*shards_)[i % kShards];
    if (shard.try_lock()) return shard;
    wait.pause();
  }
}

void EpochDomain::retire(void* object, Reclaim reclaim, void* context, size_t bytes) {
  Shard& shard = lock_any_shard();
  barrier();
  step("epoch.stamp");
  try {
    shard.limbo.push_back({object, context, reclaim, epoch_.load(), bytes});
  } catch (const std::bad_alloc&) {  // the object is lost, which is the least harm
    return shard.unlock();
  }
  shard.objects_retired.store(shard.objects_retired.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  shard.bytes_retired.store(shard.bytes_retired.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  const bool due = --shard.retires_to_collect == 0;
  if (due) shard.retires_to_collect = kRetiresPerCollect;
  shard.unlock();
  if (due && !reclaiming) collect_some(shard);
}

void EpochDomain::collect_some(Shard& own) {
  const uint64_t oldest = advance_and_find_oldest();
  collect_shard(own, oldest, kReclaimsPerRetire);
  // Also reclaims from another shard in turn, because threads that exited leave objects in theirs.
  Shard& other = (*shards_)[next_shard_.fetch_add(1, std::memory_order_relaxed) % kShards];
  collect_shard(other, oldest, kReclaimsPerRetire);
}

void EpochDomain::collect_shard(Shard& shard, uint64_t oldest, size_t objects_max) {
  if (shard.objects_retired.load(std::memory_order_relaxed) ==
          shard.objects_reclaimed.load(std::memory_order_relaxed) ||
      !shard.try_lock()) {
    return;
  }
  if (shard.collecting) return shard.unlock();
  shard.collecting = true;
  step("epoch.collect");
  for (size_t done = 0; done < objects_max;) {
    std::array<Retired, kBatch> batch;
    size_t count = 0;
    while (count < kBatch && !shard.limbo.empty() && shard.limbo.front().epoch < oldest) {
      batch[count++] = shard.limbo.front();
      shard.limbo.pop_front();
    }
    if (count == 0) break;
    shard.unlock();
    size_t bytes = 0;
    const bool nested = std::exchange(reclaiming, true);
    for (size_t i = 0; i < count; ++i) {
      try {
        batch[i].reclaim(batch[i].object, batch[i].context);
      } catch (const std::bad_alloc&) {  // as in retire()
      }
      bytes += batch[i].bytes;
    }
    reclaiming = nested;
    done += count;
    shard.bytes_reclaimed.fetch_add(bytes, std::memory_order_relaxed);
    shard.objects_reclaimed.fetch_add(count, std::memory_order_release);
    for (BoundedWait wait("epoch.shard", kUnboundedMs); !shard.try_lock();) wait.pause();
  }
  shard.collecting = false;
  shard.unlock();
}

void EpochDomain::collect() {
  if (reclaiming) return;
  const uint64_t oldest = advance_and_find_oldest();
  for (Shard& shard : *shards_) collect_shard(shard, oldest, SIZE_MAX);
}

bool EpochDomain::drain(uint64_t limit_ms) {
  std::array<uint64_t, kShards> targets;
  for (size_t i = 0; i < kShards; ++i) targets[i] = (*shards_)[i].objects_retired.load(std::memory_order_acquire);
  const auto reached = [&] {
    for (size_t i = 0; i < kShards; ++i) {
      if ((*shards_)[i].objects_reclaimed.load(std::memory_order_acquire) < targets[i]) return false;
    }
    return true;
  };
  BoundedWait wait("epoch.drain", limit_ms);
  for (collect(); !reached(); collect()) {
    if (wait.expired()) return false;
    wait.pause();
  }
  return true;
}

void EpochDomain::reclaim_all() {
  // Reclaim functions may retire more, hence the loop. Each round reclaims all that the round before left, since no
  // guard is alive; a round that reclaims nothing would mean an endless loop.
  while (retired_objects() != 0) {
    const uint64_t oldest = advance_and_find_oldest();
    const uint64_t before = reclaimed_objects();
    for (Shard& shard : *shards_) collect_shard(shard, oldest, SIZE_MAX);
    const bool progress = reclaimed_objects() != before;
    BONSAI_CHECK(progress);
  }
}

uint64_t EpochDomain::reclaimed_objects() const {
  uint64_t reclaimed = 0;
  for (const Shard& shard : *shards_) reclaimed += shard.objects_reclaimed.load(std::memory_order_acquire);
  return reclaimed;
}

size_t EpochDomain::retired_objects() const {
  const uint64_t reclaimed = reclaimed_objects();  // first, so that the difference is not negative
  uint64_t retired = 0;
  for (const Shard& shard : *shards_) retired += shard.objects_retired.load(std::memory_order_relaxed);
  return retired - reclaimed;
}

size_t EpochDomain::retired_bytes() const {
  uint64_t reclaimed = 0, retired = 0;
  for (const Shard& shard : *shards_) reclaimed += shard.bytes_reclaimed.load(std::memory_order_acquire);
  for (const Shard& shard : *shards_) retired += shard.bytes_retired.load(std::memory_order_relaxed);
  return retired - reclaimed;
}

size_t EpochDomain::slot_count() const {
  size_t slots = 0;
  for (Chunk* chunk = first_chunk_.get(); chunk != nullptr; chunk = chunk->next.load()) slots += kSlotsPerChunk;
  return slots;
}

}  // namespace bonsai::base
