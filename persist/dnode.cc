#include "persist/dnode.h"

#include <emmintrin.h>

#include <algorithm>

#include "base/check.h"

namespace bonsai::persist {

Dnode::~Dnode() { delete meta_.load(std::memory_order_relaxed); }

size_t Dnode::common_prefix_bytes() const {
  if (hi_.is_infinite()) return 0;
  const std::string_view a = lo_.bytes();
  const std::string_view b = hi_.bytes();
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first -
                             a.begin());
}

void Dnode::add_run(const RunDesc& run) {
  BONSAI_CHECK(runs_.size() < kRunsMax);
  runs_.push_back(run);
  entries_ += run.count;
  run_bytes_ += run.bytes;
}

uint64_t Dnode::dram_bytes() const {
  uint64_t bytes = sizeof *this + runs_.capacity() * sizeof(RunDesc);
  if (const Meta* meta = meta_.load(std::memory_order_acquire)) {
    for (const auto& run : meta->runs) bytes += run->dram_bytes();
  }
  return bytes;
}

std::shared_ptr<const RunMeta> Dnode::run_meta(const scale::Volume& volume, const RunDesc& desc) const {
  const RunView run(volume.local(scale::Addr::of_bits(desc.addr)), desc);
  auto out = std::make_shared<RunMeta>();
  out->fingerprints.assign(round_up(desc.count, RunMeta::kGroup), 0);
  out->samples.reserve(out->fingerprints.size() / RunMeta::kGroup);
  if (!run.uniform()) out->offsets.reserve(desc.count);
  for (uint32_t i = 0; i < desc.count; ++i) {
    Entry entry;
    const uint32_t offset = run.entry_offset(i);
    if (!run.entry_at(i, offset, &entry)) return nullptr;
    if (i % RunMeta::kGroup == 0) out->samples.push_back(sample_head(entry.key.bytes));
    out->fingerprints[i] = fingerprint(entry.key.hash());
    if (!run.uniform()) out->offsets.push_back(offset);
  }
  return out;
}

bool Dnode::upload(const scale::Volume& volume, const Dnode* predecessor) {
  if (uploaded()) return true;
  const Meta* old = predecessor != nullptr ? predecessor->meta_.load(std::memory_order_acquire) : nullptr;
  auto meta = std::make_unique<Meta>();
  for (size_t i = 0; i < runs_.size(); ++i) {
    const bool kept = old != nullptr && i < old->runs.size() && predecessor->runs_[i].addr == runs_[i].addr &&
                      predecessor->prefix_bytes_ == prefix_bytes_;
    meta->runs.push_back(kept ? old->runs[i] : run_meta(volume, runs_[i]));
    if (meta->runs.back() == nullptr) return false;
  }
  Meta* expected = nullptr;
  if (meta_.compare_exchange_strong(expected, meta.get(), std::memory_order_acq_rel)) static_cast<void>(meta.release());
  return true;
}

Find Dnode::find_by_meta(const RunView& run, const RunMeta& meta, const base::Key& key, uint64_t head, uint8_t print,
                         Entry* entry) const {
  const auto& samples = meta.samples;
  const auto above = std::upper_bound(samples.begin(), samples.end(), head);
  if (above == samples.begin()) return Find::kAbsent;
  const auto from = std::lower_bound(samples.begin(), above, head);
  const auto first = static_cast<uint32_t>(std::max<ptrdiff_t>(from - samples.begin() - 1, 0));
  const auto last = static_cast<uint32_t>(above - samples.begin());
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(print));
  for (uint32_t group = first; group < last; ++group) {
    const uint32_t start = group * RunMeta::kGroup;
    const __m128i have = _mm_loadu_si128(reinterpret_cast<const __m128i*>(meta.fingerprints.data() + start));
    auto hits = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(have, wanted)));
    for (; hits != 0; hits &= hits - 1) {
      const uint32_t i = start + static_cast<uint32_t>(__builtin_ctz(hits));
      if (i >= run.count()) break;
      if (!run.entry_at(i, run.uniform() ? run.entry_offset(i) : meta.offsets[i], entry)) return Find::kDamaged;
      if (entry->key == key) return Find::kFound;
    }
  }
  return Find::kAbsent;
}

Find Dnode::find(const scale::Volume& volume, const base::Key& key, Entry* entry) const {
  const Meta* meta = meta_.load(std::memory_order_acquire);
  const uint64_t head = meta != nullptr ? sample_head(key.bytes) : 0;
  const uint8_t print = meta != nullptr ? fingerprint(key.hash()) : 0;
  for (size_t i = runs_.size(); i-- > 0;) {
    const RunView run(volume.local(scale::Addr::of_bits(runs_[i].addr)), runs_[i]);
    const Find found =
        meta != nullptr ? find_by_meta(run, *meta->runs[i], key, head, print, entry) : run.find(key, entry);
    if (found != Find::kAbsent) return found;
  }
  return Find::kAbsent;
}

DnodeCursor::DnodeCursor(const scale::Volume& volume, const Dnode& dnode) {
  positions_.reserve(dnode.runs().size());
  for (size_t i = dnode.runs().size(); i-- > 0;) {
    const RunDesc& desc = dnode.runs()[i];
    positions_.push_back({RunView(volume.local(scale::Addr::of_bits(desc.addr)), desc)});
  }
}

void DnodeCursor::load(Position& position) {
  position.valid = position.index < position.run.count();
  if (position.valid && !position.run.entry(position.index, &position.entry)) damaged_ = true;
}

void DnodeCursor::seek(const base::Key& key) {
  damaged_ = false;
  for (Position& position : positions_) {
    position.index = 0;
    if (!key.bytes.empty() && !position.run.lower_bound(key, &position.index)) damaged_ = true;
    load(position);
  }
  choose();
}

void DnodeCursor::choose() {
  valid_ = false;
  if (damaged_) return;
  const Position* best = nullptr;
  for (const Position& position : positions_) {
    if (position.valid && (best == nullptr || position.entry.key < best->entry.key)) best = &position;
  }
  if (best == nullptr) return;
  entry_ = best->entry;
  valid_ = true;
}

void DnodeCursor::next() {
  const base::Key passed = entry_.key;
  for (Position& position : positions_) {
    if (!position.valid || !(position.entry.key == passed)) continue;
    ++position.index;
    load(position);
  }
  choose();
}

}  // namespace bonsai::persist
