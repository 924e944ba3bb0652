// SPDX-License-Identifier: Apache-2.0
// Copies of a pool: a checkpoint of one that is open, and what can be saved of one that is damaged.
//
// Salvage does not bring back keys that only the log knows in a range without a sound dnode: the record could be older
// than what the dnode held. Damage in the log may leave older values in the copy; they are listed as lost.
#include <algorithm>

#include "base/status_macros.h"
#include "bonsai/db.h"
#include "persist/analysis.h"
#include "persist/large.h"
#include "persist/survey.h"
#include "store/new_pool.h"
#include "store/read_only_pool.h"

namespace bonsai {
namespace store {
namespace {

using persist::Entry;
using persist::LiveRecord;
using persist::Tile;

class Salvager {
 public:
  Salvager(const ReadOnlyPool& source, DB& to, SalvageReport* report)
      : volume_(source.volume()), pool_(source.pool()), large_(source.volume(), space_), to_(to), report_(*report) {}

  Status run(const std::function<void(double)>& progress) {
    persist::Analysis analysis;
    BONSAI_RETURN_IF_ERROR(persist::analyse(volume_, pool_, &analysis));
    report_.lost = std::move(analysis.damages);
    for (size_t i = 0; i < analysis.tiles.size(); ++i) {
      const Tile& tile = analysis.tiles[i];
      BONSAI_RETURN_IF_ERROR(copy_tile(tile, *analysis.dnodes[tile.dnode]));
      if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(analysis.tiles.size()));
    }
    return Status::OK();
  }

 private:
  // The log's records are newer than the dnode, and win also where the dnode is damaged.
  Status copy_tile(const Tile& tile, const persist::Dnode& dnode) {
    const persist::Survey survey = persist::survey(volume_, dnode, tile.lo, tile.hi);
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
    return to_.Put(key, value);
  }

  void lose(std::string where, std::string what, std::string range) {
    report_.lost.push_back({std::move(where), std::move(what), std::move(range)});
  }

  scale::Volume& volume_;
  const persist::Pool& pool_;
  persist::Space space_;
  const persist::LargeStore large_;
  DB& to_;
  SalvageReport& report_;
  std::string value_;
};

}  // namespace
}  // namespace store

Status Salvage(const std::string& from, const Options& options, const std::string& to, SalvageReport* report,
               const std::function<void(double)>& progress) {
  store::ReadOnlyPool source;
  BONSAI_RETURN_IF_ERROR(source.open(from, options));
  Options creating = options;
  creating.key_format = source.pool().key_format();
  store::NewPool copy;
  BONSAI_RETURN_IF_ERROR(copy.create(creating, to));
  *report = SalvageReport();
  BONSAI_RETURN_IF_ERROR(store::Salvager(source, copy.db(), report).run(progress));
  return copy.complete();
}

Status Checkpoint(DB* db, const Options& options, const std::string& to, const Snapshot* snapshot, uint64_t* records) {
  Options creating = options;
  creating.key_format = db->GetStats().key_format;
  store::NewPool copy;
  BONSAI_RETURN_IF_ERROR(copy.create(creating, to));
  Status written;
  uint64_t count = 0;
  ScanOptions scan;
  scan.snapshot = snapshot;
  BONSAI_RETURN_IF_ERROR(db->Scan(scan, {}, [&](std::string_view key, std::string_view value) {
    written = copy.db().Put(key, value);
    count += written.ok() ? 1 : 0;
    return written.ok();
  }));
  BONSAI_RETURN_IF_ERROR(written);
  BONSAI_RETURN_IF_ERROR(copy.complete());
  if (records != nullptr) *records = count;
  return Status::OK();
}

}  // namespace bonsai
