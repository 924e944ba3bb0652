// SPDX-License-Identifier: Apache-2.0
#include "bench/results/energy.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "/sys/class/powercap";

std::optional<std::string> first_word(const fs::path& path) {
  std::ifstream in(path);
  std::string word;
  if (!(in >> word)) return std::nullopt;
  return word;
}

std::optional<uint64_t> number_in(const fs::path& path) {
  std::ifstream in(path);
  uint64_t number = 0;
  if (!(in >> number)) return std::nullopt;
  return number;
}

// A package's counter includes its cores and its graphics, but not memory. A counter for more than a package (psys)
// would count them twice, as would intel-rapl-mmio, a second view of the same counters.
bool counts(const std::string& zone, const std::string& name) {
  return zone.rfind("intel-rapl-mmio", 0) != 0 && (name.rfind("package", 0) == 0 || name == "dram");
}

}  // namespace

Status EnergyMeter::open(const std::string& root, std::unique_ptr<EnergyMeter>* meter) {
  std::error_code error;
  std::vector<fs::path> zones;
  for (const auto& zone : fs::directory_iterator(root + kFolder, error)) zones.push_back(zone.path());
  std::sort(zones.begin(), zones.end());
  std::unique_ptr<EnergyMeter> made(new EnergyMeter);
  for (const fs::path& zone : zones) {
    const std::optional<std::string> name = first_word(zone / "name");
    if (!name || !counts(zone.filename().string(), *name) || !fs::exists(zone / "energy_uj", error)) continue;
    const std::optional<uint64_t> now = number_in(zone / "energy_uj");
    const std::optional<uint64_t> range = number_in(zone / "max_energy_range_uj");
    if (!now || !range) {
      return Status::NotSupported("the energy counter " + (zone / "energy_uj").string() +
                                  " cannot be read; as root: chmod a+r " + root + kFolder + "/*/energy_uj");
    }
    made->counters_.push_back({(zone / "energy_uj").string(), *range, *now});
    made->parts_ += (made->parts_.empty() ? "" : ", ") + *name;
  }
  if (made->counters_.empty()) {
    return Status::NotSupported("this machine has no energy counters (none in " + std::string(kFolder) +
                                "; virtual machines have none)");
  }
  *meter = std::move(made);
  return Status::OK();
}

Status EnergyMeter::read(double* joules) {
  for (Counter& counter : counters_) {
    const std::optional<uint64_t> now = number_in(counter.path);
    if (!now) {
      return Status::Unavailable("the energy counter " + counter.path +
                                 " has vanished; energy is unknown from here on");
    }
    used_uj_ += *now >= counter.last_uj ? *now - counter.last_uj : counter.range_uj - counter.last_uj + *now;
    counter.last_uj = *now;
  }
  *joules = static_cast<double>(used_uj_) * 1e-6;
  return Status::OK();
}

}  // namespace bonsai::bench
