// SPDX-License-Identifier: Apache-2.0
// Probes of NVM: real devices, and the memory file system that replaces them.
#include "admin/doctor/probes.h"
#include "admin/text.h"

namespace bonsai::admin {
namespace {

constexpr uint64_t kEmulationFreeBytesMin = uint64_t{256} << 20;

constexpr std::string_view kNoNvm =
    "this machine shows no NVM; pools on /dev/shm emulate it. To set memory aside as NVM, boot with the kernel "
    "parameter memmap=4G!8G (4 GiB from address 8 GiB on)";

// Names in `folder` that start with `prefix`.
std::vector<std::string> names(const SysRoot& root, std::string_view folder, std::string_view prefix) {
  std::vector<std::string> found;
  for (std::string& name : root.list(folder)) {
    if (name.starts_with(prefix)) found.push_back(std::move(name));
  }
  return found;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// A mount of /proc/mounts.
struct Mount {
  std::string device, folder, type, options;
};

std::vector<Mount> mounts(const SysRoot& root) {
  std::vector<Mount> found;
  for (const std::string& line : root.lines("/proc/mounts")) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ' ') {
        fields.emplace_back();
      } else {
        fields.back().push_back(c);
      }
    }
    if (fields.size() >= 4) found.push_back({fields[0], fields[1], fields[2], fields[3]});
  }
  return found;
}

bool has_dax(const Mount& mount) {
  const std::string options = "," + mount.options + ",";
  return options.find(",dax,") != std::string::npos || options.find(",dax=always,") != std::string::npos;
}

}  // namespace

Finding probe_devdax(const SysRoot& root) {
  Finding finding{"nvm", "devdax", Mark::kOk, "", "", false};
  const std::vector<std::string> devices = names(root, "/sys/bus/dax/devices", "dax");
  std::string locked;
  for (const std::string& device : devices) {
    const uint64_t bytes = root.read_number("/sys/bus/dax/devices/" + device + "/size").value_or(0);
    finding.found += (finding.found.empty() ? "/dev/" : ", /dev/") + device + " " + human_size(bytes);
    if (locked.empty() && !root.writable("/dev/" + device)) locked = "/dev/" + device;
  }
  if (!locked.empty()) {
    finding.mark = Mark::kWarn;
    finding.found += "; " + locked + " cannot be written";
    finding.remedy = "sudo chown \"$USER\" " + locked;
  }
  if (!devices.empty()) return finding;
  finding.mark = Mark::kMissing;
  finding.found = "none";
  const std::vector<std::string> namespaces = names(root, "/sys/bus/nd/devices", "namespace");
  finding.remedy = namespaces.empty() ? std::string(kNoNvm)
                                      : "to make one, which erases " + namespaces[0] +
                                            ": sudo ndctl create-namespace -f -e " + namespaces[0] + " -m devdax";
  return finding;
}

Finding probe_fsdax(const SysRoot& root) {
  Finding finding{"nvm", "fsdax", Mark::kOk, "", "", false};
  std::vector<std::string> dax_mounts;
  for (const Mount& mount : mounts(root)) {
    if (has_dax(mount)) dax_mounts.push_back(mount.folder + " (" + mount.type + " on " + mount.device + ")");
  }
  finding.found = join(dax_mounts);
  if (!dax_mounts.empty()) return finding;
  const std::vector<std::string> disks = names(root, "/sys/block", "pmem");
  if (disks.empty()) {
    finding.mark = Mark::kMissing;
    finding.found = "none";
    finding.remedy = kNoNvm;
    return finding;
  }
  finding.mark = Mark::kWarn;
  finding.found = "/dev/" + join(disks) + ", not mounted with dax";
  finding.remedy = "mount it (make a file system first, if it has none: sudo mkfs.ext4 -b 4096 /dev/" + disks[0] +
                   "): sudo mkdir -p /mnt/" + disks[0] + " && sudo mount -o dax=always /dev/" + disks[0] + " /mnt/" +
                   disks[0];
  return finding;
}

Finding probe_emulation(const SysRoot& root) {
  Finding finding{"nvm", "emulation on /dev/shm", Mark::kOk, "", "", true};
  bool is_tmpfs = false;
  for (const Mount& mount : mounts(root)) is_tmpfs |= mount.folder == "/dev/shm" && mount.type == "tmpfs";
  const std::optional<SysRoot::Space> space = root.space("/dev/shm");
  if (!space || !root.writable("/dev/shm")) {
    finding.mark = Mark::kMissing;
    finding.found = space ? "cannot be written" : "none";
    finding.remedy = space ? "sudo chmod 1777 /dev/shm"
                           : "sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o mode=1777,size=50% tmpfs /dev/shm";
    return finding;
  }
  finding.found = human_size(space->total_bytes) + ", " + human_size(space->free_bytes) + " free";
  if (!is_tmpfs) {
    finding.mark = Mark::kWarn;
    finding.found += "; not a tmpfs, so pools there are written by msync, slowly";
    finding.remedy = "sudo mount -t tmpfs -o mode=1777,size=50% tmpfs /dev/shm";
  } else if (space->free_bytes < kEmulationFreeBytesMin) {
    finding.mark = Mark::kWarn;
    finding.remedy =
        "delete old files there (ls -l /dev/shm), or enlarge it: sudo mount -o remount,size=4G /dev/shm "
        "(in Docker: docker run --shm-size=4g)";
  }
  return finding;
}

}  // namespace bonsai::admin
