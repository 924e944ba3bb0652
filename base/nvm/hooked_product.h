// SPDX-License-Identifier: Apache-2.0
// The product medium with the virtual interface. It serves directly mapped targets of a volume whose other targets need
// a hooked medium (plain files, pools of other nodes).
#ifndef BONSAI_BASE_NVM_HOOKED_PRODUCT_H_
#define BONSAI_BASE_NVM_HOOKED_PRODUCT_H_

#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "base/nvm/product.h"

namespace bonsai::base {

// Requires: the mapping outlives the medium; it is no plain file (FileMedium), or is only read. Thread-safety: as
// HookedMedium.
class HookedProduct final : public HookedMedium {
 public:
  explicit HookedProduct(const Mapping& mapping)
      : HookedMedium(mapping.data(), mapping.bytes()), product_(mapping.data(), mapping.bytes(), mapping.domain()) {}

  void store8(std::byte* dst, uint64_t value) override { product_.store8(dst, value); }
  void copy(std::byte* dst, const void* src, size_t n) override { product_.copy(dst, src, n); }
  void nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) override {
    product_.nt_copy(dst, src, n, site);
  }
  void flush(const std::byte* dst, size_t n, const Site& site) override { product_.flush(dst, n, site); }
  bool fence(const Site& site) override { return product_.fence(site); }

 private:
  ProductMedium product_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_HOOKED_PRODUCT_H_
