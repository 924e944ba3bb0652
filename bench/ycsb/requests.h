// SPDX-License-Identifier: Apache-2.0
// All requests of one phase: drawn before the clock starts and replayed from memory, or drawn while it runs.
#ifndef BONSAI_BENCH_YCSB_REQUESTS_H_
#define BONSAI_BENCH_YCSB_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ycsb/drawer.h"
#include "bench/ycsb/keys.h"
#include "bench/ycsb/mapped_vector.h"
#include "bench/ycsb/workload.h"

namespace bonsai::bench {

enum class DrawMode : uint8_t {
  kAhead,  // before the clock starts: 16 bytes per request, and the spelt key of a string
  kLive,   // by the thread that carries them out, while the clock runs: no memory, about 20 ns per request
};

// The requests of one thread, and for string keys the keys that are known ahead, `key_stride` bytes apart.
struct RequestList {
  uint64_t operations = 0;
  MappedVector<Request> requests;  // empty when `live` draws them
  MappedVector<char> keys;
  size_t key_stride = 0;
  std::optional<Drawer> live;
};

struct RequestPlan {
  std::vector<RequestList> threads;
  uint64_t operations = 0;
  uint64_t inserts_max = 0;  // requests of KeySource::kNew: exactly when drawn ahead, at most when live

  std::string key_max;  // the greatest key of a load
};

// The load phase: inserts records [0, records), dealt to the threads in turn. Requires records and threads >= 1.
[[nodiscard]] RequestPlan draw_load(const RecordShape& shape, uint64_t records, unsigned threads,
                                    DrawMode mode = DrawMode::kAhead);

// `operations` requests of `workload` on a store that holds records [0, records), divided among the threads as evenly
// as possible. The same arguments give the same requests in both modes. Requires records, operations and threads >= 1.
[[nodiscard]] RequestPlan draw_requests(const Workload& workload, const RecordShape& shape, uint64_t records,
                                        uint64_t operations, unsigned threads, uint64_t seed,
                                        DrawMode mode = DrawMode::kAhead);

// The number of `total` requests that `thread` gets: shares differ by one at most.
[[nodiscard]] uint64_t part_of(uint64_t total, unsigned threads, unsigned thread);

// Spells the string keys that are known ahead. Integer keys are made from the id at replay, in one instruction.
void spell_keys(const RecordShape& shape, RequestList* list);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_REQUESTS_H_
