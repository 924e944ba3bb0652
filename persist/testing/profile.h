// SPDX-License-Identifier: Apache-2.0
// The actions in a pool's life, and their frequencies.
#ifndef BONSAI_PERSIST_TESTING_PROFILE_H_
#define BONSAI_PERSIST_TESTING_PROFILE_H_

#include <array>
#include <cstdint>

#include "base/random.h"
#include "persist/format.h"

namespace bonsai::persist::testing {

// The relative frequency of each kind of work in a life, in the order of Life::operate(), and the life's length.
struct Profile {
  const char* name;
  int operations;
  std::array<uint8_t, 11> weights;
  uint64_t pool_bytes = kPoolBytesMin;
  uint64_t log_bytes = 0;    // 0: as the product chooses
  uint64_t grown_bytes = 0;  // that the pool has after it has grown; 0: it does not grow

  // Chooses the next action.
  [[nodiscard]] size_t choose(base::Random& random) const {
    uint64_t sum = 0;
    for (const uint8_t weight : weights) sum += weight;
    uint64_t at = random.below(sum);
    size_t i = 0;
    for (; at >= weights[i]; ++i) at -= weights[i];
    return i;
  }
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_PROFILE_H_
