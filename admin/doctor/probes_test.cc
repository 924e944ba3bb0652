// SPDX-License-Identifier: Apache-2.0
// Tests each probe on fake machines.
#include "admin/doctor/probes.h"

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace bonsai::admin {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class Probes : public ::testing::Test {
 protected:
  void file(const std::string& path, const std::string& text) { folder_.write(path, text); }
  void modules(const std::string& dep, const std::string& builtin = "") {
    file("proc/sys/kernel/osrelease", "6.1.0-test\n");
    file("lib/modules/6.1.0-test/modules.dep", dep);
    file("lib/modules/6.1.0-test/modules.builtin", builtin);
  }
  Finding rxe() { return probe_module(root_, "rdma_rxe", "Soft-RoCE"); }

  testing::TempFolder folder_;
  SysRoot root_{folder_.path()};
};

TEST_F(Probes, FlushTakesTheBestInstruction) {
  EXPECT_EQ(probe_flush({true, true, true}).found, "clwb");
  EXPECT_EQ(probe_flush({true, true, false}).found, "clflushopt");
  EXPECT_EQ(probe_flush({true, true, false}).mark, Mark::kOk);
  EXPECT_EQ(probe_flush({true, false, false}).mark, Mark::kWarn);
  const Finding none = probe_flush({});
  EXPECT_EQ(none.mark, Mark::kMissing);
  EXPECT_TRUE(none.required);
}

TEST_F(Probes, CpuFlagsAgreeWithTheKernel) {
  const SysRoot real("/");
  const std::string cpuinfo = real.read("/proc/cpuinfo").value_or("");
  if (!has(cpuinfo, "flags\t")) GTEST_SKIP() << "/proc/cpuinfo has no flags here";
  EXPECT_EQ(read_cpu_flags().clwb, has(cpuinfo, " clwb"));
  EXPECT_EQ(read_cpu_flags().clflushopt, has(cpuinfo, " clflushopt"));
  EXPECT_EQ(read_cpu_flags().clflush, has(cpuinfo, " clflush "));
}

TEST_F(Probes, Cores) {
  EXPECT_EQ(probe_cores(root_).found, "unknown");
  file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fake 9000\n\nprocessor\t: 1\nmodel name\t: Fake 9000\n");
  EXPECT_EQ(probe_cores(root_).found, "2 (Fake 9000)");
  EXPECT_EQ(probe_cores(root_).mark, Mark::kOk);
  file("proc/cpuinfo", "processor\t: 0\n");
  EXPECT_EQ(probe_cores(root_).mark, Mark::kWarn);
}

TEST_F(Probes, Memory) {
  EXPECT_EQ(probe_memory(root_).mark, Mark::kWarn);
  file("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n");
  EXPECT_EQ(probe_memory(root_).found, "8.0 GiB, 4.0 GiB available");
  EXPECT_EQ(probe_memory(root_).mark, Mark::kOk);
  file("proc/meminfo", "MemTotal:        8388608 kB\nMemAvailable:    1000 kB\n");
  EXPECT_EQ(probe_memory(root_).mark, Mark::kWarn);
}

TEST_F(Probes, HugePages) {
  EXPECT_EQ(probe_huge_pages(root_).mark, Mark::kMissing);
  file("proc/meminfo", "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n");
  EXPECT_EQ(probe_huge_pages(root_).mark, Mark::kWarn);
  EXPECT_TRUE(has(probe_huge_pages(root_).remedy, "sysctl -w vm.nr_hugepages="));
  file("proc/meminfo", "HugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:       2048 kB\n");
  EXPECT_EQ(probe_huge_pages(root_).found, "64 reserved, 60 free, of 2.0 MiB");
  EXPECT_EQ(probe_huge_pages(root_).mark, Mark::kOk);
}

TEST_F(Probes, TransparentHugePages) {
  const std::string path = "sys/kernel/mm/transparent_hugepage/enabled";
  EXPECT_EQ(probe_transparent_huge_pages(root_).mark, Mark::kWarn);
  file(path, "always [madvise] never\n");
  EXPECT_EQ(probe_transparent_huge_pages(root_).found, "madvise");
  EXPECT_EQ(probe_transparent_huge_pages(root_).mark, Mark::kOk);
  file(path, "always madvise [never]\n");
  EXPECT_TRUE(has(probe_transparent_huge_pages(root_).remedy, "echo madvise | sudo tee /" + path));
}

TEST_F(Probes, Memlock) {
  EXPECT_EQ(probe_memlock(root_).found, "unknown");
  file("proc/self/limits", "Limit  Soft  Hard  Units\nMax locked memory         8388608      8388608     bytes\n");
  EXPECT_EQ(probe_memlock(root_).found, "8.0 MiB");
  EXPECT_EQ(probe_memlock(root_).mark, Mark::kWarn);
  EXPECT_TRUE(has(probe_memlock(root_).remedy, "ulimit -l unlimited"));
  file("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n");
  EXPECT_EQ(probe_memlock(root_).found, "unlimited");
  EXPECT_EQ(probe_memlock(root_).mark, Mark::kOk);
  EXPECT_EQ(probe_memlock(root_).remedy, "");
}

TEST_F(Probes, Devdax) {
  EXPECT_EQ(probe_devdax(root_).mark, Mark::kMissing);
  EXPECT_TRUE(has(probe_devdax(root_).remedy, "memmap="));
  file("sys/bus/nd/devices/namespace0.0/size", "536870912");
  EXPECT_TRUE(has(probe_devdax(root_).remedy, "ndctl create-namespace -f -e namespace0.0 -m devdax"));
  EXPECT_TRUE(has(probe_devdax(root_).remedy, "erases"));
  file("sys/bus/dax/devices/dax0.0/size", "536870912\n");
  EXPECT_EQ(probe_devdax(root_).mark, Mark::kWarn) << "no node to open";
  EXPECT_TRUE(has(probe_devdax(root_).remedy, "chown \"$USER\" /dev/dax0.0"));
  file("dev/dax0.0", "");
  EXPECT_EQ(probe_devdax(root_).found, "/dev/dax0.0 512.0 MiB");
  EXPECT_EQ(probe_devdax(root_).mark, Mark::kOk);
}

TEST_F(Probes, Fsdax) {
  EXPECT_EQ(probe_fsdax(root_).mark, Mark::kMissing);
  file("sys/block/pmem0/size", "1");
  file("proc/mounts", "/dev/pmem0 /data ext4 rw,relatime,dax=never 0 0\n");
  EXPECT_EQ(probe_fsdax(root_).mark, Mark::kWarn);
  EXPECT_TRUE(has(probe_fsdax(root_).remedy, "mount -o dax=always /dev/pmem0 /mnt/pmem0"));
  for (const char* option : {"dax", "dax=always"}) {
    file("proc/mounts", "proc /proc proc rw 0 0\n/dev/pmem0 /mnt/a ext4 rw," + std::string(option) + ",x 0 0\n");
    EXPECT_EQ(probe_fsdax(root_).found, "/mnt/a (ext4 on /dev/pmem0)");
    EXPECT_EQ(probe_fsdax(root_).mark, Mark::kOk);
  }
}

TEST_F(Probes, Emulation) {
  EXPECT_EQ(probe_emulation(root_).mark, Mark::kMissing);
  file("dev/shm/x", "");
  EXPECT_EQ(probe_emulation(root_).mark, Mark::kWarn) << "a plain folder";
  EXPECT_TRUE(has(probe_emulation(root_).remedy, "mount -t tmpfs"));
  file("proc/mounts", "tmpfs /dev/shm tmpfs rw 0 0\n");
  EXPECT_NE(probe_emulation(root_).mark, Mark::kMissing);
  EXPECT_TRUE(has(probe_emulation(root_).found, "free"));
  EXPECT_FALSE(has(probe_emulation(root_).found, "msync"));
}

TEST_F(Probes, RdmaDevice) {
  EXPECT_EQ(probe_rdma_device(root_).mark, Mark::kMissing);
  file("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
  EXPECT_EQ(probe_rdma_device(root_).mark, Mark::kWarn);
  EXPECT_EQ(probe_rdma_device(root_).found, "rxe0 (port down)");
  file("sys/class/infiniband/rxe1/ports/1/state", "4: ACTIVE\n");
  EXPECT_EQ(probe_rdma_device(root_).found, "rxe0 (port down), rxe1 (active)");
  EXPECT_EQ(probe_rdma_device(root_).mark, Mark::kOk);
}

TEST_F(Probes, SoftRoceIsTheRemedyWhereTheKernelHasIt) {
  EXPECT_TRUE(has(probe_rdma_device(root_).remedy, "cannot be repaired here"));
  modules("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/x.ko\n");
  EXPECT_TRUE(
      has(probe_rdma_device(root_).remedy, "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev lo"));
  file("sys/class/net/eth7/operstate", "up\n");
  file("sys/class/net/eth3/operstate", "down\n");
  EXPECT_TRUE(has(probe_rdma_device(root_).remedy, "netdev eth7"));
  file("sys/module/rdma_rxe/refcnt", "0");
  EXPECT_FALSE(has(probe_rdma_device(root_).remedy, "modprobe"));
}

TEST_F(Probes, ModuleStates) {
  EXPECT_EQ(rxe().mark, Mark::kMissing);
  EXPECT_TRUE(has(rxe().remedy, "cannot be repaired here"));
  modules("kernel/other.ko:\nkernel/rdma_rxe_not.ko: kernel/rdma_rxe.ko\n");
  EXPECT_EQ(rxe().found, "not in this kernel (for Soft-RoCE)") << "a longer name, or a dependency, is another module";
  EXPECT_TRUE(has(rxe().remedy, "install a kernel"));
  modules("kernel/rdma-rxe.ko.zst:\n");
  EXPECT_EQ(rxe().mark, Mark::kWarn);
  EXPECT_EQ(rxe().remedy, "sudo modprobe rdma_rxe");
  modules("", "kernel/rdma_rxe.ko\n");
  EXPECT_EQ(rxe().found, "built in");
  file("sys/module/rdma_rxe/refcnt", "0");
  EXPECT_EQ(rxe().found, "loaded");
  EXPECT_EQ(rxe().mark, Mark::kOk);
}

TEST_F(Probes, ModuleRemedyKnowsTheDistribution) {
  modules("kernel/other.ko:\n");
  file("etc/os-release", "NAME=Ubuntu\nID=ubuntu\n");
  EXPECT_EQ(rxe().remedy, "sudo apt-get install linux-modules-extra-6.1.0-test");
  file("etc/os-release", "ID=debian\n");
  EXPECT_EQ(rxe().remedy, "install a kernel that has it");
  file("proc/sys/kernel/osrelease", "6.1.0-cloud-amd64\n");
  file("lib/modules/6.1.0-cloud-amd64/modules.dep", "");
  EXPECT_TRUE(has(rxe().remedy, "linux-image-amd64"));
}

TEST_F(Probes, RdmaNodes) {
  EXPECT_EQ(probe_rdma_nodes(root_).mark, Mark::kMissing);
  modules("kernel/ib_uverbs.ko:\nkernel/rdma_ucm.ko:\n");
  EXPECT_EQ(probe_rdma_nodes(root_).remedy, "sudo modprobe ib_uverbs");
  file("dev/infiniband/uverbs0", "");
  EXPECT_EQ(probe_rdma_nodes(root_).mark, Mark::kWarn);
  EXPECT_EQ(probe_rdma_nodes(root_).remedy, "sudo modprobe rdma_ucm");
  file("dev/infiniband/rdma_cm", "");
  EXPECT_EQ(probe_rdma_nodes(root_).found, "rdma_cm, uverbs0");
  EXPECT_EQ(probe_rdma_nodes(root_).mark, Mark::kOk);
}

TEST_F(Probes, Energy) {
  EXPECT_EQ(probe_energy(root_).mark, Mark::kMissing);
  const std::string zone = "sys/class/powercap/intel-rapl:0/";
  file("sys/class/powercap/intel-rapl/enabled", "1");  // a zone without a counter
  EXPECT_EQ(probe_energy(root_).mark, Mark::kMissing);
  file(zone + "name", "package-0\n");
  file(zone + "energy_uj", "123456\n");
  EXPECT_EQ(probe_energy(root_).found, "package-0");
  EXPECT_EQ(probe_energy(root_).mark, Mark::kOk);
  file("sys/class/powercap/intel-rapl:1/energy_uj/folder", "");  // cannot be read, even by root
  EXPECT_EQ(probe_energy(root_).mark, Mark::kWarn);
  EXPECT_TRUE(has(probe_energy(root_).remedy, "chmod a+r"));
}

TEST_F(Probes, EverythingHasARemedyOrIsWell) {
  for (const Finding& finding : examine(root_, {})) {
    EXPECT_EQ(finding.remedy.empty(), finding.mark == Mark::kOk) << finding.name;
    EXPECT_FALSE(finding.found.empty()) << finding.name;
  }
}

TEST_F(Probes, DevShmIsRequiredOnlyWithoutNvm) {
  const auto required = [&] {
    for (const Finding& finding : examine(root_, {})) {
      if (finding.name == "emulation on /dev/shm") return finding.required;
    }
    return false;
  };
  EXPECT_TRUE(required());
  file("sys/bus/dax/devices/dax0.0/size", "536870912\n");
  file("dev/dax0.0", "");
  EXPECT_FALSE(required());
}

}  // namespace
}  // namespace bonsai::admin
