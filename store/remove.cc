// SPDX-License-Identifier: Apache-2.0
// The removal of a pool. Each target is made one that holds no pool; then its file is removed. A device stays.
//
// A removal that was interrupted can be done again: targets that are gone already, or hold no pool any more, count as
// removed.
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "bonsai/db.h"
#include "persist/removal.h"
#include "scale/remote_links.h"
#include "scale/volume.h"
#include "store/options.h"
#include "store/target.h"

namespace bonsai {

Status Remove(const std::string& path, const Options& options) {
  BONSAI_RETURN_IF_ERROR(store::check_bounds(options));
  std::vector<scale::TargetName> names;
  BONSAI_RETURN_IF_ERROR(store::parse_targets(path, &names));
  scale::RemoteLinks links(options.fabric_secret_file, options.fabric_wait_ms_max, options.fabric_workers);
  Options taking;
  taking.persistence_domain = options.persistence_domain;
  std::vector<store::Target> targets;
  std::vector<persist::NamedTarget> named;
  for (size_t i = 0; i < names.size(); ++i) {
    store::Target target;
    target.name = names[i];
    bool exists = false;
    BONSAI_RETURN_IF_ERROR(store::find_target(Options(), &links, &target, &exists));
    if (!exists) continue;
    BONSAI_RETURN_IF_ERROR(store::take_target(taking, false, &links, &target));
    BONSAI_RETURN_IF_ERROR(store::make_medium(TestOptions(), &target));
    targets.push_back(std::move(target));
    named.push_back({names[i].text, i});
  }
  if (targets.empty())
    return Status::IoError(names[0].text + " does not exist or holds no pool: there is nothing to remove");
  auto volume = store::hooked_volume(&targets);
  BONSAI_RETURN_IF_ERROR(persist::check_removable(*volume, named, names.size()));
  for (size_t i = 0; i < targets.size(); ++i) BONSAI_RETURN_IF_ERROR(persist::wipe_target(*volume, i));
  volume.reset();
  for (store::Target& target : targets) BONSAI_RETURN_IF_ERROR(store::remove_target(&target));
  return Status::OK();
}

}  // namespace bonsai
