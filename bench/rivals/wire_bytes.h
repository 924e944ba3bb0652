// SPDX-License-Identifier: Apache-2.0
// Bytes on the wire as the simulation of RCuckoo's draft counts them, to be compared with what it has published: with
// the headers of requests and answers. It takes the WRITEs of a path for CASes, and counts what a READ brings in its
// request, too.
#ifndef BONSAI_BENCH_RIVALS_WIRE_BYTES_H_
#define BONSAI_BENCH_RIVALS_WIRE_BYTES_H_

#include <cstdint>

#include "rdma/traffic.h"

namespace bonsai::bench::rivals {

inline uint64_t draft_wire_bytes(const rdma::Traffic& traffic) {
  const auto of = [&](rdma::Verb verb) { return traffic.of(verb); };
  return of(rdma::Verb::kRead).messages * 144 + of(rdma::Verb::kRead).bytes * 2 +
         of(rdma::Verb::kMaskedCas).messages * 224 +
         (of(rdma::Verb::kWrite).messages + of(rdma::Verb::kCas).messages) * 160;
}

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_RIVALS_WIRE_BYTES_H_
