// SPDX-License-Identifier: Apache-2.0
#include "persist/space.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "persist/format.h"

namespace bonsai::persist {

namespace {

template <class Intervals>
[[maybe_unused]] uint64_t bytes_of(const Intervals& intervals) {
  uint64_t sum = 0;
  for (const auto& [offset, bytes] : intervals) sum += bytes;
  return sum;
}

}  // namespace

// These four change nothing if they throw bad_alloc: what allocates goes first.
void Space::Target::insert(uint64_t offset, uint64_t bytes) {
  BONSAI_INVARIANT(bytes > 0 && offset % kBlockBytes == 0 && bytes % kBlockBytes == 0);
  by_size.emplace(bytes, offset);
  absl::Cleanup undo = [&] { by_size.erase({bytes, offset}); };
  by_offset.emplace(offset, bytes);
  std::move(undo).Cancel();
  BONSAI_INVARIANT(by_offset.size() == by_size.size());
}

void Space::Target::erase(ByOffset::iterator it) {
  BONSAI_INVARIANT(by_size.erase({it->second, it->first}) == 1);
  by_offset.erase(it);
}

// Gives an interval another beginning or end, between those beside it.
void Space::Target::resize(ByOffset::iterator it, uint64_t offset, uint64_t bytes) {
  const auto [old_offset, old_bytes] = *it;
  if (offset == old_offset) {
    by_size.emplace(bytes, offset);
    it->second = bytes;
    BONSAI_INVARIANT(by_size.erase({old_bytes, old_offset}) == 1);
  } else {
    insert(offset, bytes);
    erase(by_offset.find(old_offset));
  }
}

// Takes [start, start + bytes) out of a free interval.
uint64_t Space::Target::cut(ByOffset::iterator it, uint64_t start, uint64_t bytes) {
  const auto [offset, size] = *it;
  const uint64_t end = start + bytes, rest = offset + size - end;
  BONSAI_INVARIANT(start >= offset && end <= offset + size);
  BONSAI_INVARIANT(free_bytes.load(std::memory_order_relaxed) >= bytes);
  if (start == offset && rest == 0) {
    erase(it);
  } else if (start == offset) {
    resize(it, end, rest);
  } else {
    if (rest > 0) insert(end, rest);
    absl::Cleanup undo = [&] {
      if (rest > 0) erase(by_offset.find(end));
    };
    resize(by_offset.find(offset), offset, start - offset);
    std::move(undo).Cancel();
  }
  free_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  return start;
}

// Best fit, lowest address among equals. Returns 0 when nothing fits (offset 0 is never data).
uint64_t Space::Target::take(uint64_t bytes, uint64_t align, Where where) {
  if (where == Where::kHigh) {
    if (const uint64_t start = take_high(bytes, align)) return start;
  }
  for (auto it = by_size.lower_bound({bytes, 0}); it != by_size.end(); ++it) {
    const auto [size, offset] = *it;
    const uint64_t start = round_up(offset, align);
    if (start + bytes <= offset + size) return cut(by_offset.find(offset), start, bytes);
  }
  return 0;
}

// Takes the first of the highest free intervals that fits. Returns 0 when none does.
uint64_t Space::Target::take_high(uint64_t bytes, uint64_t align) {
  constexpr int kLooksMax = 64;
  int looks = 0;
  for (auto next = by_offset.end(); next != by_offset.begin() && looks < kLooksMax; ++looks) {
    const auto it = --next;
    const auto [offset, size] = *it;
    if (size < bytes) continue;
    const uint64_t start = (offset + size - bytes) / align * align;
    if (start >= offset) return cut(it, start, bytes);
  }
  return 0;
}

// Joins a range to the free ones. If it throws bad_alloc, the range stays taken.
void Space::Target::give(uint64_t begin, uint64_t bytes) {
  const uint64_t end = begin + bytes;
  const auto next = by_offset.lower_bound(begin);
  BONSAI_CHECK(next == by_offset.end() || next->first >= end);
  const uint64_t bytes_after = next != by_offset.end() && next->first == end ? next->second : 0;
  const auto prev = next == by_offset.begin() ? by_offset.end() : std::prev(next);
  BONSAI_CHECK(prev == by_offset.end() || prev->first + prev->second <= begin);
  if (prev != by_offset.end() && prev->first + prev->second == begin) {
    resize(prev, prev->first, prev->second + bytes + bytes_after);
    if (bytes_after > 0) erase(by_offset.find(end));
  } else if (bytes_after > 0) {
    resize(next, begin, bytes + bytes_after);
  } else {
    insert(begin, bytes);
  }
  free_bytes.fetch_add(bytes, std::memory_order_relaxed);
  BONSAI_SLOW_INVARIANT(free_bytes.load(std::memory_order_relaxed) == bytes_of(by_offset));
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

scale::Addr Space::allocate(uint64_t bytes, Use use, uint64_t align, Where where) {
  bytes = round_up(std::max<uint64_t>(bytes, 1), kBlockBytes);
  scale::Addr addr = take(bytes, std::max(align, kBlockBytes), use, where);
  if (addr.is_nil() && use == Use::kReserve && align <= kBlockBytes) addr = take_lent(bytes);
  BONSAI_INVARIANT(addr.is_nil() || addr.offset() % std::max(align, kBlockBytes) == 0);
  if (!addr.is_nil()) used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return addr;
}

void Space::hold_relocation_reserve(uint64_t bytes) {
  const std::lock_guard lock(relocation_mutex_);
  BONSAI_CHECK(relocation_bytes_wanted_ == 0);
  relocation_bytes_wanted_ = round_up(bytes, kBlockBytes);
  bytes = std::min(relocation_bytes_wanted_, longest_free_bytes());
  const scale::Addr addr = bytes == 0 ? scale::Addr() : take(bytes, kBlockBytes, Use::kReserve, Where::kLow);
  if (!addr.is_nil()) piece_ = {addr, bytes};
  relocation_bytes_spent_ = relocation_bytes_wanted_ - piece_.bytes;
}

uint64_t Space::longest_free_bytes() const {
  uint64_t bytes = 0;
  for (size_t target = 0; target < targets_.size(); ++target) {
    for (const Piece& piece : free_pieces(target)) bytes = std::max(bytes, piece.bytes);
  }
  return bytes;
}

Space::Piece Space::relocation_reserve() const {
  const std::lock_guard lock(relocation_mutex_);
  return sliding_.bytes == 0 && !exchanging_ ? piece_ : Piece();
}

void Space::widen_relocation_reserve() {
  const std::lock_guard lock(relocation_mutex_);
  Target& target = *targets_[piece_.addr.target()];
  const std::lock_guard target_lock(target.mutex);
  const auto take_in = [&](Target::ByOffset::iterator it) {
    target.free_bytes.fetch_sub(it->second, std::memory_order_relaxed);
    piece_.bytes += it->second;
    target.erase(it);
  };
  if (const auto behind = target.by_offset.find(piece_.end().offset()); behind != target.by_offset.end()) {
    take_in(behind);
  }
  auto before = target.by_offset.lower_bound(piece_.addr.offset());
  if (before == target.by_offset.begin()) return;
  --before;
  if (before->first + before->second != piece_.addr.offset()) return;
  piece_.addr = scale::Addr(piece_.addr.target(), before->first);
  take_in(before);
}

scale::Addr Space::begin_slide(Piece used) {
  used.bytes = round_up(used.bytes, kBlockBytes);
  const std::lock_guard lock(relocation_mutex_);
  BONSAI_CHECK(sliding_.bytes == 0 && !exchanging_ && used.bytes <= piece_.bytes);
  BONSAI_CHECK(used.addr == piece_.end() || used.end() == piece_.addr);
  sliding_ = used;
  return used.addr == piece_.end() ? piece_.addr : piece_.addr + (piece_.bytes - used.bytes);
}

void Space::end_slide(bool copied) {
  const std::lock_guard lock(relocation_mutex_);
  const Piece used = std::exchange(sliding_, {});
  BONSAI_INVARIANT(used.bytes > 0);
  if (copied) piece_.addr = used.addr == piece_.end() ? piece_.addr + used.bytes : used.addr;
}

scale::Addr Space::cut_relocation_reserve(uint64_t bytes) {
  bytes = round_up(bytes, kBlockBytes);
  const std::lock_guard lock(relocation_mutex_);
  BONSAI_CHECK(sliding_.bytes == 0 && bytes < piece_.bytes);
  used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  const scale::Addr addr = piece_.addr;
  piece_ = {addr + bytes, piece_.bytes - bytes};
  return addr;
}

void Space::lend_relocation_reserve(bool lent) {
  const std::lock_guard lock(relocation_mutex_);
  lent_ = lent;
}

// From the lower end of the piece; nil when it is not lent, or not longer.
scale::Addr Space::take_lent(uint64_t bytes) {
  const std::lock_guard lock(relocation_mutex_);
  if (!lent_ || sliding_.bytes != 0 || exchanging_ || bytes >= piece_.bytes) return {};
  const scale::Addr addr = piece_.addr;
  piece_ = {addr + bytes, piece_.bytes - bytes};
  relocation_bytes_spent_.fetch_add(bytes, std::memory_order_relaxed);
  return addr;
}

// The free pieces of a window.
std::vector<Space::Piece> Space::Target::free_in(Piece piece) const {
  std::vector<Piece> free;
  auto it = by_offset.upper_bound(piece.addr.offset());
  if (it != by_offset.begin()) --it;
  for (; it != by_offset.end() && it->first < piece.end().offset(); ++it) {
    const uint64_t begin = std::max(it->first, piece.addr.offset());
    const uint64_t end = std::min(it->first + it->second, piece.end().offset());
    if (begin < end) free.push_back({{piece.addr.target(), begin}, end - begin});
  }
  return free;
}

// Keeps a part of the window. True: now all of it is kept, and it is a window no more.
bool Space::Target::withhold(Piece piece) {
  withheld.push_back(piece);
  withheld_bytes += piece.bytes;
  BONSAI_INVARIANT(withheld_bytes <= window.bytes);
  if (withheld_bytes != window.bytes) return false;
  forget_window();
  return true;
}

void Space::Target::forget_window() {
  window = {};
  withheld.clear();
  withheld_bytes = 0;
}

bool Space::begin_exchange(Piece window, uint64_t used_bytes) {
  const std::lock_guard lock(relocation_mutex_);
  BONSAI_CHECK(sliding_.bytes == 0 && !exchanging_ && used_bytes < piece_.bytes && used_bytes < window.bytes);
  Target& target = *targets_[window.addr.target()];
  bool whole = false;
  {
    const std::lock_guard target_lock(target.mutex);
    const std::vector<Piece> free = target.free_in(window);
    uint64_t free_bytes = 0;
    for (const Piece& piece : free) free_bytes += piece.bytes;
    if (free_bytes + used_bytes != window.bytes) return false;
    target.window = window;
    exchanging_ = true;
    for (const Piece& piece : free) {
      const uint64_t at = piece.addr.offset();
      target.cut(std::prev(target.by_offset.upper_bound(at)), at, piece.bytes);
      whole = target.withhold(piece);
    }
  }
  if (whole) end_exchange(window);
  return true;
}

void Space::give_up_exchange() {
  const std::lock_guard lock(relocation_mutex_);
  for (const auto& target : targets_) {
    const std::lock_guard target_lock(target->mutex);
    for (const Piece& piece : target->withheld) target->give(piece.addr.offset(), piece.bytes);
    target->forget_window();
  }
  exchanging_ = false;
}

// Requires: relocation_mutex_; all of the window is withheld.
void Space::end_exchange(Piece window) {
  const Piece rest = std::exchange(piece_, window);
  exchanging_ = false;
  Target& target = *targets_[rest.addr.target()];
  const std::lock_guard target_lock(target.mutex);
  target.give(rest.addr.offset(), rest.bytes);
}

std::vector<Space::Piece> Space::free_pieces(size_t target) const {
  const std::lock_guard lock(targets_[target]->mutex);
  std::vector<Piece> pieces;
  for (const auto& [offset, bytes] : targets_[target]->by_offset) pieces.push_back({{target, offset}, bytes});
  return pieces;
}

void Space::restore_relocation_reserve(bool keep_upper_end) {
  const std::lock_guard lock(relocation_mutex_);
  relocation_bytes_spent_ = relocation_bytes_wanted_ - std::min(piece_.bytes, relocation_bytes_wanted_);
  if (piece_.bytes <= relocation_bytes_wanted_) return;
  BONSAI_INVARIANT(sliding_.bytes == 0 && !exchanging_);
  const uint64_t excess = piece_.bytes - relocation_bytes_wanted_;
  const uint64_t begin = piece_.addr.offset();
  piece_ = {keep_upper_end ? piece_.addr + excess : piece_.addr, relocation_bytes_wanted_};
  Target& target = *targets_[piece_.addr.target()];
  const std::lock_guard target_lock(target.mutex);
  target.give(keep_upper_end ? begin : piece_.end().offset(), excess);
}

scale::Addr Space::take(uint64_t bytes, uint64_t align, Use use, Where where) {
  const uint64_t spent_bytes = use == Use::kOrdinary ? relocation_bytes_spent_.load(std::memory_order_relaxed) : 0;
  std::vector<std::pair<uint64_t, size_t>> order;  // (free bytes, target), emptiest target first
  for (size_t i = 0; i < targets_.size(); ++i) order.emplace_back(targets_[i]->free_bytes.load(), i);
  std::sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.first > b.first; });
  for (const auto& [unused, i] : order) {
    Target& target = *targets_[i];
    const std::lock_guard lock(target.mutex);
    const uint64_t floor_bytes = use == Use::kOrdinary ? target.reserve_bytes + spent_bytes : 0;
    if (target.free_bytes.load() < bytes + floor_bytes) continue;
    if (const uint64_t offset = target.take(bytes, align, where)) return {i, offset};
  }
  return {};
}

