// SPDX-License-Identifier: Apache-2.0
// Reads the runs of a pool's tiles ahead of need: those that are to be carried come in lists of about kTogetherBytes,
// and the bytes of earlier lists are given back. For those who visit all tiles in order.
#ifndef BONSAI_PERSIST_RUNS_AHEAD_H_
#define BONSAI_PERSIST_RUNS_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "persist/analysis.h"
#include "persist/run_reader.h"
#include "scale/volume.h"

namespace bonsai::persist {

class RunsAhead {
 public:
  static constexpr uint64_t kTogetherBytes = uint64_t{1} << 20;

  // `only_large`: the caller asks only for tiles whose dnodes have large values. Requires: both outlive it.
  RunsAhead(const scale::Volume& volume, const Analysis& analysis, bool only_large = false)
      : volume_(volume), analysis_(analysis), only_large_(only_large) {}

  // A reader that is likely to have the runs of the tile's dnode. Those that did not come are read when they are asked
  // for. Readers of earlier tiles are no longer valid, unless this is the same one.
  RunReader& of(size_t tile) {
    if (!reader_ || tile < begin_ || tile >= end_) read(tile);
    return *reader_;
  }

 private:
  void read(size_t tile) {
    reader_.emplace(volume_);
    begin_ = end_ = tile;
    uint64_t bytes = 0;
    do {
      const Dnode& dnode = *analysis_.dnodes[analysis_.tiles[end_++].dnode];
      if (only_large_ && !dnode.has_large()) continue;
      for (const RunDesc& run : dnode.runs()) {
        reader_->expect(run);
        bytes += run.bytes;
      }
    } while (end_ < analysis_.tiles.size() && bytes < kTogetherBytes);
    static_cast<void>(reader_->wait());  // what did not come is asked for again, and reported then
  }

  const scale::Volume& volume_;
  const Analysis& analysis_;
  const bool only_large_;
  std::optional<RunReader> reader_;
  size_t begin_ = 0, end_ = 0;  // the tiles that it has read
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RUNS_AHEAD_H_
