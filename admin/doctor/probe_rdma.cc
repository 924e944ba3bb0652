// SPDX-License-Identifier: Apache-2.0
// Probes of RDMA: devices, the device files through which programs use them, and kernel modules.
#include <algorithm>

#include "admin/doctor/probes.h"

namespace bonsai::admin {
namespace {

std::string kernel_release(const SysRoot& root) { return root.read("/proc/sys/kernel/osrelease").value_or("unknown"); }

enum class ModuleState { kLoaded, kBuiltIn, kLoadable, kAbsent, kNoModules };

ModuleState module_state(const SysRoot& root, std::string_view module) {
  if (root.exists("/sys/module/" + std::string(module))) return ModuleState::kLoaded;
  const std::string folder = "/lib/modules/" + kernel_release(root);
  const auto named_in = [&](const char* index) {
    for (const std::string& line : root.lines(folder + index)) {
      std::string path = line.substr(0, line.find(':'));
      std::replace(path.begin(), path.end(), '-', '_');
      if (path.find("/" + std::string(module) + ".ko") != std::string::npos) return true;
    }
    return false;
  };
  if (named_in("/modules.builtin")) return ModuleState::kBuiltIn;
  if (named_in("/modules.dep")) return ModuleState::kLoadable;
  return root.exists(folder + "/modules.dep") ? ModuleState::kAbsent : ModuleState::kNoModules;
}

// The package to install if the kernel supports modules but lacks this one.
std::string kernel_package(const SysRoot& root) {
  const std::string release = kernel_release(root);
  for (const std::string& line : root.lines("/etc/os-release")) {
    if (line == "ID=ubuntu") return "sudo apt-get install linux-modules-extra-" + release;
    if (line == "ID=debian" && release.find("cloud") != std::string::npos) {
      return "sudo apt-get install linux-image-amd64, then boot that kernel (the cloud kernel leaves the module out)";
    }
  }
  return "install a kernel that has it";
}

// The command that provides `module`; empty if it is present.
std::string module_remedy(const SysRoot& root, std::string_view module) {
  switch (module_state(root, module)) {
    case ModuleState::kLoadable:
      return "sudo modprobe " + std::string(module);
    case ModuleState::kAbsent:
      return kernel_package(root);
    case ModuleState::kNoModules:
      return "cannot be repaired here: no modules for this kernel (/lib/modules/" + kernel_release(root) +
             " is missing); in a container, load it on the host";
    default:
      return "";
  }
}

// The network device for Soft-RoCE: the first that is up and not the loopback, else the loopback.
std::string net_device(const SysRoot& root) {
  for (const std::string& name : root.list("/sys/class/net")) {
    if (name != "lo" && root.read("/sys/class/net/" + name + "/operstate") == "up") return name;
  }
  return "lo";
}

std::string soft_roce_remedy(const SysRoot& root) {
  const std::string add = "sudo rdma link add rxe0 type rxe netdev " + net_device(root);
  switch (module_state(root, "rdma_rxe")) {
    case ModuleState::kLoaded:
    case ModuleState::kBuiltIn:
      return "no NIC needed, Soft-RoCE will do: " + add;
    case ModuleState::kLoadable:
      return "no NIC needed, Soft-RoCE will do: sudo modprobe rdma_rxe && " + add;
    default:
      return "Soft-RoCE needs a kernel with the module rdma_rxe: " + module_remedy(root, "rdma_rxe");
  }
}

bool has_active_port(const SysRoot& root, const std::string& device) {
  const std::string ports = "/sys/class/infiniband/" + device + "/ports";
  for (const std::string& port : root.list(ports)) {
    if (root.read(ports + "/" + port + "/state").value_or("").find("ACTIVE") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Finding probe_rdma_device(const SysRoot& root) {
  Finding finding{"rdma", "RDMA device", Mark::kOk, "", "", false};
  bool any_active = false;
  for (const std::string& device : root.list("/sys/class/infiniband")) {
    const bool active = has_active_port(root, device);
    any_active |= active;
    finding.found += (finding.found.empty() ? "" : ", ") + device + (active ? " (active)" : " (port down)");
  }
  if (any_active) return finding;
  finding.mark = finding.found.empty() ? Mark::kMissing : Mark::kWarn;
  finding.remedy = finding.found.empty() ? soft_roce_remedy(root)
                                         : "bring the port up: sudo ip link set " + net_device(root) + " up; rdma link";
  if (finding.found.empty()) finding.found = "none";
  return finding;
}

Finding probe_rdma_nodes(const SysRoot& root) {
  Finding finding{"rdma", "/dev/infiniband", Mark::kOk, "", "", false};
  bool has_verbs = false;
  for (const std::string& node : root.list("/dev/infiniband")) {
    has_verbs |= node.starts_with("uverbs");
    finding.found += (finding.found.empty() ? "" : ", ") + node;
  }
  if (!has_verbs) {
    finding.mark = Mark::kMissing;
    const std::string load = module_remedy(root, "ib_uverbs");
    finding.remedy =
        load.empty() ? "appears with the first RDMA device; in Docker: docker run --device=/dev/infiniband" : load;
  } else if (!root.exists("/dev/infiniband/rdma_cm")) {
    finding.mark = Mark::kWarn;
    finding.found += "; no rdma_cm";
    const std::string load = module_remedy(root, "rdma_ucm");
    finding.remedy = load.empty() ? "in Docker: docker run --device=/dev/infiniband" : load;
  }
  if (finding.found.empty()) finding.found = "none";
  return finding;
}

Finding probe_module(const SysRoot& root, std::string_view module, std::string_view needed_for) {
  Finding finding{"kernel", std::string(module), Mark::kOk, "", "", false};
  const std::string purpose = " (for " + std::string(needed_for) + ")";
  switch (module_state(root, module)) {
    case ModuleState::kLoaded:
      finding.found = "loaded";
      return finding;
    case ModuleState::kBuiltIn:
      finding.found = "built in";
      return finding;
    case ModuleState::kLoadable:
      finding.mark = Mark::kWarn;
      finding.found = "not loaded" + purpose;
      break;
    case ModuleState::kAbsent:
      finding.mark = Mark::kMissing;
      finding.found = "not in this kernel" + purpose;
      break;
    case ModuleState::kNoModules:
      finding.mark = Mark::kMissing;
      finding.found = "none" + purpose;
      break;
  }
  finding.remedy = module_remedy(root, module);
  return finding;
}

}  // namespace bonsai::admin
