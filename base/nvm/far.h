// SPDX-License-Identifier: Apache-2.0
// The far medium: memory that behaves as a target on another node does, without a network; for tests.
//
// Its view is reserved address space; only resident ranges can be read, so that code that bypasses the seam faults at
// once. Blank pages, and those that are resident no more, hold junk. Stores stay on this node's side until a fence
// transfers those of its thread, in their order, to the `near` medium, which represents the other node. Stores to a
// page that was closed since are left out: the flush of another thread has transferred them. With a shadow as the near
// medium a SIGKILL acts as a power cut of that node; with a recorder the crash images are of that node. Reads copy from
// the near medium's view, late and in pieces. The seed chooses the order in which pieces arrive, and the destination
// holds junk until then. Abandoned reads arrive, too.
//
// On demand, reads fail or never end, and fences fail for good; a failed one has transferred a part of its stores. No
// page may become resident while bytes of it are stored and not fenced: units of a striped pool have at least a page.
//
// Thread-safety: as HookedMedium; switches at any time.
#ifndef BONSAI_BASE_NVM_FAR_H_
#define BONSAI_BASE_NVM_FAR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/nvm/medium.h"
#include "base/nvm/per_thread.h"
#include "base/random.h"

namespace bonsai::base {

struct FarOptions {
  uint64_t seed = 1;
  uint64_t limit_ms = 10'000;  // limit of a read
};

class FarMedium final : public HookedMedium, public FarReads {
 public:
  // Requires: the near medium has a mapped view, and only this one writes it from now on.
  FarMedium(std::unique_ptr<HookedMedium> near, const FarOptions& options);
  // As above, but does not own `near`. Requires: `near` outlives this.
  FarMedium(HookedMedium& near, const FarOptions& options);
  ~FarMedium() override;

  void store8(std::byte* dst, uint64_t value) override;
  void copy(std::byte* dst, const void* src, size_t n) override;
  void nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) override;
  void flush(const std::byte* dst, size_t n, const Site& site) override;
  bool fence(const Site& site) override;
  [[nodiscard]] Status health() const override;
  [[nodiscard]] FarReads* far() override { return this; }

  [[nodiscard]] Memory memory(size_t bytes) override;
  [[nodiscard]] uint64_t begin(std::span<const Piece> pieces, std::shared_ptr<const void> holder) override;
  [[nodiscard]] bool ended(uint64_t ticket, Status* status) override;
  void forget(uint64_t ticket) override;
  [[nodiscard]] uint64_t limit_ms() const override { return options_.limit_ms; }
  [[nodiscard]] Status open_resident(uint64_t offset, uint64_t n, std::vector<Piece>* pieces) override;
  void close_resident(std::span<const Piece> pieces) override;
  [[nodiscard]] Status open_blank(uint64_t offset, uint64_t n) override;
  void close_blank(uint64_t offset, uint64_t n) override;
  [[nodiscard]] uint64_t resident_bytes() const override { return counts().resident_bytes; }

  // From now on one in `one_in` lists of reads fails, chosen at random; 0: none.
  void fail_reads(uint64_t one_in) { reads_failed_one_in_.store(one_in); }
  // From now on one in `one_in` fences fails, chosen at random; 0: none.
  void fail_fences(uint64_t one_in) { fences_failed_one_in_.store(one_in); }
  // On: reads never end.
  void silence(bool on) { silent_.store(on); }

  struct Counts {
    uint64_t lists = 0, reads = 0, bytes = 0;  // carried
    uint64_t resident_bytes = 0;
    uint64_t lists_overlapped = 0;  // begun while another was in flight
  };
  [[nodiscard]] Counts counts() const;

 private:
  enum class Op : uint8_t { kStore, kCopy, kNtCopy, kFlush };
  struct Staged {
    Op op;
    uint64_t offset, bytes;
    uint64_t closings;  // of its first page, when it was staged
    const Site* site;
  };
  struct Pending {
    explicit Pending(uint32_t) {}
    std::vector<Staged> staged;
  };
  struct Reads {
    std::vector<Piece> pieces;  // the pieces that have not arrived
    std::shared_ptr<const void> holder;
    uint64_t polls_left;
    bool fails;
  };

  [[nodiscard]] uint64_t offset_of(const std::byte* dst) const;
  [[nodiscard]] std::atomic<uint64_t>& closings_of(uint64_t offset);
  void stage(Op op, const std::byte* dst, size_t n, const Site* site);
  void bring(const Staged& staged);
  void arrive(Reads* reads, size_t pieces_max);
  void keep(Reads reads);
  void set_resident(size_t begin, size_t end, bool on);
  [[nodiscard]] bool one_in(const std::atomic<uint64_t>& n);

  const FarOptions options_;
  std::unique_ptr<HookedMedium> owned_;
  HookedMedium& near_;
  std::byte* own_ = nullptr;  // this node's side of the view, always accessible
  PerThread<Pending> pending_;
  std::vector<std::atomic<uint64_t>> closings_;  // by page: close_blank()
  std::atomic<uint64_t> reads_failed_one_in_{0}, fences_failed_one_in_{0};
  std::atomic<bool> silent_{false}, failed_{false};

  std::mutex fence_mutex_;    // one fence at a time: no older content replaces a newer one
  mutable std::mutex mutex_;  // guards all members below
  Random random_;
  std::vector<bool> resident_;       // by page
  std::map<uint64_t, Reads> reads_;  // in flight, by ticket
  std::deque<Reads> forgotten_;
  uint64_t tickets_ = 0;
  Counts counts_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_FAR_H_
