#include "scale/volume.h"

#include <algorithm>

#include "base/thread.h"

namespace bonsai::scale {

void Reads::begin(Addr addr, uint64_t n) {
  if (n == 0) return;
  const uint64_t first = addr.bits() / base::kMediaBlockBytes;
  const uint64_t last = (addr.bits() + n - 1) / base::kMediaBlockBytes;
  if (first >= first_ && last <= last_) return;
  if (target_ != addr.target()) {
    if (target_ != kNone) deadline_ns_ = std::max(deadline_ns_, volume_.read_deadline(target_, blocks_));
    target_ = addr.target();
    blocks_ = 0;
  }
  blocks_ += last - first + 1;
  first_ = first;
  last_ = last;
}

void Reads::finish() {
  deadline_ns_ = std::max(deadline_ns_, volume_.read_deadline(target_, blocks_));
  target_ = kNone;
  if (const uint64_t deadline_ns = std::exchange(deadline_ns_, 0)) base::wait_closely_until(deadline_ns);
}

template class VolumeOf<base::ProductMedium>;
template class VolumeOf<base::HookedMedium>;

}  // namespace bonsai::scale
