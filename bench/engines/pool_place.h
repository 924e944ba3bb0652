// SPDX-License-Identifier: Apache-2.0
// Where persistent engines put their files: a fresh directory per run, removed afterwards. A process that is killed
// leaves it; the next one that starts removes it.
//
// The directory has a file `.owner`, which its owner keeps locked (flock) as long as it lives. A directory without that
// file is none of ours.
#ifndef BONSAI_BENCH_ENGINES_POOL_PLACE_H_
#define BONSAI_BENCH_ENGINES_POOL_PLACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/nvm/os_file.h"
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

  // Removes the directory and its contents. Idempotent.
  void remove();

  // Removes the directories that processes of this user made there and left when they died, and returns their paths.
  // The arguments are those of make().
  static std::vector<std::string> remove_abandoned(const std::string& chosen, const std::string& fallback);

  // The medium on which files in this directory are stored, for an engine that makes updates durable by syncing files.
  // Requires: made.
  [[nodiscard]] MediumUse medium_of_files() const;

  // Bytes that its files take on that medium. Requires: made.
  [[nodiscard]] uint64_t bytes_of_files() const;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Status own();

  std::string path_;    // empty = none
  base::OsFile owner_;  // locked
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_POOL_PLACE_H_
