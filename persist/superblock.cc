// SPDX-License-Identifier: Apache-2.0
#include "persist/superblock.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/narrow.h"
#include "base/status_macros.h"
#include "scale/volume.h"

namespace bonsai::persist {
namespace {

constexpr uint64_t kSmallPoolBytes = uint64_t{16} << 20;
// The extent table has room for a data area this many times as large as the initial target.
constexpr uint64_t kGrowthMax = 8;

// Values that all targets of a new pool share.
struct Shares {
  uint64_t data_target_bytes = UINT64_MAX;
  uint64_t extent_bytes = 0;
  uint64_t log_bytes = 0;  // of each target with a log
  uint64_t segment_bytes = 0;
};

Status share_out(const Options& options, std::span<const uint64_t> bytes, std::span<const uint64_t> roles,
                 Shares* shares) {
  uint64_t logs = 0, data = 0;
  for (size_t i = 0; i < roles.size(); ++i) {
    logs += (roles[i] & kRoleLog) != 0 ? 1 : 0;
    if ((roles[i] & kRoleDnodes) == 0) continue;
    ++data;
    shares->data_target_bytes = std::min(shares->data_target_bytes, bytes[i] / kPageBytes * kPageBytes);
  }
  if (logs == 0 || data == 0) {
    return Status::InvalidArgument(std::string("no target of the pool is for its ") + (logs == 0 ? "log" : "dnodes") +
                                   "; name one with role=" + (logs == 0 ? "log" : "dnodes") + " or without a role");
  }
  shares->extent_bytes = shares->data_target_bytes >= kSmallPoolBytes ? 65536 : 4096;
  shares->log_bytes =
      (options.log_bytes != 0 ? options.log_bytes : base::multiply_sizes(shares->data_target_bytes, data) / 10) / logs;
  shares->segment_bytes = std::clamp<uint64_t>(std::bit_floor(shares->log_bytes / 256), 4096, uint64_t{1} << 20);
  return Status::OK();
}

// Where the bytes of dnodes will be; the same on all targets.
Status set_layout(const Options& options, std::span<const uint64_t> roles, Superblock* sb) {
  if (options.layout == LayoutChoice::kNone) return Status::OK();
  const auto data = std::count_if(roles.begin(), roles.end(), [](uint64_t role) { return (role & kRoleDnodes) != 0; });
  if (data < 2) {
    return Status::InvalidArgument("a striped pool has two targets with dnodes or more, not " + std::to_string(data) +
                                   "; name more targets, or use layout none");
  }
  sb->layout = static_cast<uint64_t>(options.layout);
  sb->unit_bytes = options.stripe_unit_bytes != 0 ? options.stripe_unit_bytes : kStripeUnitDefault;
  return Status::OK();
}

bool sound_striping(const Superblock& sb) {
  if (sb.layout == static_cast<uint64_t>(LayoutChoice::kNone)) return sb.unit_bytes == 0;
  return sb.layout <= static_cast<uint64_t>(LayoutChoice::kHardware) && sb.target_count >= 2 &&
         std::has_single_bit(sb.unit_bytes) && sb.unit_bytes >= kStripeUnitMin && sb.unit_bytes <= kStripeUnitMax;
}

// Lays out one target, whose roles are set. Returns false if it is too small for them.
bool lay_out(uint64_t bytes, const Shares& shares, Superblock* sb) {
  sb->target_bytes = sb->has(kRoleDnodes) ? shares.data_target_bytes : bytes / kPageBytes * kPageBytes;
  sb->extent_bytes = shares.extent_bytes;
  sb->segment_bytes = shares.segment_bytes;
  sb->extent_table_offset = kExtentTableOffset;
  if (sb->has(kRoleLog)) {
    if (shares.log_bytes > sb->target_bytes) return false;
    sb->segments = std::max(shares.log_bytes / sb->segment_bytes, kSegmentsMin);
  }
  const uint64_t extents_max = sb->has(kRoleDnodes) ? sb->target_bytes / sb->extent_bytes : 0;
  sb->log_table_offset = kExtentTableOffset + round_up(8 * kGrowthMax * extents_max, base::kLineBytes);
  sb->log_offset =
      round_up(sb->log_table_offset + kSegmentEntriesOffset + sb->segments * sizeof(SegmentEntry), kPageBytes);
  sb->data_offset = round_up(sb->log_offset + sb->segments * sb->segment_bytes, sb->extent_bytes);
  if (!sb->has(kRoleDnodes)) {
    if (sb->data_offset > sb->target_bytes) return false;
    sb->target_bytes = sb->data_offset;
    return true;
  }
  if (sb->data_offset + 4 * sb->extent_bytes > sb->target_bytes) return false;
  sb->extents = (sb->target_bytes - sb->data_offset) / sb->extent_bytes;
  return true;
}

Status too_small(const Options& options, uint64_t bytes, const Superblock& sb) {
  const std::string of = sb.has(kRoleDnodes) ? "data" : "the log";
  return Status::InvalidArgument("a pool of " + std::to_string(bytes) + " bytes per target has no room for " + of +
                                 (options.log_bytes == 0 ? "; raise"
                                  : sb.has(kRoleLog) && sb.has(kRoleDnodes)
                                      ? " beside its log; lower log_bytes or raise"
                                      : "; lower log_bytes or raise") +
                                 " pool_bytes");
}

}  // namespace

Status lay_out_pool(const Options& options, std::span<const uint64_t> bytes, std::span<const uint64_t> roles,
                    std::vector<Superblock>* superblocks) {
  superblocks->clear();
  Shares shares;
  BONSAI_RETURN_IF_ERROR(share_out(options, bytes, roles, &shares));
  for (size_t i = 0; i < roles.size(); ++i) {
    Superblock sb{};
    sb.magic = kSuperblockMagic;
    sb.version = kFormatVersion;
    sb.target_index = base::checked_narrow<uint32_t>(i);
    sb.target_count = base::checked_narrow<uint32_t>(roles.size());
    sb.key_format = base::checked_narrow<uint32_t>(options.key_format);
    sb.roles = roles[i];
    BONSAI_RETURN_IF_ERROR(set_layout(options, roles, &sb));
    if (!lay_out(bytes[i], shares, &sb)) {
      return too_small(options, sb.has(kRoleDnodes) ? shares.data_target_bytes : bytes[i], sb);
    }
    BONSAI_INVARIANT(sound_layout(sb));
    superblocks->push_back(sb);
  }
  return Status::OK();
}

Status new_target_bytes(const Options& options, std::span<const uint64_t> roles, size_t target, uint64_t* bytes) {
  *bytes = options.pool_bytes;
  if (roles[target] != kRoleLog) return Status::OK();
  std::vector<uint64_t> largest(roles.size(), options.pool_bytes);
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == kRoleLog) largest[i] = kPoolBytesMax;
  }
  std::vector<Superblock> superblocks;
  BONSAI_RETURN_IF_ERROR(lay_out_pool(options, largest, roles, &superblocks));
  *bytes = std::max(superblocks[target].target_bytes, kPoolBytesMin);
  return Status::OK();
}

