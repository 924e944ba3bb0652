// A pool of another node as an NVM medium: what is stored here reaches that node by flush and fence alone, as a store
// reaches NVM, and is durable there when the fence has answered.
//
// View: a mirror of the whole pool in this node's memory, fetched at opening. Readers so pay no round trip, and this
// node needs as much memory as the pool has bytes.
//
// Persistence model: that of medium.h under ADR, whatever the far medium keeps by itself: bytes that were not flushed
// stay here. A WRITE carries the flushed bytes and not their lines, so threads may store to one line as they please; a
// crash leaves any subset of the 8-byte words that were in flight.
//
// Thread-safety: as HookedMedium.
#ifndef BONSAI_SCALE_REMOTE_TARGET_H_
#define BONSAI_SCALE_REMOTE_TARGET_H_

#include <cstddef>
#include <memory>

#include "base/nvm/medium.h"
#include "bonsai/status.h"
#include "scale/remote_link.h"

namespace bonsai::scale {

class RemoteTarget final : public base::HookedMedium {
 public:
  // Requires: `target` was opened on the link, which outlives the medium. The mirror is fetched unless `is_new`.
  // Errors: NoSpace (no memory for the mirror), Unavailable.
  static Status make(RemoteLink* link, size_t target, bool is_new, std::unique_ptr<RemoteTarget>* medium);

  void store8(std::byte* dst, uint64_t value) override;
  void copy(std::byte* dst, const void* src, size_t n) override;
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override;
  void flush(const std::byte* dst, size_t n, const base::Site& site) override;
  bool fence(const base::Site& site) override;
  [[nodiscard]] Status health() const override { return link_.status(); }

 private:
  RemoteTarget(RemoteLink* link, size_t target, std::span<std::byte> mirror)
      : HookedMedium(mirror.data(), mirror.size()), link_(*link), target_(target) {}

  void note(const std::byte* dst, size_t n) { link_.note(target_, static_cast<uint64_t>(dst - view()), n); }

  RemoteLink& link_;
  const size_t target_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REMOTE_TARGET_H_
