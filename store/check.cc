// SPDX-License-Identifier: Apache-2.0
// The offline check: everything that recovery verifies, and every stored byte besides.
#include "base/check.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/status_macros.h"
#include "bonsai/db.h"
#include "persist/analysis.h"
#include "persist/large.h"
#include "persist/runs_ahead.h"
#include "persist/survey.h"
#include "scale/volume.h"
#include "store/options.h"
#include "store/range_states.h"
#include "store/read_only_pool.h"

namespace bonsai {
namespace store {
namespace {

using persist::Dnode;
using persist::Entry;
using persist::LargeRef;
using scale::Addr;

class Checker {
 public:
  Checker(const ReadOnlyPool& source, CheckReport* report, const std::function<void(double)>& progress)
      : volume_(source.volume()),
        pool_(source.pool()),
        missing_(source.missing()),
        report_(*report),
        progress_(progress),
        large_(source.volume(), space_) {}

  Status run() {
    BONSAI_RETURN_IF_ERROR(persist::analyse(volume_, pool_, &analysis_));
    dnode_seen_.resize(analysis_.dnodes.size());
    report_.repairs = pool_.repairs;
    const std::vector<Damage> more = analysis_.repairs();
    report_.repairs.insert(report_.repairs.end(), more.begin(), more.end());
    report_.damages = missing_;
    report_.missing = missing_.size();
    std::move(analysis_.damages.begin(), analysis_.damages.end(), std::back_inserter(report_.damages));
    report_.clean = analysis_.clean;
    report_.log_records = analysis_.log_records;
    report_.targets = volume_.targets();
    report_.key_format = pool_.key_format();
    pool_.add_targets(&space_);
    for (const persist::Analysis::HeaderExtent& extent : analysis_.header_extents) {
      claim(extent.at, pool_.superblocks[0].extent_bytes, "header extent", {});
    }
    persist::RunsAhead ahead(volume_, analysis_);
    for (size_t i = 0; i < analysis_.tiles.size(); ++i) {
      const persist::Tile& tile = analysis_.tiles[i];
      const uint64_t records = report_.records, damages = report_.damages.size();
      BONSAI_RETURN_IF_ERROR(check_tile(tile, &ahead.of(i)));
      ranges_.add(tile.lo, tile.hi, report_.damages.size() != damages, report_.records - records);
      if (progress_ && i % 64 == 0) progress_(static_cast<double>(i) / static_cast<double>(analysis_.tiles.size()));
    }
    report_.ranges = ranges_.take();
    report_.data_bytes = space_.capacity_bytes();
    report_.data_bytes_used = space_.used_bytes();
    if (progress_) progress_(1.0);
    return Status::OK();
  }

 private:
  // Errors: Unavailable.
  Status check_tile(const persist::Tile& tile, persist::RunReader* reader) {
    BONSAI_CHECK(tile.dnode < dnode_seen_.size());
    const Dnode& dnode = *analysis_.dnodes[tile.dnode];
    const std::string range = base::printable_range(tile.lo, tile.hi);
    if (!dnode_seen_[tile.dnode]) {  // a dnode may be live in several pieces, with others between them
      dnode_seen_[tile.dnode] = true;
      ++report_.dnodes;
      BONSAI_RETURN_IF_ERROR(check_runs(dnode, range, reader));
      if (!dnode.long_fences().is_nil()) claim(dnode.long_fences(), dnode.long_fence_bytes(), "fence keys", range);
    }
    const persist::Survey survey = persist::survey(reader, dnode, tile.lo, tile.hi);
    BONSAI_RETURN_IF_ERROR(survey.status);
    for (const persist::Survey::Lost& lost : survey.lost) {
      damage(persist::place_text("entries of the run", lost.where), "they fail their checks",
             base::printable_range(lost.lo, lost.hi));
    }
    for (const Entry& entry : survey.entries) {
      const bool replaced = std::binary_search(tile.records.begin(), tile.records.end(), entry.key.bytes, Before{});
      if (!entry.tombstone && !replaced) ++report_.records;
      if (entry.large) BONSAI_RETURN_IF_ERROR(check_large(persist::large_ref(entry.value), entry.key.bytes));
    }
    for (const persist::LiveRecord& record : tile.records) {
      if (!record.update.tombstone) ++report_.records;
      if (record.update.large)
        BONSAI_RETURN_IF_ERROR(check_large(persist::large_ref(record.update.value), record.update.key));
    }
    return Status::OK();
  }

  struct Before {
    bool operator()(const persist::LiveRecord& a, std::string_view b) const { return a.update.key < b; }
    bool operator()(std::string_view a, const persist::LiveRecord& b) const { return a < b.update.key; }
  };

  Status check_runs(const Dnode& dnode, const std::string& range, persist::RunReader* reader) {
    std::vector<persist::RunView> runs;
    for (const persist::RunDesc& desc : dnode.runs()) runs.push_back(reader->run(desc));
    BONSAI_RETURN_IF_ERROR(reader->wait());
    for (const persist::RunView& run : runs) {
      const Addr addr = Addr::of_bits(run.desc().addr);
      claim(addr, run.desc().bytes, "run", range);
      if (!run.verify()) damage(persist::place_text("run", addr), "it fails its checksum", range);
    }
    return Status::OK();
  }

  Status check_large(const LargeRef& ref, std::string_view key) {
    ++report_.large_values;
    const Addr addr = Addr::of_bits(ref.addr);
    const persist::Trouble trouble = large_.verify(ref);
    if (trouble == persist::Trouble::kUnavailable) return volume_.unavailable();
    if (trouble == persist::Trouble::kDamaged) {
      damage(persist::place_text("large value", addr), "it fails its checksum", base::printable(key));
    } else {
      claim(addr, ref.value_bytes, "large value", base::printable(key));
    }
    return Status::OK();
  }

  void claim(Addr addr, uint64_t bytes, const char* what, const std::string& range) {
    if (!space_.reserve(addr, bytes))
      damage(persist::place_text(what, addr), "it overlaps another owner's blocks or is outside the pool", range);
  }

  void damage(std::string where, std::string what, std::string range) {
    report_.damages.push_back({std::move(where), std::move(what), std::move(range)});
  }

  scale::Volume& volume_;
  const persist::Pool& pool_;
  const std::vector<Damage>& missing_;
  CheckReport& report_;
  RangeStates ranges_;
  const std::function<void(double)>& progress_;
  persist::Space space_;
  persist::LargeStore large_;
  persist::Analysis analysis_;
  std::vector<bool> dnode_seen_;
};

}  // namespace
}  // namespace store

Status Check(const std::string& path, CheckReport* report, const std::function<void(double)>& progress,
             const Options& options) {
  return store::with_memory([&] {
    BONSAI_RETURN_IF_ERROR(store::check_bounds(options));
    store::ReadOnlyPool source;
    BONSAI_RETURN_IF_ERROR(source.open(path, options));
    *report = CheckReport();
    return source.confirm(store::Checker(source, report, progress).run());
  });
}

}  // namespace bonsai
