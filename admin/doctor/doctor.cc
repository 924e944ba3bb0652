// SPDX-License-Identifier: Apache-2.0
// The order of the probes, and the kernel modules that are probed.
#include "admin/doctor/probes.h"

namespace bonsai::admin {

std::vector<Finding> examine(const SysRoot& root, const CpuFlags& flags) {
  const Finding devdax = probe_devdax(root), fsdax = probe_fsdax(root);
  Finding emulation = probe_emulation(root);
  // Pools can be on NVM instead of /dev/shm, which is required only where there is no NVM.
  emulation.required = devdax.mark != Mark::kOk && fsdax.mark != Mark::kOk;
  return {
      probe_flush(flags),
      probe_cores(root),
      probe_memory(root),
      probe_huge_pages(root),
      probe_transparent_huge_pages(root),
      probe_memlock(root),
      devdax,
      fsdax,
      emulation,
      probe_rdma_device(root),
      probe_rdma_nodes(root),
      probe_module(root, "rdma_rxe", "Soft-RoCE"),
      probe_module(root, "ib_uverbs", "any RDMA device"),
      probe_module(root, "rdma_ucm", "connections by rdma_cm"),
      probe_energy(root),
  };
}

}  // namespace bonsai::admin
