// SPDX-License-Identifier: Apache-2.0
// What the commands of one EXEC do. They read the store as of one moment, and their own updates, which are staged:
// nothing is written before commit(), which writes all in one batch if what they have read is still so. Then they have
// taken effect at one moment.
#ifndef BONSAI_SERVER_STAGE_H_
#define BONSAI_SERVER_STAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "bonsai/db.h"
#include "server/transaction.h"

namespace bonsai::server {

// Thread-safety: one thread.
class Stage {
 public:
  // Requires: *db outlives it. `bytes_max` bounds what is staged.
  Stage(DB* db, uint64_t bytes_max) : db_(*db), bytes_max_(bytes_max) {}

  // Takes the moment. Errors: as DB::GetSnapshot. Requires: called once, before all others.
  Status begin() { return db_.GetSnapshot(&moment_); }

  // ---- as the methods of DB. A failed one stages nothing
  Status get(std::string_view key, std::string* value);
  Status put(std::string_view key, std::string_view value);
  Status remove(std::string_view key);
  Status put_if(const Condition& condition, std::string_view key, std::string_view value);
  Status remove_if(const Condition& condition, std::string_view key);
  Status write(const WriteBatch& batch, size_t* failed);

  // Whether the staged updates take more than bytes_max. Requires: then commit() is not called.
  [[nodiscard]] bool is_too_large() const { return bytes_ > bytes_max_; }

  enum class Outcome : uint8_t {
    kDone,
    kOvertaken,  // a watched key has been updated
    kConflict,   // a key that was read has been updated: begin anew
    kFailed,     // *status
  };
  // Writes what is staged, if what was read and `watch` are unchanged. Unless kDone nothing is changed, but for errors
  // whose outcome is open (bonsai/db.h).
  Outcome commit(const Watch& watch, Status* status);

 private:
  Status check(std::string_view key) const;
  Status judge(const Condition& condition, std::string_view key);
  void stage(std::string_view key, std::optional<std::string_view> value);

  DB& db_;
  const uint64_t bytes_max_;
  std::shared_ptr<const Snapshot> moment_;
  std::map<std::string, std::optional<std::string>, std::less<>> staged_;  // none: a deletion
  std::set<std::string, std::less<>> read_;                                // from the store
  uint64_t bytes_ = 0;                                                     // of staged_
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_STAGE_H_
