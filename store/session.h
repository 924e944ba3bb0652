// SPDX-License-Identifier: Apache-2.0
// Implements bonsai::Session: collects operations and executes them in groups.
//
// Order. A group's gets run either before its updates or after them. A get of a key that the group updates runs after
// them, and sees that update. All other gets run before them, so they see no later update of their key. Where the group
// has such a late get, a further update of that key first ends the group. Two filters find such keys (key_filter.h);
// they are used only when updates and reads are mixed.
//
// Scans run before the updates, so that they see no later one, and in the order of their calls. A scan that comes to a
// key that an earlier update of the group has waits until the updates before it are done; scans after it wait with it.
// Most scans of few records come to no such key, so that one fence makes all updates of the group durable.
//
// Where reads of NVM wait, a large group with updates is cut into lanes that a few coroutines execute: while one
// waits for its reads or its fence another goes on with its lane. Operations of one key share a lane, so their order is
// kept. Gets alone overlap without, in the index, as everything does where reads do not wait; but where a search waits
// several times (DbImpl::gets_in_coroutines) each get has a coroutine.
#ifndef BONSAI_STORE_SESSION_H_
#define BONSAI_STORE_SESSION_H_

#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "base/coro/scheduler.h"
#include "bonsai/session.h"
#include "store/db_impl.h"
#include "store/key_filter.h"

namespace bonsai::store {

class SessionImpl final : public Session {
 public:
  // Requires: 1 <= depth <= kSessionDepthMax; the DB outlives the session.
  SessionImpl(DbImpl& db, size_t depth);
  ~SessionImpl() override { SessionImpl::Wait(); }

  void Get(std::string_view key, std::string* value, Status* status) override;
  void Put(std::string_view key, std::string_view value, Status* status) override;
  void Delete(std::string_view key, Status* status) override;
  void PutIf(const Condition& condition, std::string_view key, std::string_view value, Status* status) override;
  void DeleteIf(const Condition& condition, std::string_view key, Status* status) override;
  void Increment(std::string_view key, int64_t by, int64_t* result, Status* status) override;
  void Scan(const ScanOptions& options, std::string_view from, ScanVisitor visit, Status* status) override;
  void Wait() override;
  [[nodiscard]] size_t InFlight() const override { return in_flight_; }

  // Operations that share a lane, about; a scan has one for itself, up to a bound.
  static constexpr size_t kLaneOperations = 32;
  // Enough lanes to hide the wait of one by the work of the others. With more, a lane's fetched bytes would leave the
  // first-level cache before it continues: with 16 of them a get takes a third longer.
  static constexpr size_t kLanesAtOnceMax = 4;
  static constexpr size_t kScanLanesMax = 32;
  static constexpr size_t kGetCoroutinesMax = 64;

 private:
  // Gets and updates, in the order of their execution.
  struct Points {
    std::vector<DbImpl::Read> early;
    std::vector<DbImpl::Update> updates;
    std::vector<DbImpl::Read> late;
    void clear();
  };
  // Those of a group, or of a lane, that are executed at once.
  struct Part {
    std::span<const DbImpl::Read> early;
    std::span<DbImpl::Update> updates;
    std::span<const DbImpl::Read> late;
    [[nodiscard]] size_t size() const { return early.size() + updates.size() + late.size(); }
  };

  void make_room();
  void keep_order(std::string_view key);
  [[nodiscard]] bool updates(std::string_view key);
  [[nodiscard]] size_t lanes_for(const Part& part) const;
  void end_scans();
  void run_scans();
  void run_points(size_t updates, bool last);
  void carry_out(const Part& part);
  void carry_out_in_coroutines(const Part& part);
  void get_in_coroutines(std::span<const DbImpl::Read> reads);
  bool deal(const Part& part, size_t lanes);
  template <class CarryOut>
  void run_lanes(size_t lanes, size_t at_once_max, CarryOut carry_out);

  const Loan loan_;
  DbImpl& db_;
  const size_t depth_;
  size_t in_flight_ = 0;
  Points points_;     // that never grow beyond `depth_`: scans refer to updates
  size_t begun_ = 0;  // updates that have been executed, while a group is
  size_t noted_ = 0;  // updates that `updated_` has
  KeyFilter updated_, read_late_;
  std::vector<DbImpl::Ranged> scans_;
  std::vector<Points> lanes_;  // of the part that was dealt last
  std::exception_ptr thrown_;  // while a group is executed: what is left of it is executed all the same
  std::unique_ptr<base::Scheduler> scheduler_;  // made when it is first needed
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_SESSION_H_
