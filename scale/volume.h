// SPDX-License-Identifier: Apache-2.0
// The volume: one address space over NVM targets. Persistence names bytes by volume address and never by pointer.
//
// An object is on one target, or its bytes are spread by a layout (layout.h). Targets are mapped here or far
// (base/nvm/far_reads.h); on both, a write is durable after the fence. Bytes are read by a ReadBatch (read_batch.h),
// which can fail on a far target; only resident data is read in place.
//
// Thread-safety: everything but construction, set_epochs() and lay_out() may be called from any thread.
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
#include "scale/addr.h"
#include "scale/interleaved_views.h"
#include "scale/layout.h"

namespace bonsai::scale {

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

  // Spreads bytes of the ring's targets from now on: what is addressed there is elsewhere. `layout` may be none, and
  // the one that counts already. Afterwards the ring's targets have the size of the smallest. Requires: no other thread
  // uses the volume yet, no reads are in flight, and nothing was read or written that the layout moves. Errors:
  // InvalidArgument (targets that are not all mapped or all far; hardware, of far ones), those of
  // InterleavedViews::make(). Nothing has changed then.
  [[nodiscard]] Status lay_out(const Layout& layout);
  [[nodiscard]] const Layout& layout() const { return layout_; }

  // The bytes at `addr`, for reading in place, up to the end of their piece (piece_bytes()). Requires: they are in
  // their target (contains()), and on a far one fetch() was called for them.
  [[nodiscard]] const std::byte* resident(Addr addr) const {
    const Addr place = layout_.place_of(addr);
    return homes_[place.target()] + place.offset();
  }
  // How many of the n bytes at `addr` may be read in place together.
  [[nodiscard]] uint64_t piece_bytes(Addr addr, uint64_t n) const { return layout_.piece_bytes(addr, n); }
  // The bytes of a mapped target at `addr`, all in one piece. Requires: contains().
  [[nodiscard]] const std::byte* mapped(Addr addr) const { return views_[addr.target()] + addr.offset(); }
  // An address for the processor's prefetching and for comparing places, valid for any bytes; not to be read.
  [[nodiscard]] const std::byte* hint(Addr addr) const { return mapped(addr); }
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
  // On a far target: makes whole pages resident that are to be written anew, without reading them; ends that, and gives
  // their memory back. As base::FarReads::open_blank() and close_blank(). No effect on a mapped target. Requires: the
  // layout does not move them.
  [[nodiscard]] Status open_blank(Addr at, uint64_t bytes) const {
    base::FarReads* const far = far_[at.target()];
    return far == nullptr ? Status::OK() : far->open_blank(at.offset(), bytes);
  }
  void close_blank(Addr at, uint64_t bytes) const {
    if (base::FarReads* const far = far_[at.target()]; far != nullptr) far->close_blank(at.offset(), bytes);
  }
  // Bytes of this node's memory for what is resident of far targets.
  [[nodiscard]] uint64_t resident_bytes() const;
  // The reads of a far target, by places; null: it is mapped.
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
  // Directs this target's stores to the view. Media that are addressed by place have nothing to do.
  virtual void move_view(size_t target, std::byte* view) = 0;

  uint64_t identity_ = 0;
  Layout layout_;
  std::vector<std::byte*> views_;  // in which mapped bytes are in one piece
  std::vector<std::byte*> homes_;  // the targets' own
  std::vector<uint64_t> bytes_;
  std::vector<base::FarReads*> far_;
  bool reads_wait_ = false, has_far_ = false;
  std::atomic<uint64_t> failed_targets_{0};
  std::atomic<bool> failed_{false};
  static_assert(kTargetsMax <= 64);

  // Why the first of the failed targets has.
  [[nodiscard]] virtual Status health_of_targets() const = 0;

 private:
  std::unique_ptr<InterleavedViews> interleaved_;  // null: not striped, or far
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
      homes_.push_back(medium->view());
      bytes_.push_back(medium->bytes());
      far_.push_back(medium->far());
      has_far_ = has_far_ || medium->far() != nullptr;
      reads_wait_ = reads_wait_ || has_far_ || medium->reads_wait();
    }
  }

  void store8(Addr dst, uint64_t value) override {
    each_piece(dst, sizeof value, [&](Medium& medium, std::byte* at, size_t, size_t) { medium.store8(at, value); });
  }
  void copy(Addr dst, const void* src, size_t n) override {
    each_piece(dst, n, [&](Medium& medium, std::byte* at, size_t done, size_t bytes) {
      medium.copy(at, static_cast<const std::byte*>(src) + done, bytes);
    });
  }
  void nt_copy(Addr dst, const void* src, size_t n, const base::Site& site) override {
    each_piece(dst, n, [&](Medium& medium, std::byte* at, size_t done, size_t bytes) {
      medium.nt_copy(at, static_cast<const std::byte*>(src) + done, bytes, site);
    });
  }
  void flush(Addr addr, size_t n, const base::Site& site) override {
    each_piece(addr, n, [&](Medium& medium, std::byte* at, size_t, size_t bytes) { medium.flush(at, bytes, site); });
  }

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

  // What is spread is not striped.
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

 protected:
  void move_view(size_t target, std::byte* view) override {
    if constexpr (std::is_same_v<Medium, base::ProductMedium>) media_[target]->move_view(view);
  }

 private:
  Medium& medium(Addr addr) { return *media_[addr.target()]; }

  // Calls visit(medium, address, done, bytes) for the pieces of [addr, addr + n). Directly mapped bytes are one piece.
  template <class Visit>
  void each_piece(Addr addr, size_t n, Visit visit) {
    if constexpr (std::is_same_v<Medium, base::ProductMedium>) {
      visit(medium(addr), views_[addr.target()] + addr.offset(), 0, n);
    } else if (!layout_.striped()) {
      visit(medium(addr), homes_[addr.target()] + addr.offset(), 0, n);
    } else {
      layout_.each_piece(addr, n, [&](Addr place, uint64_t done, uint64_t bytes) {
        visit(medium(place), homes_[place.target()] + place.offset(), done, bytes);
      });
    }
  }

  std::vector<Medium*> media_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_VOLUME_H_
