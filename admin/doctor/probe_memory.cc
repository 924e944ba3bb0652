// SPDX-License-Identifier: Apache-2.0
// Probes of memory: its size, huge pages, and the limit of locked memory.
#include <algorithm>
#include <charconv>
#include <optional>

#include "admin/doctor/probes.h"
#include "admin/text.h"

namespace bonsai::admin {
namespace {

constexpr uint64_t kAvailableBytesMin = uint64_t{1} << 30;
constexpr uint64_t kMemlockBytesMin = uint64_t{64} << 20;

std::optional<uint64_t> number_at(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  uint64_t number = 0;
  if (std::from_chars(text.data() + begin, text.data() + text.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

// The number after `name` in /proc/meminfo, in the file's own unit (KiB, or a count).
std::optional<uint64_t> meminfo(const SysRoot& root, std::string_view name) {
  for (const std::string& line : root.lines("/proc/meminfo")) {
    if (line.starts_with(name) && line.substr(name.size(), 1) == ":") return number_at(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

}  // namespace

Finding probe_memory(const SysRoot& root) {
  const std::optional<uint64_t> total = meminfo(root, "MemTotal"), available = meminfo(root, "MemAvailable");
  if (!total || !available) {
    return {"memory", "memory", Mark::kWarn, "unknown", "/proc/meminfo cannot be read: mount -t proc proc /proc",
            false};
  }
  Finding finding{"memory", "memory", Mark::kOk, "", "", false};
  finding.found = human_size(*total << 10) + ", " + human_size(*available << 10) + " available";
  if (*available << 10 < kAvailableBytesMin) {
    finding.mark = Mark::kWarn;
    finding.remedy =
        "less than 1 GiB is free: stop other programs (ps aux --sort=-rss | head), or use small pools (--bytes=64M)";
  }
  return finding;
}

Finding probe_huge_pages(const SysRoot& root) {
  Finding finding{"memory", "huge pages", Mark::kOk, "", "", false};
  const uint64_t pages = meminfo(root, "HugePages_Total").value_or(0),
                 free = meminfo(root, "HugePages_Free").value_or(0);
  const uint64_t page_bytes = meminfo(root, "Hugepagesize").value_or(0) << 10;
  finding.found = std::to_string(pages) + " reserved, " + std::to_string(free) + " free";
  if (page_bytes > 0) finding.found += ", of " + human_size(page_bytes);
  if (page_bytes == 0) {
    finding.mark = Mark::kMissing;
    finding.found = "none";
    finding.remedy = "cannot be repaired here: this kernel has no huge pages (CONFIG_HUGETLBFS)";
  } else if (pages == 0) {
    finding.mark = Mark::kWarn;
    finding.remedy = "for pools on hugetlbfs: sudo sysctl -w vm.nr_hugepages=512";
  }
  return finding;
}

Finding probe_transparent_huge_pages(const SysRoot& root) {
  const std::string_view kPath = "/sys/kernel/mm/transparent_hugepage/enabled";
  Finding finding{"memory", "transparent huge pages", Mark::kOk, "", "", false};
  const std::string text = root.read(kPath).value_or("");
  const size_t begin = text.find('['), end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos) {
    finding.mark = Mark::kWarn;
    finding.found = "none";
    finding.remedy = "cannot be repaired here: this kernel has none (CONFIG_TRANSPARENT_HUGEPAGE)";
    return finding;
  }
  finding.found = text.substr(begin + 1, end - begin - 1);
  if (finding.found == "never") {
    finding.mark = Mark::kWarn;
    finding.remedy = "echo madvise | sudo tee " + std::string(kPath);
  }
  return finding;
}

Finding probe_memlock(const SysRoot& root) {
  constexpr std::string_view kName = "Max locked memory";
  Finding finding{
      "memory", "memlock limit", Mark::kWarn, "unknown", "/proc/self/limits cannot be read: mount -t proc proc /proc",
      false};
  for (const std::string& line : root.lines("/proc/self/limits")) {
    if (!line.starts_with(kName)) continue;
    const std::optional<uint64_t> bytes = number_at(line.substr(kName.size()));
    finding.found = bytes ? human_size(*bytes) : "unlimited";
    const bool enough = !bytes || *bytes >= kMemlockBytesMin;
    finding.mark = enough ? Mark::kOk : Mark::kWarn;
    finding.remedy = enough ? ""
                            : "RDMA locks the memory that it registers: ulimit -l unlimited (as root), "
                              "'* - memlock unlimited' in /etc/security/limits.d/bonsai.conf, or LimitMEMLOCK=infinity "
                              "in a systemd unit";
  }
  return finding;
}

}  // namespace bonsai::admin