bool sound_layout(const Superblock& sb) {
  const auto at_most = [&sb](uint64_t n, uint64_t unit) { return unit != 0 && n <= sb.target_bytes / unit; };
  return sb.target_count >= 1 && sb.target_count <= scale::kTargetsMax && sb.target_index < sb.target_count &&
         sb.key_format <= static_cast<uint64_t>(KeyFormat::kFixed8) && (sb.roles & kRolesAll) != 0 &&
         (sb.roles & ~kRolesAll) == 0 && sound_striping(sb) && std::has_single_bit(sb.extent_bytes) &&
         sb.extent_bytes >= kPageBytes && at_most(sb.extents, sb.extent_bytes) &&
         (sb.extents >= 1) == sb.has(kRoleDnodes) && std::has_single_bit(sb.segment_bytes) &&
         sb.segment_bytes >= kPageBytes && at_most(sb.segments, sb.segment_bytes) &&
         sb.segments >= (sb.has(kRoleLog) ? kSegmentsMin : 0) && (sb.has(kRoleLog) || sb.segments == 0) &&
         sb.extent_table_offset == kExtentTableOffset && sb.log_table_offset % base::kLineBytes == 0 &&
         sb.log_offset % kPageBytes == 0 && sb.data_offset % sb.extent_bytes == 0 &&
         sb.log_table_offset <= sb.target_bytes && sb.log_offset <= sb.target_bytes &&
         sb.data_offset <= sb.target_bytes && sb.extent_table_offset + 8 * sb.extents <= sb.log_table_offset &&
         sb.log_table_offset + kSegmentEntriesOffset + sb.segments * sizeof(SegmentEntry) <= sb.log_offset &&
         sb.log_offset + sb.segments * sb.segment_bytes <= sb.data_offset &&
         sb.data_offset + sb.extents * sb.extent_bytes <= sb.target_bytes;
}

std::string other_path_remedy() { return "; check the path, or create a new pool elsewhere"; }

