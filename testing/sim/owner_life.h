// SPDX-License-Identifier: Apache-2.0
// A life of one pool and two compute nodes that both want it: the product's stores, clients and memory nodes as
// coroutines in virtual time, and trouble. All of it follows from a seed.
//
// Each compute node opens the pool whenever it can, works on it, and gives it back when it is asked to or cannot go on.
// Owners are stopped, suspended, killed and lose their power; memory nodes are stopped, slow, killed and lose their
// power, and are back within the owner's bound or beyond it, with or without the record of the pool's owner; networks
// are cut and connections break. Each machine's clock is off by up to 1 %. In every fourth life the owners check their
// leases (`lease=checked`), and are paused as well, while their clocks stand.
//
// Judged are the answers of both nodes as one history:
//   - per key it is linearizable, across owners, with what a last owner finds in the end: so nothing acknowledged is
//   lost;
//   - an owner answers nothing that was asked after the next owner's first answer;
//   - the pool opens, and passes `Check`;
//   - once trouble has ended, an update is answered within a bound.
#ifndef BONSAI_TESTING_SIM_OWNER_LIFE_H_
#define BONSAI_TESTING_SIM_OWNER_LIFE_H_

#include <cstdint>
#include <string>

namespace bonsai::testing::sim {

// Counts of the lives' work, so that no run passes because it did nothing.
struct OwnerDeeds {
  uint64_t answers = 0;   // that were judged
  uint64_t tenures = 0;   // openings that succeeded
  uint64_t outlived = 0;  // owners that were asked something after they had been replaced
  uint64_t stops = 0, suspends = 0, pauses = 0, kills = 0, power_cuts = 0;  // of owners
  uint64_t node_stops = 0, node_kills = 0, node_power_cuts = 0;             // of memory nodes
  uint64_t records_lost = 0, cuts = 0;
  uint64_t service_ms_max = 0;  // from the end of trouble to an answered update
  uint64_t virtual_ms = 0;

  void add(const OwnerDeeds& other);
};

struct OwnerOutcome {
  std::string violation;     // empty: none
  uint64_t old_answers = 0;  // reads that were asked after the next owner's first answer, and answered
  std::string old_answer;    // the first of them
  uint64_t trace = 0;        // a hash of all that happened
  OwnerDeeds deeds;
};

// Thread-safety: any thread, one life at a time on each. Ends the process if the life does not end within its bound of
// switches: what stands in the stores cannot be taken down.
OwnerOutcome live_with_owners(uint64_t seed);

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_OWNER_LIFE_H_
