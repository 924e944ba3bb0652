// SPDX-License-Identifier: Apache-2.0
// A result with every fact set, for tests of code that uses results.
#ifndef BONSAI_BENCH_TESTING_RUN_H_
#define BONSAI_BENCH_TESTING_RUN_H_

#include "bench/results/results.h"

namespace bonsai::bench {

inline RunResult full_run() {
  RunResult run;
  run.engine = "bonsai";
  run.workload = "a";
  run.key = "fixed8";
  run.value_size = 8;
  run.records = 1000;
  run.operations = 500;
  run.threads = 2;
  run.depth = 16;
  run.distribution = "zipfian";
  run.durability = "durable";
  run.throughput_ops_per_s = 1.5e6;
  run.failures = 3;
  run.first_failure = "a record is missing";
  for (uint64_t ns = 1000; ns <= 2000; ++ns) run.latency[static_cast<size_t>(OpKind::kRead)].record(ns);
  run.memory = {.dram_bytes = 4000, .nvm_bytes = 28000};
  run.user_bytes = 16000;
  run.memory.log_bytes = 900;
  run.memory.process_bytes = 5000;
  run.memory_unsettled.dram_bytes = 4500;
  run.sampled.add({.dram_bytes = 4000, .nvm_bytes = 29000, .reserved_bytes = 40000}, 16500);
  run.sampled.add({.dram_bytes = 4000, .nvm_bytes = 28000}, 12800);
  run.thread_times = {{490, 0.5, 0.25, 0.125}};
  run.target_ops_per_s = 1000;
  run.nvm = NvmUse{1, 2, 3, 4, 5, 6};
  run.fabric = FabricUse{7, 8, 9};
  return run;
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_TESTING_RUN_H_
