// SPDX-License-Identifier: Apache-2.0
// Rules of ownership and membership that a test can switch off, one bit each; the lists in mutants/ have what that
// changes in the sources. mutant_test.cc shows what notices their loss. The numbers in brackets are those of
// docs/nodes.md.
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_MUTANTS_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::scale::membership {

using bonsai::testing::mutant;

enum Mutant : uint64_t {
  // lease
  kGrantByArrival = 1u << 0,  // [L2] the owner counts from the arrival of the answer
  kNoMargin = 1u << 1,        // [L2] clocks are taken for exact
  kOneGrantEnough = 1u << 2,  // [L3] one member's grant is enough
  kEndForgotten = 1u << 3,    // [L4] a late grant revives a lease that has been ended
  kNotChecked = 1u << 4,      // [L1] a read does not look whether the lease is valid
  // owner register
  kLeaseNotAwaited = 1u << 5,        // [E3] another session gets the pool while a lease runs
  kRestartForgetsLease = 1u << 6,    // [E4] a restarted node gives the pool away at once
  kNotPersisted = 1u << 7,           // [E2] an owner is served before its record is durable
  kEarlierNotEnded = 1u << 8,        // [E2] ... before earlier connections have ended
  kResumeEndsNothing = 1u << 9,      // [E2] a new connection of the owner is served beside its earlier one
  kAnybodyServed = 1u << 10,         // [E5] late flush requests of earlier owners are carried out
  kEpochNotCompared = 1u << 11,      // [E1] a fence is not compared with what its sender has seen
  kAnybodyLeaves = 1u << 12,         // [E5] an earlier owner gives the pool back
  kAnybodyRenews = 1u << 13,         // [E5] an earlier owner gets grants
  kLostRecordNotAwaited = 1u << 14,  // [E4] a lost record counts as that of a pool without an owner
  kSessionNotCompared = 1u << 15,    // [E5] an epoch alone names an owner
  kGrantsForgotten = 1u << 16,       // [E3] the node does not note what it grants
  kForceIgnored = 1u << 17,          // [E6] a live owner gets grants while a forced take-over waits
  // page
  kTornAccepted = 1u << 18,            // [P1] a slot is not verified
  kOneCopy = 1u << 19,                 // [P2] a page counts when it is in one slot
  kNewestOverwrittenFirst = 1u << 20,  // [P1] the slot with the newest page is written first
  kPoolNotCompared = 1u << 22,         // [P3] the page of another pool is accepted
  // in-sync members
  kOpenedByTooFew = 1u << 23,               // [M3] an opening goes on though as many members as needed are missing
  kDroppedBelowMin = 1u << 24,              // [M2] fewer members than needed are left
  kOnSomeEnough = 1u << 25,                 // [M1] a page is in force when it is on one member
  kAddedNotAwaited = 1u << 26,              // [M1] a member is awaited when the page with it is everywhere
  kJoiningCounted = 1u << 27,               // [M2] a page names a member that is not caught up
  kLateAnswerCounts = 1u << 28,             // [M1] an answer about an earlier page counts for the newest
  kWitnessNotAwaited = uint64_t{1} << 32,   // [M4] a page is in force without the witness
  kMajorityNotReached = uint64_t{1} << 33,  // [M4] members in sync open without a majority
  // member states
  kNotSentAgain = 1u << 29,  // [S1] unanswered updates are forgotten with the connection
  kBackAfterNo = 1u << 30,   // [S2] updates are taken again after they were refused
  kOutTooEarly = 1u << 31,   // [S3] a late member is not waited for any more
};

}  // namespace bonsai::scale::membership

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_MUTANTS_H_
