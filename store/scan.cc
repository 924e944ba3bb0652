// Scans: window by window, each read inside an epoch guard, all as of one announced version.
#include <algorithm>
#include <array>

#include "base/status_macros.h"
#include "store/damage.h"
#include "store/db_impl.h"

namespace bonsai::store {

using base::Key;
using index::Index;

namespace {

// Drops the rows at and behind `end`. True if there were any.
bool cut_at(std::string_view end, Rows* rows) {
  if (rows->key(rows->count - 1) < end) return false;
  size_t lo = 0;
  for (size_t hi = rows->count - 1; lo < hi;) {
    const size_t mid = lo + (hi - lo) / 2;
    if (rows->key(mid) < end) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  rows->count = lo;
  return true;
}

// The least key that a scan may visit; *behind keeps it if it is not `from` itself.
std::string_view beginning(const ScanOptions& options, std::string_view from, std::string* behind) {
  if (!options.from_exclusive) return from;
  behind->reserve(from.size() + 1);
  return behind->assign(from).append(1, '\0');
}

auto one_by_one(const ScanVisitor& visit) {
  return [&visit](const Rows& rows) {
    const char* key = rows.keys;
    const char* value = rows.values;
    for (size_t left = rows.count; left > 0; --left, key += rows.stride_bytes, value += rows.stride_bytes) {
      if (!visit({key, rows.key_bytes}, {value, rows.value_bytes})) return false;
    }
    return true;
  };
}

// A reader of many records has them fetched from memory a constant distance ahead, over the end of a run into the
// next window's: by itself the processor begins slowly with each run. Into the second-level cache, which can have more
// misses under way than the first.
class ReadAhead {
 public:
  static constexpr size_t kPartBytes = 640;

  // `rows` are read from now on, and then what lies at `next`, if that is known.
  void enter(const Rows& rows, const char* next) {
    const auto begin = reinterpret_cast<uintptr_t>(rows.keys);
    end_ = begin + rows.count * rows.stride_bytes;
    next_ = reinterpret_cast<uintptr_t>(next);
    if (at_ - begin > kDistanceBytes + kPartBytes) at_ = begin;  // nobody has foreseen these
    while (at_ < std::min(begin + kDistanceBytes, end_)) fetch();
  }

  // Called when `bytes` of them are about to be read.
  void advance(size_t bytes) {
    for (owed_bytes_ += bytes; owed_bytes_ >= kPartBytes; owed_bytes_ -= kPartBytes) {
      if (at_ >= end_) [[unlikely]] {
        if (next_ == 0) continue;
        at_ = next_;
        end_ = UINTPTR_MAX;
      }
      fetch();
    }
  }

 private:
  static constexpr size_t kDistanceBytes = 8 * kPartBytes;

  void fetch() {
    const auto* part = reinterpret_cast<const char*>(at_);
    for (size_t i = 0; i < kPartBytes; i += base::kLineBytes) __builtin_prefetch(part + i, 0, 1);
    at_ += kPartBytes;
  }

  uintptr_t at_ = 0;       // up to here
  uintptr_t end_ = 0;      // the end of the run in which that is
  uintptr_t next_ = 0;     // the run behind it, or 0
  size_t owed_bytes_ = 0;  // read, but nothing fetched for it yet
};

// Hands out rows a few lines at a time. False: the visitor has had enough.
bool visit_in_parts(Rows rows, const char* next, const RowsVisitor& visit, ReadAhead* ahead) {
  if (rows.count * rows.stride_bytes <= 2 * ReadAhead::kPartBytes) return visit(rows);
  const size_t part_rows = std::max<size_t>(ReadAhead::kPartBytes / rows.stride_bytes, 1);
  const size_t part_bytes = part_rows * rows.stride_bytes;
  ahead->enter(rows, next);
  while (rows.count > part_rows) {
    Rows part = rows;
    part.count = part_rows;
    rows.keys += part_bytes;
    rows.values += part_bytes;
    rows.count -= part_rows;
    ahead->advance(part_bytes);
    if (!visit(part)) return false;
  }
  ahead->advance(rows.count * rows.stride_bytes);
  return visit(rows);
}

// Scans of so many records may share a guard and an announcement: what these hold up is soon free.
constexpr uint64_t kShortScanRecordsMax = 1'024;

// So many windows share a guard: an inner node of the tree is searched once for them.
constexpr size_t kGuardWindows = index::Following::kMax + 1;

}  // namespace

Status no_visitor() { return Status::InvalidArgument("a scan has no visitor; pass a function that takes the records"); }

// What a walk hands its pieces to, so that they come to `visit`.
auto DbImpl::hand_out_to(const RowsVisitor& visit) {
  return [this, &visit, large = std::string(), ahead = ReadAhead()](Index::Piece& piece, const char* next,
                                                                    Status* failed) mutable {
    Rows& rows = piece.rows;
    if (piece.large) {
      if (!tiers_->large->read(persist::large_ref(rows.value(0)), &large)) {
        *failed = damaged_value(rows.key(0));
        return false;
      }
      rows.values = large.data();
      rows.value_bytes = static_cast<uint32_t>(large.size());
    }
    return visit_in_parts(rows, next, visit, &ahead);
  };
}

Status DbImpl::Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) {
  if (!visit) return no_visitor();
  return ScanRows(options, from, one_by_one(visit));
}

Status DbImpl::ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) {
  if (!visit) return no_visitor();
  return walk_alone(options, from, hand_out_to(visit));
}

