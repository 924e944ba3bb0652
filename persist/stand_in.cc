// SPDX-License-Identifier: Apache-2.0
#include "persist/stand_in.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "base/narrow.h"
#include "base/status_macros.h"
#include "persist/format.h"
#include "persist/pool.h"
#include "persist/sites.h"
#include "persist/superblock.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

namespace {

class StandIns {
 public:
  StandIns(scale::Volume& volume, const std::vector<std::string>& paths, std::span<const size_t> missing)
      : volume_(volume), paths_(paths), missing_(missing), superblocks_(volume.targets()) {
    BONSAI_CHECK(missing.size() < volume.targets());
  }

  Status read_others() {
    std::vector<scale::Volume::Range> firsts;
    for (size_t i = 0; i < volume_.targets(); ++i) {
      if (!is_missing(i)) firsts.push_back({Addr(i, 0), std::min(kIdentityBytes, volume_.target_bytes(i))});
    }
    BONSAI_RETURN_IF_ERROR(volume_.fetch(firsts));
    for (size_t i = 0; i < volume_.targets(); ++i) {
      if (is_missing(i)) continue;
      BONSAI_RETURN_IF_ERROR(read_superblock(volume_, i, paths_[i], &superblocks_[i]));
      BONSAI_RETURN_IF_ERROR(check(superblocks_[i], paths_[i]));
      there_.push_back(i);
    }
    volume_.bind(pool_identity(superblocks_[there_[0]].pool_id));
    const auto has_dnodes = [this](size_t i) { return superblocks_[i].has(kRoleDnodes); };
    if (std::any_of(there_.begin(), there_.end(), has_dnodes)) return Status::OK();
    return Status::NotSupported(paths_[there_[0]] +
                                " has a part of the log and no dnodes, and no target that has some " +
                                "is there: nothing is left that could be read; restore a copy of the pool");
  }

  // What the missing targets were for, where the user does not say it: as the others, and what those have not.
  [[nodiscard]] uint64_t roles_of_missing(uint64_t said) const {
    if (said != 0) return said;
    uint64_t all = 0, each = kRolesAll;
    for (const size_t i : there_) {
      all |= superblocks_[i].roles;
      each &= superblocks_[i].roles;
    }
    return all == kRolesAll ? (each == 0 ? kRolesAll : each) : kRolesAll & ~all;
  }

  void write(size_t target, uint64_t roles) {
    Superblock sb = like(roles);
    sb.target_index = base::checked_narrow<uint32_t>(target);
    sb.roles = roles;
    if (!sb.has(kRoleLog)) sb.segments = 0;
    if (!sb.has(kRoleDnodes)) sb.extents = 0;
    if (sb.has(kRoleLog) && sb.segments == 0) {
      sb.segments = segments_of_others();
      sb.log_offset =
          round_up(sb.log_table_offset + kSegmentEntriesOffset + sb.segments * sizeof(SegmentEntry), kPageBytes);
      sb.data_offset = round_up(sb.log_offset + sb.segments * sb.segment_bytes, sb.extent_bytes);
    }
    sb.target_bytes = std::max(sb.target_bytes, sb.data_offset + sb.extents * sb.extent_bytes);
    sb.seal();
    fill_target(volume_, sb);
    write_state(target);
    for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) write_superblock(volume_, sb, copy);
  }

 private:
  [[nodiscard]] bool is_missing(size_t target) const {
    return std::find(missing_.begin(), missing_.end(), target) != missing_.end();
  }

  Status check(const Superblock& sb, const std::string& path) const {
    if (sb.version != kFormatVersion) {
      return Status::NotSupported(path + " has an older format, of which nothing is read without all targets");
    }
    if (sb.layout != static_cast<uint64_t>(LayoutChoice::kNone)) {
      return Status::NotSupported(path + " is one target of a striped pool, of which each has a part of almost every " +
                                  "record: nothing is read without all of them; restore a copy of the pool");
    }
    if (sb.target_count == volume_.targets()) return Status::OK();
    return Status::InvalidArgument(path + " is of a pool of " + std::to_string(sb.target_count) + " targets, and " +
                                   std::to_string(volume_.targets()) +
                                   " were named; name all, also those that are gone, in their order");
  }

  // The superblock of a target that is most like it.
  [[nodiscard]] Superblock like(uint64_t roles) const {
    for (const uint64_t wanted : {roles, kRoleDnodes, kRoleLog}) {
      for (const size_t i : there_) {
        if ((superblocks_[i].roles & wanted) == wanted) return superblocks_[i];
      }
    }
    return superblocks_[there_[0]];
  }

  [[nodiscard]] uint64_t segments_of_others() const {
    for (const size_t i : there_) {
      if (superblocks_[i].segments != 0) return superblocks_[i].segments;
    }
    return kSegmentsMin;
  }

  // It was there when the pool was last opened, and the pool was not closed in order: what is not there cannot be
  // compared.
  void write_state(size_t target) {
    const size_t there = there_[0];
    for (const uint64_t word : {kStateOpeningOffset, kStateNextOpeningOffset}) {
      const uint64_t opening = load_word(volume_, {there, kStateOpeningOffset}).value_or(0);
      store_word(volume_, {target, word}, opening);
    }
    store_word(volume_, {target, kStateRunOffset}, static_cast<uint64_t>(RunState::kOpenDurable));
  }

  scale::Volume& volume_;
  const std::vector<std::string>& paths_;
  const std::span<const size_t> missing_;
  std::vector<Superblock> superblocks_;
  std::vector<size_t> there_;
};

}  // namespace

Status write_stand_ins(scale::Volume& volume, const std::vector<std::string>& paths, std::span<const size_t> missing,
                       std::span<const uint64_t> roles, bool* lost_log) {
  StandIns all(volume, paths, missing);
  BONSAI_RETURN_IF_ERROR(all.read_others());
  *lost_log = false;
  for (const size_t target : missing) {
    const uint64_t its = all.roles_of_missing(roles[target]);
    all.write(target, its);
    *lost_log = *lost_log || (its & kRoleLog) != 0;
  }
  return Status::OK();
}

}  // namespace bonsai::persist
