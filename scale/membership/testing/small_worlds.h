// SPDX-License-Identifier: Apache-2.0
// Worlds that are small enough to visit all orders of their moves. Each allows one kind of trouble, or two.
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_SMALL_WORLDS_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_SMALL_WORLDS_H_

#include "scale/membership/testing/owner_world.h"

namespace bonsai::scale::membership::testing {

struct SmallWorld {
  const char* name;
  Setup (*make)();
};

// Owner 0 has the pool; owner 1 wants it.
inline Setup small_setup() {
  Setup setup;
  setup.owned = setup.eager = true;
  setup.openings = 1;
  setup.requests = 3;
  setup.times = 3;
  return setup;
}

inline constexpr SmallWorld kSmallWorlds[] = {
    {"reads beside a take-over, slow owner and fast node",
     [] {
       Setup setup = small_setup();
       setup.drift_percent = {-1, 0, 1};
       setup.updates = 0;
       return setup;
     }},
    {"updates beside a take-over, fast owner and slow node",
     [] {
       Setup setup = small_setup();
       setup.drift_percent = {1, 0, -1};
       setup.reads = 0;
       return setup;
     }},
    {"an owner leaves",
     [] {
       Setup setup = small_setup();
       setup.leaves = 1;
       setup.updates = 0;
       setup.times = 2;
       return setup;
     }},
    {"the node's process dies",
     [] {
       Setup setup = small_setup();
       setup.restarts = 1;
       setup.updates = 0;
       return setup;
     }},
    {"the node's process dies on shm",
     [] {
       Setup setup = small_setup();
       setup.shm = true;
       setup.times = 2;
       setup.restarts = 1;
       setup.reads = 0;
       return setup;
     }},
    {"the node loses power amid an update",
     [] {
       Setup setup = small_setup();
       setup.cuts = 1;
       setup.reads = 0;
       setup.requests = 2;
       setup.times = 1;
       return setup;
     }},
    {"a connection breaks amid two updates",
     [] {
       Setup setup = small_setup();
       setup.breaks = 1;
       setup.reads = 0;
       setup.updates = 2;
       setup.times = 0;
       return setup;
     }},
    {"updates are given up",
     [] {
       Setup setup = small_setup();
       setup.breaks = 1;
       setup.give_ups = 1;
       setup.reads = 0;
       setup.updates = 2;
       setup.times = 0;
       return setup;
     }},
    {"messages are repeated",
     [] {
       Setup setup = small_setup();
       setup.duplicates = 1;
       setup.updates = 0;
       return setup;
     }},
    {"the owner's record is lost",
     [] {
       Setup setup = small_setup();
       setup.records_lost = 1;
       setup.times = 2;
       setup.restarts = 1;
       setup.updates = 0;
       return setup;
     }},
    {"a forced take-over",
     [] {
       Setup setup = small_setup();
       setup.forced = true;
       setup.updates = 0;
       return setup;
     }},
};

}  // namespace bonsai::scale::membership::testing

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_SMALL_WORLDS_H_