namespace {

Status verify_version(const Superblock& sb, const std::string& path) {
  const std::string has = path + " has format version " + std::to_string(sb.version);
  if (sb.version > kFormatVersion) {
    return Status::NotSupported(has + ", this program supports versions up to " + std::to_string(kFormatVersion) +
                                "; open it with a newer Bonsai");
  }
  if (sb.version < kFormatVersionMin) {
    return Status::NotSupported(has + ", which was never released; this program reads versions from " +
                                std::to_string(kFormatVersionMin) + " on; create a new pool");
  }
  if (sb.version < kFormatVersion) return Status::OK();
  if (sb.check != sb.computed_check()) return Status::Corruption(path + ": superblock fails its checksum");
  const bool replicas = std::any_of(std::begin(sb.replicas), std::end(sb.replicas), [](uint64_t w) { return w != 0; });
  if (replicas) {
    return Status::NotSupported(path +
                                " has replicas, which this program does not support; open it with a newer Bonsai");
  }
  if (sb.layout > static_cast<uint64_t>(LayoutChoice::kHardware)) {
    return Status::NotSupported(path + " has layout " + std::to_string(sb.layout) +
                                ", which this program does not support; open it with a newer Bonsai");
  }
  return Status::OK();
}

}  // namespace

Status verify_superblock(const Superblock& sb, const std::string& path, uint64_t bytes) {
  if (sb.magic == kCreatingMagic) {
    return Status::NotSupported(path + " holds no pool: its creation was interrupted, or it was removed; remove it, " +
                                "or open it with create_if_missing (--create)");
  }
  if (sb.magic != kSuperblockMagic) {
    return Status::NotSupported(path + " is not a Bonsai pool (its first bytes are foreign)" + other_path_remedy());
  }
  if (sb.crc != sb.computed_crc()) return Status::Corruption(path + ": superblock fails its checksum");
  BONSAI_RETURN_IF_ERROR(verify_version(sb, path));
  if (sb.target_bytes > bytes) {
    return Status::Corruption(path + " is truncated: it has " + std::to_string(bytes) + " bytes of " +
                              std::to_string(sb.target_bytes) + "; restore the whole file");
  }
  if (!sound_layout(of_newest_version(sb))) {
    return Status::Corruption(path + ": the superblock describes a layout that no pool has; restore the whole file");
  }
  return Status::OK();
}

Superblock of_newest_version(const Superblock& sb) {
  if (sb.version == kFormatVersion) return sb;
  Superblock newest{};
  std::memcpy(&newest, &sb, kSuperblockBytesV3);
  newest.version = kFormatVersion;
  newest.roles = kRolesAll;
  newest.seal();
  return newest;
}

namespace {

Status verify_place(const std::vector<Superblock>& superblocks, const std::vector<std::string>& paths, size_t i) {
  const Superblock &sb = superblocks[i], &first = superblocks[0];
  if (sb.pool_id[0] != first.pool_id[0] || sb.pool_id[1] != first.pool_id[1]) {
    return Status::InvalidArgument(paths[i] + " is of another pool than " + paths[0] +
                                   "; name the targets of one pool in the order of creation");
  }
  if (sb.target_count != superblocks.size()) {
    return Status::InvalidArgument(paths[i] + " is one of " + std::to_string(sb.target_count) + " targets, " +
                                   std::to_string(superblocks.size()) + " were named; name them all, in order");
  }
  for (size_t other = 0; other < i; ++other) {
    if (superblocks[other].target_index != sb.target_index) continue;
    return Status::InvalidArgument(paths[i] + " and " + paths[other] + " are one target, named twice, or one is a " +
                                   "copy of the other; name each target of the pool once, in the order of creation");
  }
  return Status::OK();
}

}  // namespace

Status verify_together(const std::vector<Superblock>& superblocks, const std::vector<std::string>& paths) {
  const Superblock* log = nullptr;  // the first target with one
  uint64_t roles = 0;
  for (size_t i = 0; i < superblocks.size(); ++i) BONSAI_RETURN_IF_ERROR(verify_place(superblocks, paths, i));
  for (size_t i = 0; i < superblocks.size(); ++i) {
    const Superblock &sb = superblocks[i], &first = superblocks[0];
    if (sb.target_index != i) {
      return Status::InvalidArgument(paths[i] + " is target " + std::to_string(sb.target_index) +
                                     " of its pool; name the targets of one pool in the order of creation");
    }
    roles |= sb.roles;
    if (log == nullptr && sb.has(kRoleLog)) log = &sb;
    const bool agrees = sb.key_format == first.key_format && sb.extent_bytes == first.extent_bytes &&
                        sb.segment_bytes == first.segment_bytes && sb.layout == first.layout &&
                        sb.unit_bytes == first.unit_bytes && (!sb.has(kRoleLog) || sb.segments == log->segments);
    if (!agrees) {
      return Status::Corruption(paths[i] + ": its superblock contradicts that of " + paths[0] +
                                "; restore the whole file");
    }
  }
  if (roles == kRolesAll) return Status::OK();
  return Status::Corruption(paths[0] + ": no target of the pool has its " +
                            ((roles & kRoleLog) == 0 ? "log" : "dnodes") + "; restore the whole files");
}

}  // namespace bonsai::persist
