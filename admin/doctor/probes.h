// SPDX-License-Identifier: Apache-2.0
// The probes of `bonsai doctor`: one small function per property of the machine. Each maps its arguments to a finding.
#ifndef BONSAI_ADMIN_DOCTOR_PROBES_H_
#define BONSAI_ADMIN_DOCTOR_PROBES_H_

#include <string>
#include <string_view>
#include <vector>

#include "admin/doctor/sysroot.h"

namespace bonsai::admin {

enum class Mark {
  kOk,
  kWarn,     // works, but less well than it could
  kMissing,  // features that need it do not work here
};

struct Finding {
  std::string area;  // cpu, memory, nvm, rdma, kernel, energy
  std::string name;
  Mark mark = Mark::kOk;
  std::string found;      // the state of the machine
  std::string remedy;     // the command that repairs it, or why there is none; empty if the mark is ok
  bool required = false;  // Bonsai cannot run at all without it
};

// The processor's features according to CPUID.
struct CpuFlags {
  bool clflush = false;
  bool clflushopt = false;
  bool clwb = false;
};
CpuFlags read_cpu_flags();

// processor
Finding probe_flush(const CpuFlags& flags);
Finding probe_cores(const SysRoot& root);

// memory
Finding probe_memory(const SysRoot& root);
Finding probe_huge_pages(const SysRoot& root);
Finding probe_transparent_huge_pages(const SysRoot& root);
Finding probe_memlock(const SysRoot& root);

// NVM
Finding probe_devdax(const SysRoot& root);
Finding probe_fsdax(const SysRoot& root);
Finding probe_emulation(const SysRoot& root);

// RDMA and the kernel modules that it needs
Finding probe_rdma_device(const SysRoot& root);
Finding probe_rdma_nodes(const SysRoot& root);
Finding probe_module(const SysRoot& root, std::string_view module, std::string_view needed_for);

// energy
Finding probe_energy(const SysRoot& root);

// Runs all of the above, in the order of the report.
std::vector<Finding> examine(const SysRoot& root, const CpuFlags& flags);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_DOCTOR_PROBES_H_
