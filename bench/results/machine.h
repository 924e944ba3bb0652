// SPDX-License-Identifier: Apache-2.0
// Facts about the machine and the build, for the manifest of a result. Unknown facts are absent.
#ifndef BONSAI_BENCH_RESULTS_MACHINE_H_
#define BONSAI_BENCH_RESULTS_MACHINE_H_

#include "bench/results/results.h"

namespace bonsai::bench {

// Fills the facts that do not depend on the run: commit, cpu, kernel, processors, memory_bytes, started.
void describe_machine(Manifest* manifest);

// The date and time in UTC, in the form of strftime().
[[nodiscard]] std::string utc_now(const char* form);

// Processors that this process may run on, at least 1.
[[nodiscard]] unsigned processors();

// Bytes of memory of the machine; absent if the system does not report them.
[[nodiscard]] std::optional<uint64_t> memory_bytes();

// The share of this process's memory in use, files that it maps included, that is on huge pages; absent when the system
// does not say.
[[nodiscard]] std::optional<double> huge_page_share();

// This process's memory that is not mapped from files: the touched parts of its heap, stacks and anonymous mappings;
// absent when the system does not say.
[[nodiscard]] std::optional<uint64_t> process_bytes();

// The directory of the running program, or "." when the system does not say.
[[nodiscard]] std::string program_directory();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_MACHINE_H_
