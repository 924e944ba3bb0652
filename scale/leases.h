// SPDX-License-Identifier: Apache-2.0
// A store's right to answer reads: the leases of its remote targets (membership/lease.h). docs/nodes.md has the
// protocol.
//
// Guarantees: if valid() is true after a read, no other owner had opened the store when the read was done. Another
// owner must be given all targets, so one target whose lease runs is enough. Of a group another owner must be given all
// but fewer than `needed` members, so the leases of `needed` members are as good as one target's. This relies on the
// clock of this machine. After distrust_clock() valid() is false, so that each read asks: await() relies on the order
// of events alone.
//
// Thread-safety: any thread. A target is added and removed while nobody reads it.
#ifndef BONSAI_SCALE_LEASES_H_
#define BONSAI_SCALE_LEASES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/boot_clock.h"
#include "bonsai/status.h"
#include "scale/membership/lease.h"

namespace bonsai::scale {

class Leases {
 public:
  // A node's grant: it counts from the moment at which it was requested.
  struct Grant {
    uint64_t sent_ns = 0;  // base::boot_ns()
    uint64_t ns = 0;       // 0: none
    uint64_t sent_at = 0;  // now()
  };
  // A clock without time, of this process: higher after each beginning of await() than before.
  [[nodiscard]] static uint64_t now() { return now_.load(std::memory_order_acquire); }
  // Makes one attempt to get a grant of the target's node. Returns why there is none so far; OK: there may be one.
  using Renew = std::function<Status()>;
  // Names a target.
  using Key = const void*;

  // Whether what was read may be returned. Requires: the read is done. Cost: a load, and the quick clock.
  [[nodiscard]] bool valid() const {
    const uint64_t until_ns = until_ns_.load(std::memory_order_acquire);
    return base::quick_boot_ns() + base::kQuickBootErrorNsMax < until_ns;
  }
  // The clock of this machine may stand while others' run. Requires: no read was answered yet.
  void distrust_clock();

  // For a read after which valid() was false: gets a new grant. OK: what was read before the call may be returned.
  // Errors: Unavailable (another owner has the store, which is final; or no node has granted a lease within limit_ms).
  Status await(uint64_t limit_ms);

  void add(Key target, const Grant& grant, Renew renew);
  // These targets are members of one group from now on. Its lease is valid as long as those of `needed` of them that
  // were not removed. Requires: they were added.
  void make_group(std::span<const Key> members, size_t needed);
  // A target is a member of a group from now on; `members` are as of make_group(). It has no grant yet. No effect if it
  // was added.
  void join_group(Key target, std::span<const Key> members, size_t needed, Renew renew);
  // A grant without a length changes nothing.
  void granted(Key target, const Grant& grant);
  // When the target's last grant was requested; 0: never, or it was removed.
  [[nodiscard]] uint64_t granted_ns(Key target) const;
  // Another session owns the target's pool: no read is answered any more. `why`: for users.
  void end(Key target, const Status& why);
  // The target was given back, or its group is in force without it: its grants do not count any more.
  void remove(Key target);

 private:
  struct Member {
    explicit Member(Key key) : target(key) {}
    const Key target;
    Key group = target;  // the first member of its group
    size_t needed = 1;   // of its group
    membership::Lease lease{1, 1};
    uint64_t sent_ns = 0, sent_at = 0;  // of the last grant
    Renew renew;
  };
  [[nodiscard]] Member* find(Key target) const;
  void note(Member* member, const Grant& grant);
  void set_until();
  using Moment = uint64_t (*)(const Member& member);
  [[nodiscard]] uint64_t latest(Moment moment) const;
  [[nodiscard]] bool covers(uint64_t read_at) const;
  Status renew_all(uint64_t read_at, const std::function<void()>& after_each);

  static inline constinit std::atomic<uint64_t> now_{0};

  std::atomic<uint64_t> until_ns_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Member>> members_;
  bool clock_counts_ = true;
  bool ended_ = false;
  Status why_ended_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_LEASES_H_
