// SPDX-License-Identifier: Apache-2.0
// The bytes of a pool on NVM, format version 4. docs/format.md explains them; this file is the definition.
//
//   target:  superblock | superblock copy | state | extent table, log table | log segments | data area
//   data:    blocks of 256 bytes: header extents (dnode headers side by side), runs, long fences, large values
//
// All integers are little-endian. Every structure carries a CRC32C over its contents; words that change in place
// are 8 bytes, stored atomically, with a check of their own. A reader verifies before it trusts.
//
// Every check but the superblock's is bound to the pool (its identity) and to its place, and to what distinguishes one
// use of the place from the next: a segment's sequence, a run's birth. So bytes of another pool, from elsewhere or of
// an earlier use fail it. Zeros are never valid: a word of its own marks what is unused.
#ifndef BONSAI_PERSIST_FORMAT_H_
#define BONSAI_PERSIST_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc.h"
#include "base/narrow.h"
#include "base/nvm/medium.h"
#include "base/sizes.h"

namespace bonsai::persist {

inline constexpr uint64_t kFormatVersion = 4;
inline constexpr uint64_t kFormatVersionMin = 3;  // the oldest that is read; opening such a pool makes it the newest
constexpr bool is_read(uint64_t version) { return version >= kFormatVersionMin && version <= kFormatVersion; }
inline constexpr uint64_t kBlockBytes = base::kMediaBlockBytes;
inline constexpr uint64_t kPageBytes = 4096;

using base::round_up;

// ---- superblock: written twice, at creation, at each growth and when a pool of an older version is first opened

inline constexpr uint64_t kSuperblockMagic = 0x31564b4941534e42;  // "BNSAIKV1"
inline constexpr uint64_t kSuperblockCopies = 2;

// The first word of a target while its pool is being created; then the superblock's takes its place.
inline constexpr uint64_t kCreatingMagic = 0x676e696b616d6e42;  // "Bnmaking"

struct Superblock {
  uint64_t magic;
  uint64_t version;
  uint64_t pool_id[2];  // the same on all targets of a pool
  uint32_t target_index;
  uint32_t target_count;
  uint32_t key_format;
  uint32_t reserved;
  uint64_t target_bytes;
  uint64_t extent_bytes;  // unit of the extent table; a header extent is one of them
  uint64_t extent_table_offset;
  uint64_t extents;
  uint64_t log_offset;
  uint64_t segment_bytes;
  uint64_t segments;
  uint64_t data_offset;  // first extent
  uint64_t log_table_offset;
  uint64_t crc;  // CRC32C of all before; up to here the superblock is the same in every version
  // ---- since version 4
  uint64_t roles;         // what the target is for: kRoleLog, kRoleDnodes
  uint64_t layout;        // bonsai::LayoutChoice: where the bytes of data areas are (scale/layout.h)
  uint64_t unit_bytes;    // of a striped pool
  uint64_t replicas[12];  // reserved for naming other targets with the same bytes; zeros so far
  uint64_t check;         // CRC32C of all before

  [[nodiscard]] uint32_t computed_crc() const { return base::crc32c(this, offsetof(Superblock, crc), 0); }
  [[nodiscard]] uint32_t computed_check() const { return base::crc32c(this, offsetof(Superblock, check), 0); }
  void seal() {
    crc = computed_crc();
    check = computed_check();
  }
  [[nodiscard]] bool has(uint64_t role) const { return (roles & role) != 0; }
};
static_assert(sizeof(Superblock) == 256 && sizeof(Superblock) <= kPageBytes);
// Bytes of a superblock of version 3; zeros follow.
inline constexpr uint64_t kSuperblockBytesV3 = offsetof(Superblock, roles);

inline constexpr uint64_t kRoleLog = 1;     // it has log segments
inline constexpr uint64_t kRoleDnodes = 2;  // it has a data area: dnodes, large values
inline constexpr uint64_t kRolesAll = kRoleLog | kRoleDnodes;

// ---- what checks are bound to

constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}
// The pool's identity, to which its checks are bound (scale::Volume::identity()); never 0.
constexpr uint64_t pool_identity(const uint64_t pool_id[2]) { return mix64(pool_id[0] ^ mix64(pool_id[1])) | 1; }
// The seed of a check of bytes that are stored at `addr` in that pool.
constexpr uint64_t place_seed(uint64_t identity, uint64_t addr) {
  return mix64((identity ^ addr) * 0x9e3779b97f4a7c15 + identity);
}

