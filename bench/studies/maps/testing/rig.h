// SPDX-License-Identifier: Apache-2.0
// Random clients of one map, under seeded schedules or on threads, and whether what they saw is linearizable.
#ifndef BONSAI_BENCH_STUDIES_MAPS_TESTING_RIG_H_
#define BONSAI_BENCH_STUDIES_MAPS_TESTING_RIG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/studies/maps/map.h"
#include "testing/history.h"

namespace bonsai::bench::maps {

using MakeMap = std::function<std::unique_ptr<Map>()>;

// Chances in 100; the rest are gets.
struct Mix {
  uint64_t keys = 3;
  uint64_t puts = 40, removes = 15, scans = 20;
  uint64_t before_max = 12;  // updates before the clients begin, a random number of them
  uint64_t operations = 5;   // of each client
  uint32_t clients = 3;
  // Programs of the clients of a schedule, one text each: p1 (put key 1), r1, g1, s (scan all). Empty: drawn at random.
  std::vector<std::string> program = {};
};

// Judges one run: atomic scans as operations of one moment, others key by key. `steps`, if not null, receives the steps
// of all clients.
bonsai::testing::Verdict run_schedule(const MakeMap& make, const Mix& mix, uint64_t seed, uint64_t* steps = nullptr);
// Runs the mix on threads. Each key has one writer.
bonsai::testing::Verdict run_threads(const MakeMap& make, const Mix& mix, uint64_t seed);

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_TESTING_RIG_H_
