// SPDX-License-Identifier: Apache-2.0
// The tiers of one open pool, wired together; owned in the order of their dependencies.
#ifndef BONSAI_STORE_TIERS_H_
#define BONSAI_STORE_TIERS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/epoch.h"
#include "base/memory.h"
#include "base/nvm/medium.h"
#include "bonsai/options.h"
#include "bonsai/status.h"
#include "bonsai/testing.h"
#include "index/index.h"
#include "persist/dnode_store.h"
#include "persist/large.h"
#include "persist/log.h"
#include "persist/pool.h"
#include "persist/space.h"
#include "scale/target.h"
#include "scale/volume.h"

namespace bonsai::store {

struct Tiers {
  base::MemoryReserve memory;
  std::unique_ptr<scale::Targets> targets;
  scale::Leases* leases = nullptr;  // as Targets::leases()
  std::unique_ptr<scale::Volume> volume;
  std::string medium_text;
  bool emulated = true;
  bool named_at_close = false;  // a new pool, whose targets get their names after DbImpl::Close() has done the rest

  persist::Pool pool;
  persist::Space space;
  std::unique_ptr<persist::DnodeStore> dnodes;
  std::unique_ptr<persist::LargeStore> large;
  std::unique_ptr<persist::Log> log;
  std::unique_ptr<base::EpochDomain> epochs;
  std::unique_ptr<index::Index> index;
};

// Opens or creates the pool at `path`, recovers it and wires the tiers. With `name_later` a pool that is created has no
// names yet: Targets::complete(). Requires: *tiers is new; after an error it is only destroyed. Errors: as OpenForTest.
Status open_tiers(const Options& options, const TestOptions& test, const std::string& path, Tiers* tiers,
                  bool name_later = false);

// Opens tiers over media that the caller has made, all of one size, with these roles if they are named: for tests that
// crash them.
Status open_tiers_on(const Options& options, std::vector<std::unique_ptr<base::HookedMedium>> media, bool create,
                     std::unique_ptr<Tiers>* tiers, const std::vector<scale::TargetRole>& roles = {});

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TIERS_H_