void Space::free(scale::Addr addr, uint64_t bytes) {
  bytes = round_up(bytes, kBlockBytes);
  if (bytes == 0) return;
  BONSAI_INVARIANT(addr.target() < targets_.size() && !addr.is_nil());
  BONSAI_INVARIANT(used_bytes_.load(std::memory_order_relaxed) >= bytes);
  Target& target = *targets_[addr.target()];
  const Piece piece{addr, bytes};
  Piece window;
  {
    const std::lock_guard lock(target.mutex);
    window = target.window;
    bool ends_exchange = false;
    if (window.holds(piece)) {
      ends_exchange = target.withhold(piece);
    } else {
      target.give(addr.offset(), bytes);
    }
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    if (!ends_exchange) return;
  }
  const std::lock_guard lock(relocation_mutex_);
  end_exchange(window);
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
  target.cut(it, begin, bytes);
  used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

uint64_t Space::ordinary_free_bytes() const {
  uint64_t free = 0;
  for (const auto& target : targets_) {
    const uint64_t have = target->free_bytes.load(std::memory_order_relaxed);
    if (have > target->reserve_bytes) free += have - target->reserve_bytes;
  }
  return free - std::min(free, relocation_bytes_spent_.load(std::memory_order_relaxed));
}

}  // namespace bonsai::persist
