// SPDX-License-Identifier: Apache-2.0
#include "persist/pool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "base/nvm/mapping.h"
#include "base/status_macros.h"
#include "persist/analysis.h"
#include "persist/old_copy.h"
#include "persist/opening.h"
#include "persist/sites.h"
#include "persist/superblock.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

namespace {

constexpr uint64_t kLargePoolBytes = uint64_t{48} << 20;  // of the data area

void fill(scale::Volume& volume, Addr at, std::span<const uint64_t> words) {
  volume.nt_copy(at, words.data(), words.size_bytes(), kSiteFill);
}

}  // namespace

void fill_target(scale::Volume& volume, const Superblock& sb) {
  const size_t target = sb.target_index;
  const auto word = [&](Addr at, uint64_t value, uint64_t tie = 0) {
    return checked_word(value, place_seed(volume, at) + tie);
  };
  std::vector<uint64_t> head(kExtentTableOffset / 8);  // no superblocks yet
  head[0] = kCreatingMagic;
  for (const uint64_t at : {kStateEpochOffset, kStateOpeningOffset, kStateNextOpeningOffset}) {
    head[at / 8] = word(Addr(target, at), 0);
  }
  fill(volume, Addr(target, 0), head);
  std::vector<uint64_t> extents(sb.extents);
  for (uint64_t i = 0; i < sb.extents; ++i) {
    extents[i] = word(Addr(target, sb.extent_table_offset + 8 * i), kExtentData);
  }
  fill(volume, Addr(target, sb.extent_table_offset), extents);
  std::vector<uint64_t> log_table(kSegmentEntriesOffset / 8);
  log_table[0] = word(Addr(target, sb.log_table_offset), 0);
  for (uint64_t i = 0; i < sb.segments; ++i) {
    const Addr entry = Addr(target, sb.log_table_offset) + 8 * log_table.size();
    log_table.push_back(word(entry + offsetof(SegmentEntry, end), segment_end(kSegmentHeaderBytes, true)));
    log_table.push_back(word(entry + offsetof(SegmentEntry, sequence), 0));
    const Addr segment(target, sb.log_offset + i * sb.segment_bytes);
    const uint64_t header[sizeof(SegmentHeader) / 8] = {word(segment, 0), kSegmentMagic};
    fill(volume, segment, header);
  }
  fill(volume, Addr(target, sb.log_table_offset), log_table);
}

void write_superblock(scale::Volume& volume, const Superblock& sb, uint64_t copy) {
  volume.nt_copy(Addr(sb.target_index, copy * kPageBytes), &sb, sizeof sb, kSiteSuperblock);
}

namespace {

// Writes the first copy on each target; its first word, which is atomic, comes last: until then the mark is there, and
// the target counts as one whose creation has not ended.
Status write_first_superblocks(scale::Volume& volume, const std::vector<Superblock>& superblocks) {
  constexpr uint64_t kWordBytes = sizeof(Superblock::magic);
  for (Superblock sb : superblocks) {
    sb.seal();
    volume.nt_copy(Addr(sb.target_index, kWordBytes), &sb.version, sizeof sb - kWordBytes, kSiteFirstSuperblock);
  }
  if (!volume.fence(kSiteFirstSuperblockFence)) return volume.health();
  for (const Superblock& sb : superblocks) {
    volume.nt_copy(Addr(sb.target_index, 0), &sb.magic, kWordBytes, kSiteMagic);
  }
  return volume.fence(kSiteMagicFence) ? Status::OK() : volume.health();
}

// Writes one of the two copies on each target, durably.
Status write_superblocks(scale::Volume& volume, const std::vector<Superblock>& superblocks, uint64_t copy) {
  for (Superblock sb : superblocks) {
    sb.seal();
    write_superblock(volume, sb, copy);
  }
  return volume.fence(kSiteSuperblockFence) ? Status::OK() : volume.health();
}

// Makes all before the log segments resident.
Status fetch_heads(const scale::Volume& volume, const Pool& pool) {
  std::vector<scale::Volume::Range> heads;
  for (const Superblock& sb : pool.superblocks) heads.push_back({Addr(sb.target_index, 0), sb.log_offset});
  return volume.fetch(heads);
}

}  // namespace

