#include "scale/volume.h"

#include <algorithm>

#include "base/clock.h"
#include "base/thread.h"

namespace bonsai::scale {

void ReadBatch::change_target(size_t target) {
  const uint64_t now_ns = base::quick_now_ns();
  if (target_ != kNone) {
    deadline_ns_ = std::max(deadline_ns_, volume_.read_deadline(target_, blocks_, since_ns_, now_ns));
  }
  since_ns_ = now_ns;
  target_ = target;
  blocks_ = 0;
}

void ReadBatch::finish() {
  if (deadline_ns_ > base::now_ns()) base::wait_closely_until(deadline_ns_);
}

template class VolumeOf<base::ProductMedium>;
template class VolumeOf<base::HookedMedium>;

}  // namespace bonsai::scale
