// SPDX-License-Identifier: Apache-2.0
// The medium of the product: plain stores, non-temporal stores and the flush instruction that libpmem chose by CPUID
// when it was loaded (clwb, clflushopt or clflush). For devdax, fsdax, tmpfs and hugetlb.
//
// Memory ordering: store8 is a release store, so a reader that loads the word with acquire sees every earlier store8
// and copy of the thread. Bytes written by nt_copy may become visible *later* than stores after it: publish them only
// after the fence. fence orders all earlier stores, flushes and non-temporal copies of the thread before all later
// stores.
#ifndef BONSAI_BASE_NVM_PRODUCT_H_
#define BONSAI_BASE_NVM_PRODUCT_H_

#include <emmintrin.h>
#include <libpmem.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/nvm/counters.h"
#include "base/nvm/medium.h"
#include "base/nvm/racy_copy.h"
#include "bonsai/options.h"
#include "bonsai/status.h"

namespace bonsai::base {

// Requires: [view, view + bytes) stays mapped; domain is kAdr or kEadr. Thread-safety: as HookedMedium.
class ProductMedium final {
 public:
  ProductMedium(std::byte* view, size_t bytes, PersistenceDomain domain)
      : view_(view), bytes_(bytes), flushes_(domain != PersistenceDomain::kEadr) {
    BONSAI_CHECK(domain != PersistenceDomain::kAuto);
  }

  [[nodiscard]] std::byte* view() const { return view_; }
  // The view is elsewhere from now on. Requires: it maps as many bytes, and no operation runs.
  void move_view(std::byte* view) { view_ = view; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] static Status health() { return Status::OK(); }
  [[nodiscard]] static constexpr FarReads* far() { return nullptr; }
  [[nodiscard]] static constexpr bool reads_wait() { return false; }
  [[nodiscard]] static constexpr uint64_t read_deadline(uint64_t, uint64_t, uint64_t) { return 0; }

  void store8(std::byte* dst, uint64_t value) {
    check_range(dst, 8);
    word_at(dst).store(value, std::memory_order_release);
    count_stored(8);
  }

  void copy(std::byte* dst, const void* src, size_t n) {
    check_range(dst, n);
    racy_store(dst, src, n);
    count_stored(n);
  }

  void nt_copy(std::byte* dst, const void* src, size_t n, const Site&) {
    check_range(dst, n);
    BONSAI_DCHECK(reinterpret_cast<uintptr_t>(dst) % 8 == 0 && n % 8 == 0);
    if constexpr (BONSAI_TSAN != 0) {
      racy_store(dst, src, n);
    } else if (n <= kInlineBytesMax) {
      stream(dst, src, n);
    } else {
      pmem_memcpy(dst, src, n, PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN);
    }
    count_nt(dst, n);
  }

  void flush(const std::byte* dst, size_t n, const Site&) {
    check_range(dst, n);
    if (flushes_) pmem_flush(dst, n);
    count_flush(dst, n);
  }

  bool fence(const Site&) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    _mm_sfence();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    count_fence();
    return true;
  }

 private:
  // Up to this size the call into libpmem costs more than its wider stores save.
  static constexpr size_t kInlineBytesMax = 256;

  static void stream(std::byte* dst, const void* src, size_t n) {
    const auto* from = static_cast<const std::byte*>(src);
    for (size_t i = 0; i < n; i += 8) {
      long long word;
      std::memcpy(&word, from + i, 8);
      _mm_stream_si64(static_cast<long long*>(static_cast<void*>(dst + i)), word);
    }
  }

  void check_range([[maybe_unused]] const std::byte* dst, [[maybe_unused]] size_t n) const {
    BONSAI_DCHECK(dst >= view_ && n <= bytes_ && static_cast<size_t>(dst - view_) <= bytes_ - n);
  }

  std::byte* view_;
  size_t bytes_;
  bool flushes_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_PRODUCT_H_
