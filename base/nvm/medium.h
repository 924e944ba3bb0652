// SPDX-License-Identifier: Apache-2.0
// The NVM seam: every store to persistent memory goes through a medium.
//
// A medium covers one target. Readers read through view() directly, unless the medium is far() (far_reads.h); writers
// only use the five operations.
// Two families share one shape, so that hot code is a template over it:
//   ProductMedium  final, inlines to plain and non-temporal stores and to libpmem's flush, chosen by CPUID
//   HookedMedium   virtual: shadow, recorder, emulator, plain file
//
// Persistence model (ADR): a store survives a crash once its line was flushed and the *same thread* then fenced;
// a non-temporal copy needs the fence only. Stores tear at 8 bytes; stores to one line reach the medium in program
// order. eADR: stores survive at once, flush is counted but does nothing, fence still orders.
//
// Each flush, non-temporal copy and fence names its site, so that tests can count it or drop it.
#ifndef BONSAI_BASE_NVM_MEDIUM_H_
#define BONSAI_BASE_NVM_MEDIUM_H_

#include <cstddef>
#include <cstdint>

#include "base/nvm/far_reads.h"
#include "bonsai/status.h"

namespace bonsai::base {

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kMediaBlockBytes = 256;

// Names one flush or fence of the code above. Declared as `inline constexpr Site kLogAppend{"log.append"}`;
// identity is the address.
struct Site {
  const char* name;
};

// NVM writes of the whole process, summed over threads. media_bytes models a write-combining buffer of 64 blocks.
struct NvmCounters {
  uint64_t bytes_stored = 0;
  uint64_t lines_flushed = 0;
  uint64_t fences = 0;
  uint64_t media_bytes = 0;
};

// Interface of every medium; ProductMedium has the same members, non-virtual.
//   Requires: destinations are in [view(), view() + bytes()).
//   Thread-safety: all operations from any thread; the caller must order stores to the same 8-byte word.
class HookedMedium {
 public:
  virtual ~HookedMedium() = default;
  HookedMedium(const HookedMedium&) = delete;
  HookedMedium& operator=(const HookedMedium&) = delete;

  [[nodiscard]] std::byte* view() const { return view_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

  // One atomic 8-byte store. Requires 8-byte alignment.
  virtual void store8(std::byte* dst, uint64_t value) = 0;
  // Copies n bytes with ordinary stores.
  virtual void copy(std::byte* dst, const void* src, size_t n) = 0;
  // Copies n bytes past the cache; durable after the next fence of this thread. Requires dst and n multiples of 8.
  virtual void nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) = 0;
  // Starts writing back the lines that hold [dst, dst + n).
  virtual void flush(const std::byte* dst, size_t n, const Site& site) = 0;
  // Waits until this thread's flushes and non-temporal copies are durable. False: write-back failed (plain file), so
  // they may not be durable, and no later fence can change that. Real NVM always returns true. Only the volume calls
  // it, and it remembers each failure (scale/volume.h).
  virtual bool fence(const Site& site) = 0;

  // Why a fence failed: which file, and what to do. OK as long as none did.
  [[nodiscard]] virtual Status health() const { return Status::OK(); }

  // A hint: many threads write to [offset, offset + n), and each thread mostly to its own unit of `unit_bytes` bytes. A
  // thread that writes to unit i of one range writes to unit i of the other ranges, too. Requires: ranges are disjoint
  // and in rising order, and nobody writes there yet.
  virtual void spread(uint64_t offset, uint64_t n, uint64_t unit_bytes) {
    static_cast<void>(offset);
    static_cast<void>(n);
    static_cast<void>(unit_bytes);
  }

  // The interface that reads a far target; null: view() is mapped.
  [[nodiscard]] virtual FarReads* far() { return nullptr; }

  // Whether reads take modelled time. If so, a reader calls read_deadline() and waits. True only for the emulator.
  [[nodiscard]] virtual bool reads_wait() const { return false; }
  // The time (base clock, nanoseconds) at which reads of `blocks` media blocks have ended, if the first begins at
  // first_ns and the last at last_ns; 0 = at once.
  [[nodiscard]] virtual uint64_t read_deadline(uint64_t blocks, uint64_t first_ns, uint64_t last_ns) {
    static_cast<void>(blocks);
    static_cast<void>(first_ns);
    static_cast<void>(last_ns);
    return 0;
  }

 protected:
  HookedMedium(std::byte* view, size_t bytes) : view_(view), bytes_(bytes) {}
  // For media that create their view in their constructor.
  void set_view(std::byte* view, size_t bytes) {
    view_ = view;
    bytes_ = bytes;
  }

 private:
  std::byte* view_;
  size_t bytes_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_MEDIUM_H_