// ---- words that change in place: 40 bits of value under 24 bits of check (words.h)

inline constexpr uint64_t kCheckedWordMax = (uint64_t{1} << 40) - 1;

// Never 0. Requires: value <= kCheckedWordMax. `seed` ties the word to its place.
constexpr uint64_t checked_word(uint64_t value, uint64_t seed) {
  const uint64_t check = mix64(value ^ mix64(seed + 0x9e3779b97f4a7c15)) >> 40;
  return value | (check == 0 ? 1 : check) << 40;
}
constexpr bool checked_word_ok(uint64_t word, uint64_t seed) {
  return checked_word(word & kCheckedWordMax, seed) == word;
}

// ---- state page: checked words, one line each. Run state and closed epoch count on the first target with a log; the
// openings (pool.h) and the marks (old_copy.h) are on all targets of a pool that has several.

inline constexpr uint64_t kStateOffset = kSuperblockCopies * kPageBytes;
inline constexpr uint64_t kStateRunOffset = kStateOffset;                                 // RunState + summary << 8
inline constexpr uint64_t kStateEpochOffset = kStateOffset + base::kLineBytes;            // closed epoch of `buffered`
inline constexpr uint64_t kStateOpeningOffset = kStateOffset + 2 * base::kLineBytes;      // the last one
inline constexpr uint64_t kStateNextOpeningOffset = kStateOffset + 3 * base::kLineBytes;  // one that has begun
inline constexpr uint64_t kStateBegunOffset = kStateOffset + 4 * base::kLineBytes;   // marks of the log (old_copy.h)
inline constexpr uint64_t kStateOpenedOffset = kStateOffset + 5 * base::kLineBytes;  // the second one
enum class RunState : uint64_t { kClean = 1, kOpenDurable = 2, kOpenBuffered = 3 };

// ---- extent table: a checked word for each extent, from kExtentTableOffset on. 0: data. Else an extent of dnode
// headers: 1 + a lower bound of the writes of all its slots.

inline constexpr uint64_t kExtentTableOffset = kStateOffset + kPageBytes;
inline constexpr uint64_t kExtentData = 0;

// ---- log table: a line whose first word is a copy of the closed epoch; then an entry for each segment.
// An entry is a lower bound of what its segment holds, stored apart from it, so that no single damage hits both.

struct SegmentEntry {
  uint64_t end;       // checked word, bound to the sequence, too: segment_end()
  uint64_t sequence;  // checked word; older than the segment's own only while that is being opened
};
inline constexpr uint64_t kSegmentEntriesOffset = base::kLineBytes;
static_assert(base::kLineBytes % sizeof(SegmentEntry) == 0, "both words are in one line, the end is stored first");
// All records below `end` are durable; sealed: there are no others.
constexpr uint64_t segment_end(uint64_t end, bool sealed) { return end << 1 | (sealed ? 1 : 0); }

// ---- log segment: a line with one checked word, then records without gaps, each a multiple of 8 bytes

inline constexpr uint64_t kSegmentMagic = 0x4745534941534e42;
inline constexpr uint64_t kSegmentHeaderBytes = base::kLineBytes;

struct SegmentHeader {
  uint64_t sequence;  // checked word: number of the opening, unique in the pool, 0 = never used; seeds record checksums
  uint64_t magic;     // for a person with a hex dump
  uint64_t reserved[6];
};
static_assert(sizeof(SegmentHeader) == kSegmentHeaderBytes);

// Mode durable: the end of an open segment is noted in its entry (`end`) after every `note_bytes` appended bytes.
constexpr uint64_t note_bytes(uint64_t segment_bytes) {
  constexpr uint64_t kNoteBytesMax = 16384;
  return segment_bytes / 8 < kNoteBytesMax ? segment_bytes / 8 : kNoteBytesMax;
}

// A record: u32 CRC32C of the rest of it (record_seed()); u8 tag; then
//   put, delete   a part: [key bytes] [value bytes] token, generation, key, value
//   batch         payload bytes, number of parts, parts, each with a tag of its own
//   share         as batch, but before the parts: its number, from 0, and the number of shares of the whole batch
//   epoch         u64 epoch that the following records belong to
// and zeroes up to a multiple of 8 bytes. Numbers are LEB128. The tag is a kind and flags; a part leaves out the key
// bytes if the key has 8, and the value bytes if the value has 8 or the part is a delete. A batch that does not fit
// into a segment is cut into shares, each the only batch of a segment of its own. Their segments have consecutive
// sequences, which tie them together: share i is in the one of the first share's sequence + i.
enum class RecordKind : uint8_t { kPut = 1, kDel = 2, kBatch = 3, kEpoch = 4, kShare = 5 };
inline constexpr uint8_t kTagKindMask = 7;
inline constexpr uint8_t kTagLarge = 8;  // the value is a LargeRef
inline constexpr uint8_t kTagKeyOf8 = 16;
inline constexpr uint8_t kTagValueOf8 = 32;
inline constexpr uint64_t kRecordBytesMin = 8;
inline constexpr uint64_t kEpochRecordBytes = 16;

