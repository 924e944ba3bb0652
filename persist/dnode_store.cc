#include "persist/dnode_store.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::persist {

using scale::Addr;

Status DnodeStore::take_slot(Addr* slot) {
  const std::lock_guard lock(slots_mutex_);
  if (free_slots_.size() < slots_ahead_) static_cast<void>(claim_extent(Space::Use::kOrdinary));
  if (free_slots_.empty()) BONSAI_RETURN_IF_ERROR(claim_extent(Space::Use::kReserve));
  *slot = free_slots_.back();
  free_slots_.pop_back();
  return Status::OK();
}

void DnodeStore::give_slot(Addr slot) {
  const std::lock_guard lock(slots_mutex_);
  free_slots_.push_back(slot);
}

// Zeroes an extent, then marks it in the extent table, so that recovery finds it and reads no stale bytes in it.
Status DnodeStore::claim_extent(Space::Use use) {
  const uint64_t bytes = geometry_[0].extent_bytes;
  const Addr extent = space_.allocate(bytes, use, bytes);
  if (extent.is_nil()) {
    return Status::NoSpace("no extent of " + std::to_string(bytes) +
                           " bytes is left for dnode headers; delete data or use a larger pool");
  }
  static constexpr std::byte kZeros[kPageBytes] = {};
  for (uint64_t i = 0; i < bytes; i += kPageBytes) volume_.nt_copy(extent + i, kZeros, kPageBytes, kSiteExtent);
  volume_.fence(kSiteExtentFence);
  const ExtentGeometry& geometry = geometry_[extent.target()];
  const uint64_t index = (extent.offset() - geometry.data_offset) / bytes;
  const Addr entry(extent.target(), geometry.table_offset + 8 * index);
  volume_.store8(entry, checked_word(static_cast<uint64_t>(ExtentKind::kHeaders), kExtentSeed + (index << 8)));
  volume_.flush(entry, sizeof(uint64_t), kSiteExtent);
  volume_.fence(kSiteExtentFence);
  for (uint64_t i = bytes; i >= kDnodeHeaderBytes; i -= kDnodeHeaderBytes) {
    free_slots_.push_back(extent + (i - kDnodeHeaderBytes));
  }
  return Status::OK();
}

void DnodeStore::retire(const std::vector<const Dnode*>& dnodes) {
  for (const Dnode* dnode : dnodes) {
    const Addr word = dnode->header + offsetof(DnodeHeader, mark);
    volume_.store8(word, kRetiredMark);
    volume_.flush(word, sizeof(uint64_t), kSiteRetire);
  }
  volume_.fence(kSiteRetireFence);
}

void DnodeStore::free(const Dnode& dnode, const std::vector<RunDesc>& kept) {
  for (const RunDesc& run : dnode.runs()) {
    const bool taken_over =
        std::any_of(kept.begin(), kept.end(), [&](const RunDesc& other) { return other.addr == run.addr; });
    if (!taken_over) space_.free(Addr::of_bits(run.addr), run.bytes);
  }
  if (!dnode.long_fences.is_nil()) space_.free(dnode.long_fences, dnode.long_fence_bytes);
  give_slot(dnode.header);
}

DnodeWriter::~DnodeWriter() { rollback({0, 0}); }

void DnodeWriter::rollback(Mark mark) {
  for (; taken_.size() > mark.taken; taken_.pop_back()) store_.space().free(taken_.back().addr, taken_.back().bytes);
  for (; dnodes_.size() > mark.dnodes; dnodes_.pop_back()) store_.give_slot(dnodes_.back()->header);
}

Status DnodeWriter::add(const base::Fence& lo, const base::Fence& hi, uint64_t gen, const std::vector<RunDesc>& kept,
                        bool kept_has_large, const std::vector<Entry>& entries, Dnode** out) {
  auto dnode = std::make_unique<Dnode>(lo, hi, gen);
  for (const RunDesc& run : kept) dnode->add_run(run);
  if (kept_has_large) dnode->set_has_large();
  if (!entries.empty()) BONSAI_RETURN_IF_ERROR(write_runs(entries, kRunsMax - kept.size(), dnode.get()));
  BONSAI_RETURN_IF_ERROR(place_fences(dnode.get()));
  BONSAI_RETURN_IF_ERROR(store_.take_slot(&dnode->header));
  *out = dnode.get();
  dnodes_.push_back(std::move(dnode));
  return Status::OK();
}

// Writes entries as one run, or halves them until the pieces fit into the free intervals that there are.
Status DnodeWriter::write_runs(std::span<const Entry> entries, size_t runs_max, Dnode* dnode) {
  uint64_t bytes_max = 4 * entries.size();
  for (const Entry& entry : entries) bytes_max += entry_bytes(entry);
  const uint64_t reserved = round_up(bytes_max, kBlockBytes);
  const Addr addr = store_.space().allocate(reserved, Space::Use::kReserve);
  if (!addr.is_nil()) {
    write_run(entries, addr, reserved, dnode);
    return Status::OK();
  }
  if (runs_max < 2 || entries.size() < 2) {
    return Status::NoSpace("no room for a dnode of " + std::to_string(reserved) + " bytes");
  }
  const size_t half = entries.size() / 2;
  const size_t runs_before = dnode->runs().size();
  BONSAI_RETURN_IF_ERROR(write_runs(entries.first(half), runs_max / 2, dnode));
  const size_t written = dnode->runs().size() - runs_before;
  return write_runs(entries.subspan(half), runs_max - written, dnode);
}

