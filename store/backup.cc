// SPDX-License-Identifier: Apache-2.0
// Copies of a pool: a checkpoint of an open one, and the salvaged records of a damaged one.
//
// Salvage does not bring back keys that only the log has, in a range without a sound dnode: the record could be older
// than the dnode's. Damage in the log may leave older values in the copy; they are listed as lost.
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "bonsai/bulk_load.h"
#include "bonsai/db.h"
#include "persist/analysis.h"
#include "persist/large.h"
#include "persist/runs_ahead.h"
#include "persist/survey.h"
#include "scale/target_name.h"
#include "store/new_pool.h"
#include "store/options.h"
#include "store/range_states.h"
#include "store/read_only_pool.h"

namespace bonsai {
namespace store {
namespace {

using persist::Entry;
using persist::LiveRecord;
using persist::Tile;

// The size of a copy's targets if the caller gives none (Options::pool_bytes of 0): twice the bytes of its records,
// shared by the targets that store them. Each is at least as large as a target of the source, or as kKeptBytesMax if
// that is less.
constexpr uint64_t kKeptBytesMax = 64 * base::kMiB;
constexpr uint64_t kRecordBytes = 16;  // of a record, beside key and value

uint64_t record_bytes(uint64_t key_bytes, uint64_t value_bytes) { return key_bytes + value_bytes + kRecordBytes; }

Status size_copy(uint64_t records_bytes, uint64_t source_target_bytes, const std::string& to, Options* options) {
  BONSAI_CHECK(options->pool_bytes == 0);  // the caller has not said it
  std::vector<scale::TargetName> names;
  BONSAI_RETURN_IF_ERROR(scale::parse_target_names(to, &names));
  const auto logs =
      std::count_if(names.begin(), names.end(), [](const auto& name) { return name.role == scale::TargetRole::kLog; });
  const uint64_t sharing = std::max<uint64_t>(1, names.size() - static_cast<uint64_t>(logs));
  options->pool_bytes = std::clamp(std::max(2 * records_bytes / sharing, std::min(source_target_bytes, kKeptBytesMax)),
                                   kPoolBytesMin, kPoolBytesMax);
  return Status::OK();
}

class Salvager {
 public:
  Salvager(const ReadOnlyPool& source, SalvageReport* report)
      : volume_(source.volume()),
        pool_(source.pool()),
        missing_(source.missing()),
        large_(source.volume(), space_),
        report_(*report) {}

  Status analyse() { return persist::analyse(volume_, pool_, &analysis_); }

  // About as many bytes as copy() will copy. Requires: analysed.
  Status measure(uint64_t* bytes) {
    BONSAI_CHECK(to_ == nullptr);  // nothing is copied
    BONSAI_RETURN_IF_ERROR(visit_tiles({}));
    *bytes = bytes_;
    return Status::OK();
  }

  // Requires: analysed.
  Status copy_all(DB* to, const std::function<void(double)>& progress) {
    BONSAI_CHECK(to_ == nullptr && to != nullptr);
    BulkLoad load(to);
    to_ = &load;
    report_ = SalvageReport();
    report_.lost = missing_;
    report_.missing = missing_.size();
    std::move(analysis_.damages.begin(), analysis_.damages.end(), std::back_inserter(report_.lost));
    static_cast<void>(ranges_.take());
    const Status visited = visit_tiles(progress);
    report_.ranges = ranges_.take();
    to_ = nullptr;
    return visited.ok() ? load.Finish() : visited;
  }

 private:
  Status visit_tiles(const std::function<void(double)>& progress) {
    persist::RunsAhead ahead(volume_, analysis_);
    for (size_t i = 0; i < analysis_.tiles.size(); ++i) {
      const Tile& tile = analysis_.tiles[i];
      BONSAI_CHECK(tile.dnode < analysis_.dnodes.size());
      const uint64_t records = report_.records, lost = report_.lost.size();
      BONSAI_RETURN_IF_ERROR(copy_tile(tile, *analysis_.dnodes[tile.dnode], &ahead.of(i)));
      ranges_.add(tile.lo, tile.hi, report_.lost.size() != lost, report_.records - records);
      if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(analysis_.tiles.size()));
    }
    return Status::OK();
  }

  // The log's records are newer than the dnode, and win also where the dnode is damaged.
  Status copy_tile(const Tile& tile, const persist::Dnode& dnode, persist::RunReader* reader) {
    const persist::Survey survey = persist::survey(reader, dnode, tile.lo, tile.hi);
    BONSAI_RETURN_IF_ERROR(survey.status);
    for (const persist::Survey::Lost& lost : survey.lost) {
      lose(persist::place_text("entries of the run", lost.where), "they fail their checks",
           base::printable_range(lost.lo, lost.hi));
    }
    auto record = tile.records.begin();
    const auto copy_records_below = [&](const base::Key* key) -> Status {
      for (; record != tile.records.end() && (key == nullptr || record->update.key < key->bytes); ++record) {
        const persist::Update& update = record->update;
        BONSAI_RETURN_IF_ERROR(copy(update.key, update.value, update.tombstone, update.large));
      }
      return Status::OK();
    };
    for (const Entry& entry : survey.entries) {
      BONSAI_RETURN_IF_ERROR(copy_records_below(&entry.key));
      if (record != tile.records.end() && record->update.key == entry.key.bytes) continue;
      BONSAI_RETURN_IF_ERROR(copy(entry.key.bytes, entry.value, entry.tombstone, entry.large));
    }
    return copy_records_below(nullptr);
  }

