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
  if (!points_.late.empty() && read_late_.may_have(key)) Wait();
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
                      .version = version_of(options.snapshot),
                      .earlier = options.snapshot == nullptr ? points_.updates : std::span<const DbImpl::Update>()});
    ++in_flight_;
    return Status::OK();
  });
}

void SessionImpl::carry_out(const Part& part) {
  db_.read_many(ReadOptions(), part.early);
  db_.update_many(part.updates);
  db_.read_many(ReadOptions(), part.late);
}

// Runs each get in a coroutine: while one waits, the others go on.
void SessionImpl::carry_out_in_coroutines(const Part& part) {
  get_in_coroutines(part.early);
  db_.update_many(part.updates);
  get_in_coroutines(part.late);
}

void SessionImpl::get_in_coroutines(std::span<const DbImpl::Read> reads) {
  run_lanes(reads.size(), kGetCoroutinesMax,
            [&](size_t i) { *reads[i].status = db_.Get(ReadOptions(), reads[i].key, reads[i].value); });
}

// False: there is no memory for lanes.
bool SessionImpl::deal(const Part& part, size_t lanes) {
  try {
    for (Points& lane : lanes_) lane.clear();
    lanes_.resize(std::max(lanes_.size(), lanes));
    const auto lane_of = [&](std::string_view key) -> Points& { return lanes_[base::Key::of(key).hash() % lanes]; };
    for (const DbImpl::Read& read : part.early) lane_of(read.key).early.push_back(read);
    for (const DbImpl::Update& update : part.updates) lane_of(update.key).updates.push_back(update);
    for (const DbImpl::Read& read : part.late) lane_of(read.key).late.push_back(read);
    return true;
  } catch (const std::bad_alloc&) {
    base::memory_ran_out();
    return false;
  }
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

size_t SessionImpl::lanes_for(const Part& part) const {
  BONSAI_CHECK(part.size() <= depth_);
  if (part.updates.empty() || !db_.reads_wait()) return 1;
  return (part.size() + kLaneOperations - 1) / kLaneOperations;
}

// Executes the next `updates` updates, before the first one the early gets, and after the `last` one the late gets.
void SessionImpl::run_points(size_t updates, bool last) {
  BONSAI_CHECK(updates <= points_.updates.size() - begun_);
  Part part{.early = {}, .updates = std::span(points_.updates).subspan(begun_, updates), .late = {}};
  if (begun_ == 0) part.early = points_.early;
  if (last) part.late = points_.late;
  begun_ += updates;  // not again, also when memory runs out
  const size_t lanes = lanes_for(part);
  if (db_.gets_in_coroutines() && part.early.size() + part.late.size() > 1) {
    carry_out_in_coroutines(part);
  } else if (lanes > 1 && deal(part, lanes)) {
    run_lanes(lanes, kLanesAtOnceMax, [&](size_t lane) {
      Points& points = lanes_[lane];
      carry_out({.early = points.early, .updates = points.updates, .late = points.late});
    });
  } else {
    carry_out(part);
  }
}

void SessionImpl::run_scans() {
  const size_t lanes = db_.reads_wait() ? std::min(scans_.size(), kScanLanesMax) : 1;
  if (lanes == 1) return db_.scan_many(scans_);
  run_lanes(lanes, kScanLanesMax, [&](size_t lane) {
    const auto begin_of = [&](size_t each) { return scans_.size() * each / lanes; };
    db_.scan_many(std::span(scans_).subspan(begin_of(lane), begin_of(lane + 1) - begin_of(lane)));
  });
}

// Executes the scans, and the updates for which some of them wait.
void SessionImpl::end_scans() {
  while (!scans_.empty()) {
    run_scans();
    if (thrown_) return;
    std::erase_if(scans_, [](const DbImpl::Ranged& scan) { return scan.has_ended; });
    if (scans_.empty()) return;
    // Every scan that is left was begun after these updates.
    const size_t updates = scans_.front().earlier.size();
    BONSAI_CHECK(updates > 0);
    run_points(updates, /*last=*/false);
    for (DbImpl::Ranged& scan : scans_) scan.earlier = scan.earlier.subspan(std::min(updates, scan.earlier.size()));
  }
}

void SessionImpl::Wait() {
  BONSAI_INVARIANT(in_flight_ == points_.early.size() + points_.updates.size() + points_.late.size() + scans_.size() &&
                   in_flight_ <= depth_);  // (7)
  // Runs also when memory runs out: the operations of the group are not carried out again.
  const struct Ended {
    SessionImpl& session;
    ~Ended() {
      if (!session.points_.late.empty()) session.read_late_.clear();
      if (std::exchange(session.noted_, 0) != 0) session.updated_.clear();
      session.points_.clear();
      session.scans_.clear();
      session.begun_ = session.in_flight_ = 0;
    }
  } ended{*this};
  try {
    end_scans();
  } catch (...) {
    thrown_ = std::current_exception();  // of a visitor: the updates are executed
  }
  run_points(points_.updates.size() - begun_, /*last=*/true);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace bonsai::store
