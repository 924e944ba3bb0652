// SPDX-License-Identifier: Apache-2.0
#include "persist/dnode_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "persist/sites.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

DnodeStore::DnodeStore(scale::Volume& volume, Space& space, std::vector<ExtentGeometry> geometry)
    : volume_(volume),
      space_(space),
      geometry_(std::move(geometry)),
      births_(base::low_bits<uint32_t>(base::fresh_seed())) {
  for (const ExtentGeometry& target : geometry_) writes_.emplace_back(target.extents);
}

Status DnodeStore::take_slot(Addr* slot) {
  const std::lock_guard lock(slots_mutex_);
  if (free_slots_.size() < slots_ahead_) static_cast<void>(claim_extent(Space::Use::kOrdinary));
  if (free_slots_.empty()) BONSAI_RETURN_IF_ERROR(claim_extent(Space::Use::kReserve));
  *slot = free_slots_.back();
  BONSAI_INVARIANT(slot->offset() % kDnodeHeaderBytes == 0 && volume_.contains(*slot, kDnodeHeaderBytes));
  free_slots_.pop_back();
  return Status::OK();
}

void DnodeStore::give_slot(Addr slot) {
  const std::lock_guard lock(slots_mutex_);
  BONSAI_INVARIANT(!slot.is_nil() && slot.offset() % kDnodeHeaderBytes == 0);
  BONSAI_SLOW_INVARIANT(std::find(free_slots_.begin(), free_slots_.end(), slot) == free_slots_.end());
  free_slots_.push_back(slot);
}

// Makes all slots of an extent free ones, then names it in the extent table, so that recovery finds it and reads no
// stale bytes in it.
Status DnodeStore::claim_extent(Space::Use use) {
  const uint64_t bytes = geometry_[0].extent_bytes;
  const Addr extent = space_.allocate(bytes, use, bytes, Space::Where::kHigh);
  if (extent.is_nil()) {
    return Status::NoSpace("no extent of " + std::to_string(bytes) +
                           " bytes is left for dnode headers; enlarge the pool (bonsai grow) or delete data");
  }
  if (Status status = volume_.fetch(extent, bytes); !status.ok()) {
    space_.free(extent, bytes);
    return status;
  }
  write_free_slots(extent);
  if (!volume_.fence(kSiteExtentSlotsFence)) return volume_.health();
  const uint64_t slots = bytes / kDnodeHeaderBytes;
  store_word(volume_, table_entry(extent), 1 + slots);
  volume_.flush(table_entry(extent), sizeof(uint64_t), kSiteExtent);
  if (!volume_.fence(kSiteExtentFence)) return volume_.health();
  adopt_extent(extent, slots);
  for (uint64_t i = slots; i-- > 0;) free_slots_.push_back(extent + i * kDnodeHeaderBytes);
  return Status::OK();
}

void DnodeStore::write_free_slots(Addr extent) {
  std::array<uint64_t, kPageBytes / 8> page{};
  for (uint64_t begin = 0; begin < geometry_[0].extent_bytes; begin += kPageBytes) {
    for (uint64_t at = 0; at < kPageBytes; at += kDnodeHeaderBytes) {
      page[at / 8] = kFreeSlotMagic;
      page[at / 8 + 1] = checked_word(1, place_seed(volume_, extent + (begin + at + 8)));
    }
    volume_.nt_copy(extent + begin, page.data(), kPageBytes, kSiteExtentSlots);
  }
}

Addr DnodeStore::extent_of(Addr slot) const {
  const ExtentGeometry& geometry = geometry_[slot.target()];
  BONSAI_INVARIANT(slot.target() < geometry_.size() && slot.offset() >= geometry.data_offset);
  const uint64_t inside = (slot.offset() - geometry.data_offset) % geometry.extent_bytes;
  return {slot.target(), slot.offset() - inside};
}

Addr DnodeStore::table_entry(Addr extent) const {
  const ExtentGeometry& geometry = geometry_[extent.target()];
  const uint64_t index = (extent.offset() - geometry.data_offset) / geometry.extent_bytes;
  BONSAI_INVARIANT(index < geometry.extents);
  return {extent.target(), geometry.table_offset + 8 * index};
}

