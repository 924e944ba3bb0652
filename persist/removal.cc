// SPDX-License-Identifier: Apache-2.0
#include "persist/removal.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/status_macros.h"
#include "persist/format.h"
#include "persist/pool.h"
#include "persist/sites.h"

namespace bonsai::persist {

using scale::Addr;

namespace {

Status check_place(const Superblock& sb, const NamedTarget& named, size_t named_count) {
  if (sb.target_count != named_count) {
    return Status::InvalidArgument(named.path + " is one of " + std::to_string(sb.target_count) + " targets, " +
                                   std::to_string(named_count) + " were named; name them all, in order");
  }
  if (sb.target_index == named.number) return Status::OK();
  return Status::InvalidArgument(named.path + " is target " + std::to_string(sb.target_index) +
                                 " of its pool; name the targets of one pool in the order of creation");
}

}  // namespace

Status check_removable(const scale::Volume& volume, std::span<const NamedTarget> targets, size_t named_count) {
  std::vector<scale::Volume::Range> firsts;
  for (size_t i = 0; i < volume.targets(); ++i) {
    firsts.push_back({Addr(i, 0), std::min(kFirstBytes, volume.target_bytes(i))});
  }
  BONSAI_RETURN_IF_ERROR(volume.fetch(firsts));
  Superblock first{};
  const std::string* path_of_first = nullptr;
  for (size_t i = 0; i < volume.targets(); ++i) {
    if (holds_no_pool(volume, i)) continue;
    Superblock sb;
    BONSAI_RETURN_IF_ERROR(read_superblock(volume, i, targets[i].path, &sb));
    BONSAI_RETURN_IF_ERROR(check_place(sb, targets[i], named_count));
    if (path_of_first == nullptr) {
      first = sb;
      path_of_first = &targets[i].path;
    } else if (std::memcmp(sb.pool_id, first.pool_id, sizeof sb.pool_id) != 0) {
      return Status::InvalidArgument(targets[i].path + " is of another pool than " + *path_of_first +
                                     "; name the targets of one pool in the order of creation");
    }
  }
  return Status::OK();
}

Status wipe_target(scale::Volume& volume, size_t target) {
  // While the first superblock is whole, the pool is, too. Its first word is one atomic store.
  static constexpr std::array<uint64_t, kPageBytes / sizeof(uint64_t)> kZeros{};
  volume.nt_copy(Addr(target, kPageBytes), kZeros.data(), sizeof kZeros, kSiteWipe);
  if (!volume.fence(kSiteWipeFence)) return volume.health();
  volume.nt_copy(Addr(target, 0), &kCreatingMagic, sizeof kCreatingMagic, kSiteWipeMark);
  return volume.fence(kSiteWipeMarkFence) ? Status::OK() : volume.health();
}

}  // namespace bonsai::persist
