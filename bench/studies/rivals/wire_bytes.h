// SPDX-License-Identifier: Apache-2.0
// Bytes on the wire, counted as the simulation of RCuckoo's draft counts them and over the same steps, so that ours can
// be compared with its published figures. They include the headers of requests and answers. It takes the WRITEs of a
// path for CASes, and counts the bytes that a READ returns in its request, too.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_WIRE_BYTES_H_
#define BONSAI_BENCH_STUDIES_RIVALS_WIRE_BYTES_H_

#include <cstdint>

#include "rdma/traffic.h"

namespace bonsai::bench::rivals {

inline uint64_t draft_wire_bytes(const rdma::Traffic& traffic) {
  const auto of = [&](rdma::Verb verb) { return traffic.of(verb); };
  return of(rdma::Verb::kRead).messages * 144 + of(rdma::Verb::kRead).bytes * 2 +
         of(rdma::Verb::kMaskedCas).messages * 224 +
         (of(rdma::Verb::kWrite).messages + of(rdma::Verb::kCas).messages) * 160;
}

// It ends so many steps after the fill that it looks at, and in one of six a client gets an answer: so many answers, or
// for a smaller table as large a part of it.
inline uint64_t draft_answers_max(uint64_t rows) {
  constexpr uint64_t kSteps = 1'000'000, kStepsPerAnswer = 6, kRows = 107'520;
  return kSteps / kStepsPerAnswer * rows / kRows;
}

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_WIRE_BYTES_H_
