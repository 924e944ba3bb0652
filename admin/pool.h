// SPDX-License-Identifier: Apache-2.0
// Opening the pool that the flags name, and errors that say which command repairs them.
#ifndef BONSAI_ADMIN_POOL_H_
#define BONSAI_ADMIN_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "admin/text.h"
#include "bonsai/testing.h"

namespace bonsai::admin {

// Errors: InvalidArgument (a flag's value is not known).
Status options_from_flags(Options* options);

// Errors: InvalidArgument (--pool is missing).
Status pool_path(std::string* path);

// The targets that a path names, split at its commas.
std::vector<std::string> targets_of(const std::string& path);

// An open pool and the form of its keys.
struct OpenPool {
  std::unique_ptr<DB> db;
  KeyText keys;

  // Closes; returns the first failure of `work` and the closing.
  Status close(Status work);
};

// Opens --pool. Creates it only when `options` say so. Errors: as OpenForTest, with the remedy in terms of this
// program.
Status open_pool(const Options& options, OpenPool* pool);

// `status` with advice for the pool at `path` appended, where this program has a remedy to offer.
Status with_remedy(Status status, const std::string& path);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_POOL_H_
