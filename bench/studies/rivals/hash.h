// SPDX-License-Identifier: Apache-2.0
// The hash of the rivals' tables: 64 well mixed bits of a key, another 64 for another seed.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_HASH_H_
#define BONSAI_BENCH_STUDIES_RIVALS_HASH_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/random.h"

namespace bonsai::bench::rivals {

[[nodiscard]] inline uint64_t hash_of(std::string_view key, uint64_t seed) {
  uint64_t hash = base::splitmix64(seed ^ key.size());
  for (size_t i = 0; i < key.size(); i += sizeof hash) {
    uint64_t word = 0;
    std::memcpy(&word, key.data() + i, std::min(sizeof word, key.size() - i));
    hash = base::splitmix64(hash ^ word);
  }
  return hash;
}

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_HASH_H_
