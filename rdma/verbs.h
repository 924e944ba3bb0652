// SPDX-License-Identifier: Apache-2.0
// The verbs provider: any RDMA device, Soft-RoCE included, through libibverbs (reliable connections) and librdmacm.
//
// Addresses are "host:port"; the host is an IP address or name of a network device with RDMA. The Hello of each
// end travels as private data of the connection's set-up.
//
// One completion queue and one shared receive queue per worker, one queue pair per connection. A list becomes one
// doorbell per peer, and of each doorbell only the last request is signalled. Waiting outside coroutines polls for
// VerbsOptions::spin_us, then blocks on the completion channel.
//
// What this provider adds to the contract of fabric.h
//   - When the other end disappears (silence, close, crash) every request that the device accepted and that has no
//     response ends as kUnreachable, also those after the first: they may have been executed, and their responses lost.
//   - Local memory of another fabric and atomics off a multiple of 8 are detected before anything is submitted.
//
// Only programs that link the CMake target bonsai_rdma_verbs contain it; the rest of Bonsai does not need libibverbs.
#ifndef BONSAI_RDMA_VERBS_H_
#define BONSAI_RDMA_VERBS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {

// The defaults are detected; a value overrides the detection.
struct VerbsOptions {
  std::string device;                    // e.g. "rxe0"; empty: the first that has an active port with a usable address
  uint32_t port = 0;                     // 0: the first such port of the device
  int gid_index = -1;                    // -1: prefers RoCE v2 with an IPv4 address
  uint32_t mtu_bytes = 0;                // 0: what the path carries; else 256 to 4096; the lower of both ends counts
  uint64_t unreachable_ms = 2'000;       // a silent peer is given up after at least this long
  uint64_t spin_us = 50;                 // a wait polls this long before it blocks; UINT64_MAX: never blocks
  uint32_t receive_buffers_max = 1'024;  // per worker's ring
};

class VerbsFabric : public Fabric {
 public:
  // Errors: NotSupported (no RDMA device, or the one asked for cannot serve: the message says what is missing and what
  // to do), InvalidArgument (options), IoError (the device refused).
  static Status open(const VerbsOptions& options, std::unique_ptr<VerbsFabric>* fabric);

  // The IP address by which other nodes reach this one, without a port; empty on a network without IP.
  [[nodiscard]] virtual const std::string& host() const = 0;
  // The device's name, e.g. "rxe0".
  [[nodiscard]] virtual const std::string& device() const = 0;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_VERBS_H_
