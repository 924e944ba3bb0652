// SPDX-License-Identifier: Apache-2.0
// Which blocks of a window of a target had updates posted to them since the window was opened there.
//
// Thread-safety: watch() by one caller; the rest from any thread. An update that is noted after await_earlier()
// (write_lanes.h) of the watcher has returned, or is waited for by it, is added to the window of the last watch()
// before.
#ifndef BONSAI_SCALE_WRITTEN_BLOCKS_H_
#define BONSAI_SCALE_WRITTEN_BLOCKS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace bonsai::scale {

class WrittenBlocks {
 public:
  static constexpr uint64_t kBlockBytes = 4096, kBlocks = 64, kWindowBytes = kBlocks * kBlockBytes;
  // Blocks of the window, one bit each.
  using Set = uint64_t;

  // Opens the window at `begin`, a multiple of kBlockBytes. Nothing is written there yet.
  void watch(uint64_t begin) {
    begin_.store(begin);
    written_.store(0);
  }
  // Closes the window.
  void ignore() { begin_.store(kNowhere); }
  // An update of [offset, offset + n) is posted.
  void add(uint64_t offset, uint64_t n) {
    const Set blocks = blocks_of(begin_.load(), offset, n);
    if (blocks != 0) [[unlikely]]
      written_.fetch_or(blocks);
  }
  [[nodiscard]] Set written() const { return written_.load(); }
  // Whether one was posted to these bytes of the window.
  [[nodiscard]] bool has(uint64_t offset, uint64_t n) const {
    return (written_.load() & blocks_of(begin_.load(), offset, n)) != 0;
  }

  // The blocks of a window at `begin` that share bytes with [offset, offset + n).
  [[nodiscard]] static Set blocks_of(uint64_t begin, uint64_t offset, uint64_t n) {
    const uint64_t from = std::max(offset, begin), to = std::min(offset + n, begin + kWindowBytes);
    if (from >= to) return 0;
    const uint64_t first = (from - begin) / kBlockBytes, last = (to - 1 - begin) / kBlockBytes;
    return ~Set{0} >> (kBlocks - 1 - (last - first)) << first;
  }

 private:
  static constexpr uint64_t kNowhere = UINT64_MAX - kWindowBytes;

  std::atomic<uint64_t> begin_{kNowhere};
  std::atomic<Set> written_{0};
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_WRITTEN_BLOCKS_H_
