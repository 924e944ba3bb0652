// SPDX-License-Identifier: Apache-2.0
// Stores with one defect each: the canaries that the test instruments must notice.
#ifndef BONSAI_TESTING_BROKEN_DB_H_
#define BONSAI_TESTING_BROKEN_DB_H_

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "testing/model_db.h"

namespace bonsai::testing {

enum class Defect {
  kNone,
  kLosesPuts,          // now and then a put does nothing
  kReadsStale,         // now and then a get returns the value before the last
  kTearsBatches,       // applies the updates of a batch one by one
  kTearsScans,         // reads the halves of a scan at two moments
  kForgetsSnapshots,   // reads through a snapshot read what is there now
  kAnswersEarly,       // a put returns before its update is visible
  kGarblesValues,      // now and then a byte of a value flips
  kRevivesDeleted,     // now and then a delete does nothing
  kSkipsOnPrev,        // Prev passes over a record now and then
  kIgnoresConditions,  // now and then a conditional put is made though its condition does not hold
  kJudgesEarly,        // a conditional put is judged, and made at a later moment
};
inline constexpr Defect kDefects[] = {Defect::kLosesPuts,         Defect::kReadsStale,       Defect::kTearsBatches,
                                      Defect::kTearsScans,        Defect::kForgetsSnapshots, Defect::kAnswersEarly,
                                      Defect::kGarblesValues,     Defect::kRevivesDeleted,   Defect::kSkipsOnPrev,
                                      Defect::kIgnoresConditions, Defect::kJudgesEarly};

const char* name_of(Defect defect);

// Thread-safety: as DB (the defects are no data races).
class BrokenDb : public ModelDb {
 public:
  BrokenDb(const Options& options, Defect defect) : ModelDb(options), defect_(defect) {}

  using DB::Get;
  Status Put(std::string_view key, std::string_view value) override;
  Status Delete(std::string_view key) override;
  Status PutIf(const Condition& condition, std::string_view key, std::string_view value) override;
  Status Write(const WriteBatch& batch, size_t* failed) override;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override;
  Status Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;

 private:
  class SkippingIterator;

  // True once in `n` calls.
  bool now_and_then(uint64_t n) { return calls_.fetch_add(1) % n == n - 1; }
  Status put_late(std::string_view key, std::string_view value);

  const Defect defect_;
  std::atomic<uint64_t> calls_{0};
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> held_;  // kReadsStale: values before; kAnswersEarly: puts to come
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_BROKEN_DB_H_
