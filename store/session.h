// SPDX-License-Identifier: Apache-2.0
// Implements bonsai::Session: collects operations and executes them in groups.
//
// Order. A group's gets run either before its updates or after them. A get of a key that the group updates runs after
// them, and sees that update. All other gets run before them, so they see no later update of their key. Where the group
// has such a late get, a further update of that key first ends the group. Scans run after all updates. If a key is
// updated that a waiting scan covers, that scan gets a version first, which has the updates before it and none of
// those after it. Two filters find such keys (key_filter.h); they are used only when updates and reads are mixed.
//
// Where reads of NVM wait, a large group with updates is cut into lanes that a few coroutines execute: while one
// waits for its reads or its fence another goes on with its lane. Operations of one key share a lane, so their order is
// kept. Gets alone overlap without, in the index, as everything does where reads do not wait; but where a search waits
// several times (DbImpl::gets_in_coroutines) each get has a coroutine.
#ifndef BONSAI_STORE_SESSION_H_
#define BONSAI_STORE_SESSION_H_

#include <exception>
#include <memory>
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
    [[nodiscard]] size_t size() const { return early.size() + updates.size() + late.size(); }
    void clear();
  };
  struct Lane {
    Points points;
    std::vector<DbImpl::Ranged> scans;
  };

  void make_room();
  void keep_order(std::string_view key);
  [[nodiscard]] bool updates(std::string_view key);
  void fix_scans(std::string_view key);
  [[nodiscard]] size_t lanes_for(size_t operations) const;
  void end_points();
  void end_scans();
  void carry_out(Points* points);
  void carry_out_in_coroutines(Points* points);
  void get_in_coroutines(const std::vector<DbImpl::Read>& reads);
  template <class Deal>
  bool deal(size_t lanes, Deal fill_lanes);
  bool deal_points(size_t lanes);
  bool deal_scans(size_t lanes);
  template <class CarryOut>
  void run_lanes(size_t lanes, size_t at_once_max, CarryOut carry_out);
  void rethrow();

  const Loan loan_;
  DbImpl& db_;
  const size_t depth_;
  size_t in_flight_ = 0;
  Points points_;
  size_t noted_ = 0;  // updates that `updated_` has
  KeyFilter updated_, read_late_;
  std::vector<DbImpl::Ranged> scans_;
  size_t scans_fixed_ = 0;                              // the first scans, of which no later update changes the result
  std::vector<index::Versions::Registration> moments_;  // that such scans see
  std::vector<Lane> lanes_;                             // empty except while a group is executed
  std::exception_ptr thrown_;                           // in a lane: no exception leaves a coroutine
  std::unique_ptr<base::Scheduler> scheduler_;          // made when it is first needed
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_SESSION_H_