void DnodeWriter::write_run(std::span<const Entry> entries, Addr addr, uint64_t reserved, Dnode* dnode) {
  const RunDesc run = encode_run(entries, addr.bits(), &scratch_);
  const uint64_t used = round_up(run.bytes, kBlockBytes);
  if (used < reserved) store_.space().free(addr + used, reserved - used);
  taken_.push_back({addr, used});
  scratch_.resize(round_up(run.bytes, 8));
  store_.volume().nt_copy(addr, scratch_.data(), scratch_.size(), kSiteRun);
  dnode->add_run(run);
  for (const Entry& entry : entries) {
    if (entry.large) dnode->set_has_large();
  }
}

Status DnodeWriter::place_fences(Dnode* dnode) {
  const std::string both = dnode->lo().bytes() + dnode->hi().bytes();
  if (both.size() <= kInlineFenceBytes) return Status::OK();
  const uint64_t bytes = round_up(both.size(), kBlockBytes);
  const Addr addr = store_.space().allocate(bytes, Space::Use::kReserve);
  if (addr.is_nil()) return Status::NoSpace("no room for the long fence keys of a dnode");
  taken_.push_back({addr, bytes});
  std::vector<std::byte> padded(round_up(both.size(), 8));
  std::memcpy(padded.data(), both.data(), both.size());
  store_.volume().nt_copy(addr, padded.data(), padded.size(), kSiteRun);
  dnode->long_fences = addr;
  dnode->long_fence_bytes = both.size();
  return Status::OK();
}

void DnodeWriter::write_header(const Dnode& dnode) {
  DnodeHeader header{};
  header.magic = kDnodeMagic;
  header.gen = dnode.gen();
  header.lo_bytes = static_cast<uint16_t>(dnode.lo().bytes().size());
  header.hi_bytes = dnode.hi().is_infinite() ? kInfiniteFence : static_cast<uint16_t>(dnode.hi().bytes().size());
  header.runs_count = static_cast<uint16_t>(dnode.runs().size());
  header.flags = dnode.has_large() ? kDnodeHasLarge : 0;
  std::copy(dnode.runs().begin(), dnode.runs().end(), header.runs);
  header.fence_addr = dnode.long_fences.bits();
  const std::string both = dnode.lo().bytes() + dnode.hi().bytes();
  if (dnode.long_fences.is_nil()) {
    std::memcpy(header.fences, both.data(), both.size());
  } else {
    const uint32_t crc = base::crc32c(both.data(), both.size(), 0);
    std::memcpy(header.fences, &crc, sizeof crc);
  }
  header.crc = header.computed_crc();
  header.mark = header.live_mark();
  store_.volume().nt_copy(dnode.header, &header, sizeof header, kSiteHeader);
}

std::vector<std::unique_ptr<Dnode>> DnodeWriter::commit() {
  store_.volume().fence(kSiteRunFence);
  for (const auto& dnode : dnodes_) write_header(*dnode);
  store_.volume().fence(kSiteHeaderFence);
  taken_.clear();
  return std::exchange(dnodes_, {});
}

namespace {

bool read_fences(const scale::Volume& volume, const DnodeHeader& header, base::Fence* lo, base::Fence* hi) {
  const bool infinite = header.hi_bytes == kInfiniteFence;
  const size_t hi_bytes = infinite ? 0 : header.hi_bytes;
  const size_t both = header.lo_bytes + hi_bytes;
  const char* at = header.fences;
  if (header.fence_addr != 0) {
    const Addr addr = Addr::of_bits(header.fence_addr);
    if (!volume.contains(addr, both)) return false;
    at = reinterpret_cast<const char*>(volume.local(addr));
    uint32_t crc;
    std::memcpy(&crc, header.fences, sizeof crc);
    if (base::crc32c(at, both, 0) != crc) return false;
  } else if (both > kInlineFenceBytes) {
    return false;
  }
  *lo = base::Fence(std::string_view(at, header.lo_bytes));
  *hi = infinite ? base::Fence::infinite() : base::Fence(std::string_view(at + header.lo_bytes, hi_bytes));
  return *lo < *hi;
}

}  // namespace

bool read_dnode(const scale::Volume& volume, Addr at, std::unique_ptr<Dnode>* dnode, bool* retired) {
  DnodeHeader header;
  std::memcpy(&header, volume.local(at), sizeof header);
  if (header.magic != kDnodeMagic || header.crc != header.computed_crc()) return false;
  if (header.runs_count > kRunsMax || (header.mark != header.live_mark() && header.mark != kRetiredMark)) return false;
  *retired = header.mark == kRetiredMark;
  base::Fence lo;
  base::Fence hi;
  if (*retired) {  // its runs and long fences may be gone
    *dnode = nullptr;
    return true;
  }
  if (!read_fences(volume, header, &lo, &hi)) return false;
  auto read = std::make_unique<Dnode>(std::move(lo), std::move(hi), header.gen);
  for (size_t i = 0; i < header.runs_count; ++i) {
    const RunDesc& run = header.runs[i];
    const Addr addr = Addr::of_bits(run.addr);
    if (!volume.contains(addr, round_up(run.bytes, 8)) || !RunView(nullptr, run).well_formed()) return false;
    read->add_run(run);
  }
  if ((header.flags & kDnodeHasLarge) != 0) read->set_has_large();
  read->header = at;
  if (header.fence_addr != 0) {
    read->long_fences = Addr::of_bits(header.fence_addr);
    read->long_fence_bytes = read->lo().bytes().size() + read->hi().bytes().size();
  }
  *dnode = std::move(read);
  return true;
}

}  // namespace bonsai::persist
