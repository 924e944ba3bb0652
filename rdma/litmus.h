// SPDX-License-Identifier: Apache-2.0
// Litmus tests of the provider in use, at start-up: two clients access the same far memory, and their observations
// are compared with what Bonsai relies on. Devices and drivers differ in ways that no capability bit shows.
//
// Bonsai relies on these, so a breach is an error
//   - CAS and FAA are atomic among themselves, and a lock made of them guards the bytes beside it;
//   - WRITEs of one list are seen in list order;
//   - aligned 8-byte words are read and written whole.
// Bonsai does not rely on these, so they are only counted
//   - a READ beside a WRITE of several words may see some of it, and in any order of addresses: readers verify;
//   - a lock released by WRITE may be taken again by another client's failed CAS (Soft-RoCE up to Linux 6.1 stores the
//     old value back): a lock word is accessed only by atomics.
#ifndef BONSAI_RDMA_LITMUS_H_
#define BONSAI_RDMA_LITMUS_H_

#include <cstdint>
#include <string>

#include "bonsai/status.h"
#include "rdma/fabric.h"

namespace bonsai::rdma {

struct LitmusOptions {
  uint64_t phase_ms = 250;     // for each of the four tests; each does at least kLitmusRoundsMin rounds
  uint64_t limit_ms = 10'000;  // per answer
};

struct LitmusReport {
  uint64_t additions = 0, additions_lost = 0;           // FAA by two clients
  uint64_t swaps = 0, swaps_lost = 0;                   // CAS that succeeded, by two clients
  uint64_t reads_in_order = 0, reads_out_of_order = 0;  // of two words that one list writes
  uint64_t words_torn = 0;
  uint64_t reads = 0, reads_torn = 0;      // of 4 KiB beside WRITEs of it
  uint64_t reads_newer_behind = 0;         // torn, and a later word is newer than an earlier one
  uint64_t unlocks = 0, unlocks_lost = 0;  // locks released by WRITE beside failing CASes

  // OK, or NotSupported, naming the broken guarantee that Bonsai relies on.
  [[nodiscard]] Status status() const;
  // One line for logs and results.
  [[nodiscard]] std::string text() const;
};

inline constexpr uint64_t kLitmusBytes = 8192;
inline constexpr uint64_t kLitmusRoundsMin = 100;  // of each client

// Runs the tests with two workers of `fabric`, each on its own thread, that connect as `own` to the worker at
// `address`. `scratch` is memory of that worker's node with all rights; its first kLitmusBytes are overwritten. Errors:
// those of Fabric::make_worker, Worker::connect and of requests; InvalidArgument (scratch too small). The results are
// in *report; its status() is not returned.
Status run_litmus(Fabric& fabric, const std::string& address, const Hello& own, const RemoteRegion& scratch,
                  const LitmusOptions& options, LitmusReport* report);

// For programs before they rely on a provider: runs the tests and writes the results to *text, in one line. Errors:
// those of run_litmus(), and of LitmusReport::status().
Status check_at_start_up(Fabric& fabric, const std::string& address, const Hello& own, const RemoteRegion& scratch,
                         const LitmusOptions& options, std::string* text);

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_LITMUS_H_
