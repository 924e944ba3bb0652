// What a life of a pool does, and how often.
#ifndef BONSAI_PERSIST_TESTING_PROFILE_H_
#define BONSAI_PERSIST_TESTING_PROFILE_H_

#include <array>
#include <cstdint>

#include "persist/format.h"

namespace bonsai::persist::testing {

enum class Do { kOffloadAll, kOffloadSome, kBatch, kPutLarge, kReopen, kCloseEpoch, kPut, kPutRolling, kClaim, kMove };

// How often a life does what, and for how long; weights in the order of Do.
struct Profile {
  const char* name;
  int operations;
  std::array<uint8_t, 10> weights;
  uint64_t pool_bytes = kPoolBytesMin;
  uint64_t log_bytes = 0;    // 0: as the product chooses
  uint64_t grown_bytes = 0;  // that the pool has after it has grown; 0: it does not grow
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_PROFILE_H_
