// SPDX-License-Identifier: Apache-2.0
// Waits of a link whose limit passes while this process is stopped: it looks once more, and what came meanwhile counts.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rdma/registered_memory.h"
#include "rdma/shm/shm.h"
#include "rdma/testing/fabric_around.h"
#include "scale/pool_wire.h"
#include "scale/remote_link.h"
#include "scale/testing/serving_node.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kLinkMsMax = 5'000;
constexpr uint64_t kRequestNsMax = 3'600 * base::kNsPerSecond;

struct Hooks {
  std::function<Status(uint64_t limit_ms)> on_connect;  // OK: the worker below connects
  std::function<void()> on_poll;
};

class HookedWorker final : public rdma::WorkerAround {
 public:
  HookedWorker(std::unique_ptr<Worker> below, const Hooks& hooks) : WorkerAround(std::move(below)), hooks_(hooks) {}
  Status greet(const std::string& address, const rdma::Hello& own, uint64_t limit_ms, std::unique_ptr<rdma::Peer>* peer,
               rdma::Challenge* challenge) override {
    const Status status = hooks_.on_connect ? hooks_.on_connect(limit_ms) : Status::OK();
    return status.ok() ? WorkerAround::greet(address, own, limit_ms, peer, challenge) : status;
  }
  size_t poll() override {
    if (hooks_.on_poll) hooks_.on_poll();
    return WorkerAround::poll();
  }

 private:
  const Hooks& hooks_;
};

// A node that answers when the test lets it. Time passes only where a test says so.
class LateAnswers : public ::testing::Test {
 protected:
  LateAnswers() {
    base::virtual_now_ns = &clock_ns_;
    EXPECT_TRUE(rdma::RegisteredMemory::make(*fabric_, 4096, rdma::Rights::all(), &memory_).ok());
    EXPECT_TRUE(fabric_->make_worker(&node_).ok());
    EXPECT_TRUE(node_->set_receive_ring(memory_->slice(1024, 1024), sizeof(PoolRequest)).ok());
    EXPECT_TRUE(node_->listen("node", {}, nullptr).ok());
  }
  ~LateAnswers() override { base::virtual_now_ns = nullptr; }

  std::unique_ptr<RemoteLink> make_link() {
    const auto around = [this](std::unique_ptr<rdma::Worker> worker) {
      return std::make_unique<HookedWorker>(std::move(worker), hooks_);
    };
    std::unique_ptr<RemoteLink> link;
    EXPECT_TRUE(RemoteLink::make(std::make_shared<rdma::FabricAround>(network_.make_fabric(), around),
                                 {.limit_ms = kLinkMsMax, .workers = 1}, &link)
                    .ok());
    return link;
  }
  // False until a request has come, and once it was answered.
  bool take_request() {
    rdma::Message message;
    if (peer_ == nullptr && !node_->accept(0, &peer_).ok()) return false;
    if (request_.token == 0 && node_->receive(0, &message).ok()) {
      std::memcpy(&request_, message.bytes().data(), sizeof request_);
      answer_.token = request_.token - 1;
    }
    return request_.token != 0 && answer_.token != request_.token;
  }
  void send_answer() {
    std::memcpy(memory_->data(), &answer_, sizeof answer_);
    list_.clear();
    list_.write(*peer_, memory_->slice(0, sizeof answer_), request_.answer);
    EXPECT_TRUE(node_->run(&list_, 0).ok());
  }

  uint64_t clock_ns_ = base::kNsPerSecond;
  rdma::ShmNetwork network_;
  Hooks hooks_;
  std::unique_ptr<rdma::Fabric> fabric_ = network_.make_fabric();
  std::unique_ptr<rdma::RegisteredMemory> memory_;
  std::unique_ptr<rdma::Worker> node_;
  std::unique_ptr<rdma::Peer> peer_;
  rdma::WorkList list_;
  PoolRequest request_;  // token 0: none has come
  PoolAnswer answer_;
};

// The first attempt ends early, as when the node is restarted, and this process is stopped before it judges that.
TEST_F(LateAnswers, ANodeThatCameBackMeanwhileIsFound) {
  int attempts = 0;
  hooks_.on_connect = [&](uint64_t) {
    if (++attempts > 1) return Status::OK();
    clock_ns_ += kRequestNsMax;
    return Status::Unavailable("the other node left");
  };
  hooks_.on_poll = [&] {
    if (!take_request()) return;
    answer_.code = static_cast<int64_t>(Status::Code::kNotFound);
    answer_.token = request_.token;
    send_answer();
  };
  size_t target = 0;
  const Status status = make_link()->open(named("p"), PoolOp::kOpen, 0, 0, &target);
  EXPECT_TRUE(status.IsNotFound()) << status.ToString();
  EXPECT_EQ(attempts, 2);
}

TEST_F(LateAnswers, ANodeThatIsAwayIsWaitedForOnce) {
  const uint64_t begin_ns = clock_ns_;
  hooks_.on_connect = [&](uint64_t limit_ms) {
    clock_ns_ += limit_ms * base::kNsPerMs;
    return Status::Unavailable("nobody listens there");
  };
  size_t target = 0;
  EXPECT_TRUE(make_link()->open(named("p"), PoolOp::kOpen, 0, 0, &target).IsUnavailable());
  EXPECT_GE(clock_ns_ - begin_ns, kLinkMsMax * base::kNsPerMs);
  EXPECT_LE(clock_ns_ - begin_ns, (kLinkMsMax + 500) * base::kNsPerMs);
}

// The node says for an hour that it is at work, and then answers at the very end.
TEST_F(LateAnswers, TheLastAnswerOfALongRequestCounts) {
  uint64_t begin_ns = 0;
  hooks_.on_poll = [&] {
    if (!take_request()) return;
    if (begin_ns == 0) begin_ns = clock_ns_;
    clock_ns_ += base::kNsPerSecond;
    ++answer_.beats;
    if (clock_ns_ - begin_ns > kRequestNsMax) {
      answer_.code = static_cast<int64_t>(Status::Code::kNotFound);
      answer_.token = request_.token;
    }
    send_answer();
  };
  size_t target = 0;
  const Status status = make_link()->open(named("p"), PoolOp::kOpen, 0, 0, &target);
  EXPECT_TRUE(status.IsNotFound()) << status.ToString();
}

}  // namespace
}  // namespace bonsai::scale