uint64_t* DnodeStore::writes_in(Addr extent) {
  const ExtentGeometry& geometry = geometry_[extent.target()];
  return &writes_[extent.target()][(extent.offset() - geometry.data_offset) / geometry.extent_bytes];
}

void DnodeStore::count_writes(const std::vector<Addr>& slots) {
  const std::lock_guard lock(writes_mutex_);
  for (const Addr slot : slots) {
    const Addr extent = extent_of(slot);
    const uint64_t writes = ++*writes_in(extent);
    const auto is_it = [&](const auto& known) { return known.first == extent; };
    const auto known = std::find_if(not_noted_.begin(), not_noted_.end(), is_it);
    if (known != not_noted_.end()) {
      known->second = writes;
    } else {
      not_noted_.emplace_back(extent, writes);
    }
  }
}

// Starts to note in the extent table how often header slots have been written. The notes that another thread is about
// to make are included, so that the caller's fence completes them.
std::vector<std::pair<Addr, uint64_t>> DnodeStore::note_writes() {
  const std::lock_guard lock(writes_mutex_);
  for (const auto& [extent, writes] : not_noted_) {
    store_word(volume_, table_entry(extent), std::min(1 + writes, kCheckedWordMax));
    volume_.flush(table_entry(extent), sizeof(uint64_t), kSiteExtentNote);
  }
  return not_noted_;
}

Status DnodeStore::retire(const std::vector<const Dnode*>& dnodes) {
  const std::vector<std::pair<Addr, uint64_t>> noted = note_writes();
  for (const Dnode* dnode : dnodes) {
    const Addr slot = dnode->header();
    DnodeHeader header;
    std::memcpy(&header, volume_.resident(slot), sizeof header);
    const Addr word = slot + offsetof(DnodeHeader, mark);
    volume_.store8(word, header.retired_mark(place_seed(volume_, slot)));
    volume_.flush(word, sizeof(uint64_t), kSiteRetire);
  }
  if (!volume_.fence(kSiteRetireFence)) return volume_.health();
  const std::lock_guard lock(writes_mutex_);
  const auto done = [&](const auto& extent) { return std::find(noted.begin(), noted.end(), extent) != noted.end(); };
  not_noted_.erase(std::remove_if(not_noted_.begin(), not_noted_.end(), done), not_noted_.end());
  return Status::OK();
}

void DnodeStore::free(const Dnode& dnode, const Runs& kept_runs, Addr kept_fences) {
  for (const RunDesc& run : dnode.runs()) {
    const bool taken_over =
        std::any_of(kept_runs.begin(), kept_runs.end(), [&](const RunDesc& other) { return other.addr == run.addr; });
    if (!taken_over) space_.free(Addr::of_bits(run.addr), run.bytes);
  }
  if (!dnode.long_fences().is_nil() && dnode.long_fences().bits() != kept_fences.bits()) {
    space_.free(dnode.long_fences(), dnode.long_fence_bytes());
  }
  give_slot(dnode.header());
}

// Without memory what was allocated is given back by the next opening only.
DnodeWriter::~DnodeWriter() {
  try {
    rollback({0, 0});
  } catch (const std::bad_alloc&) {
  }
}

void DnodeWriter::rollback(Mark mark) {
  BONSAI_INVARIANT(taken_.size() >= mark.taken && dnodes_.size() >= mark.dnodes);
  for (; taken_.size() > mark.taken; taken_.pop_back()) store_.space().free(taken_.back().addr, taken_.back().bytes);
  for (; dnodes_.size() > mark.dnodes; dnodes_.pop_back()) store_.give_slot(dnodes_.back()->header());
}

uint64_t DnodeWriter::media_bytes() const {
  uint64_t bytes = dnodes_.size() * kBlockBytes;  // headers
  for (const Piece& piece : taken_) bytes += round_up(piece.bytes, kBlockBytes);
  return bytes;
}

namespace {

[[maybe_unused]] bool rise_within(const base::Fence& lo, const base::Fence& hi, const std::vector<Entry>& entries) {
  const auto fall = [](const Entry& a, const Entry& b) { return !(a.key < b.key); };
  return entries.empty() || (!(entries.front().key < lo.key()) && hi.above(entries.back().key) &&
                             std::adjacent_find(entries.begin(), entries.end(), fall) == entries.end());
}

}  // namespace

