// SPDX-License-Identifier: Apache-2.0
// Rules of the put protocol (docs/put-protocol.md, section 2) that a test can switch off, one bit each. The lists in
// mutants/ have the changes of the sources. A test must then catch every one: a rule whose loss no test notices is
// untested or superfluous.
#ifndef BONSAI_INDEX_TESTING_MUTANTS_H_
#define BONSAI_INDEX_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::index {

using bonsai::testing::mutant;

enum Mutant : uint32_t {
  kVersionBeforePublish = 1u << 0,     // R2: the version is read before the node is published
  kNoHelpBeforePush = 1u << 1,         // R3: a put pushes on top of a node without a version
  kSupersededNoHelp = 1u << 2,         // R3: a superseded put returns without giving the head a version
  kFreezeIgnored = 1u << 3,            // R6: a put lands in a frozen bnode
  kRetryReusesRecord = 1u << 4,        // R7: a put that met the frozen bit keeps its old record
  kSnapshotUnregistered = 1u << 5,     // R11: pruning ignores a registration without a version
  kIgnoreUnversioned = 1u << 6,        // R4: reads skip nodes without a version
  kReturnBeforeVersion = 1u << 7,      // R4: a put returns before its node has a version
  kPublishBeforePersist = 1u << 8,     // R1: a put is visible before its record is durable
  kNoSupersedeTest = 1u << 9,          // R5: chains are ordered by time of push, not by token
  kHeadsNotHelpedAtFreeze = 1u << 10,  // R9: heads of a frozen bnode may be without a version
  kNoCarry = 1u << 11,                 // R10: replacement drops the versions that live scans need
  kNoCarryBase = 1u << 12,             // R10: ... or only the old value of the dnode
  kEqualKeysApart = 1u << 13,          // R20: equal keys of a group are looked for, and reserved, each for itself
  kRegisterLate = 1u << 14,            // R11: a scan registers itself after it has its version
  kPruneFromOwnNode = 1u << 15,        // R12: pruning starts at the own node and without the lock
  kPruneAll = 1u << 16,                // R12: pruning ignores registrations
  kGenerationEqual = 1u << 17,         // R8: a successor keeps the generation of its predecessor
  kBatchReadyEarly = 1u << 18,         // R17: a batch becomes visible before all of its nodes are in place
  kBatchNotHelped = 1u << 19,          // R18: a put pushes on top of a batch that is still publishing
  kMarkLate = 1u << 20,                // R13: a slot is marked after its first node was published
  kClaimIgnored = 1u << 21,            // R14: a bnode is planned for by two replacers at once
  kLayerForgotten = 1u << 22,          // R15: a replacement that found no space is not tried again
  kSplitByHalves = 1u << 23,           // R16: a split of an inner node takes the place of the old one in two stores
  kSiblingClaimIgnored = 1u << 24,     // R14: a merge takes a right sibling that another replacer has claimed
  kSettledByOwnHeads = 1u << 25,       // R19: a layer counts as settled though one below it is not
  kJudgeOnce = 1u << 26,               // R21: a conditional update whose push failed is pushed without a new judgement
  kPendingNotHelped = 1u << 27,        // R22: updates are judged by, and pushed on, what is under a pending node
  kOvertakenIsSuperseded = 1u << 28,   // R23: a put counts as superseded by a conditional update
  kCheckNotPinned = 1u << 29,          // R25: a key that a batch only checks may change before the batch is decided
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_TESTING_MUTANTS_H_
