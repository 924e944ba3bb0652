// SPDX-License-Identifier: Apache-2.0
// Energy to the joule on counters that the test writes: packages and memory, wrap-around, counters that are not there,
// may not be read, or vanish.
#include "bench/results/energy.h"

#include <gtest/gtest.h>

#include <fstream>

#include "bench/results/testing/counters.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRangeUj = 262'143'328'850;

class Energy : public ::testing::Test {
 protected:
  void set(const std::string& zone, uint64_t energy_uj) const { counters_.set(zone, energy_uj); }
  void make(const std::string& zone, const std::string& name, uint64_t energy_uj) {
    counters_.make(zone, name, energy_uj, kRangeUj);
  }
  [[nodiscard]] double joules() {
    double read = -1;
    const Status status = meter_->read(&read);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return read;
  }
  Status open() { return EnergyMeter::open(counters_.root(), &meter_); }

  testing::ScratchFolder folder_;
  Counters counters_{folder_.file("root")};
  std::unique_ptr<EnergyMeter> meter_;
};

TEST_F(Energy, AddsUpPackagesAndMemoryAndNothingTwice) {
  make("intel-rapl", "control", 77);
  make("intel-rapl:0", "package-0", 5'000'000);
  make("intel-rapl:0:0", "core", 3'000'000);
  make("intel-rapl:0:1", "dram", 1'000'000);
  make("intel-rapl:1", "package-1", 9'000'000);
  make("intel-rapl:2", "psys", 100'000'000);
  make("intel-rapl-mmio:0", "package-0", 5'000'000);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(meter_->parts(), "package-0, dram, package-1");
  EXPECT_EQ(joules(), 0);
  set("intel-rapl:0", 12'000'000);
  set("intel-rapl:0:0", 9'000'000);
  set("intel-rapl:0:1", 3'000'000);
  set("intel-rapl:1", 9'500'000);
  set("intel-rapl:2", 200'000'000);
  set("intel-rapl-mmio:0", 12'000'000);
  EXPECT_DOUBLE_EQ(joules(), 7 + 2 + 0.5);
  EXPECT_DOUBLE_EQ(joules(), 9.5) << "nothing since";
}

TEST_F(Energy, CountsOnWhenACounterWrapsAround) {
  make("intel-rapl:0", "package-0", kRangeUj - 1'000'000);
  ASSERT_TRUE(open().ok());
  set("intel-rapl:0", 4'000'000);
  EXPECT_DOUBLE_EQ(joules(), 5);
  set("intel-rapl:0", kRangeUj);
  EXPECT_DOUBLE_EQ(joules(), 5 + static_cast<double>(kRangeUj - 4'000'000) * 1e-6);
  set("intel-rapl:0", 2'000'000);
  EXPECT_DOUBLE_EQ(joules(), 3 + static_cast<double>(kRangeUj) * 1e-6) << "a second time";
}

TEST_F(Energy, SaysWhyThereIsNone) {
  Status status = open();
  EXPECT_TRUE(status.IsNotSupported());
  EXPECT_NE(status.message().find("no energy counters"), std::string::npos) << status.ToString();
  make("intel-rapl:2", "psys", 1);
  EXPECT_TRUE(open().IsNotSupported());
  make("intel-rapl:0", "package-0", 1);
  std::ofstream(counters_.root() + "/sys/class/powercap/intel-rapl:0/energy_uj").close();  // as one not to be read
  status = open();
  EXPECT_TRUE(status.IsNotSupported());
  EXPECT_NE(status.message().find("chmod"), std::string::npos) << status.ToString();
  set("intel-rapl:0", 1);
  EXPECT_TRUE(open().ok());
}

TEST_F(Energy, ACounterThatVanishesIsAnErrorAndNoNumber) {
  make("intel-rapl:0", "package-0", 1);
  ASSERT_TRUE(open().ok());
  counters_.remove_all();
  double read = -1;
  const Status status = meter_->read(&read);
  EXPECT_TRUE(status.IsUnavailable());
  EXPECT_NE(status.message().find("has vanished"), std::string::npos) << status.ToString();
  EXPECT_EQ(read, -1);
}

}  // namespace
}  // namespace bonsai::bench
