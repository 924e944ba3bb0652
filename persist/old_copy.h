// SPDX-License-Identifier: Apache-2.0
// Marks by which the targets of a pool show that one of them is an older copy from the same opening (opening.h finds
// those of earlier ones). A pool of one target has none.
//
// While a pool is open each target has two marks. Both are sequences of log segments (log.h):
//   begun    durable on all targets before the segment of that sequence, or of a lower one, has an entry in the log
//   table opened   stored on all targets when the segment of that sequence is durable
// So a target whose `begun` is lower than the sequence of an entered segment is an older copy. So is a target of the
// log, if no segment of the log is as late as what another target has in `opened`.
// When the pool is closed each target but the log's home gets a third mark, the summary of its content (pool.h); then
// the home notes it in the run state. So an older copy of the home, which says that the pool is open, is detected, too.
//
// All are bound to the target's opening word, so a mark of an earlier opening is none, also if an older version of this
// program opened the pool meanwhile.
//
// Not detected: a copy from the last opening of a pool that crashed, if no log segment was begun since. Of a target
// with dnodes this loses nothing, for the log has all updates since. Of the log it does.
#ifndef BONSAI_PERSIST_OLD_COPY_H_
#define BONSAI_PERSIST_OLD_COPY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "persist/log.h"
#include "persist/pool.h"
#include "scale/volume.h"

namespace bonsai::persist {

// Where the log writes its marks. Requires: the opening was noted.
std::vector<Log::Marks> log_marks(const scale::Volume& volume, const Pool& pool);

// Writes the marks of a new opening: all segments up to `sequence` were begun and opened before. Requires: the opening
// was noted, and the log has no writer yet. Errors: IoError (the volume has failed).
Status note_marks(scale::Volume& volume, const Pool& pool, uint64_t sequence);

// What an analysis found in the log and in all targets.
struct FoundState {
  uint64_t entered_max = 0;   // the highest sequence of a segment whose entry is of this opening
  uint64_t sequence_max = 0;  // the highest sequence of a segment
  uint32_t summary = 0;
};
// Compares the marks with it. `older` is called for each that contradicts it, with its place and what that means.
void check_marks(const scale::Volume& volume, const Pool& pool, const FoundState& found,
                 const std::function<void(scale::Addr at, std::string what)>& older);

// The marks that say what the pool is being closed with.
std::vector<StateWord> closing_marks(const scale::Volume& volume, const Pool& pool, uint32_t summary);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_OLD_COPY_H_
