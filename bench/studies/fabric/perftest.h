// SPDX-License-Identifier: Apache-2.0
// The programs of perftest (Debian package of that name), which measure the same figures on the same device. One order
// describes the programs at both ends.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_PERFTEST_H_
#define BONSAI_BENCH_STUDIES_FABRIC_PERFTEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "bench/studies/fabric/plan.h"

namespace bonsai::bench {

// Plain data: it travels to the far side.
struct PerftestOrder {
  FabricCell cell;
  uint64_t iterations = 1000;
  uint64_t blocks = 0;  // 1: waits for events instead of polling
  uint64_t port = 0;    // of TCP, by which both ends meet
};

// A latency for a cell that is alone, else a rate.
[[nodiscard]] bool perftest_tells_latency(const FabricCell& cell);
// Whether perftest has it: ib_write_lat looks at memory and cannot wait for events.
[[nodiscard]] bool perftest_measures(const FabricCell& cell, bool blocks);
// The program of the cell, e.g. "ib_read_lat".
[[nodiscard]] std::string perftest_program(const FabricCell& cell);
// The command line; `server` is empty at the far side.
[[nodiscard]] std::vector<std::string> perftest_command(const PerftestOrder& order, const std::string& device,
                                                        const std::string& server);

// Requests (a multiple of the batch) that take about `ms` at this rate, within what perftest takes.
[[nodiscard]] uint64_t perftest_iterations(const FabricCell& cell, double messages_per_s, uint64_t ms);

// The figure in the program's output: the typical time in microseconds (for WRITE and SEND: one way), or messages per
// second. Errors: Corruption (it is not there).
Status parse_perftest(const FabricCell& cell, const std::string& output, double* figure);

// Waits until `child` has ended and reads its output from `out_path`. Errors: Unavailable (it did not end within
// `limit_ms`), IoError (its exit code is not 0; the message has the last line of its output).
Status finish(base::ChildProcess* child, const std::string& out_path, uint64_t limit_ms, std::string* output);

// Whether a process listens on the TCP port of this machine; `table` is the text of /proc/net/tcp.
[[nodiscard]] bool is_listening(const std::string& table, uint64_t port);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_PERFTEST_H_
