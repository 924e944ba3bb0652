// SPDX-License-Identifier: Apache-2.0
// What tests have in common that run the program bonsaid over shm: its folder of pools, a meeting folder of their own,
// and the program itself. Requires: BONSAID_PROGRAM, the program's path.
#ifndef BONSAI_BONSAID_TESTING_DAEMON_FIXTURE_H_
#define BONSAI_BONSAID_TESTING_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bonsai/options.h"
#include "testing/child.h"
#include "testing/scratch.h"

namespace bonsai::bonsaid {

using testing::Child;
using testing::Ran;
using testing::run;

// Of a pool whose log is so small that it wraps, and offloading runs, while a test writes.
inline Options small_pool(uint32_t fabric_wait_ms_max) {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{4} << 20;
  options.log_bytes = uint64_t{256} << 10;
  options.fabric_wait_ms_max = fabric_wait_ms_max;
  return options;
}

class DaemonFixture : public ::testing::Test {
 protected:
  DaemonFixture() {
    for (const std::string& folder : {pools_, meeting_}) std::filesystem::create_directory(folder);
    std::filesystem::permissions(meeting_, std::filesystem::perms::owner_all);
    ::setenv("BONSAI_SHM_FOLDER", meeting_.c_str(), 1);
  }
  ~DaemonFixture() override { ::unsetenv("BONSAI_SHM_FOLDER"); }

  // A new folder whose name begins so.
  std::string new_folder(const std::string& name = "run") {
    std::string folder = scratch_.file(name + "." + std::to_string(folders_++));
    std::filesystem::create_directory(folder);
    return folder;
  }
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {BONSAID_PROGRAM, "--folder=" + pools_, "--listen=shm://n", "--domain=adr",
                                    "--litmus_ms=5"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void start(const std::vector<std::string>& more = {}) {
    daemon_.emplace(new_folder(), words(more));
    ASSERT_TRUE(daemon_->prints("ready: serves ")) << daemon_->err();
  }
  void stop() {
    daemon_->signal(SIGTERM);
    EXPECT_EQ(daemon_->wait(), 0) << daemon_->err();
  }
  void kill() {
    daemon_->signal(SIGKILL);
    EXPECT_EQ(daemon_->wait(), 128 + SIGKILL);
  }

  testing::ScratchFolder scratch_;
  const std::string pools_ = scratch_.file("pools"), meeting_ = scratch_.file("meeting");
  int folders_ = 0;
  std::optional<Child> daemon_;
};

}  // namespace bonsai::bonsaid

#endif  // BONSAI_BONSAID_TESTING_DAEMON_FIXTURE_H_
