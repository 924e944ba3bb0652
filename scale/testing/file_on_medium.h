// SPDX-License-Identifier: Apache-2.0
// A pool's file on a medium that has room for it to grow, or for other targets of the pool beside it.
#ifndef BONSAI_SCALE_TESTING_FILE_ON_MEDIUM_H_
#define BONSAI_SCALE_TESTING_FILE_ON_MEDIUM_H_

#include <functional>
#include <utility>

#include "base/nvm/medium.h"

namespace bonsai::scale {

// The file begins at `offset` of the medium, and at its start if that is far. Calls `turn` before each operation, and
// after a fence: what follows is no operation of the seam.
class FileOnMedium final : public base::HookedMedium {
 public:
  FileOnMedium(base::HookedMedium& to, uint64_t bytes, std::function<void()> turn = nullptr, uint64_t offset = 0)
      : HookedMedium(to.view() + offset, bytes), to_(to), turn_(std::move(turn)) {}

  void store8(std::byte* dst, uint64_t value) override {
    turn();
    to_.store8(dst, value);
  }
  void copy(std::byte* dst, const void* src, size_t n) override {
    turn();
    to_.copy(dst, src, n);
  }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override {
    turn();
    to_.nt_copy(dst, src, n, site);
  }
  void flush(const std::byte* dst, size_t n, const base::Site& site) override {
    turn();
    to_.flush(dst, n, site);
  }
  bool fence(const base::Site& site) override {
    turn();
    const bool kept = to_.fence(site);
    turn();
    return kept;
  }
  [[nodiscard]] Status health() const override { return to_.health(); }
  [[nodiscard]] base::FarReads* far() override { return to_.far(); }

 private:
  void turn() const {
    if (turn_) turn_();
  }

  base::HookedMedium& to_;
  const std::function<void()> turn_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TESTING_FILE_ON_MEDIUM_H_
