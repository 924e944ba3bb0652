// SPDX-License-Identifier: Apache-2.0
// Lists pools with their owners, for operators: those of a folder of this machine, and those of another node.
//
// A listing changes nothing and takes no lock, so it is no picture of one moment: a pool may come, go, or change hands
// meanwhile.
//
// Thread-safety: all functions.
#ifndef BONSAI_SCALE_POOL_LIST_H_
#define BONSAI_SCALE_POOL_LIST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bonsai/status.h"
#include "scale/pool_owner.h"
#include "scale/pool_wire.h"

namespace bonsai::scale {

struct ListedPool {
  std::string name;
  uint64_t bytes = 0;
  std::string owner;    // who has it, since when, seen when; empty: nobody
  uint64_t used_s = 0;  // when it was last used, as far as its files and its owner show; since 1970
};

// The folder's file or device after `after` in the order of names, whatever it holds. `owners`: of the folder, if this
// process serves it; else null. Errors: NotFound (there is no further one), IoError.
Status next_pool(const std::string& folder, PoolOwners* owners, const std::string& after, ListedPool* pool);

// The same over the fabric: an entry in the text of an answer to PoolOp::kList.
void put_entry(const ListedPool& pool, PoolAnswer* answer);

// The pools of a place: a folder of this machine, of whose files those count that `is_pool` accepts, or a node
// ("shm://NODE"). Secret and bound are as in RemoteLinks. Errors: InvalidArgument (no such form), IoError (no such
// folder), those of open_fabric(), of Secret::load() and of Secret::connect(), Unavailable.
Status list_pools(const std::string& place, const std::string& secret_file, uint64_t limit_ms,
                  const std::function<bool(const std::string& path)>& is_pool, std::vector<ListedPool>* pools);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_POOL_LIST_H_
