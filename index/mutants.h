// Rules of the put protocol that a test build can switch off, one bit each. Every one must then be caught by a test:
// a rule whose loss nobody notices is untested or superfluous. The names follow the broken variants that were found in
// the protocol's model (docs/put-protocol.md).
#ifndef BONSAI_INDEX_MUTANTS_H_
#define BONSAI_INDEX_MUTANTS_H_

#include <cstdint>

namespace bonsai::index {

enum Mutant : uint32_t {
  kVersionBeforePublish = 1u << 0,  // trap 1: the version is read before the node is published
  kNoHelpBeforePush = 1u << 1,      // trap 2: a put pushes on top of an unversioned node
  kSupersededNoHelp = 1u << 2,      // trap 3: a superseded put returns without helping
  kFreezeIgnored = 1u << 3,         // trap 4: a put lands in a frozen bnode (the frozen bit is not in the CASed word)
  kRetryReusesRecord = 1u << 4,     // trap 4: a put that met the frozen bit keeps its old record
  kSnapshotUnannounced = 1u << 5,   // trap 5: an announcement without a version yet is ignored by pruning
  kIgnoreUnversioned = 1u << 6,     // reads skip nodes without a version
  kReturnBeforeVersion = 1u << 7,   // a put returns before its node has a version
  kPublishBeforePersist = 1u << 8,  // a put is visible before its record is durable
  kNoSupersedeTest = 1u << 9,       // chains are ordered by time of push, not by token
  kHeadsNotHelpedAtFreeze = 1u << 10,
  kNoCarry = 1u << 11,              // replacement drops the versions that live scans need
  kNoCarryBase = 1u << 12,          // ... or only the dnode's old value
  kEqualKeysApart = 1u << 13,       // equal keys of a group are looked for, and reserved, each for itself
  kAnnounceLate = 1u << 14,         // a scan announces itself after it has its version
  kPruneFromOwnNode = 1u << 15,     // pruning starts at one's own node and without the lock
  kPruneAll = 1u << 16,             // pruning ignores announcements
  kGenerationEqual = 1u << 17,      // a successor bnode keeps its predecessor's generation
  kBatchReadyEarly = 1u << 18,      // a batch becomes visible before all of its nodes are in place
  kBatchNotHelped = 1u << 19,       // a put pushes on top of a batch that is still being published
  kMarkLate = 1u << 20,             // a slot is marked after its first node was published
  kClaimIgnored = 1u << 21,         // a bnode is planned for by two replacers at once
  kLayerForgotten = 1u << 22,       // a replacement that found no space is not tried again
  kSplitByHalves = 1u << 23,        // a split of an inner node takes the place of the old one in two stores
  kSiblingClaimIgnored = 1u << 24,  // a merge takes a right sibling that another replacer has claimed
  kSettledByOwnHeads = 1u << 25,    // a layer counts as settled though one below it is not
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_MUTANTS_H_
