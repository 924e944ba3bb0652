// SPDX-License-Identifier: Apache-2.0
#include "scale/volume.h"

#include <algorithm>

#include "base/check.h"
#include "scale/residence.h"

namespace bonsai::scale {

Status Volume::fetch(std::span<const Range> ranges) const {
  std::vector<FarRange> wanted;
  for (const Range& range : ranges) {
    base::FarReads* const far = far_[range.at.target()];
    if (far != nullptr) wanted.push_back({far, range.at.offset(), range.bytes});
  }
  if (wanted.empty()) return Status::OK();
  const std::lock_guard lock(fetch_mutex_);
  const base::FarReads* failed = nullptr;
  const Status status = make_resident(wanted, &failed);
  if (status.ok()) return status;
  return note_lost(static_cast<size_t>(std::find(far_.begin(), far_.end(), failed) - far_.begin()), status);
}

void Volume::give_up(const char* why) {
  const char* none = nullptr;
  given_up_.compare_exchange_strong(none, why);
  failed_.store(true);
}

Status Volume::health() const {
  if (!failed()) return Status::OK();
  if (failed_targets() != 0) return health_of_targets();
  return Status::IoError(given_up_.load());
}

Status Volume::note_lost(size_t target, const Status& why) const {
  BONSAI_INVARIANT(target < targets() && !why.ok());  // a failed read is of one target (6)
  const std::lock_guard lock(lost_mutex_);
  lost_ = Status::Unavailable("target " + std::to_string(target) + " of the pool could not be read (" +
                              std::string(why.message()) + "); see that its node runs and can be reached, and repeat");
  return lost_;
}

Status Volume::unavailable() const {
  const std::lock_guard lock(lost_mutex_);
  return lost_;
}

template class VolumeOf<base::ProductMedium>;
template class VolumeOf<base::HookedMedium>;

}  // namespace bonsai::scale
