// What reads say of stored bytes that fail their checksum.
#ifndef BONSAI_STORE_DAMAGE_H_
#define BONSAI_STORE_DAMAGE_H_

#include <string_view>

#include "base/key.h"
#include "bonsai/status.h"

namespace bonsai::store {

inline Status damaged_value(std::string_view key) {
  return Status::Corruption("the stored bytes of key " + base::printable(key) +
                            " fail their checksum; run `bonsai check` on the pool");
}

inline Status damaged_range(const base::Fence& lo, const base::Fence& hi) {
  return Status::Corruption("a dnode of keys " + base::printable_range(lo, hi) +
                            " fails its checksum; run `bonsai check` on the pool");
}

}  // namespace bonsai::store

#endif  // BONSAI_STORE_DAMAGE_H_
