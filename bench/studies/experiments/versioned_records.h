// SPDX-License-Identifier: Apache-2.0
// Records whose values carry a version, so that a store which has lost a part of its log is found out although every
// key is there.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_VERSIONED_RECORDS_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_VERSIONED_RECORDS_H_

#include <atomic>
#include <cstdint>

#include "bonsai/db.h"

namespace bonsai::bench {

// Records of 8 + 8 bytes, of which a first part is written again and again. Thread-safety: one owner.
class VersionedRecords {
 public:
  explicit VersionedRecords(uint64_t records) : records_(records) {}

  // Writes the first `count` records, with a version that none had before. Requires: the first call writes all, and no
  // call writes fewer than one before it, that first one and 0 aside. Errors: of the store; Unavailable (stopped).
  Status put(DB* db, uint64_t count, const std::atomic<bool>& stop);

  // What the last put() wrote, every record of it, and a sample of the others are there in their newest versions.
  // Errors: Corruption (an older version), those of the store (NotFound, say).
  Status verify(DB* db) const;

 private:
  const uint64_t records_;
  uint32_t version_ = 0;    // of the last put()
  uint64_t rewritten_ = 0;  // by it
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_VERSIONED_RECORDS_H_
