// SPDX-License-Identifier: Apache-2.0
// The parts that depend on a device: detection, description, overriding; the memory that it can register. Runs on
// machines with a device.
#include "rdma/verbs/device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "base/nvm/os_file.h"
#include "rdma/testing/node.h"
#include "rdma/testing/world.h"
#include "rdma/verbs.h"

namespace bonsai::rdma {
namespace {

std::unique_ptr<VerbsFabric> open(const VerbsOptions& options) {
  std::unique_ptr<VerbsFabric> fabric;
  EXPECT_EQ("OK", status_text(VerbsFabric::open(options, &fabric)));
  return fabric;
}

TEST(DeviceTest, IsFoundAndDescribed) {
  const auto fabric = open({});
  const Capabilities& can = fabric->capabilities();
  std::printf("%s\n", can.text.c_str());
  EXPECT_FALSE(fabric->host().empty());
  EXPECT_NE(can.text.find(fabric->host()), std::string::npos);
  EXPECT_GE(can.lists_pending_max, 16u);
  EXPECT_NE(can.text.find("no RDMA FLUSH"), std::string::npos) << "what is missing is named";
}

TEST(DeviceTest, WhatIsFoundCanBeOverridden) {
  const auto found = open({});
  VerbsOptions options;
  options.port = 1;
  options.mtu_bytes = 256;
  options.gid_index = 1;
  const auto chosen = open(options);
  EXPECT_EQ(chosen->host(), found->host());
  EXPECT_NE(chosen->capabilities().text.find("MTU 256"), std::string::npos);
  std::unique_ptr<VerbsFabric> none;
  options.gid_index = 200;
  const Status status = VerbsFabric::open(options, &none);
  EXPECT_TRUE(status.IsNotSupported());
  EXPECT_NE(status.message().find("among those asked for"), std::string::npos) << status.ToString();
}

TEST(DeviceTest, WhichMemoryItTakes) {
  const auto fabric = open({});
  const auto registers = [&](void* memory, size_t bytes) {
    std::unique_ptr<Region> region;
    return fabric->register_region({static_cast<std::byte*>(memory), bytes}, Rights::all(), &region);
  };
  const auto map = [](int protection, int flags, int file) {
    void* const memory = ::mmap(nullptr, 2 << 20, protection, flags, file, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return memory;
  };
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  EXPECT_EQ("OK", status_text(registers(map(kBoth, MAP_PRIVATE | MAP_ANONYMOUS, -1), 2 << 20)));
  const base::OsFile tmpfs(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(0, ::ftruncate(tmpfs.fd(), 2 << 20));
  EXPECT_EQ("OK", status_text(registers(map(kBoth, MAP_SHARED, tmpfs.fd()), 2 << 20)));
  if (const base::OsFile dax(::open("/dev/dax0.0", O_RDWR | O_CLOEXEC)); dax.is_open()) {
    EXPECT_EQ("OK", status_text(registers(map(kBoth, MAP_SHARED, dax.fd()), 2 << 20)));
  }
  const Status refused = registers(map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1), 4096);
  EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
  EXPECT_NE(refused.message().find("read-only"), std::string::npos) << refused.ToString();
}

TEST(DeviceTest, OneKeyDoesNotRevealTheNext) {
  const auto fabric = open({});
  std::unique_ptr<SharedMemory> memory;
  ASSERT_TRUE(SharedMemory::make(4096, &memory).ok());
  std::vector<std::unique_ptr<Region>> regions(24);
  std::set<uint64_t> steps;
  for (size_t i = 0; i < regions.size(); ++i) {
    ASSERT_EQ("OK", status_text(fabric->register_region(memory->bytes(), Rights::all(), &regions[i])));
    if (i > 0) steps.insert((regions[i]->remote().key >> 8) - (regions[i - 1]->remote().key >> 8));
  }
  EXPECT_GE(steps.size(), 6u) << "keys are given out in order";
}

}  // namespace
}  // namespace bonsai::rdma