// The valid copy of the newer version, or of the larger target: a change of either changes one after the other.
Status read_superblock(const scale::Volume& volume, size_t target, const std::string& path, Superblock* sb) {
  Status status;
  bool found = false;
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    if (!volume.contains(Addr(target, copy * kPageBytes), kPageBytes)) {
      if (copy != 0) break;
      return Status::NotSupported(path + " is too small for a Bonsai pool" + other_path_remedy());
    }
    Superblock read;
    std::memcpy(&read, volume.resident(Addr(target, copy * kPageBytes)), sizeof read);
    const Status of_copy = verify_superblock(read, path, volume.target_bytes(target));
    if (of_copy.ok() && found && std::memcmp(read.pool_id, sb->pool_id, sizeof read.pool_id) != 0) {
      return Status::Corruption(path + ": the copies of the superblock are of different pools; restore the whole file");
    }
    if (!of_copy.ok()) {
      if (copy == 0 || of_copy.IsCorruption()) status = of_copy;
    } else if (!found || std::pair(read.version, read.target_bytes) > std::pair(sb->version, sb->target_bytes)) {
      *sb = read;
      found = true;
    }
  }
  return found ? Status::OK() : status;
}

std::vector<ExtentGeometry> Pool::geometry() const {
  std::vector<ExtentGeometry> geometry;
  for (const Superblock& sb : superblocks) {
    geometry.push_back({sb.extent_bytes, sb.extent_table_offset, sb.data_offset, sb.extents});
  }
  return geometry;
}

// Striping begins where the data area of each target has begun.
scale::Layout Pool::layout() const {
  if (layout_choice() == LayoutChoice::kNone) return {};
  std::vector<size_t> ring;
  uint64_t begin = 0;
  for (const Superblock& sb : superblocks) {
    if (!sb.has(kRoleDnodes)) continue;
    ring.push_back(sb.target_index);
    begin = std::max(begin, sb.data_offset);
  }
  return {layout_choice(), ring, superblocks[0].unit_bytes, begin};
}

size_t Pool::log_home() const {
  size_t target = 0;
  while (!superblocks[target].has(kRoleLog)) ++target;
  return target;
}

std::vector<Addr> Pool::segments() const {
  std::vector<Addr> segments;
  for (uint64_t i = 0; i < superblocks[log_home()].segments; ++i) {
    for (const Superblock& sb : superblocks) {
      if (sb.has(kRoleLog)) segments.emplace_back(sb.target_index, sb.log_offset + i * sb.segment_bytes);
    }
  }
  return segments;
}

uint64_t Pool::log_bytes() const {
  uint64_t logs = 0;
  for (const Superblock& sb : superblocks) logs += sb.has(kRoleLog) ? 1 : 0;
  return logs * superblocks[log_home()].segments * segment_bytes();
}

void Pool::spread_log(scale::Volume* volume) const {
  for (const Superblock& sb : superblocks) {
    if (!sb.has(kRoleLog)) continue;
    volume->spread(Addr(sb.target_index, sb.log_table_offset + kSegmentEntriesOffset),
                   sb.segments * sizeof(SegmentEntry), sizeof(SegmentEntry));
    volume->spread(Addr(sb.target_index, sb.log_offset), sb.segments * sb.segment_bytes, sb.segment_bytes);
  }
}

std::vector<Addr> Pool::entries() const {
  std::vector<Addr> entries;
  for (uint64_t i = 0; i < superblocks[log_home()].segments; ++i) {
    for (const Superblock& sb : superblocks) {
      if (!sb.has(kRoleLog)) continue;
      entries.emplace_back(sb.target_index, sb.log_table_offset + kSegmentEntriesOffset + i * sizeof(SegmentEntry));
    }
  }
  return entries;
}

Log::Config Pool::log_config(bool buffered) const {
  return {segments(), entries(), state(kStateEpochOffset), epoch_copy(), segment_bytes(), buffered};
}

