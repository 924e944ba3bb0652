// SPDX-License-Identifier: Apache-2.0
// Addresses of the volume.
#ifndef BONSAI_SCALE_ADDR_H_
#define BONSAI_SCALE_ADDR_H_

#include <cstddef>
#include <cstdint>

namespace bonsai::scale {

inline constexpr size_t kTargetsMax = 64;

// A byte of the volume: target number and offset. The zero address is never allocated (targets begin with a
// superblock).
class Addr {
 public:
  constexpr Addr() = default;
  constexpr Addr(uint64_t target, uint64_t offset) : bits_(target << kOffsetBits | offset) {}
  static constexpr Addr of_bits(uint64_t bits) {
    Addr addr;
    addr.bits_ = bits;
    return addr;
  }

  [[nodiscard]] constexpr uint64_t bits() const { return bits_; }
  [[nodiscard]] constexpr size_t target() const { return bits_ >> kOffsetBits; }
  [[nodiscard]] constexpr uint64_t offset() const { return bits_ & ((uint64_t{1} << kOffsetBits) - 1); }
  [[nodiscard]] constexpr bool is_nil() const { return bits_ == 0; }
  constexpr Addr operator+(uint64_t bytes) const { return of_bits(bits_ + bytes); }
  constexpr bool operator==(const Addr&) const = default;

 private:
  static constexpr int kOffsetBits = 48;
  uint64_t bits_ = 0;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_ADDR_H_
