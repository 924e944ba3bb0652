// SPDX-License-Identifier: Apache-2.0
// Probe of the energy counters of the powercap interface.
#include "admin/doctor/probes.h"

namespace bonsai::admin {

Finding probe_energy(const SysRoot& root) {
  const std::string folder = "/sys/class/powercap";
  Finding finding{"energy", "energy counters", Mark::kOk, "", "", false};
  std::string locked;
  for (const std::string& zone : root.list(folder)) {
    const std::string counter = folder + "/" + zone + "/energy_uj";
    if (!root.exists(counter)) continue;
    finding.found += (finding.found.empty() ? "" : ", ") + root.read(folder + "/" + zone + "/name").value_or(zone);
    if (!root.read_number(counter)) locked = counter;
  }
  if (finding.found.empty()) {
    finding.mark = Mark::kMissing;
    finding.found = "none";
    finding.remedy =
        "cannot be repaired here: no powercap counters (virtual machines have none); energy is reported as n/a";
  } else if (!locked.empty()) {
    finding.mark = Mark::kWarn;
    finding.found += "; cannot be read";
    finding.remedy = "sudo chmod a+r " + folder + "/*/energy_uj (until the next boot)";
  }
  return finding;
}

}  // namespace bonsai::admin
