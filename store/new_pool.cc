// SPDX-License-Identifier: Apache-2.0
#include "store/new_pool.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "bonsai/testing.h"
#include "store/tiers.h"

namespace bonsai::store {

Status NewPool::create(Options options, const std::string& path) {
  if (options.medium == MediumChoice::kDram) {
    return Status::InvalidArgument("a copy in DRAM would be lost at once; give another medium");
  }
  options.create_if_missing = options.error_if_exists = true;
  return open_store(options, TestOptions(), path, /*name_later=*/true, &db_);
}

Status NewPool::complete() {
  BONSAI_INVARIANT(db_ != nullptr && !db_->tiers().named_at_close);  // names are given last, and once (10)
  BONSAI_RETURN_IF_ERROR(db_->Drain());
  db_->tiers().named_at_close = true;
  return db_->Close();
}

}  // namespace bonsai::store
