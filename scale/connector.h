// SPDX-License-Identifier: Apache-2.0
// Makes the connections of a link's targets, and makes them anew when they have ended, without reopening the pool.
//
// Invariants
//   - Nothing is posted to a target between the end of a connection and the confirmation of its node: that the pool is
//     still this session's, that all earlier connections have ended, and that nothing of them will arrive.
//   - All connections of a target end and begin together.
//   - No thread of its own: whoever waits for a silent target makes the attempts, one caller at a time. When its node
//     has been out of reach for limit_ms, its updates have failed for good. Later readers try again now and then.
//   - A lane is locked only while its own connection is closed or made, when the node has just answered. So other
//     targets go on.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_CONNECTOR_H_
#define BONSAI_SCALE_CONNECTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/credentials.h"
#include "rdma/fabric.h"
#include "scale/connection.h"
#include "scale/pool_requests.h"

namespace bonsai::scale {

class Connector {
 public:
  // Requires: lanes and secret outlive it. `secret`: null: the nodes are reached without one. `limit_ms`: of each wait.
  Connector(std::shared_ptr<rdma::Fabric> fabric, std::span<const std::unique_ptr<Lane>> lanes,
            const rdma::Secret* secret, uint64_t limit_ms);

  // Connects the worker to the client's node, and waits for one that is being started, for `wait_ms`; 0: limit_ms.
  // Requires: the worker's lock.
  // Errors: Unavailable (nobody answers), InvalidArgument (secret).
  Status connect(rdma::Worker* worker, const PoolClient& client, std::unique_ptr<rdma::Peer>* peer,
                 uint64_t wait_ms = 0) const;
  // Makes the target's connection over a lane. Requires: the lane's mutex; the connection is closed.
  Status open(LinkTarget* target, size_t lane, std::unique_ptr<rdma::Peer> peer) const;

  // Makes one attempt, if the target is apart, one is due, and nobody else makes one. It takes no longer than a step of
  // BoundedWait::watch_ns(), if the node does not report that it is at work. Requires: the caller holds no lane's
  // mutex. Lets siblings run. `gives_up`: the caller waits, so that time without an answer counts towards limit_ms.
  void reconnect(LinkTarget* target, bool gives_up = true) const;
  // Ends all connections. Their requests are complete then, and no byte of them arrives here any more.
  void close(LinkTarget* target) const;

  // A request about a pool, over a connection that was just made.
  using Ask = std::function<Status(PoolRequests* requests, rdma::Peer* peer, ServedPool* pool)>;
  // Makes the connections of a member of a group that is out, in one attempt: all earlier ones end first, and ask() has
  // to confirm it, by a request that makes the pool this session's. What was unanswered is forgotten. Requires: the
  // caller holds target->connecting and no lane's mutex; its state is kConnecting. Errors: those of ask(), Unavailable.
  Status connect_anew(LinkTarget* target, const Ask& ask) const;

 private:
  Status try_to_connect(rdma::Worker* worker, const PoolClient& client, uint64_t limit_ms,
                        std::unique_ptr<rdma::Peer>* peer) const;
  static Status resume(LinkTarget* target, PoolRequests* requests, rdma::Peer* peer, ServedPool* pool);
  Status attempt(LinkTarget* target, const Ask& ask) const;
  Status ask_first(LinkTarget* target, const Ask& ask, std::unique_ptr<rdma::Worker>* worker,
                   std::unique_ptr<rdma::Peer>* peer) const;
  [[nodiscard]] uint64_t outage_ns(const std::string& node) const;
  void end_outage(const std::string& node) const;

  const std::shared_ptr<rdma::Fabric> fabric_;
  const std::span<const std::unique_ptr<Lane>> lanes_;
  const rdma::Secret* const secret_;
  const uint64_t limit_ms_, attempt_ms_;
  uint64_t session_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::string, base::BoundedWait> outages_;  // by node, since the first attempt
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_CONNECTOR_H_