Status DbImpl::Count(const ScanOptions& options, std::string_view from, uint64_t* count) {
  *count = 0;
  return walk_alone(options, from, [count](const Index::Piece& piece, const char*, Status*) {
    *count += piece.rows.count;
    return true;
  });
}

template <class Take>
Status DbImpl::walk_alone(const ScanOptions& options, std::string_view from, Take&& take) {
  Status status;
  {
    index::Versions::Announcement own;
    Index::Window window;
    std::string behind;
    if (options.snapshot == nullptr) BONSAI_RETURN_IF_ERROR(announce(&own));
    const uint64_t version = options.snapshot != nullptr ? version_of(options.snapshot) : own.version();
    status = walk(version, options, beginning(options, from, &behind), &window, nullptr, take);
  }
  background_.after_read();
  return status;
}

void DbImpl::scan_many(std::span<const Ranged> scans) {
  const auto is_short = [](const Ranged& scan) { return scan.options.limit <= kShortScanRecordsMax; };
  while (!scans.empty()) {
    size_t n = 0;
    while (n < std::min(scans.size(), Index::kStartsMax) && is_short(scans[n])) ++n;
    if (n > 0) {
      scan_short_ones(scans.first(n));
      background_.after_read();
    } else {
      n = 1;
      *scans[0].status = Scan(scans[0].options, scans[0].from, scans[0].visit);
    }
    scans = scans.subspan(n);
  }
}

// Under one guard and one announcement, which only short scans may hold for each other.
void DbImpl::scan_short_ones(std::span<const Ranged> scans) {
  index::Versions::Announcement own;
  const Status announced = announce(&own);
  std::array<Index::Start, Index::kStartsMax> starts;
  std::array<std::string, Index::kStartsMax> behind;
  Index::Window window;  // for one after the other
  for (size_t i = 0; i < scans.size(); ++i) {
    const std::string_view from = beginning(scans[i].options, scans[i].from, &behind[i]);
    starts[i] = {.from = Key::of(from), .records_max = scans[i].options.limit};
  }
  const auto guard = tiers_->epochs->enter();
  const size_t n = scans.size();
  tiers_->index->find_starts({starts.data(), n});
  // What a scan reads comes from memory while those before it are at work.
  constexpr size_t kStages = Index::kStartStages;
  for (size_t step = 0; step < n + kStages; ++step) {
    for (size_t stage = 0; stage < kStages; ++stage) {
      if (step >= stage && step - stage < n) tiers_->index->prefetch_start(&starts[step - stage], stage);
    }
    if (step < kStages) continue;
    const size_t i = step - kStages;
    const ScanOptions& options = scans[i].options;
    Status* const status = scans[i].status;
    const RowsVisitor visit_rows = one_by_one(scans[i].visit);
    const bool has_own = options.snapshot != nullptr;
    *status = announced;
    if (!has_own && !announced.ok()) continue;
    const uint64_t version = has_own ? version_of(options.snapshot) : own.version();
    *status = walk(version, options, starts[i].from.bytes, &window, &starts[i], hand_out_to(visit_rows));
  }
}

// From the least key that is not below `from`. `take(piece, next, &status)` gets what was found, and where the records
// behind it lie, if that is known; false ends the walk. `start`: what is known of its ranges, and the caller has a
// guard; or null. *window is for its use.
template <class Take>
Status DbImpl::walk(uint64_t version, const ScanOptions& options, std::string_view from, Index::Window* window,
                    const Index::Start* start, Take&& take) {
  counters_.add(Count::kScans);
  uint64_t left = options.limit;
  index::Following following;
  base::EpochDomain::Guard guard;
  size_t windows = 0;
  Status failed;
  for (base::Fence at(from); !at.is_infinite() && left > 0; at = window->hi) {
    if (!options.end.empty() && options.end <= at.bytes()) break;
    if (windows++ % kGuardWindows == 0 && start == nullptr) {
      following.clear();
      guard = tiers_->epochs->enter();
    }
    index::Bnode* known = start != nullptr ? start->known(at.key()) : nullptr;
    tiers_->index->read_window(at.key(), version, false, left, window, known, &following);
    for (Index::Piece& piece : window->pieces) {
      const bool last = !options.end.empty() && cut_at(options.end, &piece.rows);
      if (last && piece.rows.count == 0) return Status::OK();
      left -= piece.rows.count;
      if (!take(piece, left > 0 ? window->records_behind : nullptr, &failed) || last) return failed;
    }
    if (window->damaged) return damaged_range(window->lo, window->hi);
  }
  return Status::OK();
}

}  // namespace bonsai::store
