// SPDX-License-Identifier: Apache-2.0
// The volume: one address space over NVM targets. Persistence names bytes by volume address and never by pointer.
//
// Layout is `none`: an object is on one target. Targets are mapped here or far (base/nvm/far_reads.h); on both, a write
// is durable after the fence. Bytes are read by a ReadBatch (read_batch.h), which can fail on a far target; only
// resident data is read in place.
//
// Thread-safety: everything but construction and set_epochs() may be called from any thread.
#ifndef BONSAI_SCALE_VOLUME_H_
#define BONSAI_SCALE_VOLUME_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/epoch.h"
#include "base/nvm/medium.h"
#include "base/nvm/product.h"
#include "base/thread.h"
#include "bonsai/status.h"

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

// Reading and writing by address. Cold code uses these virtual operations; hot code is a template over
// VolumeOf<Medium>.
class Volume {
 public:
  virtual ~Volume() = default;

  // The identity to which checksums of the pool are bound; 0 until it is known.
  [[nodiscard]] uint64_t identity() const { return identity_; }
  // Requires: no other thread uses the volume yet.
  void bind(uint64_t identity) { identity_ = identity; }

  [[nodiscard]] size_t targets() const { return views_.size(); }
  [[nodiscard]] uint64_t target_bytes(size_t target) const { return bytes_[target]; }

  // The bytes at `addr`, for reading in place. Requires: they are in their target (contains()), and on a far one
  // fetch() was called for them.
  [[nodiscard]] const std::byte* resident(Addr addr) const { return views_[addr.target()] + addr.offset(); }
  // An address for the processor's prefetching and for comparing places, valid for any bytes; not to be read.
  [[nodiscard]] const std::byte* hint(Addr addr) const { return resident(addr); }
  struct Range {
    Addr at;
    uint64_t bytes;
  };
  // Makes the ranges readable in place. Those of far targets are read together (residence.h).
  // Errors: Unavailable.
  [[nodiscard]] Status fetch(std::span<const Range> ranges) const;
  [[nodiscard]] Status fetch(Addr at, uint64_t bytes) const {
    const Range range{at, bytes};
    return fetch({&range, 1});
  }
  // The reads of a far target; null: it is mapped.
  [[nodiscard]] base::FarReads* far(size_t target) const { return far_[target]; }
  [[nodiscard]] bool has_far() const { return has_far_; }

  // Carried bytes stay until the guards of `epochs` that were alive then have ended; null, as at first: as long as
  // their batch. Requires: no other thread uses the volume; the domain outlives all batches.
  void set_epochs(base::EpochDomain* epochs) { epochs_ = epochs; }
  [[nodiscard]] base::EpochDomain* epochs() const { return epochs_; }

  [[nodiscard]] bool contains(Addr addr, uint64_t n) const {
    return addr.target() < views_.size() && addr.offset() <= bytes_[addr.target()] &&
           n <= bytes_[addr.target()] - addr.offset();
  }

  // Whether reads of some target take time, because it is far or models NVM.
  [[nodiscard]] bool reads_wait() const { return reads_wait_; }
  [[nodiscard]] virtual uint64_t read_deadline(size_t target, uint64_t blocks, uint64_t first_ns,
                                               uint64_t last_ns) const = 0;

  // The operations of the NVM seam (base/nvm/medium.h), by address.
  virtual void store8(Addr dst, uint64_t value) = 0;
  virtual void copy(Addr dst, const void* src, size_t n) = 0;
  virtual void nt_copy(Addr dst, const void* src, size_t n, const base::Site& site) = 0;
  virtual void flush(Addr addr, size_t n, const base::Site& site) = 0;
  // Waits until all bytes that this thread has flushed or copied past the cache are durable on every target. False:
  // they may not be. Failures are permanent: after a failed fence every fence fails, for every thread. After a failed
  // fence nothing is published, acknowledged, retired, released or reused. Its bytes may still reach the pool, so their
  // space is not reused either. Cost on directly mapped media: the instruction.
  [[nodiscard]] virtual bool fence(const base::Site& site) = 0;

  // A hint: many threads write to [addr, addr + n), mostly each to a unit of `unit_bytes` of its own. A thread that
  // writes to a unit of one range writes to the unit of the same number in the other ranges. A far target uses several
  // connections for them. Requires: ranges of a target are disjoint and in rising order, and no thread writes there
  // yet.
  virtual void spread(Addr addr, uint64_t n, uint64_t unit_bytes) = 0;

