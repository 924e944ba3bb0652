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
#include "scale/target.h"
#include "scale/target_name.h"
#include "scale/volume.h"
#include "store/options.h"
#include "store/target_config.h"

namespace bonsai {
namespace {

Status remove(const std::string& path, const Options& options) {
  BONSAI_RETURN_IF_ERROR(store::check_bounds(options));
  std::vector<scale::TargetName> names;
  BONSAI_RETURN_IF_ERROR(scale::parse_target_names(path, &names));
  scale::Targets targets(store::target_config(options));
  std::vector<persist::NamedTarget> named;
  for (size_t i = 0; i < names.size(); ++i) {
    BONSAI_RETURN_IF_ERROR(targets.add(names[i]));
    bool exists = false;
    BONSAI_RETURN_IF_ERROR(targets.back().exists(/*discard_unfinished=*/false, &exists));
    if (!exists) {
      targets.pop_back();
      continue;
    }
    BONSAI_RETURN_IF_ERROR(targets.back().open(/*grow_bytes=*/0));
    named.push_back({names[i].text, i});
  }
  if (targets.size() == 0)
    return Status::IoError(names[0].text + " does not exist or holds no pool: there is nothing to remove");
  auto volume = targets.hooked_volume();
  BONSAI_RETURN_IF_ERROR(persist::check_removable(*volume, named, names.size()));
  for (size_t i = 0; i < targets.size(); ++i) BONSAI_RETURN_IF_ERROR(persist::wipe_target(*volume, i));
  volume.reset();
  for (const auto& target : targets) BONSAI_RETURN_IF_ERROR(target->remove());
  return Status::OK();
}

}  // namespace

Status Remove(const std::string& path, const Options& options) {
  return store::with_memory([&] { return remove(path, options); });
}

}  // namespace bonsai
