#include "scale/remote_target.h"

#include "base/nvm/counters.h"
#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"

namespace bonsai::scale {

Status RemoteTarget::make(RemoteLink* link, size_t target, bool is_new, std::unique_ptr<RemoteTarget>* medium) {
  BONSAI_RETURN_IF_ERROR(link->make_mirror(target));
  const std::span<std::byte> mirror = link->mirror(target);
  if (!is_new) BONSAI_RETURN_IF_ERROR(link->fetch(target, 0, mirror.size()));
  medium->reset(new RemoteTarget(link, target, mirror));
  return Status::OK();
}

void RemoteTarget::store8(std::byte* dst, uint64_t value) {
  base::word_at(dst).store(value, std::memory_order_release);
  base::count_stored(sizeof value);
  link_.note_store(target_, static_cast<uint64_t>(dst - view()));
}

void RemoteTarget::copy(std::byte* dst, const void* src, size_t n) {
  base::racy_store(dst, src, n);
  base::count_stored(n);
}

void RemoteTarget::nt_copy(std::byte* dst, const void* src, size_t n, const base::Site&) {
  base::racy_store(dst, src, n);
  base::count_nt(dst, n);
  note(dst, n);
}

void RemoteTarget::flush(const std::byte* dst, size_t n, const base::Site&) {
  base::count_flush(dst, n);
  note(dst, n);
}

bool RemoteTarget::fence(const base::Site&) {
  base::count_fence();
  return link_.fence();
}

}  // namespace bonsai::scale
