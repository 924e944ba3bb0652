// SPDX-License-Identifier: Apache-2.0
// A pool of another node as an NVM medium: stored bytes reach that node by flush and fence alone, as a store reaches
// NVM, and are durable there when the fence has answered.
//
// View: addresses alone, except for the resident ranges (base/nvm/far_reads.h), which are mirrored in this node's
// memory and take their size of it. All other bytes are read over the fabric, and written past the view.
//
// Persistence model: that of medium.h under ADR, whatever the far medium's own persistence domain: bytes that were not
// flushed stay here. A WRITE carries the flushed bytes and not their lines, so threads may store to one line freely; a
// crash leaves any subset of the 8-byte words that were in flight.
//
// Thread-safety: as HookedMedium.
#ifndef BONSAI_SCALE_REMOTE_MEDIUM_H_
#define BONSAI_SCALE_REMOTE_MEDIUM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/nvm/medium.h"
#include "bonsai/status.h"
#include "scale/member_copies.h"
#include "scale/mirror.h"
#include "scale/remote_link.h"

namespace bonsai::scale {

class RemoteMedium final : public base::HookedMedium, public base::FarReads {
 public:
  // Requires: `target` was opened on the link, which outlives the medium. Errors: NoSpace (no addresses for the
  // view).
  static Status make(RemoteLink* link, size_t target, std::unique_ptr<RemoteMedium>* medium) {
    return make(link, std::span(&target, 1), medium);
  }
  // The same for the members of a group, of equal sizes: what is stored goes to all, what is read comes from one.
  static Status make(RemoteLink* link, std::span<const size_t> members, std::unique_ptr<RemoteMedium>* medium);

  // Requires, as copy() and flush(): the destination is resident.
  void store8(std::byte* dst, uint64_t value) override;
  void copy(std::byte* dst, const void* src, size_t n) override;
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override;
  void flush(const std::byte* dst, size_t n, const base::Site& site) override;
  bool fence(const base::Site& site) override;
  [[nodiscard]] Status health() const override;
  void spread(uint64_t offset, uint64_t n, uint64_t unit_bytes) override {
    for (LinkTarget* const member : members_) member->spread.add(offset, n, unit_bytes);
  }
  [[nodiscard]] base::FarReads* far() override { return this; }

  [[nodiscard]] Memory memory(size_t bytes) override { return reads_.memory(bytes); }
  [[nodiscard]] uint64_t begin(std::span<const Piece> pieces, std::shared_ptr<const void> holder) override {
    return reads_.begin(members_, pieces, holder != nullptr ? std::move(holder) : mirror_->begin_landing(pieces));
  }
  [[nodiscard]] bool ended(uint64_t ticket, Status* status) override { return reads_.ended(ticket, status); }
  void forget(uint64_t ticket) override { reads_.forget(ticket); }
  [[nodiscard]] uint64_t limit_ms() const override { return limit_ms_; }
  [[nodiscard]] Status open_resident(uint64_t offset, uint64_t n, std::vector<Piece>* pieces) override;
  void close_resident(std::span<const Piece> pieces) override { mirror_->close(pieces); }
  [[nodiscard]] Status open_blank(uint64_t offset, uint64_t n) override {
    for (LinkTarget* const member : members_) member->places.give_up(offset, n);
    return mirror_->open_blank(offset, n);
  }
  void close_blank(uint64_t offset, uint64_t n) override { mirror_->close_blank(offset, n); }
  [[nodiscard]] uint64_t resident_bytes() const override { return mirror_->resident_bytes(); }

  // For read-repair (mend.h), by number of the member.
  [[nodiscard]] size_t members() const { return members_.size(); }
  // What each member holds there; null: it is not in sync, or cannot be read.
  [[nodiscard]] MemberCopies read_each(uint64_t offset, uint64_t n) {
    return read_copies(&reads_, members_, offset, n, limit_ms_);
  }
  // Whether the page in force names it.
  [[nodiscard]] bool is_in_sync(size_t member) const { return members_[member]->state.is_in_page(); }
  struct Repair {
    uint64_t offset;
    const std::byte* bytes;
    uint64_t n;
  };
  // Makes damaged bytes of the member these; its group counts and tells what became durable. Requires: rising order.
  void repair(size_t member, std::span<const Repair> repairs);

 private:
  RemoteMedium(RemoteLink* link, std::vector<LinkTarget*> members, std::shared_ptr<Mirror> mirror)
      : HookedMedium(mirror->addresses().data(), mirror->addresses().size()),
        writes_(link->writes()),
        reads_(link->reads()),
        members_(std::move(members)),
        limit_ms_(link->limit_ms()),
        mirror_(std::move(mirror)) {}

  [[nodiscard]] uint64_t offset_of(const std::byte* dst, uint64_t n) const {
    const auto offset = static_cast<uint64_t>(dst - view());       // far beyond, if it is below
    BONSAI_INVARIANT(offset <= bytes() && n <= bytes() - offset);  // an object is on one target (1)
    return offset;
  }

  WriteLanes& writes_;
  ReadLanes& reads_;
  const std::vector<LinkTarget*> members_;
  const uint64_t limit_ms_;
  const std::shared_ptr<Mirror> mirror_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REMOTE_MEDIUM_H_
