// SPDX-License-Identifier: Apache-2.0
// Draws the requests of one thread, one by one, as YCSB's core workload would. Requests that are drawn ahead and
// replayed have the same numbers as those drawn while the clock runs.
//
// Some numbers are unknown ahead. They are kept in a form that costs one step when the request is carried out. The
// numbers of new records are taken from a counter, as in YCSB. `latest` and `exponential` keep the distance from the
// newest record. A zipfian request for a record that is inserted during the run keeps its number, and falls back to a
// loaded record if the inserter is late.
#ifndef BONSAI_BENCH_YCSB_DRAWER_H_
#define BONSAI_BENCH_YCSB_DRAWER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/random.h"
#include "bench/ycsb/generators.h"
#include "bench/ycsb/keys.h"
#include "bench/ycsb/workload.h"

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

  bool operator==(const Request&) const = default;
};
static_assert(sizeof(Request) == 16);

// The generators of a workload. Making them may take a second, so all threads copy one. Requires records >= 1.
struct Choosers {
  std::optional<ScrambledZipfian> zipfian;
  std::optional<LatestOffset> latest;
  std::optional<ExponentialOffset> exponential;
  std::optional<PlainZipf> plain_zipf;
  std::optional<Hotspot> hotspot;
  std::optional<Zipfian> scan_lengths;

  Choosers() = default;
  Choosers(const Workload& workload, uint64_t records, uint64_t operations);
};

// The part of the work that one drawer draws.
struct DrawerPart {
  uint64_t records = 1;  // loaded, or to load
  unsigned threads = 1;
  unsigned thread = 0;
};

// Requests are drawn some at a time, step by step: the steps of one request wait for one another (a power, two hashes
// and a division), those of different requests do not. Each request takes a fixed number of draws; where one is refused
// the next is derived from it. Thread-safety: one owner.
class Drawer {
 public:
  // Draws a load: inserts of the records thread, thread + threads, ...
  Drawer(const RecordShape& shape, const DrawerPart& part);
  // Draws requests of `workload` on a store that holds the records [0, part.records). The same arguments give the same
  // requests.
  Drawer(const Workload& workload, const RecordShape& shape, const DrawerPart& part, uint64_t seed,
         const Choosers& choosers);

  // The next request, with key_bytes 0.
  [[nodiscard]] Request next() {
    if (at_ == drawn_.size()) [[unlikely]]
      draw_some();
    return drawn_[at_++];
  }

 private:
  static constexpr size_t kTogether = 32;

  double u() { return random_.unit(); }
  void draw_some();
  void draw_load();
  void draw_requests();
  OpKind kind();
  void choose_key(double u, uint64_t turn, uint64_t number, Request* request);
  uint64_t choose_behind(double u, uint64_t newest);
  uint64_t choose_number(double u, uint64_t turn, uint64_t number, uint64_t end);
  uint32_t scan_length(double u);

  bool loads_;
  RecordShape shape_;
  DrawerPart part_;
  Workload workload_;
  Choosers choosers_;
  base::Random random_;
  uint64_t turn_ = 0;  // of the next to be drawn
  uint64_t inserts_ = 0;
  size_t at_ = kTogether;
  std::array<Request, kTogether> drawn_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_DRAWER_H_
