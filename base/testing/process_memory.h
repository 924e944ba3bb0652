// SPDX-License-Identifier: Apache-2.0
// The memory of a test's own process. Thread-safety: any.
#ifndef BONSAI_BASE_TESTING_PROCESS_MEMORY_H_
#define BONSAI_BASE_TESTING_PROCESS_MEMORY_H_

#include <cstdint>
#include <fstream>
#include <string>

namespace bonsai::testing {

// Memory of this process alone that belongs to no file; of a sanitizer, too (sanitized.h).
inline uint64_t anonymous_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Anonymous:")) return std::stoull(line.substr(10)) * 1024;
  }
  return 0;
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_PROCESS_MEMORY_H_
