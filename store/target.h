// SPDX-License-Identifier: Apache-2.0
// One target of a pool that is opened: a file, a device or memory of this machine, or a pool that another node serves.
#ifndef BONSAI_STORE_TARGET_H_
#define BONSAI_STORE_TARGET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "base/nvm/product.h"
#include "bonsai/options.h"
#include "bonsai/status.h"
#include "bonsai/testing.h"
#include "scale/remote_links.h"
#include "scale/target_name.h"
#include "scale/volume.h"

namespace bonsai::store {

struct Target {
  scale::TargetName name;
  std::unique_ptr<base::Mapping> mapping;        // null: a remote target, or a medium of the caller
  scale::RemoteLink* link = nullptr;             // null: not remote, or it was not found yet
  size_t number = 0;                             // of the target on its link
  uint64_t create_bytes = 0;                     // its size, when it is created
  std::unique_ptr<base::ProductMedium> product;  // its medium if no target of the pool needs a hook
  std::unique_ptr<base::HookedMedium> hooked;    // else
  std::string text;                              // the medium, for people
  bool emulated = true;
  uint64_t bytes_before = 0;  // of a remote one, if it was enlarged: its size before
};

// "a,shm://node/b" -> {"a", "shm://node/b"}. Errors: InvalidArgument (empty, too many, one named twice, no name).
Status parse_targets(const std::string& path, std::vector<scale::TargetName>* names);

// Whether the target exists. A remote one that exists is owned by this process from now on (Target::link). The remains
// of an interrupted creation do not count, and are removed, if `options` allow creation.
// Errors: IoError, those of RemoteLinks::link_of() and RemoteLink::open().
Status find_target(const Options& options, scale::RemoteLinks* links, Target* target, bool* exists);

// Creates a target that does not exist, or takes one that was found: maps it, and enlarges it to Options::grow_bytes
// unless its name has role=log. What is created has no name before name_targets(). In memory of this process if the
// medium is DRAM. Errors: those of Mapping::open() and of RemoteLink::open().
Status take_target(const Options& options, bool create, scale::RemoteLinks* links, Target* target);

// Makes the medium of the target where that is not its product medium, and describes it.
// Errors: those of make_media() and of RemoteTarget::make(); InvalidArgument (a test medium for a remote target).
Status make_medium(const TestOptions& test, Target* target);

// A volume over targets whose media were made, of mixed kinds. Requires: they outlive it.
std::unique_ptr<scale::VolumeOf<base::HookedMedium>> hooked_volume(std::vector<Target>* targets);

// Gives all targets of a pool that take_target() has created their names. After an error some have theirs, and the
// caller removes all. A device has one anyway. Errors: Busy (a name is taken by now), IoError, those of
// RemoteLink::complete().
Status name_targets(std::span<Target> targets);

// Removes it, complete or partly created; a device stays. Requires: nothing uses its medium any more.
// Errors: IoError, those of RemoteLink::remove().
Status remove_target(Target* target);

// Whether take_target() has enlarged it.
[[nodiscard]] bool is_enlarged(const Target& target);

// Restores the size that a target had before it was enlarged. Requires: the added space was not used.
void shrink_target(const Target& target);

// The label of a pool's results: the media of its targets, each once, and its role if it has one.
std::string describe_targets(const std::vector<Target>& targets);

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TARGET_H_
