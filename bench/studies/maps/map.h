// SPDX-License-Identifier: Apache-2.0
// Ordered concurrent maps of the literature, rebuilt in DRAM to be measured beside Bonsai: KiWi's rivals. They know
// base/ only; nothing here is durable.
#ifndef BONSAI_BENCH_STUDIES_MAPS_MAP_H_
#define BONSAI_BENCH_STUDIES_MAPS_MAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bonsai::bench::maps {

struct Record {
  uint64_t key;
  uint64_t value;

  bool operator==(const Record&) const = default;
};

// Counts since a map was made. For tests and for explanations of figures; they do not slow it down.
struct Counters {
  uint64_t scans_restarted = 0;  // scans that met an update and began again
  uint64_t nodes_copied = 0;     // by updates, because of a snapshot
  uint64_t rebalances = 0;       // KiWi: sections of chunks replaced
};

// A map from integers to integers.
//
// Thread-safety: everything from any thread and any coroutine, but the destructor. Linearizable, key by key.
class Map {
 public:
  virtual ~Map() = default;
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;

  // True when the key is there; *value is then its value.
  [[nodiscard]] virtual bool get(uint64_t key, uint64_t* value) = 0;
  // Inserts the key, or replaces its value.
  virtual void put(uint64_t key, uint64_t value) = 0;
  // Removes a key; no effect if it is absent.
  virtual void remove(uint64_t key) = 0;
  // *records are the first `limit` records of [from, to], ascending: all of one moment if scans_are_atomic(), else each
  // of a moment between call and return.
  virtual void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) = 0;

  [[nodiscard]] virtual bool scans_are_atomic() const = 0;
  // Bytes allocated and not yet freed, those that wait for reclamation included.
  [[nodiscard]] virtual uint64_t bytes() const = 0;
  [[nodiscard]] virtual Counters counters() const { return {}; }

 protected:
  Map() = default;
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_MAP_H_
