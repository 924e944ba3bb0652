#include "persist/space.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "persist/format.h"

namespace bonsai::persist {

void Space::Target::insert(uint64_t offset, uint64_t bytes) {
  by_offset.emplace(offset, bytes);
  by_size.emplace(bytes, offset);
}

void Space::Target::erase(std::map<uint64_t, uint64_t>::iterator it) {
  by_size.erase({it->second, it->first});
  by_offset.erase(it);
}

// Best fit, lowest address among equals. Returns 0 when nothing fits (offset 0 is never data).
uint64_t Space::Target::take(uint64_t bytes, uint64_t align) {
  for (auto it = by_size.lower_bound({bytes, 0}); it != by_size.end(); ++it) {
    const auto [size, offset] = *it;
    const uint64_t start = round_up(offset, align);
    if (start + bytes > offset + size) continue;
    erase(by_offset.find(offset));
    if (start > offset) insert(offset, start - offset);
    if (start + bytes < offset + size) insert(start + bytes, offset + size - start - bytes);
    free_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    return start;
  }
  return 0;
}

void Space::add_target(uint64_t begin, uint64_t end, uint64_t reserve_bytes) {
  BONSAI_CHECK(begin > 0 && begin % kBlockBytes == 0 && end % kBlockBytes == 0 && begin <= end);
  auto target = std::make_unique<Target>();
  if (end > begin) target->insert(begin, end - begin);
  target->free_bytes = end - begin;
  target->reserve_bytes = std::min(reserve_bytes, end - begin);
  reserve_bytes_ += target->reserve_bytes;
  capacity_bytes_ += end - begin;
  targets_.push_back(std::move(target));
}

scale::Addr Space::allocate(uint64_t bytes, Use use, uint64_t align) {
  bytes = round_up(std::max<uint64_t>(bytes, 1), kBlockBytes);
  const scale::Addr addr = take(bytes, std::max(align, kBlockBytes), use);
  if (!addr.is_nil()) used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return addr;
}

bool Space::set_aside(uint64_t bytes) {
  return !take(round_up(bytes, kBlockBytes), kBlockBytes, Use::kReserve).is_nil();
}

scale::Addr Space::take(uint64_t bytes, uint64_t align, Use use) {
  std::vector<std::pair<uint64_t, size_t>> order;  // (free bytes, target), emptiest target first
  for (size_t i = 0; i < targets_.size(); ++i) order.emplace_back(targets_[i]->free_bytes.load(), i);
  std::sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.first > b.first; });
  for (const auto& [unused, i] : order) {
    Target& target = *targets_[i];
    const std::lock_guard lock(target.mutex);
    const uint64_t floor_bytes = use == Use::kOrdinary ? target.reserve_bytes : 0;
    if (target.free_bytes.load() < bytes + floor_bytes) continue;
    if (const uint64_t offset = target.take(bytes, align)) return {i, offset};
  }
  return {};
}

void Space::free(scale::Addr addr, uint64_t bytes) {
  bytes = round_up(bytes, kBlockBytes);
  if (bytes == 0) return;
  Target& target = *targets_[addr.target()];
  const std::lock_guard lock(target.mutex);
  uint64_t begin = addr.offset();
  uint64_t end = begin + bytes;
  const auto next = target.by_offset.lower_bound(begin);
  BONSAI_CHECK(next == target.by_offset.end() || next->first >= end);
  if (next != target.by_offset.begin()) {
    const auto prev = std::prev(next);
    BONSAI_CHECK(prev->first + prev->second <= begin);
    if (prev->first + prev->second == begin) {
      begin = prev->first;
      target.erase(prev);
    }
  }
  if (const auto after = target.by_offset.find(end); after != target.by_offset.end()) {
    end += after->second;
    target.erase(after);
  }
  target.insert(begin, end - begin);
  target.free_bytes.fetch_add(bytes, std::memory_order_relaxed);
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

bool Space::reserve(scale::Addr addr, uint64_t bytes) {
  if (addr.target() >= targets_.size() || addr.offset() % kBlockBytes != 0) return false;
  bytes = round_up(bytes, kBlockBytes);
  if (bytes == 0) return true;
  Target& target = *targets_[addr.target()];
  const std::lock_guard lock(target.mutex);
  const uint64_t begin = addr.offset();
  auto it = target.by_offset.upper_bound(begin);
  if (it == target.by_offset.begin()) return false;
  --it;
  const auto [offset, size] = *it;
  if (begin + bytes > offset + size) return false;
  target.erase(it);
  if (begin > offset) target.insert(offset, begin - offset);
  if (begin + bytes < offset + size) target.insert(begin + bytes, offset + size - begin - bytes);
  target.free_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

uint64_t Space::ordinary_free_bytes() const {
  uint64_t free = 0;
  for (const auto& target : targets_) {
    const uint64_t have = target->free_bytes.load(std::memory_order_relaxed);
    if (have > target->reserve_bytes) free += have - target->reserve_bytes;
  }
  return free;
}

}  // namespace bonsai::persist
