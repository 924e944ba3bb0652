// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_link.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kConnectPauseMs = 1;  // between two attempts
constexpr uint64_t kLastTryMsMax = 200;

}  // namespace

Status RemoteLink::make(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options,
                        std::unique_ptr<RemoteLink>* link) {
  std::unique_ptr<RemoteLink> made(new RemoteLink(std::move(fabric), options));
  BONSAI_RETURN_IF_ERROR(made->start());
  *link = std::move(made);
  return Status::OK();
}

Status RemoteLink::start() {
  if (options_.workers == 0 || options_.workers > LinkOptions::kWorkersMax) {
    return Status::InvalidArgument("fabric_workers is " + std::to_string(options_.workers) + "; give 1 to " +
                                   std::to_string(LinkOptions::kWorkersMax));
  }
  base::random_secret(std::as_writable_bytes(std::span(&session_, 1)));
  BONSAI_RETURN_IF_ERROR(RegisteredPool::make(fabric_, &pool_));
  for (size_t i = 0; i < options_.workers; ++i) {
    auto lane = std::make_unique<Lane>();
    BONSAI_RETURN_IF_ERROR(fabric_->make_worker(&lane->worker));
    lanes_.push_back(std::move(lane));
  }
  requests_.emplace(lanes_[0]->worker.get(), options_.limit_ms, fabric_->capabilities().text);
  writes_.emplace(lanes_, pool_, options_.limit_ms);
  reads_.emplace(*fabric_, lanes_, pool_);
  return Status::OK();
}

RemoteLink::~RemoteLink() {
  close_all();
  for (const auto& lane : lanes_) static_cast<void>(lane->worker->poll());  // what was in flight ended with its peer
  if (reads_) reads_->clear();
}

Status RemoteLink::connect(rdma::Worker* worker, const PoolClient& client, std::unique_ptr<rdma::Peer>* peer) {
  const TargetName& name = client.name();
  rdma::Hello own;
  std::unique_ptr<rdma::Peer> made;
  Status status;
  // A node that is just being started is waited for. After the limit it is looked for once more, since this process may
  // have been stopped.
  uint64_t left_ms = options_.limit_ms;
  for (bool last = false; !last; base::sleep_ms(kConnectPauseMs)) {
    last = left_ms == 0;
    own = {};
    own.node = client.node();
    own.session = session_;
    if (options_.secret != nullptr) options_.secret->sign(&own);
    const uint64_t begin_ns = base::now_ns();
    status = worker->connect(name.node, own, last ? std::min(options_.limit_ms, kLastTryMsMax) : left_ms, &made);
    if (!status.IsUnavailable()) break;
    left_ms -= std::min(left_ms, (base::now_ns() - begin_ns) / base::kNsPerMs + kConnectPauseMs);
  }
  if (!status.ok()) {
    if (!status.IsUnavailable()) return status;
    return Status::Unavailable(name.text + ": no node answers at " + name.node + " (" + std::string(status.message()) +
                               "); start bonsaid there, and see that both use the same folder or network");
  }
  if (options_.secret != nullptr) BONSAI_RETURN_IF_ERROR(options_.secret->check_answer(own, made->hello()));
  *peer = std::move(made);
  return Status::OK();
}

Status RemoteLink::open(const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark, size_t* target) {
  for (const auto& other : targets_) {
    const TargetName& known = other->client->name();
    if (known.node == name.node && known.pool == name.pool && !other->connections.empty()) {
      return Status::InvalidArgument(name.text + " is named twice; each target is named once");
    }
  }
  std::unique_ptr<PoolClient> client;
  BONSAI_RETURN_IF_ERROR(PoolClient::make(*fabric_, name, &client));
  auto made = std::make_unique<LinkTarget>(std::move(client));
  std::vector<std::unique_ptr<rdma::Peer>> peers(lanes_.size());
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    BONSAI_RETURN_IF_ERROR(connect(lanes_[lane]->worker.get(), *made->client, &peers[lane]));
  }
  const Status asked = requests_->take(made->client.get(), peers[0].get(), op, bytes, mark, &made->pool);
  if (asked.IsUnavailable()) {
    // The connection ends before what it may still deliver is used again.
    peers[0].reset();
    static_cast<void>(lanes_[0]->worker->poll());
    given_up_.push_back(std::move(made));
  }
  BONSAI_RETURN_IF_ERROR(asked);
  made->credits.emplace(made->pool.credits);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    std::unique_ptr<rdma::RemotePersist> persist;
    BONSAI_RETURN_IF_ERROR(rdma::RemotePersist::make(fabric_.get(), lanes_[lane]->worker.get(), std::move(peers[lane]),
                                                     made->pool.domain, &persist));
    made->connections.push_back(std::make_unique<Connection>(std::move(persist), &*made->credits));
  }
  *target = targets_.size();
  targets_.push_back(std::move(made));
  return Status::OK();
}

Status RemoteLink::release(size_t target, PoolOp op) {
  LinkTarget& left = *targets_[target];
  if (left.connections.empty()) return Status::OK();
  const Status status = requests_->ask(left.client.get(), &left.connections[0]->peer(), op, 0, 0, nullptr);
  left.state.lose(Status::Unavailable("the pool was given back"));
  left.connections.clear();
  return status;
}

Status RemoteLink::complete(size_t target) {
  LinkTarget& of = *targets_[target];
  return requests_->ask(of.client.get(), &of.connections[0]->peer(), PoolOp::kComplete, 0, 0, nullptr);
}

Status RemoteLink::resize(size_t target, uint64_t bytes) {
  LinkTarget& of = *targets_[target];
  of.mirror.reset();
  return requests_->ask(of.client.get(), &of.connections[0]->peer(), PoolOp::kResize, bytes, 0, &of.pool);
}

Status RemoteLink::make_mirror(size_t target, std::shared_ptr<Mirror>* mirror) {
  LinkTarget& of = *targets_[target];
  BONSAI_RETURN_IF_ERROR(Mirror::make(fabric_, of.state.name(), of.pool.region.bytes, &of.mirror));
  *mirror = of.mirror;
  return Status::OK();
}

void RemoteLink::close_all() {
  std::vector<PoolRequests::Opened> opened;
  for (const auto& target : targets_) {
    if (!target->connections.empty()) opened.push_back({target->client.get(), &target->connections[0]->peer()});
  }
  if (!opened.empty()) requests_->close(opened);
  for (const auto& target : targets_) target->connections.clear();
}

rdma::Traffic RemoteLink::traffic() const {
  rdma::Traffic all;
  for (const auto& lane : lanes_) {
    const std::lock_guard lock(lane->mutex);
    all += lane->worker->traffic();
  }
  return all;
}

size_t RemoteLink::connections() const {
  size_t all = 0;
  for (const auto& target : targets_) all += target->connections.size();
  return all;
}

}  // namespace bonsai::scale
