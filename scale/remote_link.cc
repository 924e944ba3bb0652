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
  requests_.emplace(lanes_[0]->worker.get(), &lanes_[0]->mutex, options_.limit_ms, fabric_->capabilities().text);
  connector_.emplace(fabric_, lanes_, options_.secret, options_.limit_ms);
  writes_.emplace(lanes_, pool_, *connector_, options_.limit_ms);
  reads_.emplace(*fabric_, lanes_, pool_, *connector_);
  if (options_.leases == nullptr) return Status::OK();
  keeper_.emplace(*connector_, lanes_[0].get(), options_.leases, fabric_->capabilities().text, member_ms());
  return keeper_->start();
}

RemoteLink::~RemoteLink() {
  if (scrubber_) scrubber_->stop();
  if (joiner_) joiner_->stop();
  if (keeper_) keeper_->stop();
  close_all();
  for (const auto& lane : lanes_) static_cast<void>(lane->worker->poll());  // what was in flight ended with its peer
  if (reads_) reads_->clear();
}

Status RemoteLink::open(const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark, size_t* target,
                        const TakeOver& take_over) {
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
  // Peers are made and closed under their worker's lock: the lease keeper uses the first lane meanwhile.
  const auto close = [&] {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      const std::lock_guard lock(lanes_[lane]->mutex);
      if (lane < made->connections.size()) made->connections[lane]->close(/*keep=*/false);
      peers[lane].reset();
      static_cast<void>(lanes_[lane]->worker->poll());
    }
  };
  Status status = connect(made.get(), &peers);
  if (status.ok())
    status = requests_->take(made->client.get(), peers[0].get(), op, bytes, mark, &made->pool, take_over);
  if (status.ok()) status = open_connections(made.get(), &peers);
  if (!status.ok()) {
    close();
    if (status.IsUnavailable()) given_up_.push_back(std::move(made));
    return status;
  }
  made->state.note(TargetState::Event::kConfirmed);
  *target = targets_.size();
  targets_.push_back(std::move(made));
  if (keeper_) keeper_->add(targets_.back().get());
  return Status::OK();
}

Status RemoteLink::connect(LinkTarget* target, std::vector<std::unique_ptr<rdma::Peer>>* peers) {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::lock_guard lock(lanes_[lane]->mutex);
    BONSAI_RETURN_IF_ERROR(connector_->connect(lanes_[lane]->worker.get(), *target->client, &(*peers)[lane]));
  }
  return Status::OK();
}

Status RemoteLink::open_connections(LinkTarget* target, std::vector<std::unique_ptr<rdma::Peer>>* peers) {
  target->credits.emplace(target->pool.credits);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::lock_guard lock(lanes_[lane]->mutex);
    target->connections.push_back(std::make_unique<Connection>(&*target->credits));
    BONSAI_RETURN_IF_ERROR(connector_->open(target, lane, std::move((*peers)[lane])));
  }
  return Status::OK();
}

// About a pool that is open. Requires: the caller holds target->connecting.
Status RemoteLink::ask(LinkTarget* target, PoolOp op, uint64_t bytes, ServedPool* pool) {
  if (target->connections.empty() || !target->connections[0]->is_open()) {
    return Status::Unavailable(target->state.name() + " cannot be reached; see that its node runs, and retry");
  }
  return requests_->ask(target->client.get(), &target->connections[0]->peer(), op, bytes, 0, pool);
}

Status RemoteLink::release(size_t target, PoolOp op) {
  LinkTarget& left = *targets_[target];
  if (left.connections.empty()) return Status::OK();
  connector_->reconnect(&left);
  const std::lock_guard lock(left.connecting);
  const Status status = ask(&left, op, 0, nullptr);
  if (keeper_) keeper_->remove(&left);
  left.state.note(TargetState::Event::kLeft, Status::Unavailable("nothing is read or written there any more"));
  connector_->close(&left);
  left.connections.clear();
  return status;
}

Status RemoteLink::complete(size_t target) {
  LinkTarget& of = *targets_[target];
  connector_->reconnect(&of);
  const std::lock_guard lock(of.connecting);
  return ask(&of, PoolOp::kComplete, 0, nullptr);
}

Status RemoteLink::resize(size_t target, uint64_t bytes) {
  LinkTarget& of = *targets_[target];
  of.mirror.reset();
  connector_->reconnect(&of);
  const std::lock_guard lock(of.connecting);
  BONSAI_RETURN_IF_ERROR(ask(&of, PoolOp::kResize, bytes, &of.pool));
  for (const auto& connection : of.connections) connection->set_region(of.pool.region);
  return Status::OK();
}

Status RemoteLink::make_mirror(std::span<const size_t> members, std::shared_ptr<Mirror>* mirror) {
  const LinkTarget& first = *targets_[members.front()];
  BONSAI_RETURN_IF_ERROR(Mirror::make(fabric_, first.state.name(), first.pool.region.bytes, mirror));
  for (const size_t member : members) targets_[member]->mirror = *mirror;
  return Status::OK();
}

