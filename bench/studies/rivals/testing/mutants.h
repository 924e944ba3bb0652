// SPDX-License-Identifier: Apache-2.0
// Rules of the rivals' protocols that a test can switch off, one bit each; the lists in mutants/ have the changes of
// the sources. Each engine's tests must notice those of its own.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_MUTANTS_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::bench::rivals {

using bonsai::testing::mutant;

enum Mutant : uint32_t {
  // RACE-like
  kReusedAtOnce = 1u << 0,            // a freed block is reused while others may read it
  kDuplicatesUnchecked = 1u << 1,     // an insert does not look for another one of its key
  kLostInsertAcknowledged = 1u << 2,  // an insert whose CAS was lost says OK
  kBlockUnverified = 1u << 3,         // a block is believed whatever its checksum says
  kFirstMatchBelieved = 1u << 4,      // ... and whatever its key is

  // RCuckoo-like
  kPathFromItsStart = 1u << 5,   // entries move from the new key's on: each is nowhere for a moment
  kRowUnverified = 1u << 6,      // a row is believed whatever its seal says
  kMissBelieved = 1u << 7,       // ... and one look that finds nothing
  kFirstPathBelieved = 1u << 8,  // the path is that of before the locks
  kLostLockTaken = 1u << 9,      // a lock that another one holds counts as taken
  kCopiesLeft = 1u << 10,        // a repair leaves keys in both of their rows
  kSealsLeft = 1u << 11,         // ... and seals as they are
  kHolderNotWatched = 1u << 12,  // a repair does not wait to see whether the holder is alive
  kRowBetweenTaken = 1u << 13,   // a path leads through rows that a READ covers and no lock

  // Sherman-like
  kTornRecordBelieved = 1u << 16,   // a record is believed whatever its checksum says
  kAbsenceUnverified = 1u << 17,    // a key counts as absent though a record of the leaf is torn
  kPageVersionKept = 1u << 18,      // a split leaves the page's version as it was
  kUnlockedBeforeWrite = 1u << 19,  // the lock is released before the record is written
  kUnlockedAndHandedOn = 1u << 20,  // a lock that a local thread takes over is released, too
  kLostLockBelieved = 1u << 21,     // a lock counts as taken though its CAS was lost
  kStaleCacheBelieved = 1u << 22,   // what a cached page names is taken for the key's leaf
  // ... with persistence
  kFlushLeftOut = 1u << 23,       // nothing makes a WRITE durable
  kAnswerUnawaited = 1u << 24,    // a change ends before the flush is answered
  kSiblingUnflushed = 1u << 25,   // a leaf names a sibling that is not durable
  kMovedErasedAtOnce = 1u << 26,  // a split erases the moved records with the head that names the sibling
  kHeadInPlace = 1u << 27,        // ... and writes that head over the old one
  kTornUnsalvaged = 1u << 28,     // a recovery drops records whose checksums are torn
  kNewRecordLinked = 1u << 29,    // a split writes the new record with that head, and the leaf may stay full

  // Clover-like. It has a test program of its own, so its bits may be those of other engines, too
  kSlabUnverified = 1u << 0,     // a slab is believed whatever its checksum says
  kVersionUnchecked = 1u << 1,   // ... and whatever its version is
  kLostSwapBelieved = 1u << 2,   // an update counts as linked though its CAS was lost
  kGapRetired = 1u << 3,         // a report counts though those of older versions have not come
  kVersionsGoRound = 1u << 4,    // a slab whose versions are used up is used on at once
  kOldCursorUsed = 1u << 5,      // a cursor is used however old it is
  kOldEpochBelieved = 1u << 10,  // ... and the server's epoch taken to be what it was, however long ago
  // ... with persistence
  kSlabUnflushed = 1u << 6,    // a version is linked before it is durable
  kLinkUnflushed = 1u << 7,    // ... and acknowledged before its link is
  kPassedUnflushed = 1u << 8,  // ... or before the links are by which it was reached
  kFlushPasses = 1u << 9,      // a call to flush may come before the CAS that it is for

  // PACTree-like over paging; the same of its program
  kVictimUnwritten = 1u << 0,  // a page that was changed goes as if it had not been
  kVictimUsed = 1u << 1,       // a page may be used while it goes
  kPageUsedEarly = 1u << 2,    // ... or before it has come
  kNeverWalksOn = 1u << 3,     // a key is looked for where the search layer says, and no further
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_MUTANTS_H_
