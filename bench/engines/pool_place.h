// SPDX-License-Identifier: Apache-2.0
// Where persistent engines put their files: a fresh directory per run, removed afterwards.
#ifndef BONSAI_BENCH_ENGINES_POOL_PLACE_H_
#define BONSAI_BENCH_ENGINES_POOL_PLACE_H_

#include <cstdint>
#include <string>

#include "bench/engines/engine.h"
#include "bonsai/status.h"

namespace bonsai::bench {

class PoolPlace {
 public:
  PoolPlace() = default;
  ~PoolPlace() { remove(); }
  PoolPlace(const PoolPlace&) = delete;
  PoolPlace& operator=(const PoolPlace&) = delete;

  // Makes the directory below `chosen`, or when that is empty below /dev/shm if `bytes` fit there, else below
  // `fallback`. Errors: InvalidArgument (another node), IoError (cannot be made there), NoSpace (`bytes` do not
  // fit), all naming --pool-dir.
  Status make(const std::string& chosen, const std::string& fallback, uint64_t bytes);

  // Removes the directory and what is in it. Idempotent.
  void remove();

  // What files there are stored on, for an engine that makes its updates durable by syncing files. Requires: made.
  [[nodiscard]] MediumUse medium_of_files() const;

  // Bytes that its files take on that medium. Requires: made.
  [[nodiscard]] uint64_t bytes_of_files() const;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;  // empty = none
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_POOL_PLACE_H_