  // A fence has failed, on some target, or give_up() was called: no more updates until the pool is reopened.
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // The owner cannot go on, for another reason than a fence: no more updates, but what was written can still be made
  // durable. Needs no memory. `why`: reason and remedy, a literal; the first counts.
  void give_up(const char* why);
  // Those whose fence has failed, by bit.
  [[nodiscard]] uint64_t failed_targets() const { return failed_targets_.load(); }
  // The reason and the remedy; OK as long as it has not failed.
  [[nodiscard]] Status health() const;

  // A read of the target has failed. Returns the status, and keeps it for unavailable().
  Status note_lost(size_t target, const Status& why) const;
  // The reason and the remedy of the last failed read.
  [[nodiscard]] Status unavailable() const;

 protected:
  uint64_t identity_ = 0;
  std::vector<std::byte*> views_;
  std::vector<uint64_t> bytes_;
  std::vector<base::FarReads*> far_;
  bool reads_wait_ = false, has_far_ = false;
  std::atomic<uint64_t> failed_targets_{0};
  std::atomic<bool> failed_{false};
  static_assert(kTargetsMax <= 64);

  // Why the first of the failed targets has.
  [[nodiscard]] virtual Status health_of_targets() const = 0;

 private:
  base::EpochDomain* epochs_ = nullptr;
  mutable base::YieldingMutex fetch_mutex_{"volume.fetch"};
  mutable std::mutex lost_mutex_;
  mutable Status lost_;
  std::atomic<const char*> given_up_{nullptr};
};

template <class Medium>
class VolumeOf final : public Volume {
 public:
  // Requires: 1..kTargetsMax media that outlive the volume.
  explicit VolumeOf(std::vector<Medium*> media) : media_(std::move(media)) {
    BONSAI_CHECK(!media_.empty() && media_.size() <= kTargetsMax);
    for (Medium* medium : media_) {
      BONSAI_CHECK(medium != nullptr);
      views_.push_back(medium->view());
      bytes_.push_back(medium->bytes());
      far_.push_back(medium->far());
      has_far_ = has_far_ || medium->far() != nullptr;
      reads_wait_ = reads_wait_ || has_far_ || medium->reads_wait();
    }
  }

  void store8(Addr dst, uint64_t value) override { medium(dst).store8(at(dst), value); }
  void copy(Addr dst, const void* src, size_t n) override { medium(dst).copy(at(dst), src, n); }
  void nt_copy(Addr dst, const void* src, size_t n, const base::Site& site) override {
    medium(dst).nt_copy(at(dst), src, n, site);
  }
  void flush(Addr addr, size_t n, const base::Site& site) override { medium(addr).flush(at(addr), n, site); }

  // One fence instruction serves every directly mapped target; other media are fenced one by one.
  [[nodiscard]] bool fence(const base::Site& site) override {
    if constexpr (std::is_same_v<Medium, base::ProductMedium>) {
      return media_[0]->fence(site);
    } else {
      uint64_t failed = 0;
      for (size_t i = 0; i < media_.size(); ++i) {
        if (!media_[i]->fence(site)) failed |= uint64_t{1} << i;
      }
      if (failed != 0) {
        failed_targets_.fetch_or(failed);
        failed_.store(true);
      }
      return failed_targets_.load() == 0;
    }
  }

  void spread(Addr addr, uint64_t n, uint64_t unit_bytes) override {
    if constexpr (std::is_same_v<Medium, base::HookedMedium>) medium(addr).spread(addr.offset(), n, unit_bytes);
  }

  // A fence has failed.
  [[nodiscard]] bool fence_failed() const {
    return !std::is_same_v<Medium, base::ProductMedium> && failed_targets_.load(std::memory_order_relaxed) != 0;
  }

  [[nodiscard]] uint64_t read_deadline(size_t target, uint64_t blocks, uint64_t first_ns,
                                       uint64_t last_ns) const override {
    return media_[target]->read_deadline(blocks, first_ns, last_ns);
  }

  [[nodiscard]] Status health_of_targets() const override {
    for (const Medium* medium : media_) {
      if (Status status = medium->health(); !status.ok()) return status;
    }
    return Status::IoError("a target did not confirm a write; close the store and open it again");
  }

 private:
  Medium& medium(Addr addr) { return *media_[addr.target()]; }
  std::byte* at(Addr addr) { return views_[addr.target()] + addr.offset(); }

  std::vector<Medium*> media_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_VOLUME_H_