Limits Pool::limits() const {
  uint64_t data_bytes = 0;
  for (const Superblock& sb : superblocks) data_bytes += sb.extents * sb.extent_bytes;
  Limits limits;
  limits.large_value_bytes_min = large_value_bytes_min(superblocks[0].segment_bytes);
  // Few and large ranges cost little DRAM, and collect more updates before they are offloaded; a small pool has room
  // for small dnodes only.
  const uint64_t scale = data_bytes < kLargePoolBytes ? 1 : 3;
  limits.dnode_bytes_max = scale * std::clamp<uint64_t>(data_bytes / 64, 4096, 32768);
  limits.dnode_entries_max = scale * std::clamp<uint64_t>(data_bytes / 8192, 256, 512);
  return limits;
}

// A dnode at its bound, and what may be appended to it. Pools below a megabyte cannot spare as much, but room for one
// dnode to be moved through.
uint64_t Pool::recovery_bytes() const {
  uint64_t data_bytes = 0;
  for (const Superblock& sb : superblocks) data_bytes += sb.extents * sb.extent_bytes;
  const uint64_t dnode_bytes_max = limits().dnode_bytes_max;
  const uint64_t spared = std::max(data_bytes / 32, std::min(dnode_bytes_max, data_bytes / 8));
  return round_up(std::min(2 * dnode_bytes_max, spared), kBlockBytes);
}

void Pool::add_targets(Space* space) const {
  for (const Superblock& sb : superblocks) {
    const uint64_t bytes = sb.extents * sb.extent_bytes;
    const uint64_t rewriting = std::min(3 * limits().dnode_bytes_max, bytes / 3);  // a few dnodes, out of place
    const uint64_t reserve = round_up(std::max({2 * sb.extent_bytes, rewriting, bytes / 32}), kBlockBytes);
    space->add_target(sb.data_offset, sb.data_offset + bytes, reserve);
  }
}

Status format_pool(scale::Volume& volume, const Options& options, const uint64_t pool_id[2],
                   std::vector<uint64_t> roles) {
  Pool pool;
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < volume.targets(); ++i) bytes.push_back(volume.target_bytes(i));
  if (roles.empty()) roles.assign(bytes.size(), kRolesAll);
  BONSAI_RETURN_IF_ERROR(lay_out_pool(options, bytes, roles, &pool.superblocks));
  for (Superblock& sb : pool.superblocks) std::copy_n(pool_id, 2, sb.pool_id);
  pool.versions.assign(pool.superblocks.size(), kFormatVersion);
  volume.bind(pool_identity(pool_id));
  BONSAI_RETURN_IF_ERROR(volume.lay_out(pool.layout()));
  BONSAI_RETURN_IF_ERROR(fetch_heads(volume, pool));
  for (const Superblock& sb : pool.superblocks) fill_target(volume, sb);
  Space space;
  pool.add_targets(&space);
  DnodeStore store(volume, space, pool.geometry());
  DnodeWriter writer(store);
  Dnode* root = nullptr;
  BONSAI_RETURN_IF_ERROR(writer.add(base::Fence(), base::Fence::infinite(), 1, nullptr, {}, &root));
  std::vector<std::unique_ptr<Dnode>> unused;
  BONSAI_RETURN_IF_ERROR(writer.commit(&unused));  // its fences complete what was filled, too
  BONSAI_RETURN_IF_ERROR(store.retire({}));
  BONSAI_RETURN_IF_ERROR(write_clean_state(volume, pool));
  BONSAI_RETURN_IF_ERROR(write_first_superblocks(volume, pool.superblocks));
  return write_superblocks(volume, pool.superblocks, 1);
}

bool is_unfinished(std::span<const std::byte> first_bytes) { return base::is_marked(first_bytes, kCreatingMagic); }

bool holds_no_pool(const scale::Volume& volume, size_t target) {
  return is_unfinished({volume.resident(Addr(target, 0)), std::min(kFirstBytes, volume.target_bytes(target))});
}

