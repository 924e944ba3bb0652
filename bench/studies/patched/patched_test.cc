// SPDX-License-Identifier: Apache-2.0
// The patches do what the experiments measure, and nothing unless they are asked for.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/temp_folder.h"
#include "bench/studies/patched/patches.h"
#include "rdma/shm/shm.h"
#include "scale/read_batch.h"
#include "scale/remote_link.h"
#include "scale/remote_target.h"
#include "scale/testing/serving_node.h"
#include "scale/volume.h"

namespace bonsai::bench::patched {
namespace {

using scale::Addr;

inline constexpr base::Site kFlushSite{"patched_test.flush"};
inline constexpr base::Site kFenceSite{"patched_test.fence"};
constexpr uint64_t kPoolBytes = 64 << 10;

class ShmInUnits final : public UnitFabric {
 public:
  ShmInUnits(std::unique_ptr<rdma::Fabric> fabric, uint64_t unit_bytes)
      : fabric_(std::move(fabric)), unit_bytes_(unit_bytes) {}

  [[nodiscard]] uint64_t read_unit_bytes() const override { return unit_bytes_; }
  [[nodiscard]] const rdma::Capabilities& capabilities() const override { return fabric_->capabilities(); }
  Status register_region(std::span<std::byte> memory, rdma::Rights rights,
                         std::unique_ptr<rdma::Region>* region) override {
    return fabric_->register_region(memory, rights, region);
  }
  Status make_worker(std::unique_ptr<rdma::Worker>* worker) override { return fabric_->make_worker(worker); }

 private:
  const std::unique_ptr<rdma::Fabric> fabric_;
  const uint64_t unit_bytes_;
};

class ReadUnits : public ::testing::Test {
 protected:
  // Writes a pool of numbered words, then reads the words 16 to 144 and word 1024 in one batch. Returns its traffic.
  void read(std::unique_ptr<rdma::Fabric> fabric, const std::string& pool, rdma::Traffic* traffic) {
    std::unique_ptr<scale::RemoteLink> link;
    ASSERT_TRUE(scale::RemoteLink::make(std::move(fabric), {}, &link).ok());
    size_t target = 0;
    ASSERT_TRUE(link->open(scale::named(pool), scale::PoolOp::kCreate, kPoolBytes, 0, &target).ok());
    std::unique_ptr<scale::RemoteTarget> medium;
    ASSERT_TRUE(scale::RemoteTarget::make(link.get(), target, &medium).ok());
    scale::VolumeOf<base::HookedMedium> volume({medium.get()});
    std::vector<uint64_t> content(kPoolBytes / 8);
    for (size_t i = 0; i < content.size(); ++i) content[i] = i;
    volume.nt_copy(Addr(0, 0), content.data(), kPoolBytes, kFlushSite);
    ASSERT_TRUE(volume.fence(kFenceSite));
    const rdma::Traffic before = link->traffic();
    scale::ReadBatch reads(volume);
    const std::byte* part = reads.issue(Addr(0, 128), 1'032);  // of five units of 256 bytes, or of two of 1,000
    const std::byte* word = reads.issue(Addr(0, 8'192), 8);
    ASSERT_TRUE(reads.wait().ok());
    EXPECT_EQ(std::memcmp(part, content.data() + 16, 1'032), 0);
    EXPECT_EQ(base::word_at(word).load(), 1'024U);
    *traffic = link->traffic() - before;
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  scale::ServingNode node_{&network_, scratch_.path()};
};

TEST_F(ReadUnits, EachReadIsOfOneUnitAndTheBytesAreWhole) {
  for (const auto& [unit_bytes, messages] : {std::pair<uint64_t, uint64_t>{0, 2}, {256, 6}, {4096, 2}, {1000, 3}}) {
    rdma::Traffic traffic;
    read(std::make_unique<ShmInUnits>(network_.make_fabric(), unit_bytes), "p" + std::to_string(unit_bytes), &traffic);
    EXPECT_EQ(traffic.of(rdma::Verb::kRead).messages, messages) << unit_bytes;
    EXPECT_EQ(traffic.round_trips, 1U) << unit_bytes << ": one list, however many units";
    EXPECT_EQ(traffic.bytes(), 1'040U) << unit_bytes;
  }
}

TEST_F(ReadUnits, AFabricWithoutUnitsIsReadAsInTheProduct) {
  rdma::Traffic traffic;
  read(network_.make_fabric(), "p", &traffic);
  EXPECT_EQ(traffic.of(rdma::Verb::kRead).messages, 2U);
}

}  // namespace
}  // namespace bonsai::bench::patched
