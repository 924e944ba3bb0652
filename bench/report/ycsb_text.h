// SPDX-License-Identifier: Apache-2.0
// The measurements of a run as YCSB 0.17 prints them (its text exporter), for scripts that read YCSB's output.
//
// As in YCSB, latencies are whole microseconds, truncated and not rounded, except the average; results.json has finer
// ones. Differences from YCSB: latencies are those of the timed sample while Operations and Return count all; the
// halves of a READ-MODIFY-WRITE are not listed as READ and UPDATE; there are no lines about a garbage collector and
// none for CLEANUP; [MEMORY] is the memory in use after settling, as the engine reports it (DramBytes, NvmBytes) and as
// the growth of the process's memory (ProcessBytes).
#ifndef BONSAI_BENCH_REPORT_YCSB_TEXT_H_
#define BONSAI_BENCH_REPORT_YCSB_TEXT_H_

#include <string>
#include <string_view>

#include "bench/results/results.h"

namespace bonsai::bench {

// YCSB's name of a kind of request, e.g. READ-MODIFY-WRITE.
[[nodiscard]] std::string_view ycsb_name(OpKind kind);

[[nodiscard]] std::string ycsb_text(const RunResult& run);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REPORT_YCSB_TEXT_H_
