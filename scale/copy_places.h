// SPDX-License-Identifier: Apache-2.0
// The places in one target of copies that were noted and are not posted yet. A place belongs to the copy that claimed
// it last: when bytes of it are claimed again, or become resident, the earlier copy is given up as a whole.
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_COPY_PLACES_H_
#define BONSAI_SCALE_COPY_PLACES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace bonsai::scale {

class CopyPlaces {
 public:
  // The place of one copy. Its holder passes it only to this object.
  struct Place {
    uint64_t begin, end;
    bool given_up = false;
  };

  // From now on the bytes are those of this copy, and of no other that is not posted yet.
  std::shared_ptr<Place> claim(uint64_t offset, uint64_t n);
  // No copy that is not posted yet is written to these bytes.
  void give_up(uint64_t offset, uint64_t n);
  [[nodiscard]] bool given_up(const Place& place) const;
  // The copy is posted: whatever is noted from now on arrives after it.
  void forget(const Place& place);

 private:
  void give_up_locked(uint64_t offset, uint64_t n);

  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Place>> places_;  // by offset, disjoint
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_COPY_PLACES_H_
