// SPDX-License-Identifier: Apache-2.0
// The way to the bytes of runs: a reader is asked for runs, whole or in parts, waits once for all of them, and gives
// views.
//
//   RunReader reader(volume);
//   RunView run = reader.run(desc);                         further ones, of any dnodes
//   if (!reader.wait().ok()) return Trouble::kUnavailable;
//   use(run)
//
// A mapped run is where it is mapped. A run on a far target is carried (scale/read_batch.h). A carried run that came
// whole is kept until the reader ends, and who asks for it again gets it without a read.
//
// Guarantees: runs never change, and a place is not used twice for the same run, so what was read stays right under
// later guards. Views stay as what a ReadBatch brings.
// Thread-safety: one owner.
#ifndef BONSAI_PERSIST_RUN_READER_H_
#define BONSAI_PERSIST_RUN_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bonsai/status.h"
#include "persist/run.h"
#include "scale/read_batch.h"

namespace bonsai::persist {

class RunReader {
 public:
  // Requires: the volume outlives it.
  explicit RunReader(const scale::Volume& volume) : volume_(volume), reads_(volume) {}

  [[nodiscard]] const scale::Volume& volume() const { return volume_; }
  // The reads, for what is issued in mapped runs.
  [[nodiscard]] scale::ReadBatch& reads() { return reads_; }
  // Whether runs may have to be carried. Then one list of many runs is worth being made ahead of need.
  [[nodiscard]] bool carries() const { return volume_.has_far(); }
  // How many of `count` searches of dnodes to issue together, at most `most`. Where runs are carried, two lists take
  // turns: one is in flight while the other is processed.
  [[nodiscard]] size_t searches_together(size_t count, size_t most) const {
    return carries() ? std::clamp((count + 1) / 2, kSearchesMin, most) : most;
  }

  // The bytes of a mapped run; null if it is to be carried.
  [[nodiscard]] const std::byte* mapped(uint64_t addr) const { return reads_.mapped(scale::Addr::of_bits(addr)); }
  // The bytes of a carried run that was asked for as a whole; else null.
  [[nodiscard]] const std::byte* find(const RunDesc& run) const {
    return whole_ != nullptr ? find_whole(run) : nullptr;
  }
  // Whether all runs of a dnode are mapped or here as a whole; not if it has none, or nothing was carried.
  template <class Runs>
  [[nodiscard]] bool has(const Runs& runs) const {
    return whole_ != nullptr && !runs.empty() && std::all_of(runs.begin(), runs.end(), [this](const RunDesc& run) {
             return find(run) != nullptr || mapped(run.addr) != nullptr;
           });
  }

  // The whole run; it is there after wait().
  RunView run(const RunDesc& run) { return {bytes(run), run, volume_.identity()}; }
  const std::byte* bytes(const RunDesc& run);
  // Asks for a run that is likely to be needed, if it is to be carried.
  void expect(const RunDesc& run) {
    if (mapped(run.addr) == nullptr) bytes(run);
  }
  // Bytes [begin, end) of a run.
  struct ByteRange {
    uint32_t begin, end;
  };
  // Asks for parts of a carried run, in rising order. Returns where the run would begin: only its parts are there,
  // after wait(). Null without parts.
  const std::byte* parts(const RunDesc& run, std::span<const ByteRange> parts);

  // Nothing more is asked for before wait(), as ReadBatch::begin().
  uint64_t begin() { return reads_.begin(); }
  // Waits for all that was asked for. Errors: Unavailable: some did not come. Runs of these targets are not kept; what
  // other targets sent is here.
  [[nodiscard]] Status wait(uint64_t now_ns = 0) { return reads_.waits() ? wait_for_reads(now_ns) : Status::OK(); }
  // Whether the last wait missed bytes of the target of a run.
  [[nodiscard]] bool lost(uint64_t addr) const { return reads_.lost(scale::Addr::of_bits(addr)); }

 private:
  static constexpr size_t kSearchesMin = 8;                                 // a list of fewer costs more than it hides
  using Whole = std::map<std::pair<uint64_t, uint32_t>, const std::byte*>;  // by address and birth

  [[nodiscard]] const std::byte* find_whole(const RunDesc& run) const;
  Status wait_for_reads(uint64_t now_ns);

  const scale::Volume& volume_;
  scale::ReadBatch reads_;
  std::unique_ptr<Whole> whole_;  // null until a run is carried
};

// All entries of a run, verified. They are views, which stay as the reader's.
[[nodiscard]] Trouble read_entries(RunReader* reader, const RunDesc& desc, std::vector<Entry>* entries);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RUN_READER_H_