Status DnodeWriter::add(const base::Fence& lo, const base::Fence& hi, uint64_t gen, Kept kept,
                        const std::vector<Entry>& entries, Dnode** dnode) {
  BONSAI_INVARIANT(lo < hi && gen > 0);
  BONSAI_SLOW_INVARIANT(rise_within(lo, hi, entries));
  Dnode::Parts parts;
  parts.lo = lo;
  parts.hi = hi;
  parts.gen = gen;
  if (kept.dnode != nullptr) {
    const Runs& runs = kept.dnode->runs();
    BONSAI_INVARIANT(kept.runs <= runs.size());
    parts.runs.assign(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(kept.runs));
    parts.has_large = kept.dnode->has_large();
  }
  fresh_.assign(parts.runs.size(), {});
  if (!entries.empty()) BONSAI_RETURN_IF_ERROR(write_runs(entries, kRunsMax - parts.runs.size(), &parts));
  return finish(std::move(parts), kept.dnode, dnode);
}

Status DnodeWriter::add_moved(const Dnode& dnode, size_t run, Addr to, Dnode** moved) {
  Dnode::Parts parts;
  parts.lo = dnode.lo();
  parts.hi = dnode.hi();
  parts.gen = dnode.gen();
  parts.runs = dnode.runs();
  parts.has_large = dnode.has_large();
  BONSAI_INVARIANT(run < parts.runs.size() && !to.is_nil());
  std::vector<Entry> entries;
  RunReader reader(store_.volume());
  const Trouble trouble = read_entries(&reader, parts.runs[run], &entries);
  if (trouble != Trouble::kNone) return unreadable(store_.volume(), trouble, dnode.lo(), dnode.hi());
  parts.runs[run] = write_run(entries, to);
  fresh_.assign(parts.runs.size(), {});
  fresh_[run] = entries;
  return finish(std::move(parts), &dnode, moved);
}

Status DnodeWriter::finish(Dnode::Parts parts, const Dnode* kept, Dnode** dnode) {
  if (kept != nullptr && kept->lo() == parts.lo && kept->hi() == parts.hi) {
    parts.long_fences = kept->long_fences();
    parts.long_fence_bytes = kept->long_fence_bytes();
  } else {
    BONSAI_RETURN_IF_ERROR(place_fences(&parts));
  }
  for (const RunDesc& run : parts.runs) BONSAI_INVARIANT(RunView::well_formed(run));
  BONSAI_RETURN_IF_ERROR(store_.take_slot(&parts.header));
  dnodes_.push_back(put_together(std::move(parts), kept));
  *dnode = dnodes_.back().get();
  return Status::OK();
}

// With metadata if that is wanted and all entries can be read.
std::unique_ptr<Dnode> DnodeWriter::put_together(Dnode::Parts parts, const Dnode* kept) const {
  if (store_.metadata()) {
    RunReader reader(store_.volume());
    if (auto dnode = Dnode::make_uploaded(parts, &reader, kept, fresh_)) return dnode;
  }
  return Dnode::make(std::move(parts));
}

// Writes entries as one run, or halves them until the pieces fit into a run, and into the free intervals that there
// are.
Status DnodeWriter::write_runs(std::span<const Entry> entries, size_t runs_max, Dnode::Parts* parts) {
  const uint64_t bytes = encoded_run_bytes(entries);
  const bool fits = entries.size() <= kRunEntriesMax && bytes <= kRunBytesMax;
  if (!fits && (runs_max < 2 || entries.size() < 2)) {
    return Status::NotSupported("a range of " + std::to_string(entries.size()) + " entries and " +
                                std::to_string(bytes) + " bytes does not fit into the runs of one dnode");
  }
  const Addr addr = fits ? store_.space().allocate(bytes, Space::Use::kReserve) : Addr();
  if (!addr.is_nil()) {
    taken_.push_back({addr, bytes});
    parts->runs.push_back(write_run(entries, addr));
    fresh_.push_back(entries);
    for (const Entry& entry : entries) parts->has_large = parts->has_large || entry.large;
    return Status::OK();
  }
  if (runs_max < 2 || entries.size() < 2) {
    return Status::NoSpace("no room for a dnode of " + std::to_string(bytes) + " bytes");
  }
  const size_t half = entries.size() / 2;
  const size_t runs_before = parts->runs.size();
  BONSAI_RETURN_IF_ERROR(write_runs(entries.first(half), runs_max / 2, parts));
  const size_t written = parts->runs.size() - runs_before;
  return write_runs(entries.subspan(half), runs_max - written, parts);
}