// The smallest size of values that are stored apart.
constexpr uint64_t large_value_bytes_min(uint64_t segment_bytes) {
  return segment_bytes / 4 < 4096 ? segment_bytes / 4 : 4096;
}

// A value that is stored apart in the data area; log and dnodes hold this reference and never copy the value again.
struct LargeRef {
  uint64_t addr;
  uint32_t value_bytes;
  uint32_t crc;
};
static_assert(sizeof(LargeRef) == 16);

// ---- dnode header: 256 bytes; many side by side in a header extent

inline constexpr uint64_t kDnodeHeaderBytes = 256;
inline constexpr uint64_t kDnodeMagic = 0x45444f4e44495342;
inline constexpr uint64_t kFreeSlotMagic = 0x544f4c5345455246;
inline constexpr size_t kRunsMax = 6;
inline constexpr uint32_t kRunEntriesMax = 0xffff;
inline constexpr uint64_t kRunBytesMax = uint64_t{1} << 31;
inline constexpr size_t kInlineFenceBytes = 64;
inline constexpr uint16_t kInfiniteFence = 0xffff;
inline constexpr uint16_t kVariableRun = 0xffff;

// One sorted run of entries.
//   key_bytes != kVariableRun: `count` entries of {u32 check, key, value}, all of one size, all puts
//   else: `count` u32 offsets, then entries of {u32 check, u32 value_bytes|flags, u16 key_bytes, key, value}
// and the trailer: u32 CRC32C of all of that.
struct RunDesc {
  uint64_t addr;
  uint32_t bytes;  // with the trailer
  uint32_t count;
  uint32_t birth;  // drawn when the run is written; differs from that of the place's last run
  uint16_t key_bytes;
  uint16_t value_bytes;
};
static_assert(sizeof(RunDesc) == 24);
inline constexpr uint32_t kRunTrailerBytes = 4;

inline constexpr uint32_t kEntryTombstone = uint32_t{1} << 31;
inline constexpr uint32_t kEntryLarge = uint32_t{1} << 30;
inline constexpr uint32_t kEntryValueMask = kEntryLarge - 1;

// A slot that holds no header has kFreeSlotMagic and, as a checked word, how often it has been written.
struct DnodeHeader {
  uint64_t magic;
  uint32_t crc;     // CRC32C of what follows up to `mark`, bound to the slot
  uint32_t writes;  // how often the slot has been written, this time included
  uint64_t gen;
  uint16_t lo_bytes;  // 0 = from the first key
  uint16_t hi_bytes;  // kInfiniteFence = to the end
  uint16_t runs_count;
  uint16_t flags;
  RunDesc runs[kRunsMax];
  uint64_t fence_addr;             // nil: fences inline; else where `lo` and `hi` are, one after the other
  char fences[kInlineFenceBytes];  // inline fences, or the CRC32C of those at fence_addr
  uint64_t mark;                   // live_mark(), or retired_mark(): newer dnodes cover the whole range

  // slot_seed: place_seed() of the slot.
  [[nodiscard]] uint32_t computed_crc(uint64_t slot_seed) const {
    return base::crc32c(&writes, offsetof(DnodeHeader, mark) - offsetof(DnodeHeader, writes),
                        base::low_bits<uint32_t>(slot_seed));
  }
  // Tied to the content, so that a torn write of the slot's next header cannot make a retired dnode live again.
  [[nodiscard]] uint64_t live_mark(uint64_t slot_seed) const { return mix64(slot_seed + crc) | 1; }
  [[nodiscard]] uint64_t retired_mark(uint64_t slot_seed) const { return ~live_mark(slot_seed); }
};
static_assert(sizeof(DnodeHeader) == kDnodeHeaderBytes);
inline constexpr uint16_t kDnodeHasLarge = 1;  // some entry refers to a large value

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_FORMAT_H_
