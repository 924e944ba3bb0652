// SPDX-License-Identifier: Apache-2.0
// Creates a pool completely or not at all: it is filled under other names, here and on other nodes, and
// renamed when it is complete.
#ifndef BONSAI_STORE_NEW_POOL_H_
#define BONSAI_STORE_NEW_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "bonsai/db.h"
#include "scale/remote_links.h"
#include "scale/target_name.h"

namespace bonsai::store {

// Not for devices, which have one name only: a pool on one is what was filled so far, also after a failure.
class NewPool {
 public:
  NewPool() = default;
  ~NewPool();  // takes back what is not complete
  NewPool(const NewPool&) = delete;
  NewPool& operator=(const NewPool&) = delete;

  // Errors: InvalidArgument (a file is there already), others as DB::Open.
  Status create(Options options, const std::string& path);
  // Drains, closes and gives the pool its names. Errors: as those, IoError.
  Status complete();

  // Requires: created, not complete.
  [[nodiscard]] DB& db() { return *db_; }

 private:
  struct Copy {
    scale::TargetName partial, name;  // equal: a device
  };
  Status look(const scale::TargetName& name, scale::RemoteLinks* links, Copy* copy);
  [[nodiscard]] scale::RemoteLinks make_links() const;

  Options options_;
  std::vector<Copy> copies_;
  std::unique_ptr<DB> db_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_NEW_POOL_H_
