// SPDX-License-Identifier: Apache-2.0
#include "store/session.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/key.h"

namespace bonsai::store {

namespace {
// An update may come to help with offloading.
constexpr size_t kStackBytes = size_t{256} << 10;
}  // namespace

SessionImpl::SessionImpl(DbImpl& db, size_t depth) : loan_(db.lent().sessions), db_(db), depth_(depth) {
  BONSAI_CHECK(depth >= 1 && depth <= kSessionDepthMax);
  all_.updates.reserve(depth);
  all_.reads.reserve(depth);
}

void SessionImpl::make_room() {
  if (InFlight() == depth_) Wait();
}

void SessionImpl::Get(std::string_view key, std::string* value, Status* status) {
  make_room();
  all_.reads.push_back({.key = key, .value = value, .status = status});
}

void SessionImpl::Put(std::string_view key, std::string_view value, Status* status) {
  make_room();
  all_.updates.push_back({.key = key, .value = value, .tombstone = false, .status = status, .large = {}});
}

void SessionImpl::Delete(std::string_view key, Status* status) {
  make_room();
  all_.updates.push_back({.key = key, .value = {}, .tombstone = true, .status = status, .large = {}});
}

void SessionImpl::Scan(const ScanOptions& options, std::string_view from, ScanVisitor visit, Status* status) {
  if (!visit) {
    *status = no_visitor();
    return;
  }
  make_room();
  all_.scans.push_back({.options = options, .from = from, .visit = std::move(visit), .status = status});
}

// Updates and reads.
void SessionImpl::carry_out_points(Group* group) {
  db_.update_many(group->updates);
  db_.read_many(ReadOptions(), group->reads);
  group->updates.clear();
  group->reads.clear();
}

void SessionImpl::carry_out(Group* group) {
  carry_out_points(group);
  // Also when a visitor throws: what was begun is not carried out again.
  const struct Ended {
    std::vector<DbImpl::Ranged>& scans;
    ~Ended() { scans.clear(); }
  } ended{group->scans};
  db_.scan_many(group->scans);
}

// Updates, then each get by itself: one that waits lets the others go on.
void SessionImpl::get_in_coroutines() {
  db_.update_many(all_.updates);
  all_.updates.clear();
  run_lanes(all_.reads.size(), kGetCoroutinesMax, [&](size_t i) {
    const DbImpl::Read& read = all_.reads[i];
    *read.status = db_.Get(ReadOptions(), read.key, read.value);
  });
  all_.reads.clear();
}

void SessionImpl::deal_points(size_t lanes) {
  const auto lane_of = [&](std::string_view key) -> Group& { return lanes_[base::Key::of(key).hash() % lanes]; };
  for (const DbImpl::Update& update : all_.updates) lane_of(update.key).updates.push_back(update);
  for (const DbImpl::Read& read : all_.reads) lane_of(read.key).reads.push_back(read);
  all_.updates.clear();
  all_.reads.clear();
}

void SessionImpl::deal_scans(size_t lanes) {
  for (size_t i = 0; i < all_.scans.size(); ++i) lanes_[i % lanes].scans.push_back(std::move(all_.scans[i]));
  all_.scans.clear();
}

template <class CarryOut>
void SessionImpl::run_lanes(size_t lanes, size_t at_once_max, CarryOut carry_out) {
  if (scheduler_ == nullptr) {
    scheduler_ = std::make_unique<base::Scheduler>(base::Scheduler::Options{.stack_bytes = kStackBytes});
  }
  size_t next = 0;
  const auto work = [&] {
    while (next < lanes) carry_out(next++);
  };
  for (size_t i = 0; i < std::min(lanes, at_once_max); ++i) scheduler_->spawn(work, "session lane");
  // Those for which there was no memory have not run, which is all that can fail: others did their work, or do it here.
  if (!scheduler_->run().ok()) BONSAI_CHECK(scheduler_->live() == 0);
  work();
}

size_t SessionImpl::lanes_for(size_t operations) const {
  return db_.reads_wait() ? (operations + kLaneOperations - 1) / kLaneOperations : 1;
}

void SessionImpl::Wait() {
  if (db_.gets_in_coroutines() && all_.reads.size() > 1) get_in_coroutines();
  const size_t lanes = all_.updates.empty() ? 1 : lanes_for(points());
  const size_t scan_lanes = db_.reads_wait() ? std::min(all_.scans.size(), kScanLanesMax) : 1;
  lanes_.resize(std::max({lanes_.size(), lanes, scan_lanes}));
  std::exception_ptr thrown;  // by a visitor; no exception leaves a coroutine
  const auto carry_out_lane = [&](size_t lane) {
    try {
      carry_out(&lanes_[lane]);
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  if (lanes > 1) {
    deal_points(lanes);
    run_lanes(lanes, kLanesAtOnceMax, carry_out_lane);
  }
  carry_out_points(&all_);
  if (scan_lanes > 1) {  // after all updates, which may be in any lane
    deal_scans(scan_lanes);
    run_lanes(scan_lanes, kScanLanesMax, carry_out_lane);
  }
  carry_out(&all_);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace bonsai::store
