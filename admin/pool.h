// SPDX-License-Identifier: Apache-2.0
// Opening the pool that the flags name, and errors that say which command repairs them.
#ifndef BONSAI_ADMIN_POOL_H_
#define BONSAI_ADMIN_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "admin/remedy.h"
#include "admin/text.h"
#include "bonsai/testing.h"

namespace bonsai::admin {

// Errors: InvalidArgument (a flag's value is not known).
Status options_from_flags(Options* options);

// Errors: InvalidArgument (--pool is missing).
Status pool_path(std::string* path);

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

// As open_pool(), for a command that only reads: without changing the pool, and without permission to, where that is
// possible. A pool that cannot be opened read-only (on a node, on a DAX device, striped, for a test medium) is opened
// as for updates.
Status open_pool_to_read(Options options, OpenPool* pool);

// As open_pool(). If `options` say that a missing pool is to be created, *created is whether this call has created it.
// If an existing pool has another size than the requested one, standard error says so.
Status open_or_create_pool(const Options& options, OpenPool* pool, bool* created);

// IoError if a local target of the pool does not exist, for commands that would not create it.
Status of_missing(const std::string& path);

// As with_remedy(), after copying the pool `from` to `to`. The advice is about `from` if `status` names one of its
// targets, and otherwise about `to`.
Status with_remedy_of_copy(Status status, const std::string& from, const std::string& to);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_POOL_H_
