// SPDX-License-Identifier: Apache-2.0
#include "scale/connector.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/probe.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kConnectPauseMs = 1;  // between two attempts to open
constexpr uint64_t kLastTryMsMax = 200;
// The bound of one attempt's waits: an outage counts no longer steps.
constexpr uint64_t kAttemptMsMax = base::BoundedWait::kWatchStepNsMax / base::kNsPerMs;
constexpr uint64_t kAttemptsMin = 4;                // fit in the limit
constexpr uint64_t kPauseNs = 10 * base::kNsPerMs;  // between attempts
// A target whose updates have failed is tried for at most a kLostShare-th of the time.
constexpr uint64_t kLostShare = 5;

base::Probe reconnected{"link.reconnected"};
base::Probe attempt_failed{"link.attempt_to_reconnect_failed"};
base::Probe given_up{"link.given_up"};

Status nobody(const PoolClient& client, const Status& why) {
  const TargetName& name = client.name();
  return Status::Unavailable(name.text + ": no node answers at " + name.node + " (" + std::string(why.message()) +
                             "); start bonsaid there, and see that both use the same folder or network");
}

}  // namespace

Connector::Connector(std::shared_ptr<rdma::Fabric> fabric, std::span<const std::unique_ptr<Lane>> lanes,
                     const rdma::Secret* secret, uint64_t limit_ms)
    : fabric_(std::move(fabric)),
      lanes_(lanes),
      secret_(secret),
      limit_ms_(limit_ms),
      attempt_ms_(std::min(std::max<uint64_t>(limit_ms / kAttemptsMin, 1), kAttemptMsMax)) {
  base::random_secret(std::as_writable_bytes(std::span(&session_, 1)));
}

Status Connector::try_to_connect(rdma::Worker* worker, const PoolClient& client, uint64_t limit_ms,
                                 std::unique_ptr<rdma::Peer>* peer) const {
  rdma::Hello own;
  own.node = client.node();
  own.session = session_;
  const std::string& address = client.name().node;
  return secret_ != nullptr ? secret_->connect(worker, address, own, limit_ms, peer)
                            : worker->connect(address, own, limit_ms, peer);
}

Status Connector::connect(rdma::Worker* worker, const PoolClient& client, std::unique_ptr<rdma::Peer>* peer,
                          uint64_t wait_ms) const {
  Status status;
  // A node that is just being started is waited for. After the limit it is looked for once more, since this process may
  // have been stopped.
  const uint64_t limit_ms = wait_ms != 0 ? wait_ms : limit_ms_;
  uint64_t left_ms = limit_ms;
  for (bool last = false; !last; base::sleep_ms(kConnectPauseMs)) {
    last = left_ms == 0;
    const uint64_t begin_ns = base::now_ns();
    status = try_to_connect(worker, client, last ? std::min(limit_ms, kLastTryMsMax) : left_ms, peer);
    if (!status.IsUnavailable()) return status;
    left_ms -= std::min(left_ms, (base::now_ns() - begin_ns) / base::kNsPerMs + kConnectPauseMs);
  }
  return nobody(client, status);
}

Status Connector::open(LinkTarget* target, size_t lane, std::unique_ptr<rdma::Peer> peer) const {
  std::unique_ptr<rdma::RemotePersist> persist;
  BONSAI_RETURN_IF_ERROR(rdma::RemotePersist::make(fabric_.get(), lanes_[lane]->worker.get(), std::move(peer),
                                                   target->pool.domain, &persist));
  target->connections[lane]->open(std::move(persist), target->pool.region);
  return Status::OK();
}

