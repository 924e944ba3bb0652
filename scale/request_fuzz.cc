// SPDX-License-Identifier: Apache-2.0
// Any bytes as the name of a target, and as a request to the server of a node's pools.
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "base/testing/temp_folder.h"
#include "rdma/shm/shm.h"
#include "scale/pool_server.h"
#include "scale/target_name.h"

namespace bonsai::scale {
namespace {

namespace fs = std::filesystem;
using testing::fuzz_bytes;
using testing::FuzzInput;
using testing::FuzzRegistration;

// ---- the name of a target

void run_name(std::string_view input) {
  TargetName name;
  const Status status = parse_target_name(std::string(input), &name);
  if (!status.ok()) {
    BONSAI_CHECK(status.IsInvalidArgument() && !status.message().empty());
  } else if (name.is_remote()) {
    const std::vector<TargetName> members = name.is_group() ? name.members : std::vector<TargetName>{name};
    for (const TargetName& member : members) BONSAI_CHECK(is_pool_name(member.pool) && !member.node.empty());
    BONSAI_CHECK(name.replicas_min <= name.members.size());
  }
  if (!status.ok()) return;
  BONSAI_CHECK(name.text.find("?role=") == std::string::npos && name.text.find("?lease=") == std::string::npos);
  BONSAI_CHECK(name.is_remote() || !name.checks_lease);
}

std::vector<std::string> seeds_of_names() {
  return {"/mnt/pmem/my.pool",
          "shm://NAME/POOL",
          "rdma://HOST:4711/a.pool_1",
          "rdma://[::1]:1/-",
          "://",
          "/a?role=log",
          "shm://NAME/POOL?role=dnodes",
          "shm://NAME/POOL?role=log&lease=checked",
          "/a?rol=log",
          "shm://A/p|shm://B/p|shm://C/p?replicas_min=2&role=log"};
}

const FuzzRegistration target_name("target_name", run_name, seeds_of_names);

// ---- a request of the pools' server

constexpr uint64_t kLimitMs = 5'000;
constexpr uint64_t kPoolBytesMax = uint64_t{1} << 20;

class ServerRig {
 public:
  ServerRig() {
    fs::create_directory(folder_.file("pools"));
    PoolServer::Config config;
    config.folder = folder_.file("pools");
    config.address = "node";
    BONSAI_CHECK(PoolServer::make(serving_.get(), config, &server_).ok());
    BONSAI_CHECK(asking_->make_worker(&worker_).ok());
    BONSAI_CHECK(asking_->register_region(memory_, rdma::Rights::all(), &region_).ok());
    connect();
  }
  ~ServerRig() { server_.reset(); }
  ServerRig(const ServerRig&) = delete;
  ServerRig& operator=(const ServerRig&) = delete;

  // Sends a request, and closes the pool that it opened, so that inputs stay independent of each other.
  void ask(std::string_view message) {
    if (message.empty() || message.size() > sizeof(rdma::FlushRequest)) return;
    PoolRequest request;
    std::memcpy(&request, message.data(), std::min(message.size(), sizeof request));
    const bool has = request.op == PoolOp::kResize || request.op == PoolOp::kComplete || request.op == PoolOp::kPage;
    if (has) {  // of a pool that it has
      PoolRequest create = request;
      create.magic = PoolRequest::kMagic;
      create.token = 1;
      create.op = request.op == PoolOp::kComplete ? PoolOp::kCreateUnnamed : PoolOp::kCreate;
      create.bytes = kPoolBytesMax / 16;
      create.answer = {};
      send(fuzz_bytes(create));
    }
    send(message);
    request.magic = PoolRequest::kMagic;
    request.token = 1;
    request.op = PoolOp::kRemove;
    request.answer = {};
    PoolAnswer answer;
    std::memcpy(&answer, memory_.data() + kAnswerAt, sizeof answer);
    for (const uint64_t epoch : {answer.epoch, request.epoch, request.epoch + 1, uint64_t{1}}) {  // whatever it has
      request.epoch = epoch;
      send(fuzz_bytes(request));
    }
    BONSAI_CHECK(server_->report().pools.empty());
    for (const auto& entry : fs::directory_iterator(folder_.file("pools"))) fs::remove(entry.path());
    for (const auto& entry : fs::directory_iterator(folder_.path())) BONSAI_CHECK(entry.path().filename() == "pools");
  }

 private:
  static constexpr size_t kAnswerAt = 1024;

  // The answer goes where there is room for it when the input's words for that are 0.
  void send(std::string_view message) {
    std::memcpy(memory_.data(), message.data(), message.size());
    if (message.size() == sizeof(PoolRequest)) {
      PoolRequest request;
      std::memcpy(&request, memory_.data(), sizeof request);
      if (request.answer.key == 0) request.answer = region_->remote().at(kAnswerAt + request.answer.address % 512);
      request.bytes = std::min(request.bytes, kPoolBytesMax);
      std::memcpy(memory_.data(), &request, sizeof request);
    }
    list_.clear();
    list_.send(*peer_, region_->slice(0, message.size()));
    BONSAI_CHECK(worker_->run(&list_, kLimitMs).ok());
    do static_cast<void>(server_->serve(kLimitMs));
    while (server_->at_work());
    if (!peer_->usable()) connect();  // an answer to a place that there is not ends the connection
  }
  void connect() { BONSAI_CHECK(worker_->connect("node", {}, kLimitMs, &peer_).ok()); }

  testing::TempFolder folder_;
  rdma::ShmNetwork network_;
  std::unique_ptr<rdma::Fabric> serving_ = network_.make_fabric(), asking_ = network_.make_fabric();
  std::unique_ptr<PoolServer> server_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(2048);
  std::unique_ptr<rdma::Worker> worker_;
  std::unique_ptr<rdma::Region> region_;
  std::unique_ptr<rdma::Peer> peer_;
  rdma::WorkList list_;
};

void run_request(std::string_view input) {
  static ServerRig rig;
  rig.ask(input);
}

std::vector<std::string> seeds_of_requests() {
  std::vector<std::string> seeds;
  for (const PoolOp op :
       {PoolOp::kOpen, PoolOp::kCreate, PoolOp::kLeave, PoolOp::kRemove, PoolOp::kResize, PoolOp::kComplete,
        PoolOp::kCreateUnnamed, PoolOp::kResume, PoolOp::kRenew, PoolOp::kStatus, PoolOp::kPage}) {
    PoolRequest request;
    request.token = 7;
    request.op = op;
    request.bytes = uint64_t{64} << 10;
    request.mark = op == PoolOp::kOpen ? 1 : 0;
    request.session = {7, 7};
    request.lease_ns = kServedLeaseNsMax;
    set_wire_text(&request.pool, "a.pool");
    seeds.push_back(fuzz_bytes(request));
  }
  return seeds;
}

const FuzzRegistration request("pool_request", run_request, seeds_of_requests);

}  // namespace
}  // namespace bonsai::scale
