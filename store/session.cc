// SPDX-License-Identifier: Apache-2.0
#include "store/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/key.h"
#include "base/memory.h"
#include "store/options.h"

namespace bonsai::store {

namespace {
// An update may come to help with offloading.
constexpr size_t kStackBytes = size_t{256} << 10;
}  // namespace

void SessionImpl::Points::clear() {
  early.clear();
  updates.clear();
  late.clear();
}

SessionImpl::SessionImpl(DbImpl& db, size_t depth)
    : loan_(db.lent().sessions), db_(db), depth_(depth), updated_(depth), read_late_(depth) {
  BONSAI_CHECK(depth >= 1 && depth <= kSessionDepthMax);
  points_.early.reserve(depth);
  points_.updates.reserve(depth);
  points_.late.reserve(depth);
}

inline void SessionImpl::make_room() {
  if (in_flight_ == depth_) [[unlikely]]
    Wait();
}

void SessionImpl::Get(std::string_view key, std::string* value, Status* status) {
  make_room();
  if (points_.updates.empty() || !updates(key)) [[likely]] {
    points_.early.push_back({.key = key, .value = value, .status = status});
  } else {
    read_late_.add(key);
    points_.late.push_back({.key = key, .value = value, .status = status});
  }
  ++in_flight_;
}

void SessionImpl::Put(std::string_view key, std::string_view value, Status* status) {
  make_room();
  keep_order(key);
  points_.updates.push_back({.key = key, .value = value, .tombstone = false, .status = status, .large = {}});
  ++in_flight_;
}

void SessionImpl::Delete(std::string_view key, Status* status) {
  make_room();
  keep_order(key);
  points_.updates.push_back({.key = key, .value = {}, .tombstone = true, .status = status, .large = {}});
  ++in_flight_;
}

// A conditional update is carried out at once, after all that is in flight.
void SessionImpl::PutIf(const Condition& condition, std::string_view key, std::string_view value, Status* status) {
  Wait();
  *status = db_.PutIf(condition, key, value);
}

void SessionImpl::DeleteIf(const Condition& condition, std::string_view key, Status* status) {
  Wait();
  *status = db_.DeleteIf(condition, key);
}

void SessionImpl::Increment(std::string_view key, int64_t by, int64_t* result, Status* status) {
  Wait();
  *status = db_.Increment(key, by, result);
}

// Whether the group updates the key, perhaps.
inline bool SessionImpl::updates(std::string_view key) {
  for (auto update = points_.updates.begin() + static_cast<ptrdiff_t>(noted_); update != points_.updates.end();
       ++update, ++noted_) {
    updated_.add(update->key);
  }
  return updated_.may_have(key);
}

// To be called before an update of the key: earlier operations must not see the update.
inline void SessionImpl::keep_order(std::string_view key) {
  if (!points_.late.empty() && read_late_.may_have(key)) end_points();
  if (scans_fixed_ != scans_.size()) fix_scans(key);
}

// Scans that an update of the key would change get a version now, or end now if too many are kept already.
void SessionImpl::fix_scans(std::string_view key) {
  const auto covers = [&](const DbImpl::Ranged& scan) {
    const ScanOptions& options = scan.options;
    return scan.version == index::kLatest && key >= scan.from && (options.end.empty() || key < options.end);
  };
  BONSAI_CHECK(scans_fixed_ <= scans_.size());
  const auto first = scans_.begin() + static_cast<ptrdiff_t>(scans_fixed_);
  if (std::none_of(first, scans_.end(), covers)) return;
  end_points();
  const Status kept = with_memory([&] { return db_.register_scan(&moments_.emplace_back()); });
  if (!kept.ok()) return end_scans();
  for (auto scan = first; scan != scans_.end(); ++scan) {
    if (scan->version == index::kLatest) scan->version = moments_.back().version();
  }
  scans_fixed_ = scans_.size();
}

void SessionImpl::Scan(const ScanOptions& options, std::string_view from, ScanVisitor visit, Status* status) {
  if (!visit) {
    *status = no_visitor();
    return;
  }
  make_room();
  *status = with_memory([&] {
    scans_.push_back({.options = options,
                      .from = from,
                      .visit = std::move(visit),
                      .status = status,
                      .version = version_of(options.snapshot)});
    ++in_flight_;
    return Status::OK();
  });
}

void SessionImpl::carry_out(Points* points) {
  db_.read_many(ReadOptions(), points->early);
  db_.update_many(points->updates);
  db_.read_many(ReadOptions(), points->late);
}

// Runs each get in a coroutine: while one waits, the others go on.
void SessionImpl::carry_out_in_coroutines(Points* points) {
  get_in_coroutines(points->early);
  db_.update_many(points->updates);
  get_in_coroutines(points->late);
}

void SessionImpl::get_in_coroutines(const std::vector<DbImpl::Read>& reads) {
  run_lanes(reads.size(), kGetCoroutinesMax,
            [&](size_t i) { *reads[i].status = db_.Get(ReadOptions(), reads[i].key, reads[i].value); });
}

// False: there is no memory for lanes, and the lanes are empty.
template <class Deal>
bool SessionImpl::deal(size_t lanes, Deal fill_lanes) {
  try {
    lanes_.resize(std::max(lanes_.size(), lanes));
    fill_lanes();
    return true;
  } catch (const std::bad_alloc&) {
    base::memory_ran_out();
    for (Lane& lane : lanes_) lane.points.clear();
    return false;
  }
}

bool SessionImpl::deal_points(size_t lanes) {
  return deal(lanes, [&] {
    const auto lane_of = [&](std::string_view key) -> Points& {
      return lanes_[base::Key::of(key).hash() % lanes].points;
    };
    for (const DbImpl::Read& read : points_.early) lane_of(read.key).early.push_back(read);
    for (const DbImpl::Update& update : points_.updates) lane_of(update.key).updates.push_back(update);
    for (const DbImpl::Read& read : points_.late) lane_of(read.key).late.push_back(read);
  });
}

bool SessionImpl::deal_scans(size_t lanes) {
  return deal(lanes, [&] {
    for (size_t lane = 0; lane < lanes; ++lane) lanes_[lane].scans.reserve(scans_.size() / lanes + 1);
    for (size_t i = 0; i < scans_.size(); ++i) lanes_[i % lanes].scans.push_back(std::move(scans_[i]));
  });
}

template <class CarryOut>
void SessionImpl::run_lanes(size_t lanes, size_t at_once_max, CarryOut carry_out) {
  if (lanes == 0) return;
  size_t next = 0;
  const auto work = [&] {
    while (next < lanes) {
      const size_t lane = next++;
      try {
        carry_out(lane);
      } catch (...) {
        thrown_ = std::current_exception();
      }
    }
  };
  // Those for which there was no memory have not run, which is all that can fail: others did their work, or do it here.
  try {
    if (scheduler_ == nullptr) {
      scheduler_ = std::make_unique<base::Scheduler>(base::Scheduler::Options{.stack_bytes = kStackBytes});
    }
    for (size_t i = 0; i < std::min(lanes, at_once_max); ++i) scheduler_->spawn(work, "session lane");
  } catch (const std::bad_alloc&) {
    base::memory_ran_out();
  }
  if (scheduler_ != nullptr && !scheduler_->run().ok()) BONSAI_CHECK(scheduler_->live() == 0);
  work();
}

size_t SessionImpl::lanes_for(size_t operations) const {
  BONSAI_CHECK(operations == points_.size() && operations <= depth_);
  return db_.reads_wait() ? (operations + kLaneOperations - 1) / kLaneOperations : 1;
}

// Gets and updates.
void SessionImpl::end_points() {
  // Runs also when memory runs out: the operations of the group are not carried out again.
  const struct Ended {
    SessionImpl& session;
    ~Ended() {
      if (!session.points_.late.empty()) session.read_late_.clear();
      if (std::exchange(session.noted_, 0) != 0) session.updated_.clear();
      session.points_.clear();
      for (Lane& lane : session.lanes_) lane.points.clear();
      session.in_flight_ = session.scans_.size();
    }
  } ended{*this};
  const size_t lanes = points_.updates.empty() ? 1 : lanes_for(points_.size());
  if (db_.gets_in_coroutines() && points_.early.size() + points_.late.size() > 1) {
    carry_out_in_coroutines(&points_);
  } else if (lanes > 1 && deal_points(lanes)) {
    run_lanes(lanes, kLanesAtOnceMax, [&](size_t lane) { carry_out(&lanes_[lane].points); });
  } else {
    carry_out(&points_);
  }
  rethrow();
}

void SessionImpl::end_scans() {
  // Runs also when a visitor throws: the scans of the group are not carried out again.
  const struct Ended {
    SessionImpl& session;
    ~Ended() {
      session.in_flight_ = session.points_.size();
      session.scans_.clear();
      for (Lane& lane : session.lanes_) lane.scans.clear();
      session.scans_fixed_ = 0;
      session.moments_.clear();
    }
  } ended{*this};
  const size_t lanes = db_.reads_wait() ? std::min(scans_.size(), kScanLanesMax) : 1;
  if (lanes > 1 && deal_scans(lanes)) {
    run_lanes(lanes, kScanLanesMax, [&](size_t lane) { db_.scan_many(lanes_[lane].scans); });
  } else {
    db_.scan_many(scans_);
  }
  rethrow();
}

void SessionImpl::rethrow() {
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void SessionImpl::Wait() {
  BONSAI_INVARIANT(in_flight_ == points_.size() + scans_.size() && in_flight_ <= depth_);  // (7)
  end_points();
  if (!scans_.empty()) end_scans();
}

}  // namespace bonsai::store
