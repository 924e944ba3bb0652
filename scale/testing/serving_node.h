// SPDX-License-Identifier: Apache-2.0
// A node in a test's process that serves a folder of pools, on a thread of its own.
#ifndef BONSAI_SCALE_TESTING_SERVING_NODE_H_
#define BONSAI_SCALE_TESTING_SERVING_NODE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "scale/pool_server.h"
#include "scale/remote_medium.h"
#include "scale/residence.h"
#include "scale/target_name.h"

namespace bonsai::scale {

// The name of a pool of that node.
inline TargetName named(const std::string& pool) {
  TargetName name;
  EXPECT_TRUE(parse_target_name("shm://node/" + pool, &name).ok());
  return name;
}

// Makes the first `bytes` bytes of a target resident.
inline Status make_resident(RemoteMedium& target, uint64_t bytes) {
  const FarRange range{&target, 0, bytes};
  return make_resident({&range, 1});
}

class ServingNode {
 public:
  using MakeMedia = std::function<Status(const base::Mapping& mapping, base::Media* media)>;

  ServingNode(rdma::ShmNetwork* network, const std::string& folder, const rdma::Secret* secret = nullptr,
              MakeMedia make_media = nullptr, const std::string& address = "node")
      : network_(*network) {
    config_.make_media = std::move(make_media);
    config_.folder = folder;
    config_.address = address;
    config_.secret = secret;
    start();
  }
  ~ServingNode() { end(); }

  // As a new process. Requires: it was ended.
  void start() {
    fabric_ = network_.make_fabric();
    const Status status = PoolServer::make(fabric_.get(), config_, &server_);
    EXPECT_TRUE(status.ok()) << status.ToString();
    stop_.store(false);
    thread_ = base::Thread("server", [this] {
      while (!stop_.load()) {
        const bool pausing = paused_.load();
        silent_.store(pausing);
        if (pausing) {
          base::sleep_ms(1);
        } else {
          static_cast<void>(server_->serve(1));
        }
      }
    });
  }
  // Its process ends, and all connections with it.
  void end() {
    stop_.store(true);
    thread_.join();
    server_.reset();
    fabric_.reset();
  }
  ServingNode(const ServingNode&) = delete;
  ServingNode& operator=(const ServingNode&) = delete;

  [[nodiscard]] std::vector<std::string> take_notes() { return server_->take_notes(); }
  // Returns when it answers no more, or answers again.
  void pause(bool on) {
    paused_.store(on);
    for (base::BoundedWait wait("serving node", 10'000); silent_.load() != on && !wait.expired(); wait.pause()) {
    }
    EXPECT_EQ(silent_.load(), on);
  }

 private:
  rdma::ShmNetwork& network_;
  PoolServer::Config config_;
  std::unique_ptr<rdma::Fabric> fabric_;
  std::unique_ptr<PoolServer> server_;
  std::atomic<bool> stop_{false}, paused_{false}, silent_{false};
  base::Thread thread_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TESTING_SERVING_NODE_H_
