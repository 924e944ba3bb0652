// SPDX-License-Identifier: Apache-2.0
// Compares a recovered state with the history of the killed writer.
//
// Both modes are one question: is there a moment in the writer's history at which the store held exactly the recovered
// state? Durable: a moment after the crash, so every acknowledged update counts, and updates in flight each wholly or
// not at all. Buffered: any moment after the last acknowledged Sync. So no effect survives without its cause. Reads of
// the killed process take part: a value that a read returned must survive (durable), and a write after a read of x does
// not survive without x. In mode buffered the order of two updates that were in flight together, as a read saw it, is
// not required: the later may survive alone (docs/put-protocol.md, section 6).
#ifndef BONSAI_TESTING_CRASH_CHECK_H_
#define BONSAI_TESTING_CRASH_CHECK_H_

#include <functional>
#include <span>

#include "bonsai/options.h"
#include "testing/history.h"

namespace bonsai::testing {

struct CrashCase {
  Durability durability = Durability::kDurable;
  std::span<const Cell> initial;    // what the store held when the writer opened it; other keys: nothing
  std::span<const Cell> recovered;  // one cell per key that was ever used, the absent ones too
  uint64_t synced_at = 0;           // buffered: invocation ordinal of the last Sync that returned; 0 = none
};

// Keys with one writer (`one_writer`) are judged together, batches, scans and all, by check_snapshots. The others are
// judged one by one by check_registers (durable only), and their batches by a weaker rule: a batch that survives on one
// key is not missing on another, unless an update that could have come later is there.
// Requires: as check_snapshots for the keys with one writer; a batch has keys of one kind only.
Verdict check_crash(const History& history, const CrashCase& what, const std::function<bool(uint64_t key)>& one_writer);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_CRASH_CHECK_H_
