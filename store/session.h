// SPDX-License-Identifier: Apache-2.0
// Implements bonsai::Session: collects the operations that were begun, and executes them in groups: updates first, then
// reads and scans, so that these see the updates that were begun before them.
//
// Where reads of NVM wait, a large group with updates is cut into lanes that a few coroutines execute: while one
// waits for its reads or its fence another goes on with its lane. Operations of one key share a lane, so their order is
// kept. Gets alone overlap without, in the index, as everything does where reads do not wait; but where a search waits
// several times (TestOptions::gets_in_coroutines) each get has a coroutine.
#ifndef BONSAI_STORE_SESSION_H_
#define BONSAI_STORE_SESSION_H_

#include <memory>
#include <vector>

#include "base/coro/scheduler.h"
#include "bonsai/session.h"
#include "store/db_impl.h"

namespace bonsai::store {

class SessionImpl final : public Session {
 public:
  // Requires: 1 <= depth <= kSessionDepthMax; the DB outlives the session.
  SessionImpl(DbImpl& db, size_t depth);
  ~SessionImpl() override { SessionImpl::Wait(); }

  void Get(std::string_view key, std::string* value, Status* status) override;
  void Put(std::string_view key, std::string_view value, Status* status) override;
  void Delete(std::string_view key, Status* status) override;
  void Scan(const ScanOptions& options, std::string_view from, ScanVisitor visit, Status* status) override;
  void Wait() override;
  [[nodiscard]] size_t InFlight() const override { return points() + all_.scans.size(); }

  // Operations that share a lane, about; a scan has one for itself, up to a bound.
  static constexpr size_t kLaneOperations = 32;
  // Enough to hide the wait for one lane by the work of the others. More lanes would evict from the first-level cache
  // what a lane has fetched before it continues: with 16 of them a get takes a third longer.
  static constexpr size_t kLanesAtOnceMax = 4;
  static constexpr size_t kScanLanesMax = 32;
  static constexpr size_t kGetCoroutinesMax = 64;

 private:
  struct Group {
    std::vector<DbImpl::Update> updates;
    std::vector<DbImpl::Read> reads;
    std::vector<DbImpl::Ranged> scans;
  };

  void make_room();
  [[nodiscard]] size_t points() const { return all_.updates.size() + all_.reads.size(); }
  [[nodiscard]] size_t lanes_for(size_t operations) const;
  void carry_out_points(Group* group);
  void carry_out(Group* group);
  void get_in_coroutines();
  void deal_points(size_t lanes);
  void deal_scans(size_t lanes);
  template <class CarryOut>
  void run_lanes(size_t lanes, size_t at_once_max, CarryOut carry_out);

  const Loan loan_;
  DbImpl& db_;
  const size_t depth_;
  Group all_;
  std::vector<Group> lanes_;                    // empty except while a group is executed
  std::unique_ptr<base::Scheduler> scheduler_;  // made when it is first needed
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_SESSION_H_
