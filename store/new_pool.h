// SPDX-License-Identifier: Apache-2.0
// Creates a pool completely or not at all: its files get their names, here and on other nodes, when it is complete.
#ifndef BONSAI_STORE_NEW_POOL_H_
#define BONSAI_STORE_NEW_POOL_H_

#include <memory>
#include <string>

#include "base/check.h"
#include "bonsai/db.h"
#include "store/db_impl.h"

namespace bonsai::store {

// A pool that is not complete when this object is destroyed, or its process ends, is gone: it had no name. Where files
// cannot be made without a name (base::MappingOptions::name_later), a killed process leaves them. A device has its name
// from the start: a pool on it keeps what was filled so far, also after a failure.
class NewPool {
 public:
  // Errors: InvalidArgument (a file is there already), others as DB::Open.
  Status create(Options options, const std::string& path);
  // Drains, closes and gives the pool its names. Replaces no file, and an error leaves no new names. Requires: created.
  // Errors: those of these steps, Busy (another process has made a file of that name meanwhile), IoError.
  Status complete();

  // Requires: created, not complete.
  [[nodiscard]] DB& db() {
    BONSAI_CHECK(db_ != nullptr);
    return *db_;
  }

 private:
  std::unique_ptr<DbImpl> db_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_NEW_POOL_H_
