// SPDX-License-Identifier: Apache-2.0
// This node's way to the pools of other nodes, over one fabric: the lanes and connections of all remote targets of one
// store, for any number of threads and coroutines.
//
// A lane is a worker of the fabric with a lock of its own and a connection to every target. The first lane carries
// requests about pools (pool_requests.h) and writes (write_lanes.h); the others carry reads (read_lanes.h), by thread,
// and writes to a spread range, by unit. A single lane carries everything.
//
// Bytes are named by target and offset. What is resident is in the target's mirror (mirror.h); all else is carried:
// read to memory of the link's pool, and written from there.
//
// Failure is a state of a target (target_state.h); other targets are not affected. Connections that have ended are made
// anew (connector.h), and updates and reads wait meanwhile. Every wait is bounded by limit_ms.
//
// Thread-safety: lanes: any thread. The rest: one caller, while nobody uses the target.
#ifndef BONSAI_SCALE_REMOTE_LINK_H_
#define BONSAI_SCALE_REMOTE_LINK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bonsai/options.h"
#include "bonsai/status.h"
#include "rdma/credentials.h"
#include "rdma/fabric.h"
#include "scale/connection.h"
#include "scale/connector.h"
#include "scale/group.h"
#include "scale/joiner.h"
#include "scale/lease_keeper.h"
#include "scale/leases.h"
#include "scale/pool_requests.h"
#include "scale/read_lanes.h"
#include "scale/registered_pool.h"
#include "scale/scrubber.h"
#include "scale/target_name.h"
#include "scale/write_lanes.h"

namespace bonsai::scale {

struct LinkOptions {
  static constexpr size_t kWorkersMax = kFabricWorkersMax;

  const rdma::Secret* secret = nullptr;  // null: the nodes are reached without one
  uint64_t limit_ms = 5'000;             // of each wait: for a connection, an answer, a fence
  size_t workers = 4;                    // 1 to kWorkersMax
  // So long a member of a group may be without a grant, before it is taken out; 0: 2 s, or half of limit_ms if that is
  // less. A node's restart fits in.
  uint64_t member_ms = 0;
  // Of the store, which the link keeps, on threads of its own; outlives the link. Null: none are kept.
  Leases* leases = nullptr;
};

class RemoteLink {
 public:
  // Errors: InvalidArgument (workers), those of Fabric::make_worker().
  static Status make(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options,
                     std::unique_ptr<RemoteLink>* link);
  // Gives the pools back, to all nodes at once: it waits for those that are silent no longer than for one.
  ~RemoteLink();
  RemoteLink(const RemoteLink&) = delete;
  RemoteLink& operator=(const RemoteLink&) = delete;

  // Connects to the target's node and takes the pool; *target is its number here. `bytes` and `mark` as in PoolRequest.
  // Errors: NotFound (kOpen: there is no such pool; the others as Mapping::open gives them on that node), Busy (it has
  // an owner that is alive), Unavailable (nobody answers there), InvalidArgument (secret).
  Status open(const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark, size_t* target,
              const TakeOver& take_over = {});
  // The page and the newest epoch of a pool, whoever owns it. Errors: NotFound (its node has no such pool; *epoch is
  // set), Unavailable (nobody answers there within member_ms), InvalidArgument (secret).
  Status status_of(const TargetName& name, uint64_t* epoch, VersionedPage* page) const;
  // Gives the target's pool a page, of the session's epoch. Errors: as PoolRequests::set_page().
  Status set_page(LinkTarget* target, const GroupPage& page, uint64_t version) const;
  // A member of a group that is not reached; *target is its number here. `other`: one that is, of the same size.
  Status add_absent(const TargetName& name, size_t other, size_t* target);
  // From now on the targets are the voters of a group, by number; `page` is in force, and members that it does not name
  // join when their nodes are back (joiner.h). Requires: the others were opened, and are used by nobody yet; all have
  // their mirror. Errors: NoSpace (no thread).
  Status make_group(std::vector<LinkTarget*> voters, const VersionedPage& page, const Group::Setup& setup,
                    std::function<void(const std::string& text)> note, Group** group);
  // No member of the group joins any more when it returns.
  void stop_joining(Group* group);
  // From now on the group is scrubbed, as its ScrubState says (scrubber.h). Errors: NoSpace (no thread).
  Status start_scrubbing(Group* group);
  // It is not scrubbed any more when it returns. No effect if it is not.
  void stop_scrubbing(Group* group);
  // Scrubber::scrub_now().
  Status scrub_now(Group* group) { return scrubber_->scrub_now(group); }
  // Gives the pool back.
  Status give_back(size_t target) { return release(target, PoolOp::kLeave); }
  // Gives the pool back and removes it from its node.
  Status remove(size_t target) { return release(target, PoolOp::kRemove); }
  // Makes the pool so large on its node. Requires: its mirror is not used any more.
  // Errors: those of open(), NoSpace; the pool may have been given back then.
  Status resize(size_t target, uint64_t bytes);
  // Gives a pool that was made by kCreateUnnamed its name; it stays this link's. Requires: as open().
  // Errors: InvalidArgument (it has one), Busy (the name is taken), IoError, Unavailable.
  Status complete(size_t target);

