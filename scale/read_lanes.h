// SPDX-License-Identifier: Apache-2.0
// The reads of a link, as base::FarReads has them. A thread reads over a lane of its own, if there are enough; READs
// are posted when they are begun.
//
// A read that is refused here, or is given up, fails nothing else. Its memory is in use until it has ended. Pieces that
// a connection has left unread are read again over the next one; their reader waits until it is made (connector.h). Of
// a group they are read from another member. A reading goes to the member that has the fewest bytes to deliver.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_READ_LANES_H_
#define BONSAI_SCALE_READ_LANES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/nvm/far_reads.h"
#include "scale/connection.h"
#include "scale/connector.h"
#include "scale/registered_pool.h"

namespace bonsai::scale {

class ReadLanes {
 public:
  using Piece = base::FarReads::Piece;

  // Requires: fabric, lanes and connector outlive it.
  ReadLanes(const rdma::Fabric& fabric, std::span<const std::unique_ptr<Lane>> lanes,
            std::shared_ptr<RegisteredPool> pool, const Connector& connector)
      : fabric_(fabric), lanes_(lanes), pool_(std::move(pool)), connector_(connector), reads_(lanes.size()) {}

  [[nodiscard]] base::FarReads::Memory memory(size_t bytes) { return pool_->take(bytes); }
  // Requires: the list of members outlives the reading.
  [[nodiscard]] uint64_t begin(Members members, std::span<const Piece> pieces, std::shared_ptr<const void> holder);
  [[nodiscard]] uint64_t begin(LinkTarget* target, std::span<const Piece> pieces, std::shared_ptr<const void> holder) {
    return begin(target->alone(), pieces, std::move(holder));
  }
  [[nodiscard]] bool ended(uint64_t ticket, Status* status);
  void forget(uint64_t ticket);
  // Lets go of forgotten reads that have ended, as far as their lanes are free.
  void settle();

  // Lets go of all memory. Requires: all connections are closed, and no other call is in progress.
  void clear() { reads_.clear(); }

 private:
  struct List {
    std::unique_ptr<rdma::WorkList> list;
    uint64_t bytes;
    uint64_t base;  // of the target's bytes, as the list's connection names them
  };
  // The reads of one ticket.
  struct Reading {
    Members members;
    LinkTarget* target;  // that it goes to
    uint64_t bytes = 0;  // of all pieces
    std::vector<List> lists;
    size_t posted = 0;  // of them
    std::shared_ptr<const void> holder;
    bool forgotten = false;
    Status refused = {};            // why some were not posted
    uint64_t opening = 0;           // of the connection that the lists name which are not posted
    std::vector<Piece> apart = {};  // that wait for a connection
    bool was_refused = false;       // by the node, once
    bool was_lost = false;          // there was an attempt to connect to a target whose updates have failed
  };
  // The reads of one lane; under its mutex.
  struct LaneReads {
    std::map<uint64_t, Reading> readings;  // by ticket, which also says the lane
    uint64_t tickets = 0;
    std::vector<std::unique_ptr<rdma::WorkList>> spare_lists;  // empty ones, at most kSpareListsMax
  };

  [[nodiscard]] size_t lane_of_caller() const;
  static void choose(size_t lane, Reading* reading);
  static void move_to(LinkTarget* target, Reading* reading);
  [[nodiscard]] rdma::Slice slice_to(const LinkTarget& target, std::byte* to, uint64_t n) const;
  void add_all(size_t lane, Reading* reading, std::span<const Piece> pieces);
  void add(LaneReads* reads, Reading* reading, Connection* connection, const Piece& piece, const rdma::Region** last);
  static void put_off(Reading* reading, size_t list);
  void withdraw(size_t lane, Reading* reading);
  [[nodiscard]] bool goes_on(size_t lane, Reading* reading, Status* status);
  static void add_read(LaneReads* reads, Reading* reading, Connection* connection, uint64_t from,
                       const rdma::Slice& to);
  static void post(const Lane& lane, Reading* reading);
  static void end(LaneReads* reads, std::map<uint64_t, Reading>::iterator at);
  static void drop_forgotten(LaneReads* reads);

  const rdma::Fabric& fabric_;
  const std::span<const std::unique_ptr<Lane>> lanes_;
  const std::shared_ptr<RegisteredPool> pool_;
  const Connector& connector_;
  std::vector<LaneReads> reads_;  // by lane
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_READ_LANES_H_