RunDesc DnodeWriter::write_run(std::span<const Entry> entries, Addr addr) {
  const uint32_t birth = store_.births_.fetch_add(1, std::memory_order_relaxed);
  const RunDesc run = encode_run(entries, {store_.volume().identity(), addr.bits(), birth}, &scratch_);
  scratch_.resize(round_up(run.bytes, 8));
  store_.volume().nt_copy(addr, scratch_.data(), scratch_.size(), kSiteRun);
  return run;
}

Status DnodeWriter::place_fences(Dnode::Parts* parts) {
  const std::string both = parts->lo.bytes() + parts->hi.bytes();
  if (both.size() <= kInlineFenceBytes) return Status::OK();
  const uint64_t bytes = round_up(both.size(), kBlockBytes);
  const Addr addr = store_.space().allocate(bytes, Space::Use::kReserve, 0, Space::Where::kHigh);
  if (addr.is_nil()) return Status::NoSpace("no room for the long fence keys of a dnode");
  taken_.push_back({addr, bytes});
  std::vector<std::byte> padded(round_up(both.size(), 8));
  std::memcpy(padded.data(), both.data(), both.size());
  store_.volume().nt_copy(addr, padded.data(), padded.size(), kSiteLongFences);
  BONSAI_INVARIANT(both.size() <= 2 * kKeyBytesMax);
  parts->long_fences = addr;
  parts->long_fence_bytes = both.size();
  return Status::OK();
}

namespace {

uint32_t long_fences_crc(const scale::Volume& volume, Addr at, const void* both, size_t bytes) {
  return base::crc32c(both, bytes, base::low_bits<uint32_t>(place_seed(volume, at)));
}

// The number of writes of a slot that is not torn.
uint32_t writes_of(const scale::Volume& volume, Addr slot) {
  DnodeHeader header;
  std::memcpy(&header, volume.resident(slot), sizeof header);
  if (header.magic == kDnodeMagic) return header.writes;
  return base::low_bits<uint32_t>(load_word(volume, slot + sizeof header.magic).value_or(0));
}

}  // namespace

void DnodeWriter::write_header(const Dnode& dnode) {
  const scale::Volume& volume = store_.volume();
  DnodeHeader header{};
  header.magic = kDnodeMagic;
  header.writes = writes_of(volume, dnode.header()) + 1;
  header.gen = dnode.gen();
  header.lo_bytes = base::checked_narrow<uint16_t>(dnode.lo().bytes().size());
  header.hi_bytes =
      dnode.hi().is_infinite() ? kInfiniteFence : base::checked_narrow<uint16_t>(dnode.hi().bytes().size());
  header.runs_count = base::checked_narrow<uint16_t>(dnode.runs().size());
  header.flags = dnode.has_large() ? kDnodeHasLarge : 0;
  std::copy(dnode.runs().begin(), dnode.runs().end(), header.runs);
  header.fence_addr = dnode.long_fences().bits();
  const std::string both = dnode.lo().bytes() + dnode.hi().bytes();
  if (dnode.long_fences().is_nil()) {
    std::memcpy(header.fences, both.data(), both.size());
  } else {
    const uint32_t crc = long_fences_crc(volume, dnode.long_fences(), both.data(), both.size());
    std::memcpy(header.fences, &crc, sizeof crc);
  }
  const uint64_t seed = place_seed(volume, dnode.header());
  header.crc = header.computed_crc(seed);
  header.mark = header.live_mark(seed);
  store_.volume().nt_copy(dnode.header(), &header, sizeof header, kSiteHeader);
}

Status DnodeWriter::commit(std::vector<std::unique_ptr<Dnode>>* dnodes) {
  *dnodes = std::exchange(dnodes_, {});
  taken_.clear();
  scale::Volume& volume = store_.volume();
  if (!volume.fence(kSiteRunFence)) return volume.health();
  for (const auto& dnode : *dnodes) write_header(*dnode);
  if (!volume.fence(kSiteHeaderFence)) return volume.health();
  std::vector<Addr> slots;
  for (const auto& dnode : *dnodes) slots.push_back(dnode->header());
  store_.count_writes(slots);
  return Status::OK();
}

