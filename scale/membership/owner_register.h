// SPDX-License-Identifier: Apache-2.0
// A node's register of one pool's owner: who owns it, and which requests are served. docs/nodes.md has the protocol.
//
// It is a pure state machine: it has no clock, file or connection. Its user carries out work() and reports the end.
//
//             fence: another session                        persisted()                  earlier_ended()
//   kIdle ------------------------------> kPersisting ------------------> kEnding ------------------------> kServing
//     | fence, resume: the same session                                      ^   fence, resume over a newer    |
//     +----------------------------------------------------------------------+---------- connection -----------+
//
// Guarantees
//   - Epochs rise by one take-over at a time: a fence names the epoch that its sender has seen, and is refused when
//     that is not the newest one. So a late or repeated fence never takes a pool back.
//   - Nobody is served before the record that names his session is durable, and before all earlier connections have
//     been ended. Nobody else is served from then on.
//   - No session gets the pool from another one before that session's last grant has run out on this node's clock, or
//     that session has left. A restarted node does not know when that grant was: it waits out a whole lease.
//   - The same session may go on at any time, also after its lease has run out, as long as nobody has replaced it.
//
// Times are of the node's clock (lease.h). Thread-safety: one caller at a time.
#ifndef BONSAI_SCALE_MEMBERSHIP_OWNER_REGISTER_H_
#define BONSAI_SCALE_MEMBERSHIP_OWNER_REGISTER_H_

#include <array>
#include <cstdint>

#include "scale/membership/lease.h"

namespace bonsai::scale::membership {

inline constexpr uint64_t kEpochMax = uint64_t{1} << 48;
// So far may a fence go beyond what it has seen (members of a group may lag), so that a forged one does not use them
// up.
inline constexpr uint64_t kEpochStepMax = uint64_t{1} << 20;

// One opening of a pool by one process: 128 random bits that the owner has drawn. Zeros: no session.
struct SessionId {
  std::array<uint64_t, 2> bits{};

  [[nodiscard]] bool is_nobody() const { return bits[0] == 0 && bits[1] == 0; }
  bool operator==(const SessionId&) const = default;
};

// The durable part of the register (page.h).
struct OwnerRecord {
  uint64_t epoch = 0;     // the newest one; 0: the pool never had an owner
  SessionId session;      // nobody: that owner has left
  uint64_t lease_ns = 0;  // its length; in range unless there never was an owner

  bool operator==(const OwnerRecord&) const = default;
};

// Over which connection a request of a session came. A node numbers its connections in the order of their making.
struct Sender {
  SessionId session;
  uint64_t epoch = 0;  // of the session; for a fence: the one that it asks for
  uint64_t connection = 0;
};

class OwnerRegister {
 public:
  enum class Answer : uint8_t {
    kGranted,    // the session owns the pool; `ns` is its lease
    kDone,       // the session has left
    kAgain,      // there is work to do first; send the request again
    kLeaseRuns,  // another session may be alive: come again in `ns`
    kDenied,     // served, but without a grant: a forced take-over waits until the lease has run out
    kReplaced,   // the newest epoch is `epoch`, and not the sender's
    kInvalid,    // out of range
  };
  struct Reply {
    Answer answer;
    uint64_t epoch;  // the newest one
    uint64_t ns = 0;
  };
  enum class Work : uint8_t { kNone, kPersist, kEndEarlier };

  // The node's process started at started_ns and found `stored`.
  OwnerRegister(const OwnerRecord& stored, uint64_t started_ns);
  // It found a pool without a record: someone may have a lease of lease_ns_max, the longest that the node grants.
  static OwnerRegister without_record(uint64_t started_ns, uint64_t lease_ns_max = kLeaseNsMax);

  // The sender wants to own the pool under epoch sender.epoch, knowing that the newest epoch is `seen`. `force`: while
  // another session's lease runs, that session gets no further grants. It keeps the pool if the sender does not come
  // again within another lease.
  Reply fence(const Sender& sender, uint64_t seen, uint64_t lease_ns, bool force, uint64_t now_ns);
  // An owner goes on over a new connection, after a lost one or after the node's restart.
  Reply resume(const Sender& sender, uint64_t now_ns);
  // The grant for an idle owner that requests one. The node also calls this after it has carried out a flush request,
  // and reports success only if the result is kGranted or kDenied: the owner may have been replaced meanwhile. kAgain:
  // resume first.
  Reply renew(const Sender& sender, uint64_t now_ns);
  // An owner that has answered its last read gives the pool back.
  Reply leave(const Sender& sender);

  // Whether a flush request of the sender is carried out. If not, it is not answered with success.
  [[nodiscard]] bool serves(const Sender& sender) const;

  // Work to do before anybody is served: make record() durable, or end all connections but served_connection() (a
  // target's queue pairs are destroyed; on shm no other process maps the pool any more).
  [[nodiscard]] Work work() const;
  [[nodiscard]] const OwnerRecord& record() const { return record_; }
  [[nodiscard]] uint64_t served_connection() const { return connection_; }
  // record() is durable. Requires: work() is kPersist.
  void persisted();
  // All connections but `connection` have been ended, and nothing of them will reach the pool any more. Ignored if
  // another one is to be served meanwhile.
  void earlier_ended(uint64_t connection);

  // Until when no other session gets the pool.
  [[nodiscard]] uint64_t lease_until_ns() const { return lease_until_ns_; }
  // Until when the owner gets no grants.
  [[nodiscard]] uint64_t denied_until_ns() const { return denied_until_ns_; }

 private:
  enum class Phase : uint8_t { kIdle, kPersisting, kEnding, kServing };

  [[nodiscard]] bool is_owner(const Sender& sender) const;
  [[nodiscard]] bool lease_runs(uint64_t now_ns) const;
  [[nodiscard]] Reply reply(Answer answer, uint64_t ns = 0) const { return {answer, record_.epoch, ns}; }
  Reply go_on(const Sender& sender, uint64_t now_ns);
  Reply grant(uint64_t now_ns);

  OwnerRecord record_;
  Phase phase_ = Phase::kIdle;
  uint64_t connection_ = 0;       // the one that is served, or will be
  uint64_t lease_until_ns_ = 0;   // of the last grant, to whichever session
  uint64_t denied_until_ns_ = 0;  // no grants until then
};

}  // namespace bonsai::scale::membership

#endif  // BONSAI_SCALE_MEMBERSHIP_OWNER_REGISTER_H_
