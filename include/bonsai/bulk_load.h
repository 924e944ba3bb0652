// SPDX-License-Identifier: Apache-2.0
// Puts many records, one after the other, in groups that share fences and round trips: to fill a pool from a file, a
// dump or another store. It works by a session, and has nothing that a program could not do by one.
//
//   bonsai::BulkLoad load(db.get());
//   while (status.ok() && next(&key, &value)) status = load.Put(key, value);
//   if (status.ok()) status = load.Finish();  // now all of them are durable
//
// Thread-safety: one thread at a time; a store may have several.
#ifndef BONSAI_BULK_LOAD_H_
#define BONSAI_BULK_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/db.h"
#include "bonsai/session.h"

namespace bonsai {

class BulkLoad {
 public:
  static constexpr size_t kGroupRecords = 256;
  static constexpr size_t kGroupBytesMax = size_t{1} << 20;  // a group ends with the record that reaches it

  // Requires: this object is destroyed before the store is closed.
  explicit BulkLoad(DB* db) : session_(db->NewSession(kGroupRecords)) {
    if (session_ == nullptr) status_ = Status::NoSpace("out of memory for a session");
  }
  BulkLoad(const BulkLoad&) = delete;
  BulkLoad& operator=(const BulkLoad&) = delete;

  // Takes a record; the bytes of key and value are copied. Records of one key take effect in the order of these calls.
  // Errors: those of DB::Put, of this record or one of the kGroupRecords before it. Once it has failed it takes no
  // more.
  Status Put(std::string_view key, std::string_view value) {
    if (!status_.ok()) return status_;
    Record& record = records_[in_group_++];
    record.key.assign(key);
    record.value.assign(value);
    bytes_ += key.size() + value.size();
    session_->Put(record.key, record.value, &record.status);
    return in_group_ == records_.size() || bytes_ >= kGroupBytesMax ? EndGroup() : Status::OK();
  }

  // Ends what is in flight. All records are durable if it returns OK (in mode buffered: after DB::Sync). Errors: as
  // Put.
  Status Finish() { return status_.ok() ? EndGroup() : status_; }

  // How many records, counted from the first, are in the store. After a failure that is the number of the record that
  // failed, from 0; some of the kGroupRecords after it may be there.
  [[nodiscard]] uint64_t Records() const { return count_; }

 private:
  struct Record {
    std::string key, value;
    Status status;
  };

  Status EndGroup() {
    session_->Wait();
    for (size_t i = 0; i < in_group_ && status_.ok(); ++i) {
      status_ = records_[i].status;
      count_ += status_.ok() ? 1 : 0;
    }
    in_group_ = 0;
    bytes_ = 0;
    return status_;
  }

  std::vector<Record> records_ = std::vector<Record>(kGroupRecords);  // outlive the session
  std::unique_ptr<Session> session_;
  size_t in_group_ = 0;
  size_t bytes_ = 0;
  uint64_t count_ = 0;
  Status status_;
};

}  // namespace bonsai

#endif  // BONSAI_BULK_LOAD_H_
