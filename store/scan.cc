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

}  // namespace

Status DbImpl::Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) {
  return ScanRows(options, from, [&visit](const Rows& rows) {
    for (size_t i = 0; i < rows.count; ++i) {
      if (!visit(rows.key(i), rows.value(i))) return false;
    }
    return true;
  });
}

void DbImpl::scan_many(std::span<const Ranged> scans) {
  std::array<Index::Start, Index::kStartsMax> starts;
  for (size_t next = 0; next < scans.size();) {
    const auto group = scans.subspan(next, std::min(scans.size() - next, starts.size()));
    for (size_t i = 0; i < group.size(); ++i) starts[i] = {Key::of(group[i].from), group[i].options.limit};
    {
      const auto guard = tiers_->epochs->enter();
      tiers_->index->prefetch_scans({starts.data(), group.size()});
    }
    for (const Ranged& scan : group) *scan.status = Scan(scan.options, scan.from, scan.visit);
    next += group.size();
  }
}

Status DbImpl::ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) {
  if (from.size() > kKeyBytesMax) BONSAI_RETURN_IF_ERROR(check_key(from));
  counters_.add(Count::kScans);
  index::Versions::Announcement own;
  uint64_t version = version_of(options.snapshot);
  if (options.snapshot == nullptr) {
    own = tiers_->index->announce();
    if (!own) {
      return Status::Unavailable("all " + std::to_string(options_.snapshots_max) +
                                 " snapshot slots are taken; release snapshots and iterators, or raise snapshots_max");
    }
    version = own.version();
  }
  uint64_t left = options.limit;
  Index::Window window;
  std::string large;
  for (base::Fence at(from); !at.is_infinite() && left > 0; at = window.hi) {
    if (!options.end.empty() && options.end <= at.bytes()) break;
    const auto guard = tiers_->epochs->enter();
    tiers_->index->read_window(at.key(), version, false, left, &window);
    for (auto& [rows, is_large] : window.pieces) {
      const bool last = !options.end.empty() && cut_at(options.end, &rows);
      if (last && rows.count == 0) return Status::OK();
      left -= rows.count;
      if (is_large) {
        if (!tiers_->large->read(persist::large_ref(rows.value(0)), &large)) return damaged_value(rows.key(0));
        rows.values = large.data();
        rows.value_bytes = static_cast<uint32_t>(large.size());
      }
      if (!visit(rows) || last) return Status::OK();
    }
    if (window.damaged) return damaged_range(window.lo, window.hi);
  }
  return Status::OK();
}

}  // namespace bonsai::store
