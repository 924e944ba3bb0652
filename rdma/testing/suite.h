// SPDX-License-Identifier: Apache-2.0
// The fixture of the tests that every provider must pass: one node of this process, others wherever the setting puts
// them.
//
// Which settings run: those of settings(), or with BONSAI_FABRIC=PROVIDER in the environment that provider only, its
// other nodes in this process or, with BONSAI_FABRIC_PUPPET=LAUNCH, at the far end of far_channel(LAUNCH). So one
// program covers a provider within a process, between processes and between machines:
//   BONSAI_FABRIC=verbs BONSAI_FABRIC_PUPPET=tcp:10.66.0.2:7000 rdma_fabric_test
#ifndef BONSAI_RDMA_TESTING_SUITE_H_
#define BONSAI_RDMA_TESTING_SUITE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rdma/testing/budget.h"
#include "rdma/testing/far_node.h"
#include "rdma/testing/node.h"

namespace bonsai::rdma {

struct Setting {
  std::string name;      // of the test cases
  std::string provider;  // for make_world()
  std::string puppet;    // for far_channel(); empty: the other nodes live in this process
};

const std::vector<Setting>& settings();
// The settings whose other nodes are in another process.
std::vector<Setting> far_settings();
// The settings whose nodes may run on several threads.
std::vector<Setting> threaded_settings();

// The state shared by the test cases of one setting. It starts the other nodes' process once, and again after that has
// died.
class Site {
 public:
  explicit Site(const Setting& setting);
  [[nodiscard]] World& world() { return *world_; }
  [[nodiscard]] Channel& channel() { return *channel_; }
  [[nodiscard]] bool far() const { return !setting_.puppet.empty(); }
  // Requires: far(). The next test case gets a new process.
  static void forget();

  static Site& of(const Setting& setting);

 private:
  Setting setting_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Channel> channel_;
};

class FabricSuite : public ::testing::TestWithParam<Setting> {
 protected:
  Site& site_ = Site::of(GetParam());
  World& world_ = site_.world();
  Node here_{world_, 1};
  FarNode there_{site_.channel(), 2};
};

inline std::string setting_name(const ::testing::TestParamInfo<Setting>& info) { return info.param.name; }

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_SUITE_H_
