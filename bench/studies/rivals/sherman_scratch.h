// SPDX-License-Identifier: Apache-2.0
// Layout of a client's registered memory and of the fixed part of a memory node, in the Sherman-like engine. Internal
// to the engine.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_SCRATCH_H_
#define BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "bench/studies/rivals/sherman_layout.h"
#include "bench/studies/rivals/sherman_node.h"

namespace bonsai::bench::rivals::sherman {

inline constexpr size_t kImageAt = 0;                          // the page that was read
inline constexpr size_t kFreshAt = kPageBytes;                 // a new page
inline constexpr size_t kPostedAt = 2 * kPageBytes;            // a page whose WRITE is not waited for
inline constexpr size_t kLockWordAt = 3 * kPageBytes;          // what words held: of a lock,
inline constexpr size_t kUnlockedAt = kLockWordAt + 8;         // of a lock that was released,
inline constexpr size_t kPostedUnlockedAt = kLockWordAt + 16;  // of one whose release is not waited for,
inline constexpr size_t kRootAt = kLockWordAt + 24;            // and of the root
inline constexpr size_t kFlushedAt = kLockWordAt + 32;         // what a READ got that was to flush
inline constexpr size_t kScanAt = 3 * kPageBytes + 64;         // leaves of a scan
[[nodiscard]] constexpr size_t scratch_bytes(size_t scan_pages) { return kScanAt + scan_pages * kPageBytes; }

inline constexpr Address kRootWord{0, 0};
[[nodiscard]] inline size_t first_page_at(const TreeOptions& options) {
  return (kFirstLockAt + options.locks_per_node * sizeof(uint64_t) + kPageBytes - 1) / kPageBytes * kPageBytes;
}
inline constexpr size_t kPageUnits = kPageBytes / 64;

}  // namespace bonsai::bench::rivals::sherman

#endif  // BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_SCRATCH_H_
