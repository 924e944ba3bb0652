// A pool that comes into being whole or not at all: it is filled under other names and renamed when it is complete.
#ifndef BONSAI_STORE_NEW_POOL_H_
#define BONSAI_STORE_NEW_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "bonsai/db.h"

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
  struct Target {
    std::string partial, name;
  };
  std::vector<Target> targets_;
  std::unique_ptr<DB> db_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_NEW_POOL_H_
