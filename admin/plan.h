// SPDX-License-Identifier: Apache-2.0
// How large a pool must be for what is to be stored: the formulas of docs/operating.md, "How large". plan_test.cc
// compares them with pools.
#ifndef BONSAI_ADMIN_PLAN_H_
#define BONSAI_ADMIN_PLAN_H_

#include <cstdint>

#include "bonsai/status.h"

namespace bonsai::admin {

struct Workload {
  uint64_t records = 0;
  uint64_t key_bytes = 8;    // of each key; the mean if sizes differ
  uint64_t value_bytes = 0;  // of each value; the mean if sizes differ
  bool sizes_differ = false;
  uint64_t updates_per_second = 0;  // of keys in random order; 0: the records are loaded once
  uint64_t targets = 1;             // the pool is spread over so many
  uint64_t members = 1;             // of each target: nodes that hold the same bytes
};

// Bytes, unless stated otherwise. The DRAM is an upper bound, the rest is what is to be expected.
struct Plan {
  double entry = 0;            // of a record in the data area, without its share of headers
  double records = 0;          // of all records in the data area, when the writes have settled
  double data = 0;             // of the data area that they need
  double log = 0;              // over all targets
  double target = 0;           // size of each target, for --bytes: whole MiB
  double dram_settled = 0;     // when the writes have settled
  double dram_most = 0;        // while updates arrive
  double log_record = 0;       // of an update that is made alone
  double log_seconds = 0;      // of updates that the log has room for; 0: there are none
  double update = 0;           // written for an update: log, dnodes, compaction
  double nvm_per_second = 0;   // written to NVM for all updates, on all targets and members
  double network_per_get = 0;  // of remote targets: read for a get whose record is not in DRAM
};

inline constexpr uint64_t kPlanRecordsMax = 100'000'000'000;
inline constexpr uint64_t kPlanUpdatesMax = 1'000'000'000;
inline constexpr uint64_t kPlanNodesMax = 64;  // of targets, and of members

// Errors: InvalidArgument (a number that is out of bounds; says which, and the bounds).
Status make_plan(const Workload& workload, Plan* plan);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_PLAN_H_
