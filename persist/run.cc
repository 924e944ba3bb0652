// SPDX-License-Identifier: Apache-2.0
#include "persist/run.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/narrow.h"
#include "base/small_copy.h"
#include "bonsai/options.h"

namespace bonsai::persist {
namespace {

bool is_uniform(std::span<const Entry> entries) {
  const Entry& first = entries.front();
  if (first.value.size() > UINT16_MAX) return false;
  for (const Entry& entry : entries) {
    if (entry.tombstone || entry.large || entry.key.bytes.size() != first.key.bytes.size() ||
        entry.value.size() != first.value.size()) {
      return false;
    }
  }
  return true;
}

[[maybe_unused]] bool no_rise(const Entry& a, const Entry& b) { return !(a.key < b.key); }

// Returns the end of what it has written at `to`.
char* encode_entry(const Entry& entry, uint32_t seed, bool uniform, char* to) {
  char* at = to + sizeof(uint32_t);
  if (!uniform) {
    BONSAI_CHECK(entry.value.size() <= kEntryValueMask);
    uint32_t meta = base::checked_narrow<uint32_t>(entry.value.size());
    if (entry.tombstone) meta |= kEntryTombstone;
    if (entry.large) meta |= kEntryLarge;
    const auto key_bytes = base::checked_narrow<uint16_t>(entry.key.bytes.size());
    std::memcpy(at, &meta, sizeof meta);
    std::memcpy(at + sizeof meta, &key_bytes, sizeof key_bytes);
    at += sizeof meta + sizeof key_bytes;
  }
  at = base::copy_small(base::copy_small(at, entry.key.bytes), entry.value);
  const char* const checked = to + sizeof(uint32_t);
  const uint32_t crc = base::crc32c(checked, static_cast<size_t>(at - checked), seed);
  std::memcpy(to, &crc, sizeof crc);
  return at;
}

// The entries of a uniform run whose sizes are known when this is compiled: those of most stores.
template <size_t kKeyBytes, size_t kValueBytes>
void encode_entries(std::span<const Entry> entries, uint64_t seed, char* at) {
  uint32_t i = 0;
  for (const Entry& entry : entries) {
    char* const checked = at + kUniformHeadBytes;
    std::memcpy(checked, entry.key.bytes.data(), kKeyBytes);
    std::memcpy(checked + kKeyBytes, entry.value.data(), kValueBytes);
    const uint32_t crc = base::crc32c(checked, kKeyBytes + kValueBytes, entry_seed(seed, i++));
    std::memcpy(at, &crc, sizeof crc);
    at = checked + kKeyBytes + kValueBytes;
  }
}

// All others; before the entries of a variable run their offsets.
void encode_entries(std::span<const Entry> entries, uint64_t seed, bool uniform, char* begin) {
  char* at = begin + (uniform ? 0 : sizeof(uint32_t) * entries.size());
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const auto offset = base::checked_narrow<uint32_t>(at - begin);
    if (!uniform) std::memcpy(begin + sizeof offset * i, &offset, sizeof offset);
    at = encode_entry(entries[i], entry_seed(seed, i), uniform, at);
  }
}

uint64_t encoded_run_bytes(std::span<const Entry> entries, bool uniform) {
  if (uniform) return entries.size() * encoded_bytes(entries.front(), uniform) + kRunTrailerBytes;
  uint64_t bytes = sizeof(uint32_t) * entries.size() + kRunTrailerBytes;
  for (const Entry& entry : entries) bytes += encoded_bytes(entry, uniform);
  return bytes;
}
}  // namespace

uint64_t encoded_run_bytes(std::span<const Entry> entries) { return encoded_run_bytes(entries, is_uniform(entries)); }

void encode_uniform_entry(const Entry& entry, uint32_t seed, std::byte* to) {
  encode_entry(entry, seed, true, reinterpret_cast<char*>(to));
}

