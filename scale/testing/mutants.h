// SPDX-License-Identifier: Apache-2.0
// Rules of remote targets that a test can switch off, one bit each; the lists in mutants/ have the changes of the
// sources. The simulations of the whole store must notice the loss of those that testing/sim/rules.h names; leases,
// groups, layouts and repair have tests of their own (leases_test.cc, group_life_test.cc, layout_mutant_test.cc). No
// bit of persist/testing/mutants.h or store/testing/mutants.h, but for groups, whose tests compile neither.
#ifndef BONSAI_SCALE_TESTING_MUTANTS_H_
#define BONSAI_SCALE_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::scale {

using bonsai::testing::mutant;

enum Mutant : uint64_t {
  kFenceNotAwaited = 1u << 0,       // a fence answers when all is posted, before the nodes have answered
  kFenceFailureIgnored = 1u << 1,   // a fence that failed answers true
  kFailureForgotten = 1u << 2,      // after a failure the target goes on
  kAnswerBeforeFlush = 1u << 3,     // the server answers and flushes nothing
  kFlushFirstOnly = 1u << 4,        // the server flushes the first range of a request only
  kStandingClockTrusted = 1u << 5,  // lease=checked changes nothing
  kOwnerReplaced = 1u << 6,         // the server gives a pool that has an owner to the next one who asks
  kReadNotAwaited = 1u << 7,        // a read has ended, and its memory is used again, before its READs are complete
  kOutBeforePage = 1u << 8,         // a member is out before the page without it is durable on the others
  kOpensWithTooFew = 1u << 9,       // a group is opened by whichever members are there
  kNotMadeEqual = 1u << 10,         // a member that was away is taken for one that holds everything
  kCopyUsedAgain = 1u << 11,        // what is being written is given back, and used again, before its WRITE is complete
  kJoinerMissesWrites = 1u << 12,   // a member that joins gets no updates before it is in sync
  kFirstMemberOnly = 1u << 13,      // updates go to the first member of a group alone
  kTooFewGoOn = 1u << 14,           // a group goes on with fewer members than are needed
  kSendAgainSkipped = 1u << 15,     // what a connection has left unanswered is taken for durable
  kReadAgainSkipped = 1u << 16,     // what a connection has left unread is taken for read
  kLeaseNotChecked = 1u << 17,      // a lease is valid for ever
  kLeaseByArrival = 1u << 18,       // a grant counts from its arrival
  kEarlierGrantCovers = 1u << 19,   // a grant that was requested before a read proves who owned the pool then
  kReplacedGoesOn = 1u << 20,       // an owner that was replaced answers reads
  kRecordSkipped = 1u << 21,        // every other owner is served before the record that names it is durable
  kReplacedResumes = 1u << 22,      // a session that was replaced gets the pool back when it resumes
  kRestartNotAwaited = 1u << 23,    // a restarted node does not wait out the lease that its record names
  kStaleCopyLands = 1u << 24,       // a copy goes to a member that joins although its place was written meanwhile
  kEarlierNotAwaited = 1u << 25,    // what was noted before a member joined is not awaited before others are read
  kEntersBeforeCopy = 1u << 26,     // a page names a member that joins before it is brought up to date
  kWitnessSkipped = uint64_t{1} << 44,  // a page is in force that the witness does not have
  kPageNotRaised = 1u << 27,            // a member that was brought up to date is in sync without a page that says so
  kLeaseNotAwaited = 1u << 30,          // a node gives a pool away while its owner's lease runs
  kFlushNotAwaited = 1u << 31,          // the server answers before the pool's flush thread has flushed
  // Of layouts.
  kTurnsOnceMore = uint64_t{1} << 32,   // a striped unit is on the target after its own
  kOffsetTurns = uint64_t{1} << 33,     // a striped unit is a unit further than its address
  kUnitsCrossed = uint64_t{1} << 34,    // a piece of striped bytes goes on into the next unit
  kWritesNotSplit = uint64_t{1} << 35,  // striped writes go to the target of their address alone
  kReadsNotSplit = uint64_t{1} << 36,   // striped reads come from the target of their address alone
  // Of read-repair.
  kFirstTrusted = uint64_t{1} << 40,   // what most members hold is taken for sound
  kNotCombined = uint64_t{1} << 41,    // members that are damaged in different places are not put together
  kSoundRepaired = uint64_t{1} << 42,  // a member is repaired that holds the sound bytes
  kNotRepaired = uint64_t{1} << 43,    // sound bytes are returned, and the damage stays
  kAwayIsDamaged = uint64_t{1} << 51,  // what a member that is away may have is damaged
  kNotTakenApart = uint64_t{1} << 56,  // neighbours in which the same members differ stay one block
  // Of scrubbing.
  kScrubComparesNothing = uint64_t{1} << 52,  // what members hold is read, and not compared
  kScrubWrittenDiffers = uint64_t{1} << 45,   // what was written meanwhile is taken for damage
  kScrubRepairsWritten = uint64_t{1} << 46,   // a repair lands on what was written meanwhile
  kScrubTrustsFewest = uint64_t{1} << 47,     // what the fewest members hold is taken for right
  kScrubIgnoresMemory = uint64_t{1} << 48,    // resident bytes are judged by the members alone
  kScrubIgnoresVerdict = uint64_t{1} << 49,   // most members decide against a check
  kScrubTrustsAnyOfTwo = uint64_t{1} << 50,   // of two members that differ the first is right
  kScrubLeavesUnused = uint64_t{1} << 53,     // what is beside checked bytes in their block stays as it is
  kScrubForgetsWritten = uint64_t{1} << 54,   // what a repair was not posted for is not compared again
  kScrubCountsTwice = uint64_t{1} << 55,      // each attempt adds to the bytes that differ
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TESTING_MUTANTS_H_
