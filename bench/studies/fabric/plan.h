// SPDX-License-Identifier: Apache-2.0
// The plan of the experiment `fabric`. A cell is a verb with a size, a batch (requests per doorbell) and a depth
// (doorbells at once); each is measured several times, cells taking turns, and medians are reported.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_PLAN_H_
#define BONSAI_BENCH_STUDIES_FABRIC_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/results/statistics.h"
#include "bench/studies/fabric/providers.h"
#include "bonsai/status.h"
#include "rdma/traffic.h"

namespace bonsai::bench {

inline constexpr uint64_t kFabricBytesMin = 8, kFabricBytesMax = 65536;  // of a request, in multiples of 8
inline constexpr uint64_t kFabricBatchMax = 32;                          // rdma::WorkList::kRequestsMax
inline constexpr uint64_t kFabricDepthMax = 64;
inline constexpr uint64_t kFabricSendsMax = 128;  // messages at once, half of what the receiver has buffers for

struct FabricCell {
  rdma::Verb verb = rdma::Verb::kRead;
  uint64_t bytes = 64;
  uint64_t batch = 1;
  uint64_t depth = 1;

  bool operator==(const FabricCell&) const = default;
  // One request at a time: so a time is that of a request, and not of a queue.
  [[nodiscard]] bool alone() const { return batch == 1 && depth == 1; }
  // "READ 64 B", "CAS 8 B, batch 32, depth 4".
  [[nodiscard]] std::string text() const;
};

// The user's choices.
struct FabricGrid {
  std::vector<rdma::Verb> verbs;
  std::vector<uint64_t> sizes, batches, depths;
};

// A star of cells: each verb alone in each size; in the smallest size each batch, each depth, and both at their
// largest. Atomics have 8 bytes only. SENDs that no receiver has buffers for are left out.
[[nodiscard]] std::vector<FabricCell> fabric_cells(const FabricGrid& grid);

// "read,cas" as verbs; "64,4096" as numbers. `flag` is named in errors. Errors: InvalidArgument.
Status parse_verbs(const std::string& flag, const std::string& list, std::vector<rdma::Verb>* verbs);
Status parse_counts(const std::string& flag, const std::string& list, uint64_t low, uint64_t high, uint64_t multiple_of,
                    std::vector<uint64_t>* counts);

// Where the far side is: "HOST:PORT" of an RDMA network, or "FOLDER/NAME" of this machine.
struct FabricAddress {
  const FabricProvider* provider = nullptr;
  std::string folder;  // FarSide::kProcess only
  std::string name;    // as the provider wants it

  // Requires: FarSide::kNetwork.
  [[nodiscard]] std::string host() const { return name.substr(0, name.rfind(':')); }
};
// Errors: InvalidArgument.
Status parse_fabric_address(const std::string& flag, const std::string& text, FabricAddress* address);

struct FabricConfig {
  std::vector<const FabricProvider*> providers;  // empty: all that this machine has
  std::optional<FabricAddress> peer;             // the far side is there, with its provider; else one is started here
  std::string device;                            // FarSide::kNetwork; empty: found
  bool blocks = false;                           // waits block instead of polling, here, there and in perftest
  bool perftest = true;
  FabricGrid grid;
  uint64_t cell_ms = 0;  // of each measurement; 0: what suits the provider
  unsigned runs = 9;
};

// The figures of one measurement of a cell.
struct FabricSample {
  double p50_us = 0, p99_us = 0;  // from post to completion of a doorbell
  double messages_per_s = 0;
  std::optional<double> one_way_us;  // WRITE and SEND alone: half of a ping-pong, whose answer is one more of the kind
};

// The median of each figure.
[[nodiscard]] FabricSample median(const std::vector<FabricSample>& samples);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_PLAN_H_