RunDesc encode_run(std::span<const Entry> entries, const RunTie& tie, std::vector<std::byte>* bytes) {
  BONSAI_CHECK(!entries.empty() && entries.size() <= kRunEntriesMax);
  BONSAI_SLOW_INVARIANT(std::adjacent_find(entries.begin(), entries.end(), no_rise) == entries.end());
  const bool uniform = is_uniform(entries);
  bytes->resize(encoded_run_bytes(entries, uniform));
  char* const begin = reinterpret_cast<char*>(bytes->data());
  RunDesc desc{};
  BONSAI_INVARIANT(tie.identity != 0 && tie.addr != 0);
  desc.addr = tie.addr;
  desc.bytes = base::checked_narrow<uint32_t>(bytes->size());
  desc.count = base::checked_narrow<uint32_t>(entries.size());
  desc.birth = tie.birth;
  desc.key_bytes = uniform ? base::checked_narrow<uint16_t>(entries.front().key.bytes.size()) : kVariableRun;
  desc.value_bytes = uniform ? base::checked_narrow<uint16_t>(entries.front().value.size()) : 0;
  const uint64_t seed = run_seed(tie);
  if (uniform && desc.key_bytes == 8 && desc.value_bytes == 8) {
    encode_entries<8, 8>(entries, seed, begin);
  } else {
    encode_entries(entries, seed, uniform, begin);
  }
  const uint64_t checked_bytes = bytes->size() - kRunTrailerBytes;
  const uint32_t crc = base::crc32c(begin, checked_bytes, base::low_bits<uint32_t>(seed));
  std::memcpy(begin + checked_bytes, &crc, sizeof crc);
  BONSAI_INVARIANT(RunView::well_formed(desc));
  return desc;
}

bool RunView::well_formed(const RunDesc& desc, uint64_t version) {
  if (!is_read(version)) return false;  // all that are have both encodings
  if (desc.count == 0 || desc.count > kRunEntriesMax || desc.bytes <= kRunTrailerBytes) return false;
  const uint64_t bytes = desc.bytes - kRunTrailerBytes;
  if (desc.key_bytes != kVariableRun) {
    return desc.key_bytes >= kKeyBytesMin && desc.key_bytes <= kKeyBytesMax &&
           uint64_t{desc.count} * uniform_entry_bytes(desc) == bytes;
  }
  return uint64_t{desc.count} * (4 + kVariableHeadBytes + kKeyBytesMin) <= bytes;
}

bool RunView::verify() const {
  const uint64_t checked_bytes = desc_.bytes - kRunTrailerBytes;
  uint32_t crc;
  std::memcpy(&crc, bytes_ + checked_bytes, sizeof crc);
  return base::crc32c(bytes_, checked_bytes, base::low_bits<uint32_t>(seed_)) == crc;
}

// The most frequent size gets a loop of its own, without an inner loop over words.
uint32_t RunView::sound_end(uint32_t from, uint32_t to) const {
  if (trusted_) return to;
  const uint32_t stride = uniform_entry_bytes(desc_);
  const auto walk = [&](size_t checked_bytes) {
    for (; to - from >= 4; from += 4) {
      const char* at = bytes_ + size_t{from} * stride;
      const auto seed = [&](uint32_t i) { return entry_seed(seed_, from + i); };
      const std::array<uint32_t, 4> crcs =
          base::crc32c_four(at + kUniformHeadBytes, stride, checked_bytes, {seed(0), seed(1), seed(2), seed(3)});
      uint32_t wrong = 0;
      for (size_t i = 0; i < crcs.size(); ++i) {
        uint32_t crc;
        std::memcpy(&crc, at + i * stride, sizeof crc);
        wrong |= crc ^ crcs[i];
      }
      if (wrong != 0) break;
    }
    while (from < to && sound(from)) ++from;
    return from;
  };
  constexpr size_t kUsualBytes = 16;
  const size_t checked_bytes = stride - kUniformHeadBytes;
  return checked_bytes == kUsualBytes ? walk(kUsualBytes) : walk(checked_bytes);
}

void RunView::prefetch(uint32_t from, uint32_t to) const {
  const uint64_t begin = knows_places() ? begin_of(from) : 0;
  const uint64_t end = knows_places() ? begin_of(to) : base::kLineBytes;
  for (uint64_t at = begin / base::kLineBytes * base::kLineBytes; at < end; at += base::kLineBytes) {
    __builtin_prefetch(bytes_ + at);
  }
}

