// SPDX-License-Identifier: Apache-2.0
// A run: sorted entries of one dnode in consecutive media blocks, written once and never changed.
//
// Two encodings (format.h): uniform, when all entries are puts of one key size and one value size, and variable.
// Every entry carries a check, so that a reader never accepts a damaged one.
#ifndef BONSAI_PERSIST_RUN_H_
#define BONSAI_PERSIST_RUN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/key.h"
#include "base/narrow.h"
#include "bonsai/rows.h"
#include "persist/format.h"
#include "scale/read_batch.h"
#include "scale/volume.h"

namespace bonsai::persist {

// One entry of a dnode. Views belong to the run or to the caller.
struct Entry {
  base::Key key;
  std::string_view value;  // a LargeRef's bytes if `large`
  bool tombstone = false;
  bool large = false;
};

enum class Find {
  kFound,
  kAbsent,
  kDamaged,
  kUnavailable,  // bytes could not be read now, perhaps later (scale::Volume::unavailable)
};

// Why a read failed.
enum class Trouble { kNone, kDamaged, kUnavailable };

// The size of the run that encode_run() makes of `entries`. Requires: not empty.
uint64_t encoded_run_bytes(std::span<const Entry> entries);

// The facts that a run's checks are bound to.
struct RunTie {
  uint64_t identity;  // of the pool
  uint64_t addr;
  uint32_t birth;
};

// Encodes `entries` (sorted by key, no duplicates, not empty) into *bytes; returns the descriptor.
RunDesc encode_run(std::span<const Entry> entries, const RunTie& tie, std::vector<std::byte>* bytes);
// Encodes one entry of a uniform run at `to`.
void encode_uniform_entry(const Entry& entry, uint32_t seed, std::byte* to);

// Sizes in a run: of a uniform entry, of what precedes the first entry, of an encoded entry.
inline constexpr uint32_t kUniformHeadBytes = 4;    // check
inline constexpr uint32_t kVariableHeadBytes = 10;  // check, value size and flags, key size
inline uint32_t uniform_entry_bytes(const RunDesc& desc) {
  return kUniformHeadBytes + desc.key_bytes + desc.value_bytes;
}
inline uint32_t entries_offset(const RunDesc& desc) { return desc.key_bytes == kVariableRun ? 4 * desc.count : 0; }
inline uint32_t encoded_bytes(const Entry& entry, bool uniform) {
  return base::checked_narrow<uint32_t>((uniform ? kUniformHeadBytes : kVariableHeadBytes) + entry.key.bytes.size() +
                                        entry.value.size());
}

// Upper bound of the bytes that an entry takes in a run, its offset included.
constexpr uint64_t entry_bytes(uint64_t key_bytes, uint64_t value_bytes) {
  return sizeof(uint32_t) + kVariableHeadBytes + key_bytes + value_bytes;
}
inline uint64_t entry_bytes(const Entry& entry) { return entry_bytes(entry.key.bytes.size(), entry.value.size()); }

// The seed that binds an entry's check to its run.
inline uint64_t run_seed(const RunTie& tie) {
  return (tie.identity ^ tie.addr) * 0x9e3779b97f4a7c15 + tie.birth * 0xd6e8feb86659fd93;
}
inline uint32_t entry_seed(uint64_t run_seed, uint32_t i) { return base::low_bits<uint32_t>(mix64(run_seed + i)); }

// Reads a run. Safe on arbitrary bytes: all offsets are checked against desc.bytes.
class RunView {
 public:
  // Requires: well_formed(desc); the parts of the run that are read are at their offsets from `bytes`.
  RunView(const std::byte* bytes, const RunDesc& desc, uint64_t identity)
      : bytes_(reinterpret_cast<const char*>(bytes)), desc_(desc), seed_(run_seed({identity, desc.addr, desc.birth})) {}

