// SPDX-License-Identifier: Apache-2.0
// Runs small concurrent programs against a store under interleavings that a seed chooses, and judges each run.
//
// Every program is a coroutine of base::Scheduler (Pick::kSeeded); base::step_hook switches between them at each step
// of the protocols. All is one thread, so a run is a function of its seed. In crash runs the pool file of a shadow
// medium, which holds exactly what is durable, is copied at one seeded step; the copy is then recovered, and its state
// must explain what was done and seen until that step.
//
// A program is a text of actions, separated by spaces. A digit after an action is the number of its key.
//   put0  delete0  get0   put, delete or get key 0
//   multi-get             all keys
//   multi-put             all keys, each an update of its own
//   multi-put-equal       key 0, the last key, and key 0 once more
//   session               put and delete key 0, delete and put the last key, as one group
//   batch                 put all keys
//   batch-delete          a batch: put key 0, delete the last key
//   put-if0 delete-if0    if the key has the value that it had when the run began; delete-if: if it has any
//   put-if-seen0          if it has the value that a get has just found
//   put-unchanged0        if it was not updated since a snapshot that has just been taken
//   batch-if              a batch: put all keys, if the first and the last one have the values that they had at first
//   batch-if-seen         a batch: put the first key, delete the last one, if they have the values that gets have found
//   check-if0             a batch: put the key, if the next one, after the last the first, has what a get has found
//   scan                  all keys
//   iterate               an iterator, forward and back
//   snapshot              take a snapshot, release the one before
//   read-snapshot         read all keys through it by gets and a scan
//   drain                 Drain, which replaces the bnodes
// Actions on neighbours of key 1: keys in its bnode that only this program uses (cases of spread keys).
//   fill-near1            multi-put of many neighbours; two such calls fill a bnode and the successor made for them
//   long-batch1           a long batch: the keys before and after key 1, and many neighbours between them
//   late-batch1           a batch from neighbours of the key before to one neighbour of key 1. Where key 1's bnode is a
//                         full, pending successor, the batch stacks another one
//   await-late1           wait until such a batch is visible
// Actions on the pool
//   fill-and-empty        (before the programs) fill the gaps of spread keys and empty them, so that updates and a
//                         Drain then merge ranges
//   crowd                 (before the programs) put twelve neighbours of each key. Four more fill the smallest table,
//                         and writers then plan successors, as the background does above the high-water mark
//   take-space            take all free space of the pool: offloads find none, updates may end with NoSpace
//   give-space            give it back; so does the end of the programs
// Programs that run together are separated by '|'.
#ifndef BONSAI_TESTING_PROTOCOL_RIG_H_
#define BONSAI_TESTING_PROTOCOL_RIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/db.h"
#include "testing/history.h"

namespace bonsai::testing {

struct ProtocolCase {
  const char* name;
  uint64_t keys;         // keys 0..keys-1
  const char* before;    // one program, which ends before the others start
  const char* programs;  // run together
  bool spread = false;   // other records between the keys, so that the keys are in different bnodes
};

// Whether some program of the case has the action; `action` without the number of a key.
bool performs(const ProtocolCase& what, std::string_view action);

// The rig's access to stores.
struct ProtocolStore {
  // Opens an empty store, for `schedules_per_store` runs of one case.
  std::function<std::unique_ptr<DB>()> open;
  // Crash runs only: copies the durable bytes; opens the copy. Both empty: no crash runs.
  std::function<void()> copy_durable;
  std::function<Status(std::unique_ptr<DB>*)> open_copy;
  // Takes all free space of the open store's pool, or gives it back. Empty: cases with take-space cannot run.
  std::function<void(bool take)> hoard;
  uint64_t schedules_per_store = 200;
};

struct ProtocolResult {
  Verdict verdict;
  uint64_t schedules = 0;  // that ran, the failing one included
  uint64_t crashes = 0;    // of them with a crash
  uint64_t splits = 0;     // that the stores did
  uint64_t merges = 0;
  uint64_t replacements = 0;  // that writers had to plan
  uint64_t refused = 0;       // updates and drains that found no space
  uint64_t seed = 0;          // of the failing run's store; run_case(..., seed) ends at the same failure
};

// Runs `schedules` schedules of the case from `seed` on, each checked; ends at the first violation.
// Thread-safety: one thread at a time in the process, since the step hook is global.
ProtocolResult run_case(const ProtocolCase& what, const ProtocolStore& store, uint64_t seed, uint64_t schedules);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_PROTOCOL_RIG_H_
