// SPDX-License-Identifier: Apache-2.0
// Where the bytes of an address are: on its own target (layout `none`), or in units that go around a ring of targets
// (striped).
//
// Striped bytes keep their offset and change their target: of what is addressed as target t of a ring of n, unit u (the
// offset divided by the unit's size) is on the target that comes u places after t in the ring. So any n consecutive
// units are on n targets, the targets fill evenly, and nothing moves when they grow. Bytes before `begin`, which differ
// from target to target (superblocks, tables, log), and those of targets outside the ring stay where they are.
//
// A *place* is an address that needs no translation: target and offset of the byte itself.
//
// Thread-safety: const members from any thread.
#ifndef BONSAI_SCALE_LAYOUT_H_
#define BONSAI_SCALE_LAYOUT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bonsai/options.h"
#include "scale/addr.h"

namespace bonsai::scale {

// "none", "software", "hardware".
[[nodiscard]] std::string_view layout_text(LayoutChoice choice);

class Layout {
 public:
  // None.
  Layout() = default;
  // Requires: `kind` is not none; 2 to kTargetsMax targets, each once; `unit_bytes` is a power of two, kStripeUnitMin
  // to kStripeUnitMax; `begin` is a multiple of a page.
  Layout(LayoutChoice kind, std::span<const size_t> ring, uint64_t unit_bytes, uint64_t begin);

  [[nodiscard]] LayoutChoice kind() const { return kind_; }
  [[nodiscard]] bool striped() const { return kind_ != LayoutChoice::kNone; }
  // Requires, as what follows up to places_of(): striped.
  [[nodiscard]] uint64_t unit_bytes() const { return unit_bytes_; }
  [[nodiscard]] uint64_t begin() const { return begin_; }
  [[nodiscard]] std::span<const uint8_t> ring() const { return {ring_.data(), ring_size_}; }
  [[nodiscard]] bool in_ring(size_t target) const { return position_[target] != kOutside; }
  // The targets, by bit, that may have bytes which are addressed as this target's.
  [[nodiscard]] uint64_t places_of(size_t target) const { return in_ring(target) ? ring_bits_ : uint64_t{1} << target; }

  // A bijection. Identity without striping.
  [[nodiscard]] Addr place_of(Addr addr) const {
    return moves(addr) ? turned(addr, addr.offset() / unit_bytes_ % ring_size_) : addr;
  }
  // Its inverse.
  [[nodiscard]] Addr address_of(Addr place) const {
    return moves(place) ? turned(place, ring_size_ - place.offset() / unit_bytes_ % ring_size_) : place;
  }
  // How many of the n bytes at `addr` are in one piece, on one target. All, without striping.
  [[nodiscard]] uint64_t piece_bytes(Addr addr, uint64_t n) const {
    if (!striped() || !in_ring(addr.target())) return n;
    const uint64_t offset = addr.offset();
    return std::min(n, offset < begin_ ? begin_ - offset : unit_bytes_ - offset % unit_bytes_);
  }
  // Calls visit(place, done, bytes) for each piece of [addr, addr + n), in rising order; `done` bytes came before it.
  template <class Visit>
  void each_piece(Addr addr, uint64_t n, Visit visit) const {
    for (uint64_t done = 0; done < n;) {
      const uint64_t bytes = piece_bytes(addr + done, n - done);
      visit(place_of(addr + done), done, bytes);
      done += bytes;
    }
  }

  bool operator==(const Layout&) const = default;

 private:
  static constexpr uint8_t kOutside = 0xff;
  static constexpr std::array<uint8_t, kTargetsMax> none() {
    std::array<uint8_t, kTargetsMax> positions{};
    positions.fill(kOutside);
    return positions;
  }

  [[nodiscard]] bool moves(Addr addr) const { return striped() && in_ring(addr.target()) && addr.offset() >= begin_; }
  [[nodiscard]] Addr turned(Addr addr, uint64_t turns) const {
    return {ring_[(position_[addr.target()] + turns) % ring_size_], addr.offset()};
  }

  LayoutChoice kind_ = LayoutChoice::kNone;
  uint64_t unit_bytes_ = 0, begin_ = 0;
  uint64_t ring_bits_ = 0;
  size_t ring_size_ = 0;
  std::array<uint8_t, kTargetsMax> ring_{};             // targets
  std::array<uint8_t, kTargetsMax> position_ = none();  // in the ring, by target
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_LAYOUT_H_
