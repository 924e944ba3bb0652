// SPDX-License-Identifier: Apache-2.0
// State that the lanes of a link share: a lane, one target's connection, and the target with all its connections.
#ifndef BONSAI_SCALE_CONNECTION_H_
#define BONSAI_SCALE_CONNECTION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/fabric.h"
#include "rdma/remote_persist.h"
#include "scale/copy_places.h"
#include "scale/credits.h"
#include "scale/mirror.h"
#include "scale/pool_requests.h"
#include "scale/spread.h"
#include "scale/target_state.h"

namespace bonsai::scale {

// A worker of the fabric and the lock under which it is used.
struct Lane {
  base::YieldingMutex mutex{"link.worker"};
  std::unique_ptr<rdma::Worker> worker;
};

// Bytes of one target that are to be written: from the mirror as they are when they are posted, or from a copy.
struct WriteRange {
  uint64_t offset, bytes;
  bool apart;                                          // it holds words whose order counts: it joins no other
  std::shared_ptr<std::byte> copy = nullptr;           // null: resident
  std::shared_ptr<CopyPlaces::Place> place = nullptr;  // all of where the copy goes

  // Takes the first n bytes out of the range.
  WriteRange take_first(uint64_t n);
};

// A target's connection over one lane, and its unanswered writes in posting order.
// Thread-safety: under the lane's mutex, but answered().
class Connection {
 public:
  // `credits`: of the target, for flush requests; outlives it.
  Connection(std::unique_ptr<rdma::RemotePersist> persist, Credits* credits)
      : credits_(*credits), persist_(std::move(persist)) {}

  [[nodiscard]] rdma::Peer& peer() { return persist_->peer(); }

  // Requests posted together. A posting stays until it is answered, or else until the connection is closed.
  struct Posting {
    size_t ticket = 0;
    std::vector<WriteRange> ranges;
    std::vector<std::shared_ptr<std::byte>>
        bounced;  // memory that the writes are from, if it is not that of the ranges
  };
  // Posts the writes. *posting is to be given their ranges. Errors: Busy (no more can be in flight, or the
  // node's credits are used up), Unavailable.
  Status post(std::span<const rdma::RemotePersist::Write> writes, Posting** posting);
  // The number of the last posting; 0: none.
  [[nodiscard]] uint64_t posted() const { return posted_; }
  // Ends the postings whose answers the worker's polls have seen, oldest first, up to the first that is unanswered.
  // Errors: of the first that failed: neither it nor a later one ever counts as answered.
  Status retire();
  // Whether all postings up to this number are durable. Any thread.
  [[nodiscard]] bool answered(uint64_t number) const { return number <= answered_.load(std::memory_order_acquire); }

 private:
  [[nodiscard]] Posting& at(uint64_t number) { return unanswered_[number % unanswered_.size()]; }

  [[nodiscard]] bool sends_messages() const { return persist_->strategy() == rdma::PersistStrategy::kFlushAgent; }

  Credits& credits_;
  std::array<Posting, rdma::RemotePersist::kInFlightMax> unanswered_;  // by number; outlives what is in flight
  uint64_t posted_ = 0;
  std::atomic<uint64_t> answered_{0};
  std::unique_ptr<rdma::RemotePersist> persist_;
};

// One target of a link.
struct LinkTarget {
  explicit LinkTarget(std::unique_ptr<PoolClient> made) : client(std::move(made)), state(client->name().text) {}

  // After an error of a request over the connection. Whether the connection has ended; then the target is lost.
  // Requires: the lane's mutex.
  bool note_lost(size_t lane, const Status& why);

  const std::unique_ptr<PoolClient> client;
  TargetState state;
  ServedPool pool;
  std::optional<Credits> credits;  // once it is opened
  std::shared_ptr<Mirror> mirror;  // its medium's; null: it has none
  CopyPlaces places;
  Spread spread;
  std::vector<std::unique_ptr<Connection>> connections;  // by lane; none: the pool was given back
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_CONNECTION_H_
