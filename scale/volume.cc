// SPDX-License-Identifier: Apache-2.0
#include "scale/volume.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "scale/residence.h"

namespace bonsai::scale {

Status Volume::lay_out(const Layout& layout) {
  if (layout == layout_) return Status::OK();
  BONSAI_CHECK(!layout_.striped());
  uint64_t bytes = UINT64_MAX;
  size_t far = 0;
  for (const size_t target : layout.ring()) {
    BONSAI_CHECK(target < targets());
    bytes = std::min(bytes, bytes_[target]);
    far += far_[target] != nullptr ? 1 : 0;
  }
  if (far != 0 && far != layout.ring().size()) {
    return Status::InvalidArgument(
        "the targets of a striped pool are all of this machine or all on other nodes; name such ones, or use layout "
        "none");
  }
  if (far != 0 && layout.kind() == LayoutChoice::kHardware) {
    return Status::InvalidArgument(
        "layout hardware needs a device that interleaves memory keys, and none here does, for targets on other nodes; "
        "use layout software");
  }
  if (far == 0) {
    BONSAI_RETURN_IF_ERROR(InterleavedViews::make(layout, homes_, bytes, &interleaved_));
    for (size_t i = 0; i < layout.ring().size(); ++i) {
      views_[layout.ring()[i]] = interleaved_->view(i);
      move_view(layout.ring()[i], interleaved_->view(i));
    }
  }
  for (const size_t target : layout.ring()) bytes_[target] = bytes;
  layout_ = layout;
  return Status::OK();
}

Status Volume::fetch(std::span<const Range> ranges) const {
  std::vector<Range> places;
  for (const Range& range : ranges) {
    layout_.each_piece(range.at, range.bytes, [&](Addr place, uint64_t, uint64_t bytes) {
      if (far_[place.target()] != nullptr) places.push_back({place, bytes});
    });
  }
  if (places.empty()) return Status::OK();
  // What is side by side is read together.
  if (layout_.striped()) std::ranges::sort(places, {}, [](const Range& place) { return place.at.bits(); });
  std::vector<FarRange> wanted;
  for (const Range& place : places) wanted.push_back({far_[place.at.target()], place.at.offset(), place.bytes});
  const std::lock_guard lock(fetch_mutex_);
  const base::FarReads* failed = nullptr;
  const Status status = make_resident(wanted, &failed);
  if (status.ok()) return status;
  return note_lost(static_cast<size_t>(std::find(far_.begin(), far_.end(), failed) - far_.begin()), status);
}

uint64_t Volume::resident_bytes() const {
  uint64_t bytes = 0;
  for (const base::FarReads* far : far_) bytes += far == nullptr ? 0 : far->resident_bytes();
  return bytes;
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
