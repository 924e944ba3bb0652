// SPDX-License-Identifier: Apache-2.0
// Time to open a crashed pool, by the records stored and by the log tail.
//
// The crash is a copy of the pool's file, made while the store is open and idle. On tmpfs this is the image that a
// power cut of an eADR machine leaves. Under ADR the bytes are the same, since every update was durable when it
// returned.
#include <algorithm>
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/status_macros.h"
#include "bench/engines/pool_place.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/versioned_records.h"
#include "bonsai/db.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kTailShares[] = {0, 1, 5, 10};  // records in the log, in percent of the records stored
constexpr uint64_t kLogRecordBytes = 40;
constexpr uint64_t kRecordBytesMax = 64;  // of the data area, room for offloading included
constexpr uint64_t kPoolBytesBase = uint64_t{64} << 20;

std::string column_name(uint64_t share) {
  return share == 0 ? "log drained" : "log tail of " + std::to_string(share) + " % of the records";
}

// One pool with a number of records, to which log tails of growing length are written.
class CrashedPools {
 public:
  CrashedPools(const ExperimentPlan& plan, uint64_t records) : plan_(plan), records_(records) {}

  Status measure(ExperimentResult* result) {
    Options options;
    options.create_if_missing = true;
    options.key_format = KeyFormat::kFixed8;
    options.background_threads = 0;  // nothing is written while the file is copied
    // The store offloads when seven eighths of the log are used, so the whole tail stays in the log.
    options.log_bytes = std::max<uint64_t>(uint64_t{1} << 20, records_ / 10 * kLogRecordBytes * 4);
    options.pool_bytes = kPoolBytesBase + records_ * kRecordBytesMax + options.log_bytes;
    BONSAI_RETURN_IF_ERROR(place_.make(plan_.config.pool_dir, plan_.config.out_dir, 2 * options.pool_bytes));
    plan_.listener.on_phase("bonsai", "load " + std::to_string(records_), records_);
    BONSAI_RETURN_IF_ERROR(DB::Open(options, pool(), &db_));
    BONSAI_RETURN_IF_ERROR(put(records_));
    BONSAI_RETURN_IF_ERROR(db_->Drain());
    Row row = {static_cast<double>(records_), static_cast<double>(db_->GetStats().dnodes)};
    for (const uint64_t share : kTailShares) {
      const uint64_t tail = records_ * share / 100;
      BONSAI_RETURN_IF_ERROR(db_->Drain());
      BONSAI_RETURN_IF_ERROR(put(tail));
      BONSAI_RETURN_IF_ERROR(measure_open(tail, &row));
    }
    const Stats stats = db_->GetStats();
    result->medium = MediumUse{.text = stats.medium, .emulated = stats.emulated};
    result->rows.push_back(std::move(row));
    return db_->Close();
  }

 private:
  Status put(uint64_t count) { return versioned_.put(db_.get(), count, *plan_.stop); }

  // The median of the seconds that opening a copy takes.
  Status measure_open(uint64_t tail, Row* row) {
    plan_.listener.on_phase("bonsai", "recover " + std::to_string(records_) + " + " + std::to_string(tail), 0);
    std::vector<double> seconds;
    for (unsigned i = 0; i < std::max(3U, plan_.repeat); ++i) {
      const std::string crashed = place_.path() + "/crashed";
      std::error_code error;
      std::filesystem::copy_file(pool(), crashed, error);
      if (error) return Status::IoError("cannot copy the pool: " + error.message() + "; give another --pool-dir");
      Options options;
      options.key_format = KeyFormat::kFixed8;
      std::unique_ptr<DB> recovered;
      const uint64_t begin_ns = base::now_ns();
      BONSAI_RETURN_IF_ERROR(DB::Open(options, crashed, &recovered));
      seconds.push_back(static_cast<double>(base::now_ns() - begin_ns) / 1e9);
      BONSAI_RETURN_IF_ERROR(versioned_.verify(recovered.get()));
      BONSAI_RETURN_IF_ERROR(recovered->Close());
      std::filesystem::remove(crashed, error);
    }
    std::sort(seconds.begin(), seconds.end());
    row->push_back(seconds[seconds.size() / 2]);
    return Status::OK();
  }

  [[nodiscard]] std::string pool() const { return place_.path() + "/pool"; }

  const ExperimentPlan& plan_;
  const uint64_t records_;
  VersionedRecords versioned_{records_};
  PoolPlace place_;
  std::unique_ptr<DB> db_;
};

Status run(const ExperimentPlan& plan, ExperimentResult* result) {
  const uint64_t records_max = plan.scale == Scale::kPaper   ? 10'000'000
                               : plan.scale == Scale::kSmall ? 1'000'000
                                                             : 10'000;
  result->columns = {{"record", "records"}, {"dnodes", "dnodes"}};
  for (const uint64_t share : kTailShares) result->columns.push_back({column_name(share), "s", true});
  result->labels = {
      "Seconds until DB::Open returns, records of 8 + 8 bytes; fingerprints are uploaded afterwards, in the "
      "background. The crash is a copy of the pool's file, taken while the store is open.",
      "The goal is for this class of machine."};
  if (plan.scale != Scale::kPaper) result->labels.emplace_back("Less than the 10 M records of the goal: --scale=paper");
  for (const uint64_t divisor : {100, 32, 10, 3, 1}) {
    BONSAI_RETURN_IF_ERROR(CrashedPools(plan, records_max / divisor).measure(result));
  }
  return Status::OK();
}

Reference reference() {
  return {{"record", column_name(0), column_name(10)}, {{10'000'000, 2.0, 2.0}}, ReferenceKind::kGoals};
}

}  // namespace

const Registered<Experiment> kRecoveryExperiments("recovery", []() -> std::vector<Experiment> {
  return {{"recovery", "Recovery after a crash", "docs/design.md, section 6",
           "seconds to open a crashed pool, by records stored and by the log tail", run, reference}};
});

}  // namespace bonsai::bench
