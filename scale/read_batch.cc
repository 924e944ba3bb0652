// SPDX-License-Identifier: Apache-2.0
#include "scale/read_batch.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "scale/await_read.h"

namespace bonsai::scale {

namespace {
constexpr uint64_t kChunkBytes = 4096;
constexpr uint64_t kAlign = 16;
}  // namespace

struct ReadBatch::Carried {
  // The memory that reads fill. Shared with reads in flight and, after the batch, with the epoch domain.
  struct Held {
    std::vector<base::FarReads::Memory> chunks;
    uint64_t bytes = 0;
  };
  struct Begun {
    size_t target;
    uint64_t ticket;
  };

  std::shared_ptr<Held> held = std::make_shared<Held>();
  size_t chunk_target = kNone;  // of the newest chunk, whose end is free
  std::byte* free = nullptr;
  uint64_t free_bytes = 0;
  std::vector<std::pair<size_t, std::vector<base::FarReads::Piece>>> issued;  // by target
  std::vector<Begun> begun;
  uint64_t lost = 0;  // targets, as bits
};

const std::byte* ReadBatch::place(Addr addr, uint64_t n) {
  base::FarReads* const far = volume_.far(addr.target());
  if (far == nullptr) return volume_.mapped(addr);
  BONSAI_INVARIANT(volume_.contains(addr, n));
  if (carried_ == nullptr) carried_ = new Carried();
  Carried& c = *carried_;
  const uint64_t bytes = (n + kAlign - 1) / kAlign * kAlign;
  if (c.chunk_target != addr.target() || c.free_bytes < bytes) {
    c.free_bytes = std::max(bytes, kChunkBytes);
    c.chunk_target = addr.target();
    c.held->chunks.push_back(far->memory(c.free_bytes));
    c.held->bytes += c.free_bytes;
    c.free = c.held->chunks.back().get();
  }
  c.free_bytes -= bytes;
  return std::exchange(c.free, c.free + bytes);
}

void ReadBatch::read(Addr addr, uint64_t n, const std::byte* to) {
  if (volume_.far(addr.target()) == nullptr) return count(addr, n, 0);
  if (n == 0) return;
  BONSAI_INVARIANT(carried_ != nullptr && volume_.contains(addr, n));  // place() was asked before (7)
  volume_.layout().each_piece(addr, n,
                              [&](Addr place, uint64_t done, uint64_t bytes) { read_piece(place, bytes, to + done); });
}

void ReadBatch::read_piece(Addr place, uint64_t n, const std::byte* to) {
  auto& issued = carried_->issued;
  auto of = std::find_if(issued.begin(), issued.end(), [&](const auto& each) { return each.first == place.target(); });
  if (of == issued.end()) of = issued.emplace(of, place.target(), std::vector<base::FarReads::Piece>());
  of->second.push_back({place.offset(), const_cast<std::byte*>(to), n});
}

void ReadBatch::count(Addr addr, uint64_t n, uint64_t further_blocks) {
  if (n == 0 || volume_.far(addr.target()) != nullptr) return;
  volume_.layout().each_piece(addr, n, [&](Addr place, uint64_t, uint64_t bytes) {
    count_piece(place, bytes, std::exchange(further_blocks, 0));
  });
}

void ReadBatch::count_piece(Addr place, uint64_t n, uint64_t further_blocks) {
  const uint64_t first = place.bits() / base::kMediaBlockBytes;
  const uint64_t last = (place.bits() + n - 1) / base::kMediaBlockBytes;
  const uint64_t blocks = further_blocks + (last - first) + (first != last_ ? 1 : 0);
  if (blocks == 0) return;
  if (target_ != place.target()) change_target(place.target());
  blocks_ += blocks;
  last_ = last;
}

void ReadBatch::change_target(size_t target) {
  BONSAI_CHECK(target == kNone || target < volume_.targets());
  const uint64_t now_ns = base::quick_now_ns();
  if (target_ != kNone) {
    deadline_ns_ = std::max(deadline_ns_, volume_.read_deadline(target_, blocks_, since_ns_, now_ns));
  }
  since_ns_ = now_ns;
  target_ = target;
  blocks_ = 0;
}

uint64_t ReadBatch::begin_reads() {
  if (carried_ != nullptr) begin_carrying();
  if (target_ == kNone) return 0;
  change_target(kNone);
  return since_ns_;
}

Status ReadBatch::wait_for_reads(uint64_t now_ns) {
  // For reads that begin here the clock has just been read.
  const uint64_t begun_ns = begin_reads();
  const bool lasts = deadline_ns_ > std::max(now_ns, begun_ns) && (begun_ns != 0 || deadline_ns_ > base::now_ns());
  if (lasts) base::wait_closely_until(deadline_ns_);
  deadline_ns_ = 0;
  return carried_ != nullptr ? end_carrying() : Status::OK();
}

void ReadBatch::begin_carrying() {
  Carried& c = *carried_;
  for (const auto& [target, pieces] : c.issued) {
    c.begun.push_back({target, volume_.far(target)->begin(pieces, c.held)});
  }
  c.issued.clear();
}

// One bound for all: they are in flight at the same time.
Status ReadBatch::end_carrying() {
  Carried& c = *carried_;
  BONSAI_CHECK(c.issued.empty());  // all have begun
  c.lost = 0;
  uint64_t limit_ms = 0;
  for (const Carried::Begun& begun : c.begun) limit_ms = std::max(limit_ms, volume_.far(begun.target)->limit_ms());
  Status status;
  base::BoundedWait wait("read of a far target", limit_ms);
  for (const Carried::Begun& begun : c.begun) {
    const Status of_target = await_read(volume_.far(begun.target), begun.ticket, &wait);
    if (of_target.ok()) continue;
    c.lost |= uint64_t{1} << begun.target;
    status = volume_.note_lost(begun.target, of_target);
  }
  c.begun.clear();
  return status;
}

bool ReadBatch::lost(Addr addr) const {
  return carried_ != nullptr && (carried_->lost & volume_.layout().places_of(addr.target())) != 0;
}

void ReadBatch::let_go() {
  const std::unique_ptr<Carried> carried(carried_);
  for (const Carried::Begun& begun : carried->begun) volume_.far(begun.target)->forget(begun.ticket);
  if (volume_.epochs() == nullptr) return;
  using Held = std::shared_ptr<Carried::Held>;
  auto* held = new Held(std::move(carried->held));
  volume_.epochs()->retire(
      held, [](void* object, void*) { delete static_cast<Held*>(object); }, nullptr, (*held)->bytes);
}

}  // namespace bonsai::scale