// The entry i of a run with heads of `head_bytes` bytes, at `offset`; no part of it is at `end` or after it.
template <uint32_t kHeadBytes>
[[gnu::always_inline]] inline bool RunView::decode(uint32_t i, uint32_t offset, uint32_t end, Entry* entry) const {
  if (offset > end || end - offset < kHeadBytes) return false;
  const char* at = bytes_ + offset;
  uint32_t crc;
  std::memcpy(&crc, at, sizeof crc);
  uint32_t value_bytes = desc_.value_bytes;
  uint16_t key_bytes = desc_.key_bytes;
  entry->tombstone = entry->large = false;
  if constexpr (kHeadBytes == kVariableHeadBytes) {
    uint32_t meta;
    std::memcpy(&meta, at + 4, sizeof meta);
    std::memcpy(&key_bytes, at + 8, sizeof key_bytes);
    value_bytes = meta & kEntryValueMask;
    entry->tombstone = (meta & kEntryTombstone) != 0;
    entry->large = (meta & kEntryLarge) != 0;
    if (key_bytes > kKeyBytesMax || key_bytes < kKeyBytesMin) return false;
    if (entry->large && value_bytes != sizeof(LargeRef)) return false;
  }
  const uint64_t all = uint64_t{kHeadBytes} + key_bytes + value_bytes;
  if (all > end - offset) return false;
  if (!trusted_ && base::crc32c(at + 4, all - 4, entry_seed(seed_, i)) != crc) return false;
  entry->key = base::Key::of({at + kHeadBytes, key_bytes});
  entry->value = {at + kHeadBytes + key_bytes, value_bytes};
  return true;
}

bool RunView::entry_at(uint32_t i, uint32_t offset, Entry* entry) const {
  return uniform() ? decode<kUniformHeadBytes>(i, offset, end_of(i), entry)
                   : decode<kVariableHeadBytes>(i, offset, end_of(i), entry);
}

bool RunView::variable_entries(uint32_t from, uint32_t to, Entry* entries) const {
  for (uint32_t i = from; i < to; ++i) {
    if (!decode<kVariableHeadBytes>(i, entry_offset(i), end_of(i), entries++)) return false;
  }
  return true;
}

void RunView::expect(uint32_t lo, uint32_t hi, scale::ReadBatch* reads) const {
  if (lo >= hi) return;
  const uint64_t begin = knows_places() ? begin_of(lo) : desc_.bytes * uint64_t{lo} / desc_.count;
  const uint64_t end = knows_places() ? begin_of(hi) : desc_.bytes * uint64_t{hi} / desc_.count;
  reads->add(scale::Addr::of_bits(desc_.addr) + begin, end - begin);
}

namespace {
constexpr uint32_t middle(uint32_t lo, uint32_t hi) { return lo + (hi - lo) / 2; }
}  // namespace

// Waits for the next probe of a search in [lo, hi] and for both candidates for the probe after it.
void RunView::await_probe(uint32_t lo, uint32_t hi, scale::ReadBatch* reads) const {
  const auto ask = [&](uint32_t i) {
    expect(i, i + 1, reads);
    if (knows_places()) __builtin_prefetch(bytes_ + entry_offset(i));  // the bytes come while others run
  };
  const uint32_t mid = middle(lo, hi);
  if (lo < mid) ask(middle(lo, mid));
  ask(mid);
  if (mid + 1 < hi) ask(middle(mid + 1, hi));
  static_cast<void>(reads->wait());  // of a mapped run, which does not fail
}

bool RunView::lower_bound(const base::Key& key, uint32_t lo, uint32_t hi, uint32_t* index,
                          scale::ReadBatch* reads) const {
  const uint32_t first = lo, end = hi;
  for (bool is_here = false; lo < hi; is_here = !is_here) {
    if (reads != nullptr && !is_here) await_probe(lo, hi, reads);
    const uint32_t mid = middle(lo, hi);
    Entry probe;
    if (uniform()) {
      probe.key = key_at(mid);
    } else if (!entry(mid, &probe)) {
      return false;
    }
    if (probe.key < key) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  *index = lo;
  // In a uniform run only the two neighbours are verified. If they are sound, the place between them is right.
  return !uniform() || ((lo == first || sound(lo - 1)) && (lo == end || sound(lo)));
}

uint32_t RunView::lower_bound_near(const base::Key& key, uint32_t lo, uint32_t hi) const {
  for (uint32_t step = 1; step <= hi - lo; step *= 2) {
    if (!(key_at(lo + step - 1) < key)) {
      hi = lo + step - 1;
      break;
    }
    lo += step;
  }
  while (lo < hi) {
    const uint32_t mid = lo + (hi - lo) / 2;
    if (key_at(mid) < key) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo;
}

Find RunView::find(const base::Key& key, Entry* found, scale::ReadBatch* reads) const {
  uint32_t index;
  if (!lower_bound(key, 0, desc_.count, &index, reads)) return Find::kDamaged;
  if (index == desc_.count) return Find::kAbsent;
  if (!entry(index, found)) return Find::kDamaged;
  return found->key == key ? Find::kFound : Find::kAbsent;
}

}  // namespace bonsai::persist
