// SPDX-License-Identifier: Apache-2.0
// Keeps the leases of a link's targets: asks their nodes for grants three times in the length of a lease, and at once
// for readers whose lease has lapsed. The requests go over the first lane.
//
// Invariants
//   - A target has at most one such request under way. It is sent again over the same connection only when it was lost,
//     as far as can be known: so a node that is stopped for a minute finds a few.
//   - A member of a group that has not granted anything for member_ms is taken out of the group (group.h), if that may
//   be.
//   - Broken connections are made anew, on a second thread, so that a node that is away delays no other's grants. But
//     no target is given up: only those who wait do that (connector.h).
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_LEASE_KEEPER_H_
#define BONSAI_SCALE_LEASE_KEEPER_H_

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/traffic.h"
#include "scale/connection.h"
#include "scale/connector.h"
#include "scale/leases.h"
#include "scale/pool_requests.h"

namespace bonsai::scale {

class LeaseKeeper {
 public:
  // Requires: all outlive it. `member_ms`: as LinkOptions.
  LeaseKeeper(const Connector& connector, Lane* lane, Leases* leases, std::string fabric_text, uint64_t member_ms)
      : connector_(connector),
        member_ms_(member_ms),
        lane_(*lane),
        leases_(*leases),
        requests_(lane->worker.get(), &lane->mutex, kAnswerMsMax, std::move(fabric_text)) {}
  ~LeaseKeeper() { stop(); }

  // Errors: NoSpace (no thread).
  Status start();
  // Gives all targets up. Nobody reads them.
  void stop();

  // From now on the target's lease is kept. Requires: it has just been opened.
  void add(LinkTarget* target);
  // The target, a member of a group, is connected to again when it is apart, and taken out when it is late. Its lease
  // is not kept yet.
  void watch(LinkTarget* target);
  // The lease of a target that is watched is kept from now on, as that of a member of its group.
  void join_group(LinkTarget* target, std::span<const Leases::Key> members, size_t needed);
  // Requires: the caller holds target->connecting.
  void remove(LinkTarget* target);

  // Requests for grants, so far. Requires: the lane's mutex.
  [[nodiscard]] const rdma::Traffic& traffic() const { return requests_.renewals(); }

 private:
  static constexpr uint64_t kAnswerMsMax = 20;  // so long a caller waits for an answer, before it looks again

  enum class For : uint8_t { kReader, kThread };
  struct Round {
    base::Event woken;
    base::Thread thread;
  };
  void run(Round* round, bool of_apart);
  void look_at_member(LinkTarget* target);
  Status renew(LinkTarget* target, For whom);
  Status ask(LinkTarget* target);

  const Connector& connector_;
  const uint64_t member_ms_;
  Lane& lane_;
  Leases& leases_;
  PoolRequests requests_;
  std::mutex mutex_;
  std::vector<LinkTarget*> targets_;  // under mutex_
  std::atomic<bool> over_{false};
  // Of the first round's thread: members of groups that have not granted anything since.
  struct Ungranted {
    uint64_t granted_ns;
    base::BoundedWait wait;
  };
  std::map<LinkTarget*, Ungranted> ungranted_;
  std::array<Round, 2> rounds_;  // of the targets that have connections, and of those that are apart
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_LEASE_KEEPER_H_
