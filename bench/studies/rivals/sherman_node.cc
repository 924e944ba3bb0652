// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/sherman_node.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"

namespace bonsai::bench::rivals::sherman {

Address child_of(const Head& head, const std::vector<Record>& records, const Key& key) {
  const auto after = std::upper_bound(records.begin(), records.end(), key,
                                      [](const Key& wanted, const Record& record) { return wanted < record.key; });
  return after == records.begin() ? head.leftmost : address_in(std::prev(after)->word);
}

const IndexCache::Known* IndexCache::page_of(const Key& key) const {
  const auto after = pages_.upper_bound(key);
  if (after == pages_.begin()) return nullptr;
  const Known& known = *std::prev(after)->second;
  return covers(known.head, key) ? &known : nullptr;
}

bool IndexCache::find(const Key& key, Address* leaf) const {
  const std::shared_lock lock(mutex_);
  const Known* const known = page_of(key);
  if (known == nullptr) return false;
  known->used.fetch_add(1, std::memory_order_relaxed);
  *leaf = child_of(known->head, known->records, key);
  return true;
}

std::vector<Address> IndexCache::leaves_from(const Key& key, size_t leaves_max) const {
  const std::shared_lock lock(mutex_);
  const Known* const known = page_of(key);
  if (known == nullptr) return {};
  known->used.fetch_add(1, std::memory_order_relaxed);
  std::vector<Address> leaves{child_of(known->head, known->records, key)};
  for (const Record& record : known->records) {
    if (leaves.size() == leaves_max) break;
    if (record.key > key) leaves.push_back(address_in(record.word));
  }
  return leaves;
}

void IndexCache::put(const Head& head, const std::vector<Record>& records) {
  if (pages_max_ == 0) return;
  const std::unique_lock lock(mutex_);
  auto at = pages_.upper_bound(head.lowest);
  if (at != pages_.begin() && covers(std::prev(at)->second->head, head.lowest)) --at;
  while (at != pages_.end() && (at->first <= head.lowest || at->first < head.highest)) forget(at++);
  while (all_.size() >= pages_max_) {
    const Known* const one = all_[random_.below(all_.size())];
    const Known* const other = all_[random_.below(all_.size())];
    forget(pages_.find((one->used.load() < other->used.load() ? one : other)->head.lowest));
  }
  auto known = std::make_unique<Known>();
  known->head = head;
  known->records = records;
  known->index = all_.size();
  all_.push_back(known.get());
  pages_.emplace(head.lowest, std::move(known));
}

void IndexCache::forget(Pages::iterator page) {
  const size_t index = page->second->index;
  all_[index] = all_.back();
  all_[index]->index = index;
  all_.pop_back();
  pages_.erase(page);
}

void IndexCache::drop(const Key& key) {
  const std::unique_lock lock(mutex_);
  const Known* const known = page_of(key);
  if (known != nullptr) forget(pages_.find(known->head.lowest));
}

size_t IndexCache::bytes() const {
  const std::shared_lock lock(mutex_);
  return all_.size() * kPageBytes;
}

bool LocalLocks::acquire(size_t lock) {
  Lock& taken = locks_[lock];
  const uint32_t ticket = taken.next.fetch_add(1, std::memory_order_relaxed);
  for (base::BoundedWait wait("sherman.local_lock", base::kUnboundedMs);
       taken.serving.load(std::memory_order_acquire) != ticket;) {
    if (poll_ns_ == 0) {
      wait.pause();
    } else {
      base::yield_until(base::now_ns() + poll_ns_);
    }
  }
  return std::exchange(taken.passed_on, false);
}

uint32_t LocalLocks::queued(size_t lock) const {
  const Lock& held = locks_[lock];
  return held.next.load(std::memory_order_relaxed) - held.serving.load(std::memory_order_relaxed) - 1;
}

bool LocalLocks::passes_on(size_t lock) {
  Lock& held = locks_[lock];
  const bool passes = queued(lock) > 0 && held.handovers < handovers_max_;
  held.handovers = passes ? held.handovers + 1 : 0;
  return passes;
}

void LocalLocks::release(size_t lock, bool passed_on) {
  Lock& held = locks_[lock];
  held.passed_on = passed_on;
  held.serving.store(held.serving.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void ComputeNode::note_root(uint64_t word) {
  uint64_t known = root();
  while (Root::level(word) >= Root::level(known) && known != word && !root_.compare_exchange_weak(known, word)) {
  }
}

}  // namespace bonsai::bench::rivals::sherman
