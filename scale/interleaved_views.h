// SPDX-License-Identifier: Apache-2.0
// Views of striped targets that are mapped here: in each the pieces of its addresses follow each other, so that a
// reader meets an object in one piece, as on a target alone. The memory management of the machine translates.
//
// A view takes addresses and entries of page tables, and no memory: it maps pages that the targets' own views map, too.
// Each piece is a mapping of its own for the kernel, which has a limit for their number (vm.max_map_count, 65,530 by
// default).
//
// Thread-safety: const members from any thread.
#ifndef BONSAI_SCALE_INTERLEAVED_VIEWS_H_
#define BONSAI_SCALE_INTERLEAVED_VIEWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bonsai/status.h"
#include "scale/layout.h"

namespace bonsai::scale {

class InterleavedViews {
 public:
  // The most pieces of all views together.
  static constexpr uint64_t kPiecesMax = 32'000;
  // Whether `targets` targets of `bytes` bytes can be mapped with this unit. Errors: InvalidArgument.
  static Status check(uint64_t unit_bytes, uint64_t targets, uint64_t bytes);

  // `views`: the targets' own, by number, each at a multiple of a page and shared (MAP_SHARED); those of the ring have
  // `bytes` bytes. Requires: they stay mapped. Errors: those of check(); NotSupported (memory that cannot be mapped
  // twice), NoSpace (no addresses, or too many mappings).
  static Status make(const Layout& layout, std::span<std::byte* const> views, uint64_t bytes,
                     std::unique_ptr<InterleavedViews>* made);
  ~InterleavedViews();
  InterleavedViews(const InterleavedViews&) = delete;
  InterleavedViews& operator=(const InterleavedViews&) = delete;

  // The view of the i-th target of the ring.
  [[nodiscard]] std::byte* view(size_t i) const { return views_[i]; }

 private:
  explicit InterleavedViews(uint64_t bytes) : bytes_(bytes) {}
  Status add(const Layout& layout, size_t target, std::span<std::byte* const> views);

  const uint64_t bytes_;  // of each, in pages
  std::vector<std::byte*> views_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_INTERLEAVED_VIEWS_H_