void Connector::reconnect(LinkTarget* target, bool gives_up) const {
  if (!target->state.is_apart() || !target->connecting.try_lock()) return;
  const std::lock_guard lock(target->connecting, std::adopt_lock);
  const uint64_t begin_ns = base::now_ns();
  if (!target->state.is_apart() || begin_ns < target->attempt_due_ns) return;
  const std::string& node = target->client->name().node;
  if (gives_up) static_cast<void>(outage_ns(node));
  const Status status = attempt(target, [target](PoolRequests* requests, rdma::Peer* peer, ServedPool* pool) {
    return resume(target, requests, peer, pool);
  });
  if (status.ok()) {
    reconnected.hit();
    end_outage(node);
    target->attempt_due_ns = 0;
    return target->state.note(TargetState::Event::kConfirmed);
  }
  target->state.note_attempt(status);
  if (target->client->replaced()) return target->state.note(TargetState::Event::kReplaced, status);
  attempt_failed.hit();
  const uint64_t end_ns = base::now_ns();
  target->attempt_due_ns = end_ns + kPauseNs;
  if (target->state.state() == TargetState::State::kLost) {
    target->attempt_due_ns += (kLostShare - 1) * (end_ns - begin_ns);
  } else if (gives_up && outage_ns(node) >= limit_ms_ * base::kNsPerMs) {
    given_up.hit();
    target->state.note(TargetState::Event::kGivenUp, status);
  }
}

// So long the node has been out of reach, as far as attempts have shown; it begins with the first. All its targets
// share it, so that they do not wait one after another.
uint64_t Connector::outage_ns(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  return outages_.try_emplace(node, "link.outage", limit_ms_).first->second.watch_ns();
}

void Connector::end_outage(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  outages_.erase(node);
}

void Connector::close(LinkTarget* target) const {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::lock_guard lock(lanes_[lane]->mutex);
    target->connections[lane]->close(/*keep=*/target->state.awaits_updates());
  }
}

// Asks over a worker of its own, since a node may take long to answer. The connection is kept until the lanes have
// theirs: a node closes the pool of an owner that has none.
Status Connector::ask_first(LinkTarget* target, const Ask& ask, std::unique_ptr<rdma::Worker>* worker,
                            std::unique_ptr<rdma::Peer>* peer) const {
  PoolClient* const client = target->client.get();
  BONSAI_RETURN_IF_ERROR(fabric_->make_worker(worker));
  const Status made = try_to_connect(worker->get(), *client, attempt_ms_, peer);
  if (!made.ok()) return made.IsUnavailable() ? nobody(*client, made) : made;
  PoolRequests requests(worker->get(), nullptr, attempt_ms_, fabric_->capabilities().text);
  ServedPool pool;
  const Status asked = ask(&requests, peer->get(), &pool);
  if (!asked.ok()) {
    peer->reset();  // and with it what it may still deliver
    static_cast<void>((*worker)->poll());
    return asked;
  }
  target->pool = pool;
  target->credits.emplace(pool.credits);
  if (target->leases != nullptr) target->leases->granted(target, client->grant());
  return Status::OK();
}

Status Connector::connect_anew(LinkTarget* target, const Ask& ask) const {
  close(target);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::lock_guard lock(lanes_[lane]->mutex);
    target->connections[lane]->begin_anew();
  }
  const Status status = attempt(target, ask);
  if (!status.ok()) close(target);
  return status;
}

Status Connector::resume(LinkTarget* target, PoolRequests* requests, rdma::Peer* peer, ServedPool* pool) {
  PoolClient* const client = target->client.get();
  BONSAI_RETURN_IF_ERROR(requests->ask(client, peer, PoolOp::kResume, 0, 0, pool));
  if (pool->region.bytes == target->pool.region.bytes && pool->domain == target->pool.domain) return Status::OK();
  return Status::Unavailable(client->name().text + ": the node serves another pool of that name now, of " +
                             std::to_string(pool->region.bytes) + " bytes; restore the pool there");
}

Status Connector::attempt(LinkTarget* target, const Ask& ask) const {
  close(target);
  target->client->renumber();
  std::unique_ptr<rdma::Worker> worker;
  std::unique_ptr<rdma::Peer> peer;
  BONSAI_RETURN_IF_ERROR(ask_first(target, ask, &worker, &peer));
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::lock_guard lock(lanes_[lane]->mutex);
    std::unique_ptr<rdma::Peer> made;
    BONSAI_RETURN_IF_ERROR(try_to_connect(lanes_[lane]->worker.get(), *target->client, attempt_ms_, &made));
    BONSAI_RETURN_IF_ERROR(open(target, lane, std::move(made)));
  }
  return Status::OK();
}

}  // namespace bonsai::scale
