// SPDX-License-Identifier: Apache-2.0
#include "scale/copy_places.h"

#include <iterator>

#include "base/check.h"

namespace bonsai::scale {

std::shared_ptr<CopyPlaces::Place> CopyPlaces::claim(uint64_t offset, uint64_t n) {
  BONSAI_CHECK(n > 0);
  auto place = std::make_shared<Place>(Place{offset, offset + n});
  const std::lock_guard lock(mutex_);
  give_up_locked(offset, n);
  const auto [at, is_new] = places_.emplace(offset, place);
  BONSAI_CHECK(is_new && (std::next(at) == places_.end() || offset + n <= std::next(at)->first));  // disjoint
  return place;
}

void CopyPlaces::give_up(uint64_t offset, uint64_t n) {
  const std::lock_guard lock(mutex_);
  give_up_locked(offset, n);
}

void CopyPlaces::give_up_locked(uint64_t offset, uint64_t n) {
  auto at = places_.upper_bound(offset);
  if (at != places_.begin() && std::prev(at)->second->end > offset) --at;
  for (; at != places_.end() && at->first < offset + n; at = places_.erase(at)) at->second->given_up = true;
}

bool CopyPlaces::given_up(const Place& place) const {
  const std::lock_guard lock(mutex_);
  return place.given_up;
}

void CopyPlaces::forget(const Place& place) {
  const std::lock_guard lock(mutex_);
  if (place.given_up) return;
  const auto at = places_.find(place.begin);
  BONSAI_CHECK(at != places_.end() && at->second.get() == &place);
  places_.erase(at);
}

}  // namespace bonsai::scale
