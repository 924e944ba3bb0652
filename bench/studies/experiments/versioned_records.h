// SPDX-License-Identifier: Apache-2.0
// Records whose values carry a version. The check notices a store that has lost a part of its log, even if every key is
// there.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_VERSIONED_RECORDS_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_VERSIONED_RECORDS_H_

#include <atomic>
#include <cstdint>

#include "bonsai/db.h"

namespace bonsai::bench {

// Records of 8 + 8 bytes. The first part of them is rewritten again and again. Thread-safety: one owner.
class VersionedRecords {
 public:
  explicit VersionedRecords(uint64_t records) : records_(records) {}

  // Writes the first `count` records with a new version. Requires: the first call writes all records; later calls write
  // 0 records, or at least as many as each later call before. Errors: those of the store; Unavailable (stopped).
  Status put(DB* db, uint64_t count, const std::atomic<bool>& stop);

  // Verifies that every record of the last put(), and a sample of the others, is there in its newest version. Errors:
  // Corruption (an older version), those of the store (NotFound, say).
  Status verify(DB* db) const;

 private:
  const uint64_t records_;
  uint32_t version_ = 0;    // of the last put()
  uint64_t rewritten_ = 0;  // by it
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_VERSIONED_RECORDS_H_
