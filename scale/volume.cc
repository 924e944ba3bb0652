#include "scale/volume.h"

#include <algorithm>

#include "base/thread.h"

namespace bonsai::scale {

void Reads::change_target(size_t target) {
  if (target_ != kNone) deadline_ns_ = std::max(deadline_ns_, volume_.read_deadline(target_, blocks_));
  target_ = target;
  blocks_ = 0;
}

void Reads::finish() {
  deadline_ns_ = std::max(deadline_ns_, volume_.read_deadline(target_, blocks_));
  target_ = kNone;
  if (const uint64_t deadline_ns = std::exchange(deadline_ns_, 0)) base::wait_closely_until(deadline_ns);
}

template class VolumeOf<base::ProductMedium>;
template class VolumeOf<base::HookedMedium>;

}  // namespace bonsai::scale
