// SPDX-License-Identifier: Apache-2.0
#include "rdma/shm/regions.h"

#include "base/check.h"
#include "base/probe.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "rdma/provider.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kAccessMsMax = 60'000;

base::Probe waited{"shm.region_gone_amid_an_access"};
base::Probe stopped{"shm.region_gone_amid_the_access_of_a_stopped_process"};

}  // namespace

bool ShmAccessor::wait_out(uint64_t region, base::BoundedWait* wait) const {
  const uint64_t inside = turn->count.load(std::memory_order_seq_cst);
  if (inside % 2 == 0) return true;
  if (region != kAnyRegion && turn->key.load(std::memory_order_acquire) != region) return true;  // or it has continued
  waited.hit();
  base::BoundedWait threads("shm.access_in_flight", kAccessMsMax);
  base::BoundedWait* const bound = is_process ? wait : &threads;
  for (; turn->count.load(std::memory_order_acquire) == inside && !gone->load(); bound->pause()) {
    if (!bound->expired()) continue;
    BONSAI_CHECK(is_process);  // a thread of this process does not stop by itself
    stopped.hit();
    return false;
  }
  return true;
}

Outcome ShmView::find(const WorkRequest& request, std::byte** target) const {
  uint64_t offset = 0;
  const Outcome outcome = check_access(request, request.local.bytes(), region, rights, &offset);
  if (outcome != Outcome::kDone) return outcome;
  *target = memory + offset;
  BONSAI_DCHECK(mapping.empty() ||
                (*target >= mapping.data() && *target + request.local.bytes() <= mapping.data() + mapping.size()));
  return outcome;
}

Status ShmRegions::make(bool between_processes, std::shared_ptr<ShmRegions>* regions) {
  auto made = std::make_shared<ShmRegions>();
  BONSAI_RETURN_IF_ERROR(SharedMemory::make(kTableBytes, &made->table_));
  made->between_processes_ = between_processes;
  for (size_t place = kRegionsMax; place > 0; --place) made->free_places_.push_back(place - 1);
  *regions = std::move(made);
  return Status::OK();
}

Status ShmRegions::add(std::span<std::byte> memory, Rights rights, int file, uint64_t* key) {
  Entry entry;
  const bool reachable = rights.read || rights.write || rights.atomic;
  if (between_processes_ && reachable) {
    BONSAI_RETURN_IF_ERROR(file >= 0 ? share_backing(file, &entry.backing)
                                     : find_backing(memory, rights.write || rights.atomic, &entry.backing));
  }
  const std::lock_guard lock(mutex_);
  if (free_places_.empty()) {
    return Status::NoSpace(std::to_string(kRegionsMax) + " regions are registered; register fewer, larger ones");
  }
  do base::random_secret(std::as_writable_bytes(std::span(key, 1)));
  while (*key == 0 || entries_.count(*key) != 0);
  entry.place = free_places_.back();
  free_places_.pop_back();
  entry.view.region = {*key, reinterpret_cast<uintptr_t>(memory.data()), memory.size()};
  entry.view.rights = rights;
  entry.view.word = &word(entry.place);
  entry.view.memory = memory.data();
  word(entry.place).store(*key, std::memory_order_seq_cst);
  entries_[*key] = std::move(entry);
  BONSAI_CHECK(entries_.size() + free_places_.size() <= kRegionsMax);  // no place has two regions
  return Status::OK();
}

void ShmRegions::remove(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const size_t place = entries_.at(key).place;
  word(place).store(0, std::memory_order_seq_cst);
  bool left = true;
  base::BoundedWait wait("shm.stopped_process", kStoppedMsMax);
  for (const auto& [owner, accessor] : accessors_) left = accessor.wait_out(key, &wait) && left;
  entries_.erase(key);
  BONSAI_CHECK(place < kRegionsMax && entries_.size() + free_places_.size() < kRegionsMax);
  if (left) free_places_.push_back(place);  // else that process may read the place again when it continues
}

void ShmRegions::attach(const void* owner, ShmAccessor accessor) {
  const std::lock_guard lock(mutex_);
  const bool is_new = accessors_.emplace(owner, accessor).second;
  BONSAI_CHECK(is_new);
}

void ShmRegions::detach(const void* owner) {
  const std::lock_guard lock(mutex_);
  const size_t erased = accessors_.erase(owner);
  BONSAI_CHECK(erased == 1);
}

bool ShmRegions::view(uint64_t key, ShmView* view) {
  return describe(key, [&](const ShmView& found, size_t, const ShmBacking&) { *view = found; });
}

}  // namespace bonsai::rdma
