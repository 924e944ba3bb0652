// SPDX-License-Identifier: Apache-2.0
// A life of the whole product in simulation: the store with its background threads, its clients, its local NVM, memory
// nodes that serve pools over the sim fabric, and trouble, all as coroutines of one scheduler in virtual time. All of
// it follows from a seed.
//
// A life is a row of sittings. In each the store is open, clients work, and trouble comes: the compute node's or a
// memory node's power is cut, networks are cut one way or both ways and heal, a memory node is slow, connections break,
// a local fence fails. Then the store is opened again, on another node if its own has lost power, and its content is
// compared with the clients' history (testing/crash_check.h). An opening may be troubled, too. Once trouble has ended
// the store must open. In the end it is closed, all power is cut, and `Check` verifies the targets.
#ifndef BONSAI_TESTING_SIM_LIFE_H_
#define BONSAI_TESTING_SIM_LIFE_H_

#include <cstdint>
#include <string>

namespace bonsai::testing::sim {

// Counts of the lives' work, so that no run passes because it did nothing.
struct Deeds {
  uint64_t operations = 0, offloads = 0, openings = 0, refused_openings = 0, closes = 0;
  uint64_t unknown = 0;  // clients that had an update of unknown outcome
  uint64_t unread = 0;   // reads that were answered with Unavailable
  uint64_t power_cuts = 0, memory_power_cuts = 0, cuts = 0, opening_power_cuts = 0;
  uint64_t virtual_ms = 0;

  void add(const Deeds& other);
};

struct Outcome {
  std::string violation;  // empty: none
  uint64_t trace = 0;     // a hash of all that happened
  Deeds deeds;
};

// Thread-safety: any thread, one life at a time on each. Ends the process if the life does not end within its bound of
// switches: what stands in the store cannot be taken down.
Outcome live(uint64_t seed);

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_LIFE_H_
