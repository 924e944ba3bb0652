#include "scale/volume.h"

namespace bonsai::scale {

Status Volume::fetch(Addr addr, uint64_t n) const {
  base::FarReads* const far = far_[addr.target()];
  if (far == nullptr) return Status::OK();
  Status status = far->make_resident(addr.offset(), n);
  return status.ok() ? status : note_lost(addr.target(), status);
}

Status Volume::note_lost(size_t target, const Status& why) const {
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