Status RemoteLink::status_of(const TargetName& name, uint64_t* epoch, VersionedPage* page) const {
  std::unique_ptr<PoolClient> client;
  BONSAI_RETURN_IF_ERROR(PoolClient::make(*fabric_, name, &client));
  std::unique_ptr<rdma::Worker> worker;
  std::unique_ptr<rdma::Peer> peer;
  BONSAI_RETURN_IF_ERROR(fabric_->make_worker(&worker));
  BONSAI_RETURN_IF_ERROR(connector_->connect(worker.get(), *client, &peer, member_ms()));
  PoolRequests requests(worker.get(), nullptr, member_ms(), fabric_->capabilities().text);
  const Status status = requests.status_of(client.get(), peer.get(), epoch, page);
  peer.reset();  // and with it what it may still deliver
  static_cast<void>(worker->poll());
  return status;
}

Status RemoteLink::set_page(LinkTarget* target, const GroupPage& page, uint64_t version) const {
  const std::lock_guard lock(target->connecting);
  if (target->connections.empty() || !target->connections[0]->is_open()) {
    return Status::Unavailable(target->state.name() + " cannot be reached; see that its node runs, and retry");
  }
  PoolRequests requests(lanes_[0]->worker.get(), &lanes_[0]->mutex, member_ms(), fabric_->capabilities().text);
  return requests.set_page(target->client.get(), &target->connections[0]->peer(), page, version);
}

Status RemoteLink::add_absent(const TargetName& name, size_t other, size_t* target) {
  std::unique_ptr<PoolClient> client;
  BONSAI_RETURN_IF_ERROR(PoolClient::make(*fabric_, name, &client));
  auto made = std::make_unique<LinkTarget>(std::move(client));
  made->credits.emplace(0);
  made->pool = targets_[other]->pool;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    made->connections.push_back(std::make_unique<Connection>(&*made->credits));
  }
  made->leases = options_.leases;
  made->state.leave_page();
  *target = targets_.size();
  targets_.push_back(std::move(made));
  return Status::OK();
}

Status RemoteLink::make_group(std::vector<LinkTarget*> voters, const VersionedPage& page, const Group::Setup& setup,
                              std::function<void(const std::string& text)> note, Group** group) {
  const std::vector<Leases::Key> keys(voters.begin(), voters.end());
  const size_t grants = page.page.rule().grants();
  Group::Actions actions;
  actions.set_page = [this](LinkTarget* to, const GroupPage& next, uint64_t version) {
    return set_page(to, next, version);
  };
  actions.close = [this](LinkTarget* member) { connector_->close(member); };
  actions.note = std::move(note);
  actions.watch = [this](LinkTarget* member) {
    if (keeper_) keeper_->watch(member);
  };
  actions.entered = [this, keys, grants](LinkTarget* member) {
    if (keeper_) keeper_->join_group(member, keys, grants);
  };
  actions.left = [this](LinkTarget* member) {
    if (options_.leases != nullptr) options_.leases->remove(member);
    joiner_->wake();
  };
  if (!joiner_) {
    joiner_.emplace(*connector_, &*writes_, &*reads_, member_ms(), [this](LinkTarget* member) {
      const std::lock_guard lock(member->connecting);
      return ask(member, PoolOp::kComplete, 0, nullptr);
    });
    BONSAI_RETURN_IF_ERROR(joiner_->start());
  }
  if (options_.leases != nullptr) options_.leases->make_group(keys, grants);
  groups_.push_back(std::make_unique<Group>(std::move(voters), page, setup, std::move(actions)));
  *group = groups_.back().get();
  joiner_->add(*group);
  return Status::OK();
}

void RemoteLink::stop_joining(Group* group) {
  if (joiner_) joiner_->remove(group);
}

Status RemoteLink::start_scrubbing(Group* group) {
  if (!scrubber_) {
    scrubber_.emplace(&*writes_, &*reads_, member_ms());
    BONSAI_RETURN_IF_ERROR(scrubber_->start());
  }
  scrubber_->add(group);
  return Status::OK();
}

void RemoteLink::stop_scrubbing(Group* group) {
  if (scrubber_) scrubber_->remove(group);
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
    all.round_trips -= lane->shared_postings;
    if (keeper_ && lane == lanes_.front()) all = all - keeper_->traffic();
  }
  return all;
}

rdma::Traffic RemoteLink::lease_traffic() const {
  const std::lock_guard lock(lanes_[0]->mutex);
  return keeper_ ? keeper_->traffic() : rdma::Traffic();
}

size_t RemoteLink::connections() const {
  size_t all = 0;
  for (const auto& target : targets_) all += target->connections.size();
  return all;
}

}  // namespace bonsai::scale
