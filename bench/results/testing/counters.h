// SPDX-License-Identifier: Apache-2.0
// Energy counters of an imagined machine: a folder for a test to pass to EnergyMeter::open() as the root.
#ifndef BONSAI_BENCH_RESULTS_TESTING_COUNTERS_H_
#define BONSAI_BENCH_RESULTS_TESTING_COUNTERS_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/thread.h"

namespace bonsai::bench {

class Counters {
 public:
  explicit Counters(std::string root) : root_(std::move(root)) {}

  [[nodiscard]] const std::string& root() const { return root_; }
  void make(const std::string& zone, const std::string& name, uint64_t energy_uj, uint64_t range_uj = 1'000'000'000) {
    std::filesystem::create_directories(folder(zone));
    std::ofstream(folder(zone) / "name") << name;
    std::ofstream(folder(zone) / "max_energy_range_uj") << range_uj;
    set(zone, energy_uj);
  }
  // A reader at that moment finds the old number or the new one.
  void set(const std::string& zone, uint64_t energy_uj) const {
    const std::filesystem::path path = folder(zone) / "energy_uj";
    std::ofstream(path.string() + ".new") << energy_uj;
    std::filesystem::rename(path.string() + ".new", path);
  }
  void remove_all() const { std::filesystem::remove_all(root_ + "/sys"); }

 private:
  [[nodiscard]] std::filesystem::path folder(const std::string& zone) const {
    return root_ + "/sys/class/powercap/" + zone;
  }

  const std::string root_;
};

// The counter of a machine that uses this many watts, for as long as this object lives.
class SteadyUse {
 public:
  SteadyUse(const Counters& counters, std::string zone, uint64_t watts)
      : thread_("counter", [this, &counters, zone = std::move(zone), watts] {
          const uint64_t start_ns = base::now_ns();
          while (!over_) {
            counters.set(zone, (base::now_ns() - start_ns) / 1000 * watts);
            base::sleep_ms(1);
          }
        }) {}
  ~SteadyUse() { over_ = true; }

 private:
  std::atomic<bool> over_{false};
  base::Thread thread_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_TESTING_COUNTERS_H_
