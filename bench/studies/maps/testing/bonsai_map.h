// SPDX-License-Identifier: Apache-2.0
// Bonsai's store as a Map, for a row of its own in table_test.cc. Its protocol steps are not visible; a step is a
// record that a scan visits, or an operation.
#ifndef BONSAI_BENCH_STUDIES_MAPS_TESTING_BONSAI_MAP_H_
#define BONSAI_BENCH_STUDIES_MAPS_TESTING_BONSAI_MAP_H_

#include <memory>

#include "bench/studies/maps/map.h"

namespace bonsai::bench::maps {

[[nodiscard]] std::unique_ptr<Map> make_bonsai_map();

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_TESTING_BONSAI_MAP_H_
