// SPDX-License-Identifier: Apache-2.0
// Lists the pools of a folder, or of a node.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/nvm/descriptor.h"
#include "base/status_macros.h"
#include "bonsai/db.h"
#include "persist/format.h"
#include "scale/pool_list.h"
#include "store/options.h"

namespace bonsai {
namespace {

// Whether the file begins as a target of a pool does.
bool is_target(const std::string& path) {
  const base::OsFile file = base::open_file(path, O_RDONLY | O_NONBLOCK);
  uint64_t first = 0;
  return file.is_open() && ::pread(file.fd(), &first, sizeof first, 0) == sizeof first &&
         first == persist::kSuperblockMagic;
}

Status list(const std::string& place, const Options& options, std::vector<PoolInfo>* pools) {
  BONSAI_RETURN_IF_ERROR(store::check_bounds(options));
  std::vector<scale::ListedPool> listed;
  BONSAI_RETURN_IF_ERROR(
      scale::list_pools(place, options.fabric_secret_file, options.fabric_wait_ms_max, is_target, &listed));
  pools->clear();
  for (scale::ListedPool& pool : listed) {
    pools->push_back({std::move(pool.name), pool.bytes, std::move(pool.owner), pool.used_s});
  }
  return Status::OK();
}

}  // namespace

Status List(const std::string& place, std::vector<PoolInfo>* pools, const Options& options) {
  return store::with_memory([&] { return list(place, options, pools); });
}

}  // namespace bonsai
