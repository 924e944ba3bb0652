// SPDX-License-Identifier: Apache-2.0
// Scans: window by window, each read inside an epoch guard, all as of one registered version.
#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "base/status_macros.h"
#include "store/damage.h"
#include "store/db_impl.h"
#include "store/options.h"

namespace bonsai::store {

using base::Key;
using index::Index;

namespace {

// Drops the rows at and after `end`. True if there were any.
bool cut_at(std::string_view end, Rows* rows) {
  BONSAI_DCHECK(rows->count > 0);
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

// The least key that a scan may visit; *above keeps it if it is not `from` itself.
std::string_view beginning(const ScanOptions& options, std::string_view from, std::string* above) {
  if (!options.from_exclusive) return from;
  above->reserve(from.size() + 1);
  return above->assign(from).append(1, '\0');
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

// Rows are passed to the visitor in parts of this many bytes.
constexpr size_t kPartBytes = 640;

// Passes rows on a few lines at a time. False: the visitor has had enough. A window's records are in the processor's
// cache when they are passed on: they have just been verified. Meanwhile the next window's are fetched, so that
// verifying them does not wait for memory.
bool visit_in_parts(Rows rows, const RowsVisitor& visit, index::ScanAhead* ahead) {
  if (rows.count * rows.stride_bytes <= 2 * kPartBytes) return visit(rows);
  const size_t part_rows = std::max<size_t>(kPartBytes / rows.stride_bytes, 1);
  const size_t part_bytes = part_rows * rows.stride_bytes;
  while (rows.count > part_rows) {
    Rows part = rows;
    part.count = part_rows;
    rows.keys += part_bytes;
    rows.values += part_bytes;
    rows.count -= part_rows;
    ahead->fetch_records(part_bytes);
    if (!visit(part)) return false;
  }
  ahead->fetch_records(rows.count * rows.stride_bytes);
  return visit(rows);
}

// Scans of at most this many records may share a guard and a registration: the memory that they hold back is soon free.
constexpr uint64_t kShortScanRecordsMax = 1'024;

// This many windows share a guard: an inner node of the tree is searched once for them.
constexpr size_t kGuardWindows = index::ScanAhead::kMax + 1;

// A scan does not look for its place among more updates than this, which share a fence well.
constexpr size_t kEarlierMax = 64;

// The least key of an earlier update of the group that a scan from `from` on may come to.
std::optional<Key> first_change(const DbImpl::Ranged& scan, const Key& from) {
  std::optional<Key> first;
  for (const DbImpl::Update& update : scan.earlier) {
    const Key key = Key::of(update.key);
    if (key < from || (first && !(key < *first))) continue;
    if (scan.options.end.empty() || key < Key::of(scan.options.end)) first = key;
  }
  return first;
}

}  // namespace

Status no_visitor() { return Status::InvalidArgument("a scan has no visitor; pass a function that takes the records"); }

// The visitor of a walk that passes its pieces on to `visit`.
auto DbImpl::passing_on_to(const RowsVisitor& visit) {
  return [this, &visit, large = std::string()](Index::Piece& piece, index::ScanAhead* ahead, Status* failed) mutable {
    Rows& rows = piece.rows;
    if (piece.large) {
      const persist::Trouble trouble = tiers_->large->read(persist::large_ref(rows.value(0)), &large);
      *failed = answer_of(trouble == persist::Trouble::kNone ? Status::OK()
                                                             : no_value(*tiers_->volume, trouble, rows.key(0)));
      if (!failed->ok()) return false;
      rows.values = large.data();
      rows.value_bytes = static_cast<uint32_t>(large.size());
    }
    return visit_in_parts(rows, visit, ahead);
  };
}

Status DbImpl::Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) {
  if (!visit) return no_visitor();
  return ScanRows(options, from, one_by_one(visit));
}

Status DbImpl::ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) {
  if (!visit) return no_visitor();
  return scan_alone(version_of(options.snapshot), options, from, visit);
}

Status DbImpl::scan_alone(uint64_t version, const ScanOptions& options, std::string_view from,
                          const RowsVisitor& visit) {
  return with_memory([&] { return walk_alone(version, options, from, passing_on_to(visit)); });
}

Status DbImpl::Count(const ScanOptions& options, std::string_view from, uint64_t* count) {
  *count = 0;
  return with_memory([&] {
    return walk_alone(version_of(options.snapshot), options, from,
                      [count](const Index::Piece& piece, index::ScanAhead*, Status*) {
                        *count += piece.rows.count;
                        return true;
                      });
  });
}

// version: the one to be seen; kLatest: that of now.
template <class Take>
Status DbImpl::walk_alone(uint64_t version, const ScanOptions& options, std::string_view from, Take&& take) {
  Status status;
  {
    index::Versions::Registration own;
    Index::Window window;
    index::ScanAhead ahead;
    std::string above;
    if (version == index::kLatest) {
      BONSAI_RETURN_IF_ERROR(register_scan(&own));
      version = own.version();
    }
    status = walk<false>(version, options, beginning(options, from, &above), {&window, 1}, 0, &ahead, take);
  }
  background_.after_read();
  return status;
}

void DbImpl::scan_many(std::span<Ranged> scans) {
  const auto is_short = [](const Ranged& scan) { return scan.options.limit <= kShortScanRecordsMax; };
  while (!scans.empty()) {
    size_t n = 0;
    while (n < std::min(scans.size(), Index::kStartsMax) && is_short(scans[n])) ++n;
    if (n > 0) {
      scan_short_ones(scans.first(n));
      background_.after_read();
      if (!scans[n - 1].has_ended) return;
    } else {
      Ranged& scan = scans[0];
      if (first_change(scan, Key::of(scan.from))) return;
      *scan.status = scan_alone(scan.version, scan.options, scan.from, one_by_one(scan.visit));
      scan.has_ended = true;
      n = 1;
    }
    scans = scans.subspan(n);
  }
}

void DbImpl::scan_short_ones(std::span<Ranged> scans) {
  size_t ended = 0;
  const Status status = with_memory([&] {
    scan_short_ones(scans, &ended);
    return Status::OK();
  });
  if (!status.ok()) {
    for (; ended < scans.size(); ++ended) *scans[ended].status = status;
  }
  for (Ranged& scan : scans.first(ended)) scan.has_ended = true;
}

// Under one guard and one registration, which only short scans may hold for each other. *ended: how many have: those
// before the first one that waits for an update.
void DbImpl::scan_short_ones(std::span<Ranged> scans, size_t* ended) {
  BONSAI_CHECK(scans.size() <= Index::kStartsMax);
  index::Versions::Registration own;
  const Status registered = register_scan(&own);
  std::array<index::ScanAhead, Index::kStartsMax> starts;
  std::array<std::string, Index::kStartsMax> above;
  // For one after the other. Where reads wait, a second one is not read before the first one is passed on, as its read
  // may take the first one's place.
  std::array<Index::Window, 2> memory;
  const std::span<Index::Window> windows(memory.data(), reads_wait() ? 1 : memory.size());
  for (size_t i = 0; i < scans.size(); ++i) {
    const std::string_view from = beginning(scans[i].options, scans[i].from, &above[i]);
    starts[i].expect(Key::of(from), scans[i].options.limit);
  }
  const auto guard = tiers_->epochs->enter();
  const size_t n = scans.size();
  tiers_->index->find_starts({starts.data(), n});
  // A scan's memory is fetched while the scans before it run.
  constexpr size_t kStages = Index::kStartStages;
  for (size_t step = 0; step < n + kStages; ++step) {
    for (size_t stage = 0; stage < kStages; ++stage) {
      if (step >= stage && step - stage < n) tiers_->index->prefetch_start(&starts[step - stage], stage);
    }
    if (step < kStages) continue;
    const size_t i = step - kStages;
    const Ranged& scan = scans[i];
    const RowsVisitor visit_rows = one_by_one(scan.visit);
    const bool is_latest = scan.version == index::kLatest;
    *scan.status = registered;
    *ended = i + 1;
    if (is_latest && !registered.ok()) continue;
    *ended = i;
    const uint64_t version = is_latest ? own.version() : scan.version;
    size_t read = 0;
    if (!scan.earlier.empty() && waits_for_update(scan, version, windows, &read, &starts[i])) return;
    *scan.status =
        walk<true>(version, scan.options, starts[i].from().bytes, windows, read, &starts[i], passing_on_to(visit_rows));
    *ended = i + 1;
  }
}

// Whether an earlier update of the group may change what a short scan returns. Reads as many of the windows as it must
// to know; *read: how many, which the scan need not read again.
bool DbImpl::waits_for_update(const Ranged& scan, uint64_t version, std::span<Index::Window> windows, size_t* read,
                              index::ScanAhead* ahead) {
  if (scan.earlier.size() > kEarlierMax) return true;
  const std::optional<Key> change = first_change(scan, ahead->from());
  uint64_t left = scan.options.limit;
  if (!change || left == 0) return false;
  Key at = ahead->from();
  for (Index::Window& window : windows) {
    window.verify = verify_of(scan.options.verify_checksums);
    tiers_->index->read_window(at, version, false, left, &window, ahead);
    ++*read;
    for (const Index::Piece& piece : window.pieces) left -= piece.rows.count;
    if (left == 0) {
      const Rows& last = window.pieces.back().rows;
      return !(Key::of(last.key(last.count - 1)) < *change);
    }
    if (window.trouble != persist::Trouble::kNone || window.hi.above(*change)) return true;
    at = window.hi.key();
  }
  return true;
}

// Visits the range from the least key that is not below `from`. `take(piece, ahead, &status)` receives the records
// found and the knowledge about the ranges after them; false ends the walk. kGuarded: the caller has a guard, under
// which *ahead was found. `windows`: memory for this call, of which the first `read` are read already.
template <bool kGuarded, class Take>
Status DbImpl::walk(uint64_t version, const ScanOptions& options, std::string_view from,
                    std::span<Index::Window> windows, size_t read, index::ScanAhead* ahead, Take&& take) {
  counters_.add(Count::kScans);
  uint64_t left = options.limit;
  base::EpochDomain::Guard guard;
  Index::Window* window = windows.data();
  window->verify = verify_of(options.verify_checksums);
  size_t guarded = 0;
  Status failed;
  base::Fence at(from);
  while (left > 0 && !at.is_infinite()) {
    if (!options.end.empty() && options.end <= at.bytes()) break;
    if (!kGuarded && guarded++ % kGuardWindows == 0) {
      ahead->clear();
      guard = tiers_->epochs->enter();
    }
    if (read == 0) tiers_->index->read_window(at.key(), version, false, left, window, ahead);
    if (!may_answer()) [[unlikely]]
      BONSAI_RETURN_IF_ERROR(await_lease(/*waits=*/window->trouble != persist::Trouble::kUnavailable));
    for (Index::Piece& piece : window->pieces) {
      const bool last = !options.end.empty() && cut_at(options.end, &piece.rows);
      if (last && piece.rows.count == 0) return Status::OK();
      BONSAI_DCHECK(piece.rows.count <= left);
      left -= piece.rows.count;
      if (left == 0) ahead->set_records({});
      if (!take(piece, ahead, &failed) || last) return failed;
    }
    if (window->trouble != persist::Trouble::kNone)
      return no_range(*tiers_->volume, window->trouble, window->lo, window->hi);
    if (left > 0) at = window->hi;
    if (read != 0 && --read != 0) ++window;
  }
  return Status::OK();
}

}  // namespace bonsai::store
