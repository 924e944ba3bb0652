// SPDX-License-Identifier: Apache-2.0
// A team: threads that do different things to one store for a set time, each counting what it does. For experiments on
// how such activities slow each other down. The driver cannot measure that, since all its threads follow one list of
// requests.
//
// Records are numbers whose keys are spread over the key space (keys.h). Loaded are [0, records); updates take random
// numbers below twice that, half of them inserts and half deletes, so that there stay about as many.
#ifndef BONSAI_BENCH_DRIVER_TEAM_H_
#define BONSAI_BENCH_DRIVER_TEAM_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/engines/engine.h"
#include "bench/ycsb/keys.h"
#include "bonsai/status.h"

namespace bonsai::bench {

enum class Role : uint8_t {
  kGet,     // of random loaded records
  kMix,     // gets and updates, half and half, of random loaded records
  kPut,     // insert, update or delete of a random record
  kScan,    // of `scan_records` records from a random key on, by rows; keys and values are read
  kStream,  // reads as many bytes as a scan of `scan_records` returns, from an array that has nothing to do with the
            // store
};

struct Member {
  Role role = Role::kGet;
  uint32_t scan_records = 0;
  unsigned depth = 1;            // kGet, kMix: operations that are submitted together
  double records_per_s_max = 0;  // kStream, kPut: the pace to keep; 0 = as fast as it goes
};

struct TeamPlan {
  RecordShape shape;
  uint64_t records = 0;
  bool zipfian = false;    // kGet, kMix: random as YCSB's zipfian is; else uniform
  bool all_loaded = true;  // nothing was deleted: a record that a get does not find is a failure
  uint64_t ms = 0;
  bool samples_memory = false;  // asking the store disturbs it
  uint64_t seed = 1;
  std::vector<Member> members;              // a thread each
  const std::atomic<bool>* stop = nullptr;  // ends it early
};

struct TeamResult {
  double seconds = 0;
  std::vector<uint64_t> operations;  // by member
  std::vector<uint64_t> records;     // that were got, updated, scanned or streamed, by member
  double dram_bytes = 0;             // means of samples that were taken meanwhile, if asked for
  double nvm_bytes = 0;
  double dram_bytes_max = 0;  // of any of them
  double dram_growth = 0;     // mean of those of the second half of the time / of the first

  // The rate of all members of that role together, in millions per second.
  [[nodiscard]] double records_m_per_s(const TeamPlan& plan, Role role) const;
};

// Inserts records [0, records) on `threads` threads, or on the most that the engine takes. Errors: the engine's.
Status insert_for_team(Engine* engine, const RecordShape& shape, uint64_t records, unsigned threads,
                       const std::atomic<bool>& stop);

// Likewise, and then settles the engine.
Status load_for_team(Engine* engine, const RecordShape& shape, uint64_t records, unsigned threads,
                     const std::atomic<bool>& stop);

// Errors: Unavailable when the user interrupted, or an operation failed or answered wrongly, naming the first.
Status run_team(Engine* engine, const TeamPlan& plan, TeamResult* result);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_TEAM_H_