  [[nodiscard]] const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(bytes_); }
  // The run's bytes are at `bytes` from now on.
  void move_to(const std::byte* bytes) { bytes_ = reinterpret_cast<const char*>(bytes); }
  // Sets the offsets of a variable run's entries, from DRAM. The run itself is no longer searched for them, so any part
  // of it may be read alone. Requires: they stay as long as the view.
  void use_offsets(const uint32_t* offsets) { offsets_ = offsets; }
  // Whether the place of an entry is known before the run is read.
  [[nodiscard]] bool knows_places() const { return uniform() || offsets_ != nullptr; }
  // The entries [from, to) are the bytes [begin_of(from), begin_of(to)) of the run; `to` may be count().
  [[nodiscard]] uint32_t begin_of(uint32_t i) const {
    return i == desc_.count ? desc_.bytes - kRunTrailerBytes : entry_offset(i);
  }
  [[nodiscard]] const RunDesc& desc() const { return desc_; }
  [[nodiscard]] uint32_t count() const { return desc_.count; }
  // Verifies the run as a whole, which costs a fraction of its entries' checks. If it is sound, entries are not checked
  // one by one from now on; if not, nothing changes.
  void trust() { trusted_ = trusted_ || verify(); }
  // Treats the run as sound without verifying it.
  void trust_unseen() { trusted_ = true; }
  [[nodiscard]] bool trusted() const { return trusted_; }
  // The entry at index i, verified. False if damaged. Requires: i < count().
  [[nodiscard]] bool entry(uint32_t i, Entry* entry) const { return entry_at(i, entry_offset(i), entry); }
  // Same, with the entry's offset known from DRAM.
  [[nodiscard]] bool entry_at(uint32_t i, uint32_t offset, Entry* entry) const;
  // Reads entries [from, to) of a variable run, verified. False if one is damaged.
  [[nodiscard]] bool variable_entries(uint32_t from, uint32_t to, Entry* entries) const;
  // Offset of entry i in the run: from DRAM if it is there, else from the run itself.
  [[nodiscard]] uint32_t entry_offset(uint32_t i) const;
  [[nodiscard]] bool uniform() const { return desc_.key_bytes != kVariableRun; }
  // Bytes of each key of a uniform run.
  [[nodiscard]] uint32_t key_bytes() const { return desc_.key_bytes; }
  // Entries [from, to) of a uniform run as they are stored, and the key of one, both unverified.
  [[nodiscard]] Rows rows(uint32_t from, uint32_t to) const {
    const uint32_t stride = uniform_entry_bytes(desc_);
    const char* keys = bytes_ + size_t{from} * stride + kUniformHeadBytes;
    return {keys, keys + desc_.key_bytes, to - from, stride, desc_.key_bytes, desc_.value_bytes};
  }
  [[nodiscard]] base::Key key_at(uint32_t i) const { return base::Key::of(rows(i, i + 1).key(0)); }
  // Whether entry i of a uniform run is sound.
  [[nodiscard]] bool sound(uint32_t i) const;
  // The end of the sound entries from `from` on, at most `to`. Uniform runs only.
  [[nodiscard]] uint32_t sound_end(uint32_t from, uint32_t to) const;
  // Fetches entries [from, to).
  void prefetch(uint32_t from, uint32_t to) const;

  // Index of the first entry at or after `key` (count() if none). False if a probed entry is damaged.
  [[nodiscard]] bool lower_bound(const base::Key& key, uint32_t* index) const {
    return lower_bound(key, 0, desc_.count, index, nullptr);
  }
  // lower_bound() for a result known to be in [lo, hi]. `reads`, if not null, waits for the probes of a mapped run: for
  // each second one together with both candidates for the next. So it waits half as often, for half as many reads more.
  [[nodiscard]] bool lower_bound(const base::Key& key, uint32_t lo, uint32_t hi, uint32_t* index,
                                 scale::ReadBatch* reads) const;
  // Galloping lower_bound() for uniform runs, for keys expected near `lo`: probes 1, 2, 4, ... entries ahead. Verifies
  // nothing: the result is right if the entries at both sides of it are sound.
  [[nodiscard]] uint32_t lower_bound_near(const base::Key& key, uint32_t lo, uint32_t hi) const;
  // Binary search for `key`. `reads` as above.
  [[nodiscard]] Find find(const base::Key& key, Entry* entry, scale::ReadBatch* reads = nullptr) const;
  // Issues the read of entries [lo, hi) of a mapped run.
  void expect(uint32_t lo, uint32_t hi, scale::ReadBatch* reads) const;
  // The run's own checksum, over all of its bytes.
  [[nodiscard]] bool verify() const;
  // Whether the sizes are consistent; must be checked first for a descriptor from NVM. `version`: the format version in
  // which it was stored.
  [[nodiscard]] static bool well_formed(const RunDesc& desc, uint64_t version = kFormatVersion);

 private:
  // Upper bound of the end of entry i. Where places are known it is exact, since later bytes may not have been read.
  [[nodiscard]] uint32_t end_of(uint32_t i) const { return offsets_ != nullptr ? begin_of(i + 1) : desc_.bytes; }
  template <uint32_t kHeadBytes>
  [[nodiscard]] bool decode(uint32_t i, uint32_t offset, uint32_t end, Entry* entry) const;
  void await_probe(uint32_t lo, uint32_t hi, scale::ReadBatch* reads) const;

  const char* bytes_;
  const uint32_t* offsets_ = nullptr;
  RunDesc desc_;
  uint64_t seed_;
  bool trusted_ = false;
};

// Decodes the entry of a uniform run at `at`. False if it is damaged. Requires: its bytes can be read there.
inline bool uniform_entry(const std::byte* at, uint32_t seed, uint32_t key_bytes, uint32_t value_bytes, Entry* entry) {
  uint32_t crc;
  std::memcpy(&crc, at, sizeof crc);
  const auto* key = reinterpret_cast<const char*>(at) + kUniformHeadBytes;
  *entry = {base::Key::of({key, key_bytes}), {key + key_bytes, value_bytes}};
  return base::crc32c(key, key_bytes + value_bytes, seed) == crc;
}

inline uint32_t RunView::entry_offset(uint32_t i) const {
  if (uniform()) return i * uniform_entry_bytes(desc_);
  if (offsets_ != nullptr) return offsets_[i];
  uint32_t offset;
  std::memcpy(&offset, bytes_ + size_t{4} * i, sizeof offset);
  return offset;
}

inline bool RunView::sound(uint32_t i) const {
  if (trusted_) return true;
  const uint32_t stride = uniform_entry_bytes(desc_);
  const char* at = bytes_ + size_t{i} * stride;
  uint32_t crc;
  std::memcpy(&crc, at, sizeof crc);
  return base::crc32c(at + kUniformHeadBytes, stride - kUniformHeadBytes, entry_seed(seed_, i)) == crc;
}

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RUN_H_
