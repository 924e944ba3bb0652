// SPDX-License-Identifier: Apache-2.0
// Counts occurrences of a part in a text, for tests of pages and pictures.
#ifndef BONSAI_BENCH_REPORT_TESTING_COUNT_H_
#define BONSAI_BENCH_REPORT_TESTING_COUNT_H_

#include <cstddef>
#include <string>

namespace bonsai::bench {

inline size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REPORT_TESTING_COUNT_H_
