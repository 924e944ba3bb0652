// SPDX-License-Identifier: Apache-2.0
// Probes of the processor: the flush instruction and the cores.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "admin/doctor/probes.h"

namespace bonsai::admin {

CpuFlags read_cpu_flags() {
  CpuFlags flags;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) flags.clflush = (d >> 19 & 1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    flags.clflushopt = (b >> 23 & 1) != 0;
    flags.clwb = (b >> 24 & 1) != 0;
  }
#endif
  return flags;
}

Finding probe_flush(const CpuFlags& flags) {
  Finding finding{"cpu", "flush instruction", Mark::kOk, "", "", true};
  if (flags.clwb) {
    finding.found = "clwb";
  } else if (flags.clflushopt) {
    finding.found = "clflushopt";
  } else if (flags.clflush) {
    finding.mark = Mark::kWarn;
    finding.found = "clflush only: every flush waits and drops its line from the cache";
    finding.remedy =
        "in a virtual machine, pass the host's processor through (QEMU: -cpu host); otherwise it cannot be repaired";
  } else {
    finding.mark = Mark::kMissing;
    finding.found = "none";
    finding.remedy = "cannot be repaired here: Bonsai needs an x86-64 processor";
  }
  return finding;
}

Finding probe_cores(const SysRoot& root) {
  Finding finding{"cpu", "cores", Mark::kOk, "", "", false};
  size_t cores = 0;
  std::string model;
  for (const std::string& line : root.lines("/proc/cpuinfo")) {
    if (line.starts_with("processor")) ++cores;
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) model = line.substr(colon + 2);
  }
  finding.found = cores == 0 ? "unknown" : std::to_string(cores) + (model.empty() ? "" : " (" + model + ")");
  if (cores == 1) {
    finding.mark = Mark::kWarn;
    finding.remedy = "offloading and pollers share the only core: give this machine a second one";
  } else if (cores == 0) {
    finding.mark = Mark::kWarn;
    finding.remedy = "/proc/cpuinfo cannot be read: mount -t proc proc /proc";
  }
  return finding;
}

}  // namespace bonsai::admin
