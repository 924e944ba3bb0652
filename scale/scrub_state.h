// SPDX-License-Identifier: Apache-2.0
// Scrubbing of one group (scrubber.h): how it is to be done, and how far it is.
//
// Thread-safety: the atomics from any thread; the rest is set before the group is given to the scrubber.
#ifndef BONSAI_SCALE_SCRUB_STATE_H_
#define BONSAI_SCALE_SCRUB_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

namespace bonsai::scale {

// A media block of a group's target, or a part of one, which members hold differently although nothing was written
// there meanwhile.
struct ScrubBlock {
  enum class Verdict : uint8_t {
    kUnknown,  // no check covers it
    kMended,   // all members hold what has passed its check
    kDamaged,  // it has a check, which nothing that was read passes
  };

  uint64_t offset, bytes;
  Verdict verdict = Verdict::kUnknown;
  // kMended: the part that the check covers. Nobody uses the rest, and who will writes it first.
  uint64_t checked_begin = 0, checked_end = 0;
};

// Mends blocks that checks cover (mend.h), and says which. It gets them in rising order.
using ScrubJudge = std::function<void(std::span<ScrubBlock> blocks)>;

struct ScrubState {
  uint64_t bytes_per_s = 0;  // of each member, at most; 0: only passes that were asked for
  ScrubJudge judge;          // null: no check covers anything

  std::atomic<uint64_t> compared{0};   // bytes of each member, of the pass that is in progress
  std::atomic<uint64_t> passes{0};     // that have ended
  std::atomic<uint64_t> ended_ns{0};   // when the last one did (base::now_ns()); 0: none has
  std::atomic<uint64_t> unsettled{0};  // bytes that differed in it, and still do: nobody knows what is right there
  std::atomic<uint64_t> missed{0};     // bytes that it could not compare: they were written all the time, or not read
  std::atomic<uint64_t> asked{0};      // passes that were asked for
  std::atomic<uint64_t> served{0};     // of them: a pass began after they were asked for, and has ended
  std::atomic<uint64_t> refused{0};    // likewise: there are no two members to compare
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_SCRUB_STATE_H_
