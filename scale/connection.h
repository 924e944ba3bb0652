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
#include "scale/leases.h"
#include "scale/mirror.h"
#include "scale/pool_requests.h"
#include "scale/spread.h"
#include "scale/target_state.h"
#include "scale/written_blocks.h"

namespace bonsai::scale {

// A worker of the fabric and the lock under which it is used.
struct Lane {
  base::YieldingMutex mutex{"link.worker"};
  std::unique_ptr<rdma::Worker> worker;
  uint64_t shared_postings = 0;  // lists that travelled beside one to another member of a group; under the mutex
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

// A target's connection over one lane, and its unanswered writes in posting order. The writes outlive a connection that
// ends: they are sent again over the next one, before anything else.
// Thread-safety: under the lane's mutex, but answered().
class Connection {
 public:
  // Closed. `credits`: of the target, for flush requests; outlives it.
  explicit Connection(Credits* credits) : credits_(*credits) {}

  // Requires: closed; the node has confirmed that nothing of earlier connections will arrive. `region`: the target's
  // bytes as this connection names them.
  void open(std::unique_ptr<rdma::RemotePersist> persist, const rdma::RemoteRegion& region);
  // Nothing of it is in flight any more; the lane's worker has been polled. Unanswered postings stay if `keep`.
  void close(bool keep);
  // For a member of a group that joins anew: what was posted before counts as answered, since nobody waits for it there
  // any more. Requires: closed, without `keep`.
  void begin_anew() { answered_.store(posted_, std::memory_order_release); }
  [[nodiscard]] bool is_open() const { return persist_ != nullptr; }
  // It is open, and no request has failed.
  [[nodiscard]] bool usable() const { return is_open() && persist_->peer().usable(); }

  // The number of openings. A list that names the peer of an earlier opening is not posted.
  [[nodiscard]] uint64_t openings() const { return openings_; }
  // Requires: open.
  [[nodiscard]] rdma::Peer& peer() { return persist_->peer(); }
  [[nodiscard]] const rdma::RemoteRegion& region() const { return region_; }
  // The pool was resized on its node.
  void set_region(const rdma::RemoteRegion& region) { region_ = region; }

  using Writes = std::span<const rdma::RemotePersist::Write>;
  // Requests posted together. A posting stays until it is answered.
  struct Posting {
    size_t ticket = 0;
    std::vector<WriteRange> ranges;
    std::vector<std::shared_ptr<std::byte>>
        bounced;  // memory that the writes are from, if it is not that of the ranges
  };
  // Posts the writes. *posting is to be given their ranges. Requires: open; nothing is to be sent again. Errors: Busy
  // (no more can be in flight, or the node's credits are used up), Unavailable.
  Status post(Writes writes, Posting** posting);
  // The number of the last posting; 0: none.
  [[nodiscard]] uint64_t posted() const { return posted_; }
  // It is open, and nothing is to be sent again.
  [[nodiscard]] bool is_whole() const { return is_open() && sent_ == posted_; }
  // The next posting that is to be sent again; null: none.
  [[nodiscard]] Posting* to_send_again() { return sent_ < posted_ ? &at(sent_ + 1) : nullptr; }
  // Sends it, as these writes. Errors: as post().
  Status send_again(Writes writes);
  // Ends the postings whose answers the worker's polls have seen, oldest first, up to the first that is unanswered.
  // Requires: open. Errors: of the first that failed: neither it nor a later one counts as answered.
  Status retire();
  // Reads a word of the target to `to`, unless such a READ is in flight: a connection whose other end is gone breaks by
  // it, and one to a node that is stopped does not. `keeps`: the memory of `to`. Requires: open.
  void look(const rdma::Slice& to, std::shared_ptr<std::byte> keeps, rdma::Worker* worker);
  // After an error of retire(): whether the node has refused the same posting before, over an earlier connection.
  [[nodiscard]] bool refused_again();
  // Whether all postings up to this number are durable. Any thread.
  [[nodiscard]] bool answered(uint64_t number) const { return number <= answered_.load(std::memory_order_acquire); }

 private:
  [[nodiscard]] Posting& at(uint64_t number) { return unanswered_[number % unanswered_.size()]; }
  Status begin(Writes writes, size_t* ticket);

  [[nodiscard]] bool sends_messages() const { return persist_->strategy() == rdma::PersistStrategy::kFlushAgent; }

  Credits& credits_;
  std::array<Posting, rdma::RemotePersist::kInFlightMax> unanswered_;  // by number; outlives what is in flight
  uint64_t posted_ = 0, sent_ = 0;                                     // the last; the last over this connection
  std::atomic<uint64_t> answered_{0};
  uint64_t refused_ = 0;  // the last that the node has refused
  uint64_t openings_ = 0;
  rdma::RemoteRegion region_;
  std::shared_ptr<std::byte> looked_to_;
  rdma::WorkList look_;
  std::unique_ptr<rdma::RemotePersist> persist_;  // the last member: what is in flight ends with it
};

class Group;

// One target of a link, or one member of a group.
struct LinkTarget {
  explicit LinkTarget(std::unique_ptr<PoolClient> made) : client(std::move(made)), state(client->name().text) {}

  // After an error of a request over the connection: notes if it has ended. Requires: the lane's mutex.
  void note_broken(size_t lane, const Status& why);

  // It alone.
  [[nodiscard]] std::span<LinkTarget* const> alone() const { return {&self_, 1}; }

  const std::unique_ptr<PoolClient> client;
  TargetState state;
  ServedPool pool;
  std::optional<Credits> credits;  // once it is opened
  std::shared_ptr<Mirror> mirror;  // its medium's; null: it has none
  CopyPlaces places;
  Spread spread;
  std::vector<std::unique_ptr<Connection>> connections;  // by lane; none: the pool was given back

  [[nodiscard]] bool is_member() const { return group.load(std::memory_order_acquire) != nullptr; }
  std::atomic<Group*> group{nullptr};        // null: a target alone
  std::atomic<uint64_t> reads_in_flight{0};  // bytes
  WrittenBlocks written;                     // while it joins
  WrittenBlocks scrubbed;                    // while it is compared (scrubber.h)
  std::atomic<uint64_t> copied_bytes{0};     // of it, since it began to join
  std::atomic<uint64_t> repaired_bytes{0};   // of it, by readers (mend.h) and the scrubber
  std::atomic<uint64_t> repairs{0};

  Leases* leases = nullptr;  // that its node's grants go to; null: none are kept, or not yet

  // Of the caller that makes the connections anew, or makes a request about the pool.
  base::YieldingMutex connecting{"link.connecting"};
  uint64_t attempt_due_ns = 0;  // when the next attempt may begin

 private:
  LinkTarget* const self_ = this;
};

// The members of a target, of one link: a target alone is one. They share a mirror, a spread, and what is noted.
using Members = std::span<LinkTarget* const>;

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_CONNECTION_H_
