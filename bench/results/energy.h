// SPDX-License-Identifier: Apache-2.0
// Energy that the machine used, by the counters of the kernel's powercap interface (RAPL): those of the processors'
// packages and, if they exist, those of memory. The report states which parts of the machine are counted; disks, fans
// and losses never are.
//
// A counter restarts at zero when it reaches its range, at full load after minutes to an hour. A counter that is lower
// than before has wrapped around, so read() must be called at least once in that time.
#ifndef BONSAI_BENCH_RESULTS_ENERGY_H_
#define BONSAI_BENCH_RESULTS_ENERGY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::bench {

// Thread-safety: one owner.
class EnergyMeter {
 public:
  // `root` is a prefix of the paths, so that a test can have counters of its own; empty: this machine.
  // Errors: NotSupported when there is no counter or none may be read, with the reason and the remedy.
  static Status open(const std::string& root, std::unique_ptr<EnergyMeter>* meter);

  // *joules = energy used since open(). Errors: Unavailable (a counter has vanished or cannot be read any more): the
  // energy used since the last call is unknown then, and stays so.
  Status read(double* joules);

  // The parts that are counted: "package-0, dram".
  [[nodiscard]] const std::string& parts() const { return parts_; }

 private:
  struct Counter {
    std::string path;
    uint64_t range_uj = 0;
    uint64_t last_uj = 0;
  };

  EnergyMeter() = default;

  std::vector<Counter> counters_;
  std::string parts_;
  uint64_t used_uj_ = 0;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_ENERGY_H_
