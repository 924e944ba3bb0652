// SPDX-License-Identifier: Apache-2.0
// A client's side of the requests about pools of other nodes (pool_wire.h): sends them and waits for the answers.
//
//   PoolClient   one pool of one node: its name, its session, and registered memory for its request and the answer
//   PoolRequests the requests of all pools of a link, over one worker
//
// Every wait is bounded by limit_ms. The bound begins anew at each sign that the node is at work on the request, for at
// most an hour.
//
// Thread-safety: one caller at a time for each client; PoolRequests: any thread, if it has the worker's mutex.
#ifndef BONSAI_SCALE_POOL_REQUESTS_H_
#define BONSAI_SCALE_POOL_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"
#include "rdma/remote_persist.h"
#include "rdma/traffic.h"
#include "scale/leases.h"
#include "scale/membership/owner_register.h"
#include "scale/pool_wire.h"
#include "scale/target_name.h"

namespace bonsai::scale {

// The lease that an owner requests. An owner that is dead keeps the pool from others for that long.
inline constexpr uint64_t kOwnerLeaseNs = 750'000'000;

// A node's answer about a pool that it opened.
struct ServedPool {
  rdma::RemoteRegion region;
  rdma::RemoteDomain domain = rdma::RemoteDomain::kUnknown;
  bool emulated = true;
  uint64_t credits = 0;  // of flush requests: as PoolAnswer
  std::string text;      // e.g. "tmpfs (emulated NVM), flush clwb, domain ADR, over shm"
  VersionedPage page;    // that it had when it was opened
};

class PoolClient {
 public:
  // Errors: those of Fabric::register_region().
  static Status make(rdma::Fabric& fabric, const TargetName& name, std::unique_ptr<PoolClient>* client);

  [[nodiscard]] const TargetName& name() const { return name_; }

  // The number by which the node identifies the connections that were made together (Hello::node; attachments.h).
  [[nodiscard]] uint32_t node() const { return node_; }
  // Connections that are made from now on have another number. Requires: all earlier ones are closed.
  void renumber();
  // The node has answered that another session owns the pool now. It is final.
  [[nodiscard]] bool replaced() const { return replaced_; }
  // The node does not serve this session over the connection of the last request: PoolOp::kResume.
  [[nodiscard]] bool is_to_resume() const { return verdict_ == OwnerVerdict::kAgain; }
  // The session's; before there is one, the newest that is known.
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  // The last answer's.
  [[nodiscard]] Leases::Grant grant() const {
    return {sent_ns_, verdict_ == OwnerVerdict::kGranted ? owner_ns_ : 0, sent_at_};
  }

 private:
  friend class PoolRequests;
  // The layout of the registered memory.
  struct Exchange {
    PoolRequest request;
    PoolAnswer answer;
  };
  explicit PoolClient(TargetName name);
  [[nodiscard]] Exchange& exchange() const { return *reinterpret_cast<Exchange*>(memory_->data()); }
  [[nodiscard]] uint64_t answer_word(size_t offset) const;
  [[nodiscard]] bool answered() const;

  const TargetName name_;
  std::unique_ptr<rdma::RegisteredMemory> memory_;
  rdma::WorkList list_;         // a request that was given up is pending until its connection is closed
  rdma::Peer* peer_ = nullptr;  // where the request goes
  uint32_t node_ = 0;
  bool replaced_ = false;
  bool forces_ = false;    // it takes the pool from an owner that is alive
  bool renewing_ = false;  // the last request is kRenew, and an answer to it may come
  uint64_t sent_ns_ = 0;   // when the last request was written
  uint64_t sent_at_ = 0;   // the same, as Leases::now()
  uint64_t tokens_ = 0;
  membership::SessionId session_;
  uint64_t epoch_ = 0;         // the session's; before it has one, the newest that is known
  uint64_t wanted_epoch_ = 0;  // that a new session's is at least
  GroupPage page_;             // of a request kPage
  // The owner's fields of the last answer (PoolAnswer).
  OwnerVerdict verdict_ = OwnerVerdict::kNone;
  uint64_t newest_epoch_ = 0, owner_ns_ = 0;
};

// An opening that takes an existing pool from an owner that is alive.
struct TakeOver {
  bool wanted = false;
  std::function<void(const std::string& text)> note = nullptr;  // is told, once, from whom
  uint64_t epoch = 0;  // the new owner's is that one at least: that of all members of a group
};

class PoolRequests {
 public:
  // Requires: worker and mutex outlive it. `mutex`: of the worker's users; null: there is no other. `fabric_text`: of
  // the answers' text.
  PoolRequests(rdma::Worker* worker, base::YieldingMutex* mutex, uint64_t limit_ms, std::string fabric_text)
      : worker_(*worker), mutex_(mutex), limit_ms_(limit_ms), fabric_text_(std::move(fabric_text)) {}

  // Sends a request to the node at the other end of `peer`, after an earlier one has left. `bytes` and `mark` as in
  // PoolRequest. *pool (may be null) is set on success. Errors: those that the node answered; Unavailable (no answer:
  // the request may be in flight until the peer is closed, and may be carried out).
  Status ask(PoolClient* client, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark, ServedPool* pool);
  // ask() for the requests that open a pool, as a new session. Waits out the lease of an owner that is silent. Errors:
  // also Busy (the owner is alive: it has renewed its lease meanwhile; or it maps the pool on its node).
  Status take(PoolClient* client, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark, ServedPool* pool,
              const TakeOver& take_over = {});

  // The pool's page and newest epoch (PoolOp::kStatus). Errors: NotFound (no such pool; *epoch is set), as ask().
  Status status_of(PoolClient* client, rdma::Peer* peer, uint64_t* epoch, VersionedPage* page);
  // Gives the caller's pool a page, of the session's epoch, durably. Errors: as ask(); the page may be there then.
  Status set_page(PoolClient* client, rdma::Peer* peer, const GroupPage& page, uint64_t version);

  // Asks for a grant, unless a request for one is under way, and waits for its answer. Errors: Unavailable (none yet,
  // or the connection has ended), Busy (the client was replaced).
  Status renew(PoolClient* client, rdma::Peer* peer);
  // Requests of renew(), so far. Requires: the mutex.
  [[nodiscard]] const rdma::Traffic& renewals() const { return renewals_; }

  struct Opened {
    PoolClient* client;
    rdma::Peer* peer;
  };
  // Gives pools back, to all nodes at once, so that many silent nodes take as long as one. A node that does not answer
  // closes the pool when it finds this node gone.
  void close(std::span<const Opened> pools);

 private:
  Status write(PoolClient* client, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark);
  Status await(std::span<PoolClient* const> clients);
  Status poll_until(const std::function<bool()>& ready) const;
  void await_earlier(const PoolClient& client, const rdma::Peer& peer) const;
  Status read_answer(PoolClient* client, ServedPool* pool) const;
  [[nodiscard]] std::unique_lock<base::YieldingMutex> lock() const;

  rdma::Worker& worker_;
  base::YieldingMutex* const mutex_;
  const uint64_t limit_ms_;
  const std::string fabric_text_;
  rdma::Traffic renewals_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_POOL_REQUESTS_H_
