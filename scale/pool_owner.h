// SPDX-License-Identifier: Apache-2.0
// The owner of a pool: the node's register of it (membership/owner_register.h) with its clock, and its durable record
// in a file next to the pool, FOLDER/.POOL.owner (membership/page.h). docs/nodes.md has the protocol.
//
//   PoolOwner    the owner of one pool
//   PoolOwners   those of a folder, shared by all servers of a process that serve it
//   take_over_record()   for a store that opens the pool's file itself
//
// The process that has the pool's file locked obeys the record, and only it writes the record. The register outlives
// the lock: while the record agrees with the register, the time of the last grant is known.
//
// Thread-safety: all methods; load(), begin_new(), take_over(), persist() and write() by one caller at a time, the one
// that holds the lock of the pool's file.
#ifndef BONSAI_SCALE_POOL_OWNER_H_
#define BONSAI_SCALE_POOL_OWNER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "bonsai/status.h"
#include "scale/group_page.h"
#include "scale/membership/owner_register.h"
#include "scale/membership/page.h"

namespace bonsai::scale {

// The longest lease that a node grants. For that long after the node's start, a pool without a record gets no owner.
inline constexpr uint64_t kServedLeaseNsMax = 2'000'000'000;

class PoolOwner {
 public:
  using Register = membership::OwnerRegister;
  using Sender = membership::Sender;

  // `started_ns`: when the node's process started (base::boot_ns()).
  PoolOwner(const std::string& folder, const std::string& pool, uint64_t started_ns);

  [[nodiscard]] static std::string record_path(const std::string& folder, const std::string& pool);
  // The owner in the record, as holder(); empty also if the record cannot be read. For those who do not have the pool:
  // changes nothing.
  [[nodiscard]] static std::string recorded_holder(const std::string& folder, const std::string& pool);

  // The newest epoch and the page of the record; zeros without one. As recorded_holder(). Errors: as load().
  static Status recorded_page(const std::string& folder, const std::string& pool, uint64_t* epoch, VersionedPage* page);

  // Reads the record, and repairs it where a crash left half of it. The knowledge about leases stays, unless the record
  // differs from the one that this object read or wrote last. Errors: Corruption (both copies are damaged, or the
  // record is that of another pool), IoError, NoSpace.
  Status load();
  // The pool's file is a new one. So no session has a lease on it, whatever record is left of an earlier file of its
  // name. Returns the newest epoch.
  uint64_t begin_new();
  // Takes the pool from the session that the record names, if any, and gives it to nobody: under a new epoch, durably,
  // after a lease (kServedLeaseNsMax at most). So that session never resumes. No record: changes nothing.
  // Errors: as load(), InvalidArgument (the pool is a member of a group: what is written to it alone would be missing
  // in the others).
  Status take_over();

  // As Register. `holder`: the sender as users read it. Requires: load() or begin_new() before.
  Register::Reply fence(const Sender& sender, uint64_t seen, uint64_t lease_ns, bool force, const std::string& holder);
  Register::Reply resume(const Sender& sender);
  Register::Reply renew(const Sender& sender);
  Register::Reply leave(const Sender& sender);
  [[nodiscard]] bool serves(const Sender& sender) const;
  // No earlier connection reaches the pool any more.
  void earlier_ended(uint64_t connection);

  // Makes the record durable, if it is to be. After an error the register is not known: load() it again.
  Status persist();
  // The pool has no name yet, so it needs no record: what persist() would write counts at once.
  void skip_record();
  // Makes the record durable in any case.
  Status write();
  // The pool gets the page of the sender, whose epoch it names; durably, unless `unnamed`: then with the record.
  // Errors: Busy (the sender is not served; the page that is there is newer), those of may_follow() and of writing:
  // the page may be there then.
  Status set_page(const Sender& sender, const VersionedPage& next, bool unnamed);
  // The pool's page. Requires: load() or begin_new() before.
  [[nodiscard]] VersionedPage group_page() const;
  // The owner; empty: none, or unknown. "bonsai[4711] on HOST since 2026-11-28 19:20:03 UTC".
  [[nodiscard]] std::string holder() const;
  // The owner, as users read it: "bonsai[4711] on HOST since 2026-11-28 19:20:03 UTC, seen 2 s ago".
  [[nodiscard]] std::string text() const;
  // Whether there is a record, as far as this object has read or written it.
  [[nodiscard]] bool has_record() const;
  // The time since the owner was seen; UINT64_MAX: not since this object was made.
  [[nodiscard]] uint64_t unseen_ns() const;
  // The time until another session may have the pool; 0: now.
  [[nodiscard]] uint64_t lease_left_ns() const;

 private:
  Status read_slots(std::array<membership::Slot, membership::kSlots>* slots) const;
  Status write_page(const membership::Page& page);
  [[nodiscard]] membership::Page page() const;
  Register::Reply note(const Register::Reply& reply);

  const std::string path_;
  const std::array<uint64_t, 2> identity_;  // of the pool, in its record
  const uint64_t started_ns_;
  membership::PageWriter writer_;

  mutable std::mutex mutex_;                      // guards what follows
  std::optional<membership::OwnerRecord> known_;  // what the file says; none: it is to be read
  bool has_file_ = false;                         // or it says nothing, as there is none
  Register register_;
  std::string holder_;
  VersionedPage group_page_;
  uint64_t granted_ns_ = 0;  // last; 0: not since this object was made
};

// Thread-safety: all methods.
class PoolOwners {
 public:
  explicit PoolOwners(std::string folder);

  [[nodiscard]] std::shared_ptr<PoolOwner> of(const std::string& pool);
  // The same, but null if it was not asked for before.
  [[nodiscard]] std::shared_ptr<PoolOwner> find(const std::string& pool);
  // One that is not kept here before keep().
  [[nodiscard]] std::shared_ptr<PoolOwner> make(const std::string& pool) const;
  void keep(const std::string& pool, std::shared_ptr<PoolOwner> owner);
  // The pool is gone, and so is its record. Errors: IoError.
  Status remove(const std::string& pool);

 private:
  const std::string folder_;
  const uint64_t started_ns_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PoolOwner>> owners_;  // by pool
};

// PoolOwner::take_over() for the pool in the file or device `path`, by the record beside it and, if `path` is a
// symbolic link, by that beside the file. Cost without a record: one failed open(). Requires: the caller has the lock
// of the pool's file, and has changed nothing of the pool. Errors: as PoolOwner::load().
Status take_over_record(const std::string& path);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_POOL_OWNER_H_