namespace {

Trouble read_fences(const scale::Volume& volume, const DnodeHeader& header, base::Fence* lo, base::Fence* hi) {
  const bool infinite = header.hi_bytes == kInfiniteFence;
  const size_t hi_bytes = infinite ? 0 : header.hi_bytes;
  const size_t both = header.lo_bytes + hi_bytes;
  const char* at = header.fences;
  scale::ReadBatch reads(volume);
  if (header.fence_addr != 0) {
    const Addr addr = Addr::of_bits(header.fence_addr);
    if (!volume.contains(addr, both)) return Trouble::kDamaged;
    at = reinterpret_cast<const char*>(reads.issue(addr, both));
    if (!reads.wait().ok()) return Trouble::kUnavailable;
    uint32_t crc;
    std::memcpy(&crc, header.fences, sizeof crc);
    if (long_fences_crc(volume, addr, at, both) != crc) return Trouble::kDamaged;
  } else if (both > kInlineFenceBytes) {
    return Trouble::kDamaged;
  }
  *lo = base::Fence(std::string_view(at, header.lo_bytes));
  *hi = infinite ? base::Fence::infinite() : base::Fence(std::string_view(at + header.lo_bytes, hi_bytes));
  return *lo < *hi ? Trouble::kNone : Trouble::kDamaged;
}

// The dnode that a live header describes; null if it is none (bounds, fences), or what it refers to cannot be read.
std::unique_ptr<Dnode> dnode_of(const scale::Volume& volume, Addr slot, const DnodeHeader& header, uint64_t version,
                                Trouble* trouble) {
  Dnode::Parts parts;
  *trouble = header.runs_count > kRunsMax ? Trouble::kDamaged : read_fences(volume, header, &parts.lo, &parts.hi);
  if (*trouble != Trouble::kNone) return nullptr;
  parts.gen = header.gen;
  for (size_t i = 0; i < header.runs_count; ++i) {
    const RunDesc& run = header.runs[i];
    const Addr addr = Addr::of_bits(run.addr);
    if (!volume.contains(addr, round_up(run.bytes, 8)) || !RunView::well_formed(run, version)) return nullptr;
    parts.runs.push_back(run);
  }
  parts.has_large = (header.flags & kDnodeHasLarge) != 0;
  parts.header = slot;
  if (header.fence_addr != 0) {
    parts.long_fences = Addr::of_bits(header.fence_addr);
    parts.long_fence_bytes = parts.lo.bytes().size() + parts.hi.bytes().size();
  }
  return Dnode::make(std::move(parts));
}

}  // namespace

// Reads a header slot. For a retired header it reads only the header: runs and long fences may be gone.
SlotRead read_slot(const scale::Volume& volume, Addr slot, uint64_t version) {
  SlotRead read;
  DnodeHeader header;
  std::memcpy(&header, volume.resident(slot), sizeof header);
  if (header.magic == kFreeSlotMagic) {
    const std::optional<uint64_t> writes = load_word(volume, slot + sizeof header.magic);
    if (writes) read = {SlotRead::State::kFree, base::low_bits<uint32_t>(*writes), nullptr, 0};
    return read;
  }
  const uint64_t seed = place_seed(volume, slot);
  if (header.magic != kDnodeMagic || header.crc != header.computed_crc(seed)) return read;
  if (header.mark == header.retired_mark(seed)) return {SlotRead::State::kRetired, header.writes, nullptr, 0};
  if (header.mark != header.live_mark(seed)) return read;
  Trouble trouble = Trouble::kNone;
  std::unique_ptr<Dnode> dnode = dnode_of(volume, slot, header, version, &trouble);
  if (trouble == Trouble::kUnavailable) read.state = SlotRead::State::kUnavailable;
  if (dnode != nullptr) read = {SlotRead::State::kLive, header.writes, std::move(dnode), header.live_mark(seed)};
  return read;
}

void clear_slot(scale::Volume& volume, Addr slot, uint32_t writes) {
  store_word(volume, slot + sizeof(uint64_t), writes);
  volume.store8(slot, kFreeSlotMagic);
}

}  // namespace bonsai::persist
