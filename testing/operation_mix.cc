// SPDX-License-Identifier: Apache-2.0
// Operations of one kind on a loaded and drained store, through the public interface only. scripts/instructions.py
// counts their instructions.
//   operation_mix KIND RECORDS OPERATIONS    KIND: put, get, multi_put, multi_get (32 keys a call), scan (of 50)
//                                            session_put, session_get, session_mixed (32 a session's wait),
//                                            session_insert, session_scan (of 50; each twentieth an insert)
//                                            long_scan (of 32 K, after 256 puts), long_scan_16 (values of 16 bytes)
//                                            compaction (a put, and its share of a drain after 4,096 puts)
// One thread, no background threads, 8-byte keys in random order, 8-byte values, a pool in memory (tmpfs) that is
// removed in the end. The requests of a run are a prefix of those of a longer one.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/db.h"

namespace {

constexpr size_t kGroup = 32;
constexpr uint64_t kLongScanRecords = 32'768, kPutsPerLongScan = 256;
constexpr uint64_t kPutsPerDrain = 4'096;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 32);
}

std::string key_of(uint64_t number) {
  const uint64_t bits = mix(number);
  return {reinterpret_cast<const char*>(&bits), sizeof bits};
}

class Mix {
 public:
  Mix(bonsai::DB* db, uint64_t records, size_t value_bytes)
      : db_(*db), records_(records), old_(value_bytes, 'o'), new_(value_bytes, 'n') {}

  bonsai::Status load() {
    bonsai::Status status;
    for (uint64_t i = 0; i < records_ && status.ok(); ++i) status = db_.Put(key_of(i), old_);
    return status.ok() ? db_.Drain() : status;
  }

  bonsai::Status run(const std::string& kind, uint64_t operations) {
    if (kind == "multi_get" || kind == "multi_put") return in_groups(kind == "multi_put", operations);
    if (kind.starts_with("session_")) return in_session(kind, operations);
    if (kind.starts_with("long_scan")) return beside_updates(operations);
    bonsai::Status status;
    for (uint64_t i = 0; i < operations && status.ok(); ++i) {
      const std::string key = key_of(mix(i) % records_);
      if (kind == "put") {
        status = db_.Put(key, new_);
      } else if (kind == "compaction") {
        status = db_.Put(key, new_);
        if (status.ok() && (i + 1) % kPutsPerDrain == 0) status = db_.Drain();
      } else if (kind == "get") {
        status = db_.Get(key, &value_);
      } else if (kind == "scan") {
        bonsai::ScanOptions options;
        options.limit = 50;
        status = db_.Scan(options, key, [this](std::string_view, std::string_view) { return ++visited_ != 0; });
      } else {
        status = bonsai::Status::InvalidArgument("'" + kind + "' is no kind of operation; see operation_mix.cc");
      }
    }
    return status;
  }

 private:
  // The first puts give each range updates for the scans to merge.
  bonsai::Status beside_updates(uint64_t operations) {
    bonsai::ScanOptions options;
    options.limit = kLongScanRecords;
    bonsai::Status status = put_some(0, records_ / 4);
    for (uint64_t i = 0; i < operations && status.ok(); ++i) {
      status = put_some(records_ + i * kPutsPerLongScan, kPutsPerLongScan);
      if (!status.ok()) break;
      status = db_.ScanRows(options, key_of(mix(i) % records_),
                            [this](const bonsai::Rows& rows) { return (visited_ += rows.count) != 0; });
    }
    return status;
  }
  bonsai::Status put_some(uint64_t first, uint64_t count) {
    bonsai::Status status;
    for (uint64_t i = first; i < first + count && status.ok(); ++i) status = db_.Put(key_of(mix(i) % records_), new_);
    return status;
  }

  bonsai::Status in_groups(bool puts, uint64_t operations) {
    std::vector<std::string> keys(kGroup), values(kGroup);
    const std::vector<std::string_view> new_values(kGroup, new_);
    std::vector<bonsai::Status> statuses(kGroup);
    for (uint64_t i = 0; i < operations; i += kGroup) {
      for (size_t j = 0; j < kGroup; ++j) keys[j] = key_of(mix(i + j) % records_);
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      if (puts) {
        db_.MultiPut(views, new_values, statuses);
      } else {
        db_.MultiGet({}, views, values, statuses);
      }
      for (const bonsai::Status& status : statuses) {
        if (!status.ok()) return status;
      }
    }
    return bonsai::Status::OK();
  }

  // The requests of one kind. Of a mixed one every other operation is a get.
  bonsai::Status in_session(const std::string& kind, uint64_t operations) {
    const bool inserts = kind == "session_insert", scans = kind == "session_scan";
    const auto session = db_.NewSession(kGroup);
    bonsai::ScanOptions options;
    options.limit = 50;
    std::vector<std::string> keys(kGroup), values(kGroup);
    std::vector<bonsai::Status> statuses(kGroup);
    for (uint64_t i = 0; i < operations; ++i) {
      const size_t j = i % kGroup;
      const bool fresh = inserts || (scans && i % 20 == 19);
      keys[j] = key_of(fresh ? records_ + i : mix(i) % records_);
      if (fresh || kind == "session_put" || (kind == "session_mixed" && i % 2 == 1)) {
        session->Put(keys[j], new_, &statuses[j]);
      } else if (scans) {
        session->Scan(
            options, keys[j], [this](std::string_view, std::string_view) { return ++visited_ != 0; }, &statuses[j]);
      } else {
        session->Get(keys[j], &values[j], &statuses[j]);
      }
      if (j + 1 < kGroup && i + 1 < operations) continue;
      session->Wait();
      for (const bonsai::Status& status : statuses) {
        if (!status.ok()) return status;
      }
    }
    return bonsai::Status::OK();
  }

  bonsai::DB& db_;
  const uint64_t records_;
  const std::string old_, new_;  // values
  std::string value_;
  uint64_t visited_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: operation_mix KIND RECORDS OPERATIONS\n");
    return 2;
  }
  const uint64_t records = std::strtoull(argv[2], nullptr, 10);
  const std::string pool = "/dev/shm/operation_mix." + std::to_string(::getpid());
  bonsai::Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.key_format = bonsai::KeyFormat::kFixed8;
  options.pool_bytes = (uint64_t{64} << 20) + 256 * records;
  options.background_threads = 0;
  options.recovery_threads = 1;
  std::unique_ptr<bonsai::DB> db;
  bonsai::Status status = bonsai::DB::Open(options, pool, &db);
  if (status.ok()) {
    const std::string kind = argv[1];
    Mix mix(db.get(), records, kind.ends_with("_16") ? 16 : 8);
    status = mix.load();
    if (status.ok()) status = mix.run(kind, std::strtoull(argv[3], nullptr, 10));
    db.reset();
  }
  ::unlink(pool.c_str());
  if (!status.ok()) std::fprintf(stderr, "operation_mix: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