  Status copy(std::string_view key, std::string_view value, bool tombstone, bool large) {
    if (tombstone) return Status::OK();
    if (to_ == nullptr) {  // measuring
      bytes_ += record_bytes(key.size(), large ? persist::large_ref(value).value_bytes : value.size());
      return Status::OK();
    }
    if (large) {
      const persist::LargeRef ref = persist::large_ref(value);
      const persist::Trouble trouble = large_.read(ref, &value_);
      if (trouble == persist::Trouble::kUnavailable) return volume_.unavailable();
      if (trouble == persist::Trouble::kDamaged) {
        lose(persist::place_text("large value", scale::Addr::of_bits(ref.addr)), "it fails its checksum",
             base::printable(key));
        return Status::OK();
      }
      value = value_;
    }
    ++report_.records;
    return to_->Put(key, value);
  }

  void lose(std::string where, std::string what, std::string range) {
    report_.lost.push_back({std::move(where), std::move(what), std::move(range)});
  }

  scale::Volume& volume_;
  const persist::Pool& pool_;
  const std::vector<Damage>& missing_;
  persist::Space space_;
  const persist::LargeStore large_;
  persist::Analysis analysis_;
  BulkLoad* to_ = nullptr;  // while records are copied
  SalvageReport& report_;
  RangeStates ranges_;
  uint64_t bytes_ = 0;
  std::string value_;
};

Status salvage(const std::string& from, const Options& options, const std::string& to, SalvageReport* report,
               const std::function<void(double)>& progress) {
  BONSAI_RETURN_IF_ERROR(check_bounds_of_copy(options));
  ReadOnlyPool source;
  BONSAI_RETURN_IF_ERROR(source.open(from, options));
  Options creating = options;
  creating.key_format = source.pool().key_format();
  creating.allow_missing = false;
  Salvager salvager(source, report);
  BONSAI_RETURN_IF_ERROR(source.confirm(salvager.analyse()));
  if (options.pool_bytes == 0) {
    uint64_t bytes = 0, target_bytes = 0;
    BONSAI_RETURN_IF_ERROR(salvager.measure(&bytes));
    for (size_t i = 0; i < source.volume().targets(); ++i) {
      target_bytes = std::max(target_bytes, source.volume().target_bytes(i));
    }
    BONSAI_RETURN_IF_ERROR(size_copy(bytes, target_bytes, to, &creating));
  }
  NewPool copy;
  BONSAI_RETURN_IF_ERROR(copy.create(creating, to));
  BONSAI_RETURN_IF_ERROR(source.confirm(salvager.copy_all(&copy.db(), progress)));
  return copy.complete();
}

Status checkpoint(DB* db, const Options& options, const std::string& to, const Snapshot* snapshot, uint64_t* records) {
  BONSAI_RETURN_IF_ERROR(check_bounds_of_copy(options));
  Options creating = options;
  const Stats stats = db->GetStats();
  BONSAI_CHECK(stats.targets >= 1);
  creating.key_format = stats.key_format;
  ScanOptions scan;
  scan.snapshot = snapshot;
  if (options.pool_bytes == 0) {
    uint64_t bytes = 0;
    BONSAI_RETURN_IF_ERROR(db->Scan(scan, {}, [&](std::string_view key, std::string_view value) {
      bytes += record_bytes(key.size(), value.size());
      return true;
    }));
    BONSAI_RETURN_IF_ERROR(size_copy(bytes, stats.pool_bytes / stats.targets, to, &creating));
  }
  NewPool copy;
  BONSAI_RETURN_IF_ERROR(copy.create(creating, to));
  uint64_t count = 0;
  {
    BulkLoad load(&copy.db());
    Status written;
    BONSAI_RETURN_IF_ERROR(db->Scan(scan, {}, [&](std::string_view key, std::string_view value) {
      written = load.Put(key, value);
      return written.ok();
    }));
    if (written.ok()) written = load.Finish();
    BONSAI_RETURN_IF_ERROR(written);
    count = load.Records();
  }
  BONSAI_RETURN_IF_ERROR(copy.complete());
  if (records != nullptr) *records = count;
  return Status::OK();
}

}  // namespace
}  // namespace store

Status Salvage(const std::string& from, const Options& options, const std::string& to, SalvageReport* report,
               const std::function<void(double)>& progress) {
  return store::with_memory([&] { return store::salvage(from, options, to, report, progress); });
}

Status Checkpoint(DB* db, const Options& options, const std::string& to, const Snapshot* snapshot, uint64_t* records) {
  return store::with_memory([&] { return store::checkpoint(db, options, to, snapshot, records); });
}

}  // namespace bonsai
