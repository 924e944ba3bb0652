// SPDX-License-Identifier: Apache-2.0
// Reads runs: the caller requests runs, whole or in parts, waits once for all of them, and gets views.
//
//   RunReader reader(volume);
//   RunView run = reader.run(desc);                         further ones, of any dnodes
//   if (!reader.wait().ok()) return Trouble::kUnavailable;
//   use(run)
//
// A mapped run is where it is mapped. A run on a far target is carried (scale/read_batch.h). A carried run that came
// whole is kept until the reader ends; a later request for it needs no read.
//
// Guarantees: runs never change, and address and birth identify a run, so bytes that were read stay right under later
// guards. Views are valid as long as those of a ReadBatch. Thread-safety: one owner.
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
  // The read batch, for reads in mapped runs.
  [[nodiscard]] scale::ReadBatch& reads() { return reads_; }
  // Whether runs may have to be carried. If so, requesting many runs ahead of need in one list pays.
  [[nodiscard]] bool carries() const { return volume_.has_far(); }
  // How many of `count` searches of dnodes to issue together, at most `most`. Where runs are carried, two lists take
  // turns: one is in flight while the other is processed.
  [[nodiscard]] size_t searches_together(size_t count, size_t most) const {
    return carries() ? std::clamp((count + 1) / 2, kSearchesMin, most) : most;
  }

  // The bytes of a mapped run; null if it is to be carried.
  [[nodiscard]] const std::byte* mapped(uint64_t addr) const { return reads_.mapped(scale::Addr::of_bits(addr)); }
  // The sound bytes of a run that a check found damaged, from another member of its group, where it is repaired
  // (scale/mend.h). They stay as the reader's. Null: nobody has them. Requires: all that was requested is there.
  [[nodiscard]] const std::byte* mended(const RunDesc& run);
  // Calls `read`, which returns false where it finds damage in the view's run. If so, moves the view to the sound bytes
  // and calls it once more. False: nobody has them. `read` is inlined: it has one call.
  template <class Read>
  [[nodiscard]] bool read_soundly(RunView* view, Read read) {
    for (bool is_mended = false; !read(); is_mended = true) {
      if (is_mended || !mend(view)) return false;
    }
    return true;
  }
  // What a run is that could not be mended: damaged, or unavailable while a member that may have it is away.
  [[nodiscard]] Trouble not_mended() const { return is_known_ ? Trouble::kDamaged : Trouble::kUnavailable; }
  // The bytes of a carried run that was requested as a whole; else null.
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
  // Requests a run that is likely to be needed, if it is to be carried.
  void expect(const RunDesc& run) {
    if (mapped(run.addr) == nullptr) bytes(run);
  }
  // Bytes [begin, end) of a run.
  struct ByteRange {
    uint32_t begin, end;
  };
  // Requests parts of a carried run, in rising order. Returns the address that the run would begin at; after wait()
  // only its parts can be read there. Null without parts.
  const std::byte* parts(const RunDesc& run, std::span<const ByteRange> parts);

  // Begins the requested reads, as ReadBatch::begin(). Requires: no further request before wait().
  uint64_t begin() { return reads_.begin(); }
  // Waits for all requests. Errors: Unavailable (some bytes did not come): runs of the targets that failed are not
  // kept; bytes from other targets are valid.
  [[nodiscard]] Status wait(uint64_t now_ns = 0) { return reads_.waits() ? wait_for_reads(now_ns) : Status::OK(); }
  // Whether the last wait missed bytes of the target of a run.
  [[nodiscard]] bool lost(uint64_t addr) const { return reads_.lost(scale::Addr::of_bits(addr)); }

 private:
  static constexpr size_t kSearchesMin = 8;                                 // a list of fewer costs more than it hides
  using Whole = std::map<std::pair<uint64_t, uint32_t>, const std::byte*>;  // by address and birth

  [[nodiscard]] const std::byte* find_whole(const RunDesc& run) const;
  // Moves the view to mended() bytes. False: nobody has them.
  [[nodiscard]] bool mend(RunView* view);
  Status wait_for_reads(uint64_t now_ns);

  const scale::Volume& volume_;
  scale::ReadBatch reads_;
  bool is_known_ = true;          // that the last run that could not be mended is damaged
  std::unique_ptr<Whole> whole_;  // null until a run is carried
};

// All entries of a run, verified. They are views, which stay as the reader's.
[[nodiscard]] Trouble read_entries(RunReader* reader, const RunDesc& desc, std::vector<Entry>* entries);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RUN_READER_H_
