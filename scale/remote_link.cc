// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_link.h"

#include <mutex>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::scale {

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
  BONSAI_RETURN_IF_ERROR(RegisteredPool::make(fabric_, &pool_));
  for (size_t i = 0; i < options_.workers; ++i) {
    auto lane = std::make_unique<Lane>();
    BONSAI_RETURN_IF_ERROR(fabric_->make_worker(&lane->worker));
    lanes_.push_back(std::move(lane));
  }
  requests_.emplace(lanes_[0]->worker.get(), options_.limit_ms, fabric_->capabilities().text);
  connector_.emplace(fabric_, lanes_, options_.secret, options_.limit_ms);
  writes_.emplace(lanes_, pool_, *connector_, options_.limit_ms);
  reads_.emplace(*fabric_, lanes_, pool_, *connector_);
  return Status::OK();
}

RemoteLink::~RemoteLink() {
  close_all();
  for (const auto& lane : lanes_) static_cast<void>(lane->worker->poll());  // what was in flight ended with its peer
  if (reads_) reads_->clear();
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
    BONSAI_RETURN_IF_ERROR(connector_->connect(lanes_[lane]->worker.get(), *made->client, &peers[lane]));
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
    made->connections.push_back(std::make_unique<Connection>(&*made->credits));
    BONSAI_RETURN_IF_ERROR(connector_->open(made.get(), lane, std::move(peers[lane])));
  }
  made->state.note(TargetState::Event::kConfirmed);
  *target = targets_.size();
  targets_.push_back(std::move(made));
  return Status::OK();
}

// About a pool that is open.
Status RemoteLink::ask(LinkTarget* target, PoolOp op, uint64_t bytes, ServedPool* pool) {
  connector_->reconnect(target);
  if (!target->connections[0]->is_open()) {
    return Status::Unavailable(target->state.name() + " cannot be reached; see that its node runs, and retry");
  }
  return requests_->ask(target->client.get(), &target->connections[0]->peer(), op, bytes, 0, pool);
}

Status RemoteLink::release(size_t target, PoolOp op) {
  LinkTarget& left = *targets_[target];
  if (left.connections.empty()) return Status::OK();
  const Status status = ask(&left, op, 0, nullptr);
  left.state.note(TargetState::Event::kLeft, Status::Unavailable("nothing is read or written there any more"));
  left.connections.clear();
  return status;
}

Status RemoteLink::complete(size_t target) { return ask(targets_[target].get(), PoolOp::kComplete, 0, nullptr); }

Status RemoteLink::resize(size_t target, uint64_t bytes) {
  LinkTarget& of = *targets_[target];
  of.mirror.reset();
  BONSAI_RETURN_IF_ERROR(ask(&of, PoolOp::kResize, bytes, &of.pool));
  for (const auto& connection : of.connections) connection->set_region(of.pool.region);
  return Status::OK();
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
    const auto& connections = target->connections;
    if (connections.empty() || !connections[0]->is_open()) continue;
    opened.push_back({target->client.get(), &connections[0]->peer()});
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