namespace {

// Notes superblocks that differ from the one that counts: unsound, or from before an interrupted growth.
void note_other_copies(const scale::Volume& volume, const Superblock& sb, size_t target, const std::string& path,
                       std::vector<Damage>* repairs) {
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    const Addr at(target, copy * kPageBytes);
    Superblock other;
    std::memcpy(&other, volume.resident(at), sizeof other);
    const bool same = std::memcmp(&other, &sb, sb.version == kFormatVersion ? sizeof sb : kSuperblockBytesV3) == 0;
    if (same) continue;
    const bool sound = verify_superblock(other, path, volume.target_bytes(target)).ok();
    repairs->push_back({place_text(copy == 0 ? "first superblock" : "second superblock", at),
                        sound ? "it is of an earlier size of the pool than the other one, which counts"
                              : "it is not sound; the other one is, and counts",
                        ""});
  }
}

}  // namespace

Status read_pool(scale::Volume& volume, const std::vector<std::string>& paths, Pool* pool) {
  pool->superblocks.clear();
  pool->versions.clear();
  pool->repairs.clear();
  std::vector<scale::Volume::Range> firsts;
  for (size_t i = 0; i < volume.targets(); ++i) {
    firsts.push_back({Addr(i, 0), std::min(kFirstBytes, volume.target_bytes(i))});
  }
  BONSAI_RETURN_IF_ERROR(volume.fetch(firsts));
  for (size_t i = 0; i < volume.targets(); ++i) {
    Superblock sb;
    BONSAI_RETURN_IF_ERROR(read_superblock(volume, i, paths[i], &sb));
    note_other_copies(volume, sb, i, paths[i], &pool->repairs);
    pool->versions.push_back(sb.version);
    pool->superblocks.push_back(of_newest_version(sb));
  }
  BONSAI_RETURN_IF_ERROR(verify_together(pool->superblocks, paths));
  volume.bind(pool_identity(pool->superblocks[0].pool_id));
  BONSAI_RETURN_IF_ERROR(volume.lay_out(pool->layout()));
  BONSAI_RETURN_IF_ERROR(fetch_heads(volume, *pool));
  return check_openings(volume, paths, pool);
}

namespace {

// Says that the extents that are about to come into being are of data.
Status declare_extents(scale::Volume& volume, const std::vector<Superblock>& before,
                       const std::vector<Superblock>& after) {
  bool written = false;
  for (size_t i = 0; i < after.size(); ++i) {
    const Addr table(i, after[i].extent_table_offset);
    const uint64_t begin = 8 * before[i].extents, end = 8 * after[i].extents;
    if (begin == end) continue;
    for (uint64_t at = begin; at < end; at += 8) store_word(volume, table + at, kExtentData);
    volume.flush(table + begin, end - begin, kSiteGrow);
    written = true;
  }
  return !written || volume.fence(kSiteGrowFence) ? Status::OK() : volume.health();
}

}  // namespace

Status plan_growth(const scale::Volume& volume, const Pool& pool, Pool* grown) {
  *grown = pool;
  for (Superblock& sb : grown->superblocks) {
    if (!sb.has(kRoleDnodes)) continue;
    const uint64_t bytes = volume.target_bytes(sb.target_index) / kPageBytes * kPageBytes;
    const uint64_t extents = bytes < sb.data_offset ? 0 : (bytes - sb.data_offset) / sb.extent_bytes;
    if (extents <= sb.extents) continue;
    const uint64_t extents_max = (sb.log_table_offset - sb.extent_table_offset) / 8;
    if (extents > extents_max) {
      return Status::InvalidArgument(
          "a target of this pool can have at most " +
          std::to_string(base::add_sizes(sb.data_offset, base::multiply_sizes(extents_max, sb.extent_bytes))) +
          " bytes; for more, copy it into a larger pool: bonsai checkpoint");
    }
    sb.extents = extents;
    sb.target_bytes = bytes;
    BONSAI_INVARIANT(sound_layout(sb));
    sb.seal();
  }
  return Status::OK();
}

Status grow_pool(scale::Volume& volume, const Pool& grown, Pool* pool) {
  // An earlier growth may have left one copy torn, and the other is written next.
  BONSAI_RETURN_IF_ERROR(settle_superblocks(volume, pool));
  BONSAI_RETURN_IF_ERROR(declare_extents(volume, pool->superblocks, grown.superblocks));
  pool->superblocks = grown.superblocks;
  return settle_superblocks(volume, pool);
}

