// The requests of one phase, drawn before the clock starts and replayed from memory.
//
// What cannot be known ahead is kept in a form that costs one step at replay: the numbers of new records are taken from
// a counter, as in YCSB; `latest` keeps how far behind the newest record it looks; a zipfian request for a record that
// is inserted during the run keeps its number, and falls back to a loaded record if the inserter is late.
#ifndef BONSAI_BENCH_REQUESTS_H_
#define BONSAI_BENCH_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/keys.h"
#include "bench/workload.h"

namespace bonsai::bench {

enum class KeySource : uint8_t {
  kReady,         // Request::key is the id
  kBehindNewest,  // Request::key is the distance to the newest acknowledged record
  kIfInserted,    // Request::key is a record number beyond those loaded
  kNew,           // the next number of the insert counter
};

struct Request {
  uint64_t key = 0;
  uint32_t scan_length = 0;
  uint16_t key_bytes = 0;  // length of the key in RequestList::keys; 0 = not kept there
  OpKind kind = OpKind::kRead;
  KeySource source = KeySource::kReady;
};
static_assert(sizeof(Request) == 16);

// The requests of one thread, and for string keys the keys that are known ahead, `key_stride` bytes apart.
struct RequestList {
  std::vector<Request> requests;
  std::vector<char> keys;
  size_t key_stride = 0;
};

struct RequestPlan {
  std::vector<RequestList> threads;
  uint64_t operations = 0;
  uint64_t inserts = 0;  // requests of KeySource::kNew

  std::string key_max;  // the greatest key of a load
};

// The load phase: inserts records [0, records), dealt to the threads in turn.
[[nodiscard]] RequestPlan draw_load(const RecordShape& shape, uint64_t records, unsigned threads);

// `operations` requests of `workload` on a store that holds records [0, records), dealt to the threads as evenly as
// they divide. The same arguments give the same plan. Requires records, operations and threads >= 1.
[[nodiscard]] RequestPlan draw_requests(const Workload& workload, const RecordShape& shape, uint64_t records,
                                        uint64_t operations, unsigned threads, uint64_t seed);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REQUESTS_H_
