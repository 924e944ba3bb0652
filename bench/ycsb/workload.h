// SPDX-License-Identifier: Apache-2.0
// The parameters of a workload: the properties of a YCSB file, checked and typed.
#ifndef BONSAI_BENCH_YCSB_WORKLOAD_H_
#define BONSAI_BENCH_YCSB_WORKLOAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ycsb/properties.h"
#include "bonsai/status.h"

namespace bonsai::bench {

// The kinds of request, in the order in which YCSB's chooser walks them (kDelete is ours).
enum class OpKind : uint8_t { kRead = 0, kUpdate, kInsert, kScan, kReadModifyWrite, kDelete };
inline constexpr size_t kOpKinds = 6;

// "read", "update", ...: the names used in tables and results.
[[nodiscard]] std::string_view op_kind_name(OpKind kind);

// Those of YCSB; kPlainZipf, the Zipf of research codes; and kTrace, which no property chooses: requests of a file.
enum class Distribution : uint8_t {
  kUniform,
  kZipfian,
  kLatest,
  kSequential,
  kHotspot,
  kExponential,
  kPlainZipf,
  kTrace
};
[[nodiscard]] std::string_view distribution_name(Distribution distribution);

inline constexpr uint32_t kScanLengthMax = 1'000'000'000;

struct Workload {
  std::string name;
  std::array<double, kOpKinds> shares{};  // by OpKind, summing to 1
  Distribution requests = Distribution::kUniform;
  double hotspot_data = 0.2;               // kHotspot: this share of the records ...
  double hotspot_requests = 0.8;           // ... gets this share of the requests
  double exponential_percentile = 95;      // kExponential: so many percent of the requests ...
  double exponential_frac = 0.8571428571;  // ... go to the newest of this share of the records
  double plain_zipf_alpha = 0.99;          // kPlainZipf
  bool scan_lengths_zipfian = false;
  uint32_t scan_length_min = 1;
  uint32_t scan_length_max = 1000;
  bool hashed_inserts = true;
  uint32_t zero_padding = 1;   // digits of a string key at least
  size_t record_bytes = 1000;  // fieldcount x fieldlength

  // The distribution as results name it: with its parameter when that is not YCSB's constant ("plain_zipf 1.2").
  [[nodiscard]] std::string distribution_text() const;
  [[nodiscard]] double share(OpKind kind) const { return shares[static_cast<size_t>(kind)]; }
  [[nodiscard]] bool writes() const { return share(OpKind::kUpdate) > 0 || share(OpKind::kReadModifyWrite) > 0; }
  // Whether the store holds other keys after the workload than before.
  [[nodiscard]] bool changes_keys() const { return share(OpKind::kInsert) > 0 || share(OpKind::kDelete) > 0; }
};

// Reads `name` when it is set, a whole number in [low, high]. Errors: InvalidArgument, as make_workload.
Status read_count(const Properties& properties, const std::string& name, uint64_t low, uint64_t high, uint64_t* number);

// Builds a workload from properties, with YCSB's defaults where they say nothing. Properties of YCSB that do not matter
// here are accepted; each one that would matter and is not obeyed adds a line to *notes. Errors: InvalidArgument with
// file:line and the remedy (bad number, unknown choice, unknown name, shares that sum to 0).
Status make_workload(const std::string& name, const Properties& properties, Workload* workload,
                     std::vector<std::string>* notes);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_WORKLOAD_H_