Status settle_superblocks(scale::Volume& volume, Pool* pool) {
  BONSAI_RETURN_IF_ERROR(declare_openings(volume, *pool));
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    std::vector<Superblock> differing;
    for (const Superblock& sb : pool->superblocks) {
      if (std::memcmp(&sb, volume.resident(Addr(sb.target_index, copy * kPageBytes)), sizeof sb) != 0) {
        differing.push_back(sb);
      }
    }
    if (!differing.empty()) BONSAI_RETURN_IF_ERROR(write_superblocks(volume, differing, copy));
  }
  pool->versions.assign(pool->superblocks.size(), kFormatVersion);
  return Status::OK();
}

uint64_t closed_epoch(const scale::Volume& volume, const Pool& pool, const std::function<void(Addr)>& damaged) {
  uint64_t closed = 0;
  for (const Addr at : {pool.state(kStateEpochOffset), pool.epoch_copy()}) {
    const std::optional<uint64_t> epoch = load_word(volume, at);
    if (!epoch && damaged) damaged(at);
    closed = std::max(closed, epoch.value_or(0));
  }
  return closed;
}

void flush_state_word(scale::Volume& volume, Addr at) { volume.flush(at, sizeof(uint64_t), kSiteState); }

Status write_state_words(scale::Volume& volume, std::span<const StateWord> words) {
  for (const StateWord& word : words) {
    store_word(volume, word.at, word.value, word.tie);
    flush_state_word(volume, word.at);
  }
  return volume.fence(kSiteStateFence) ? Status::OK() : volume.health();
}

void Summary::add_segment(const scale::Volume& volume, Addr segment, uint64_t sequence, uint64_t end, bool sealed) {
  sum += mix64(mix64(place_seed(volume, segment) + sequence) + segment_end(end, sealed));
}

namespace {

Status write_state(scale::Volume& volume, const Pool& pool, RunState state, uint32_t summary) {
  const uint64_t value = static_cast<uint64_t>(state) | uint64_t{summary} << 8;
  return write_state_words(volume, std::array{StateWord{pool.state(kStateRunOffset), value}});
}

void add_headers(const scale::Volume& volume, const Superblock& sb, Summary* summary) {
  const size_t target = sb.target_index;
  for (uint64_t i = 0; i < sb.extents; ++i) {
    if (load_word(volume, Addr(target, sb.extent_table_offset + 8 * i)) == kExtentData) continue;
    const Addr extent(target, sb.data_offset + i * sb.extent_bytes);
    for (uint64_t at = 0; at < sb.extent_bytes; at += kDnodeHeaderBytes) {
      summary->sum += read_slot(volume, extent + at, sb.version).digest;
    }
  }
}

}  // namespace

Status write_run_state(scale::Volume& volume, const Pool& pool, RunState state) {
  return write_state(volume, pool, state, 0);
}

Status write_clean_state(scale::Volume& volume, const Pool& pool) {
  Summary summary;
  for (const Superblock& sb : pool.superblocks) add_headers(volume, sb, &summary);
  const std::vector<Addr> segments = pool.segments(), entries = pool.entries();
  for (size_t i = 0; i < segments.size(); ++i) {
    // The segment's word has the same sequence, since no opening is under way.
    const uint64_t sequence = load_word(volume, entries[i] + offsetof(SegmentEntry, sequence)).value_or(0);
    const uint64_t end = load_word(volume, entries[i] + offsetof(SegmentEntry, end), sequence).value_or(0);
    summary.add_segment(volume, segments[i], sequence, end >> 1, (end & 1) != 0);
  }
  const uint32_t value = summary.value(closed_epoch(volume, pool));
  const std::vector<StateWord> marks = closing_marks(volume, pool, value);
  if (!marks.empty()) BONSAI_RETURN_IF_ERROR(write_state_words(volume, marks));
  return write_state(volume, pool, RunState::kClean, value);
}

}  // namespace bonsai::persist
