// SPDX-License-Identifier: Apache-2.0
// Where the clients of a system are.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_SEAT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_SEAT_H_

#include <cstddef>

#include "bench/studies/rivals/connection.h"

namespace bonsai::bench::rivals {

// Where a client sits. Clients of one thread share its connection.
struct Seat {
  size_t client = 0;  // 0 to the number of clients - 1
  size_t compute_node = 0;
  Connection* connection = nullptr;
};

struct Shape {
  size_t compute_nodes = 1;
  size_t threads = 1;     // of each
  size_t coroutines = 1;  // of each thread

  [[nodiscard]] size_t clients() const { return compute_nodes * threads * coroutines; }
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_SEAT_H_
