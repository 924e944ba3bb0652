// SPDX-License-Identifier: Apache-2.0
// For tests of nodes that fall silent, on machines that are slow.
#ifndef BONSAI_STORE_TESTING_SILENT_NODE_H_
#define BONSAI_STORE_TESTING_SILENT_NODE_H_

#include <memory>
#include <string>

#include "base/thread.h"
#include "bonsai/db.h"

namespace bonsai::store {

// DB::Open(), repeated while it is Busy or Unavailable, within a minute: its node is slow, or has not found yet that an
// earlier owner is gone. For tests that judge other calls.
inline Status open_soon(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  Status status;
  for (base::BoundedWait wait("the earlier owner's end", 60'000); !wait.expired(); wait.pause()) {
    status = DB::Open(options, path, db);
    if (!status.IsBusy() && !status.IsUnavailable()) break;
  }
  return status;
}

// A read failed since the node, which is silent, has not renewed its lease: as it may on a slow machine at any time.
inline bool is_without_lease(const Status& read) {
  return read.IsUnavailable() && read.message().find("has had no lease on the store") != std::string::npos;
}

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TESTING_SILENT_NODE_H_