  [[nodiscard]] LinkTarget* target(size_t target) const { return targets_[target].get(); }
  [[nodiscard]] const ServedPool& pool(size_t target) const { return targets_[target]->pool; }
  // Why fences of the target fail; OK as long as none did.
  [[nodiscard]] Status status(size_t target) const { return targets_[target]->state.status(); }
  // Makes the mirror of a target, or of a group's members. Requires: once per target, and after resize().
  Status make_mirror(std::span<const size_t> members, std::shared_ptr<Mirror>* mirror);

  [[nodiscard]] WriteLanes& writes() { return *writes_; }
  [[nodiscard]] ReadLanes& reads() { return *reads_; }
  [[nodiscard]] uint64_t limit_ms() const { return options_.limit_ms; }
  // As LinkOptions, never 0.
  [[nodiscard]] uint64_t member_ms() const {
    return options_.member_ms != 0 ? options_.member_ms : std::min<uint64_t>(2'000, options_.limit_ms / 2 + 1);
  }

  // Requests of all threads since the link was made, except those for leases. Lists with one update for several members
  // of a group, which travel at once, are one round trip. Any thread.
  [[nodiscard]] rdma::Traffic traffic() const;
  // Requests for leases, likewise.
  [[nodiscard]] rdma::Traffic lease_traffic() const;
  // To nodes, of all lanes.
  [[nodiscard]] size_t connections() const;

 private:
  RemoteLink(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options)
      : fabric_(std::move(fabric)), options_(options) {}

  Status start();
  Status connect(LinkTarget* target, std::vector<std::unique_ptr<rdma::Peer>>* peers);
  Status open_connections(LinkTarget* target, std::vector<std::unique_ptr<rdma::Peer>>* peers);
  Status ask(LinkTarget* target, PoolOp op, uint64_t bytes, ServedPool* pool);
  Status release(size_t target, PoolOp op);
  void close_all();

  const std::shared_ptr<rdma::Fabric> fabric_;
  const LinkOptions options_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // fixed once made
  std::shared_ptr<RegisteredPool> pool_;
  std::optional<Connector> connector_;
  std::optional<PoolRequests> requests_;
  std::optional<WriteLanes> writes_;
  std::optional<ReadLanes> reads_;
  std::vector<std::unique_ptr<LinkTarget>> targets_;  // fixed once the store is open
  std::vector<std::unique_ptr<Group>> groups_;        // likewise
  std::optional<LeaseKeeper> keeper_;                 // its threads end before the targets
  std::optional<Joiner> joiner_;                      // likewise, and before the groups
  std::optional<Scrubber> scrubber_;                  // likewise
  // Targets whose requests to open were not answered in time. A later answer may come over another target's connection,
  // which would end if the answer found no memory.
  std::vector<std::unique_ptr<LinkTarget>> given_up_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REMOTE_LINK_H_
