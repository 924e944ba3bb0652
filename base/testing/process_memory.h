// SPDX-License-Identifier: Apache-2.0
// The memory of a test's own process. Thread-safety: any.
#ifndef BONSAI_BASE_TESTING_PROCESS_MEMORY_H_
#define BONSAI_BASE_TESTING_PROCESS_MEMORY_H_

#include <cstdint>
#include <fstream>
#include <string>

namespace bonsai::testing {

// Whether anonymous_bytes() counts the program's own memory alone. Sanitizers have shadow memory, and keep what was
// freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryIsTheProgramsOwn = false;
#else
inline constexpr bool kMemoryIsTheProgramsOwn = true;
#endif

// Memory of this process alone that belongs to no file.
inline uint64_t anonymous_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Anonymous:")) return std::stoull(line.substr(10)) * 1024;
  }
  return 0;
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_PROCESS_MEMORY_H_
