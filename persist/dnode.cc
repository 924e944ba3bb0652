#include "persist/dnode.h"

#include <smmintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"

namespace bonsai::persist {

using base::Key;

namespace {

uint64_t heap_bytes(const base::Fence& fence) {
  static const size_t inline_bytes = std::string().capacity();
  return fence.bytes().capacity() > inline_bytes ? fence.bytes().capacity() : 0;
}

// How many of the samples are not above `bound`; how many are below it. They are sorted, and padded to eight by the
// highest.
struct Ranks {
  uint32_t not_above, below;
};

Ranks ranks_of(const uint16_t* samples, uint32_t n, uint16_t bound) {
  const __m128i wanted = _mm_set1_epi16(base::low_bits<int16_t>(bound));
  __m128i counts = _mm_setzero_si128();  // eight
  for (uint32_t i = 0; i < n; i += 8) {
    const __m128i have = _mm_load_si128(reinterpret_cast<const __m128i*>(samples + i));
    counts = _mm_sub_epi16(counts, _mm_cmpeq_epi16(_mm_max_epu16(have, wanted), wanted));
  }
  counts = _mm_madd_epi16(counts, _mm_set1_epi16(1));
  counts = _mm_add_epi32(counts, _mm_shuffle_epi32(counts, 0x4e));
  counts = _mm_add_epi32(counts, _mm_shuffle_epi32(counts, 0xb1));
  Ranks ranks;
  ranks.not_above = std::min(base::low_bits<uint32_t>(_mm_cvtsi128_si32(counts)), n);
  ranks.below = ranks.not_above;
  while (ranks.below > 0 && samples[ranks.below - 1] == bound) --ranks.below;
  return ranks;
}

// Which of 32 fingerprints are `wanted`.
uint32_t matches(const char* fingerprints, uint8_t wanted) {
  const __m128i all = _mm_set1_epi8(static_cast<char>(wanted));
  const auto half = [&](const char* at) {
    const __m128i have = _mm_load_si128(reinterpret_cast<const __m128i*>(at));
    return base::low_bits<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(have, all)));
  };
  return half(fingerprints) | half(fingerprints + sizeof(__m128i)) << 16;
}

}  // namespace

Dnode::Dnode(Parts parts) : head_{}, parts_(std::make_unique<const Parts>(std::move(parts))) {
  static_assert(sizeof *this + 3 * sizeof(Run) == kLine, "three runs in the first line");
  if (!hi().is_infinite())
    head_.prefix_bits = base::checked_narrow<uint16_t>(base::common_prefix_bits(lo().bytes(), hi().bytes()));
  BONSAI_INVARIANT(runs().size() <= kRunsMax);
  head_.runs_count = base::checked_narrow<uint8_t>(runs().size());
}

std::unique_ptr<Dnode> Dnode::make_block(Parts parts, size_t bytes) {
  std::unique_ptr<Dnode> dnode(new (base::allocate_block<kLine>(bytes, base::Lifetime::kRanges))
                                   Dnode(std::move(parts)));
  const Runs& runs = dnode->runs();
  std::transform(runs.begin(), runs.end(), dnode->at<Run>(sizeof(Dnode)), run_of);
  std::transform(runs.begin(), runs.end(), dnode->at<uint32_t>(births_offset(runs.size())),
                 [](const RunDesc& run) { return run.birth; });
  return dnode;
}

std::unique_ptr<Dnode> Dnode::make(Parts parts) {
  const size_t bytes = metadata_offset(parts.runs.size());
  return make_block(std::move(parts), bytes);
}

Dnode::Layout Dnode::layout(const Runs& runs) {
  Layout out;
  auto end = base::checked_narrow<uint32_t>(metadata_offset(runs.size()));
  for (size_t i = 0; i < runs.size(); ++i) {
    out.places[i].samples = end;
    end += run_of(runs[i]).samples_bytes();
  }
  end = base::checked_narrow<uint32_t>(round_up(end, kGroup));
  for (size_t i = 0; i < runs.size(); ++i) {
    out.places[i].fingerprints = end;
    end += run_of(runs[i]).fingerprints_bytes();
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    out.places[i].offsets = end;
    if (run_of(runs[i]).variable()) end += runs[i].count * base::checked_narrow<uint32_t>(sizeof(uint32_t));
  }
  out.end = end;
  return out;
}

std::unique_ptr<Dnode> Dnode::make_uploaded(Parts parts, const scale::Volume& volume, const Dnode* kept, Fresh fresh) {
  const Layout to = layout(parts.runs);
  std::unique_ptr<Dnode> dnode = make_block(std::move(parts), to.end);
  const Runs& runs = dnode->runs();
  const bool same_prefix = kept != nullptr && kept->uploaded() && kept->head_.prefix_bits == dnode->head_.prefix_bits;
  const Layout from = same_prefix ? layout(kept->runs()) : Layout();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (same_prefix && i < kept->runs().size() && kept->runs()[i].addr == runs[i].addr) {
      dnode->take_over(*kept, run_of(runs[i]), from.places[i], to.places[i]);
      continue;
    }
    const bool in_hand = i + fresh.size() >= runs.size();
    const auto entries = in_hand ? fresh[i + fresh.size() - runs.size()] : std::span<const Entry>();
    if (!dnode->note_run(volume, runs[i], to.places[i], entries)) return nullptr;
  }
  if (!runs.empty()) dnode->head_.fingerprints = base::checked_narrow<uint16_t>(to.places[0].fingerprints / kGroup);
  dnode->head_.uploaded = 1;
  return dnode;
}

std::unique_ptr<Dnode> Dnode::uploaded_copy(const scale::Volume& volume) const {
  return make_uploaded(*parts_, volume, nullptr, {});
}

void Dnode::take_over(const Dnode& kept, const Run& run, const Place& from, const Place& to) {
  const auto copy = [&](uint32_t source, uint32_t target, size_t bytes) {
    std::memcpy(at<char>(target), kept.at<char>(source), bytes);
  };
  copy(from.samples, to.samples, run.samples_bytes());
  copy(from.fingerprints, to.fingerprints, run.fingerprints_bytes());
  if (run.variable()) copy(from.offsets, to.offsets, run.count * sizeof(uint32_t));
}

// Fills in the metadata of one run, from its `entries` or, if that is empty, from NVM. False if an entry is damaged.
bool Dnode::note_run(const scale::Volume& volume, const RunDesc& desc, const Place& place,
                     std::span<const Entry> entries) {
  const RunView view(volume, desc);
  const Run run = run_of(desc);
  auto* samples = at<Sample>(place.samples);
  auto* fingerprints = at<uint8_t>(place.fingerprints);
  auto* offsets = at<uint32_t>(place.offsets);
  std::fill_n(samples, run.samples_bytes() / sizeof(Sample), std::numeric_limits<Sample>::max());
  std::memset(fingerprints, 0, run.fingerprints_bytes());
  if (!entries.empty() && !run.variable()) {
    for (size_t i = 0; i < entries.size(); i += kGroup) samples[i / kGroup] = sample(entries[i].key);
    for (size_t i = 0; i < entries.size(); ++i) fingerprints[i] = fingerprint(entries[i].key.hash());
    return true;
  }
  uint32_t written = entries_offset(desc);
  for (uint32_t i = 0; i < desc.count; ++i) {
    Entry read;
    const uint32_t offset = entries.empty() ? view.entry_offset(i) : written;
    if (entries.empty() && !view.entry_at(i, offset, &read)) return false;
    const Entry& entry = entries.empty() ? read : entries[i];
    written += encoded_bytes(entry, !run.variable());
    if (i % kGroup == 0) samples[i / kGroup] = sample(entry.key);
    fingerprints[i] = fingerprint(entry.key.hash());
    if (run.variable()) offsets[i] = offset;
  }
  return true;
}

uint64_t Dnode::entries() const {
  uint64_t sum = 0;
  for (const Run& run : places()) sum += run.count;
  return sum;
}

uint64_t Dnode::run_bytes() const {
  uint64_t sum = 0;
  for (const RunDesc& run : runs()) sum += run.bytes;
  return sum;
}

uint64_t Dnode::dram_bytes() const {
  const uint64_t block_bytes = uploaded() ? layout(runs()).end : metadata_offset(runs().size());
  return base::bytes_of_block(this, block_bytes) + sizeof(Parts) + heap_bytes(lo()) + heap_bytes(hi());
}

void Dnode::prefetch_runs(const scale::Volume& volume) const {
  for (const Run& run : places()) {
    const std::byte* bytes = volume.local(scale::Addr::of_bits(run.addr));
    for (size_t at = 0; at < kPrefetchRunBytes; at += kLine) __builtin_prefetch(bytes + at);
    const size_t end = run.variable() ? 0 : size_t{run.count} * run.entry_bytes();
    const size_t offset = reinterpret_cast<uintptr_t>(bytes) % kPageBytes;
    for (size_t at = kPageBytes - offset; at < end; at += kPageBytes) __builtin_prefetch(bytes + at);
  }
}

Find Dnode::find(const scale::Volume& volume, const base::Key& key, uint64_t hash, Entry* entry) const {
  DnodeSearch search;
  search.start(volume, *this, key, hash);
  scale::ReadBatch reads(volume);
  search.next(&reads);
  reads.wait();
  return search.finish(entry);
}

Find DnodeSearch::finish(Entry* entry) {
  Find found;
  scale::ReadBatch reads(*volume_);
  while (!look(&found, entry, &reads)) reads.wait();
  return found;
}

void DnodeSearch::start(const scale::Volume& volume, const Dnode& dnode, const base::Key& key, uint64_t hash) {
  volume_ = &volume;
  dnode_ = &dnode;
  key_ = key;
  print_ = fingerprint(hash);
  const std::span<const Dnode::Run> runs = dnode.places();
  run_ = base::checked_narrow<uint32_t>(runs.size());
  if (!dnode.uploaded()) {
    ++run_;  // next() goes to the newest
    return;
  }
  const Dnode::Sample sample = dnode.sample(key);
  const auto* samples = dnode.at<Dnode::Sample>(Dnode::metadata_offset(runs.size()));
  uint32_t fingerprints = dnode.head_.fingerprints * Dnode::kGroup;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Ranks ranks = ranks_of(samples, runs[i].groups(), sample);
    samples += runs[i].samples_bytes() / sizeof sample;
    groups_[i] = {std::max(ranks.below, 1U) - 1, ranks.not_above, fingerprints};
    if (groups_[i].next < groups_[i].end)
      __builtin_prefetch(dnode.at<char>(fingerprints + groups_[i].next * Dnode::kGroup));
    fingerprints += runs[i].fingerprints_bytes();
  }
}

void DnodeSearch::next(scale::ReadBatch* reads) {
  if (!dnode_->uploaded()) {
    --run_;
    return;
  }
  const std::span<const Dnode::Run> runs = dnode_->places();
  for (hits_ = 0; hits_ == 0;) {
    if (run_ == 0) return;
    Groups& groups = groups_[run_ - 1];
    if (groups.next == groups.end) {
      --run_;
      continue;
    }
    first_ = groups.next++ * Dnode::kGroup;
    hits_ = matches(dnode_->at<char>(groups.fingerprints + first_), print_);
    const uint32_t left = runs[run_ - 1].count - first_;  // the padding after them may match, too
    if (left < Dnode::kGroup) hits_ &= (uint32_t{1} << left) - 1;
  }
  const Dnode::Run& run = runs[run_ - 1];
  const scale::Addr addr = scale::Addr::of_bits(run.addr);
  bytes_ = volume_->local(addr);
  if (run.variable()) [[unlikely]] {
    // The average is issued: what an entry has beyond is in blocks that follow.
    const uint64_t told_bytes = dnode_->runs()[run_ - 1].bytes / run.count;
    fetch(
        addr, kVariableHeadBytes, told_bytes, [this](uint32_t index) { return offset_of_variable(index); }, reads);
  } else {
    const uint32_t entry_bytes = run.entry_bytes();
    const uint32_t fetched_bytes = std::min(entry_bytes, kPrefetchBytesMax);  // the rest is read in sequence
    fetch(
        addr, fetched_bytes, entry_bytes, [=](uint32_t index) { return index * entry_bytes; }, reads);
  }
}

template <class OffsetOf>
void DnodeSearch::fetch(scale::Addr run, uint32_t fetched_bytes, uint64_t told_bytes, OffsetOf offset_of,
                        scale::ReadBatch* reads) const {
  uint32_t further = hits_;
  uint32_t at;
  do {
    at = offset_of(index_of(further));
    __builtin_prefetch(bytes_ + at);
    __builtin_prefetch(bytes_ + at + fetched_bytes - 1);
    further &= further - 1;
  } while (further != 0);
  reads->add(run + at, told_bytes, base::low_bits<unsigned>(__builtin_popcount(hits_)) - 1);
}

RunDesc Dnode::desc(size_t i) const {
  const Run& run = places()[i];
  if (run.variable()) return runs()[i];
  RunDesc desc{run.addr, 0, run.count, birth(i), run.key_bytes, run.value_bytes};
  desc.bytes = desc.count * uniform_entry_bytes(desc) + kRunTrailerBytes;
  return desc;
}

uint32_t DnodeSearch::offset_of_variable(uint32_t index) const {
  return dnode_->at<uint32_t>(Dnode::layout(dnode_->runs()).places[run_ - 1].offsets)[index];
}

Find DnodeSearch::check(Entry* entry) const {
  if (!dnode_->uploaded()) {
    const RunDesc& run = dnode_->runs()[run_ - 1];
    scale::ReadBatch reads(*volume_);
    return RunView(*volume_, run).find(key_, entry, &reads);
  }
  const Dnode::Run& run = dnode_->places()[run_ - 1];
  const uint64_t seed = run_seed({volume_->identity(), run.addr, dnode_->birth(run_ - 1)});
  for (uint32_t hits = hits_; hits != 0; hits &= hits - 1) {
    const uint32_t index = index_of(hits), at = offset(run, index);
    if (run.variable()) {
      if (!RunView(*volume_, dnode_->desc(run_ - 1)).entry_at(index, at, entry)) return Find::kDamaged;
    } else if (!uniform_entry(bytes_ + at, entry_seed(seed, index), run.key_bytes, run.value_bytes, entry)) {
      return Find::kDamaged;
    }
    if (entry->key == key_) return Find::kFound;
  }
  return Find::kAbsent;
}

// The part of each run in which the first entry at or after `key` is, or after which it begins. The samples say which.
// Of a key outside the range, which may not have the prefix that they leave out, they say nothing.
std::array<Dnode::Part, kRunsMax> Dnode::parts_with(const Key& key, bool inside) const {
  const std::span<const Run> runs = places();
  const bool told = uploaded() && inside;
  const Sample wanted = told ? sample(key) : Sample{0};
  std::array<Part, kRunsMax> parts;
  size_t samples = metadata_offset(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    const uint32_t count = runs[i].count;
    parts[i] = {0, key.bytes.empty() ? 0 : count};
    if (!told) continue;
    const Ranks ranks = ranks_of(at<Sample>(samples), runs[i].groups(), wanted);
    samples += runs[i].samples_bytes();
    parts[i] = {(std::max(ranks.below, 1U) - 1) * kGroup, std::min(ranks.not_above * kGroup, count)};
  }
  return parts;
}

// Fetches the part of run i, and of what follows as much as is its share of `records`, but not what the processor will
// fetch by itself.
void Dnode::prefetch_part(const RunView& run, const Part& part, uint64_t records) const {
  constexpr uint64_t kEntriesMax = 64;
  uint64_t all = 0;
  for (const Run& each : places()) all += each.count;
  const uint64_t share = std::min(records, kEntriesMax) * run.count() / all + 1;
  run.prefetch(part.lo, std::min(part.hi + base::checked_narrow<uint32_t>(share), run.count()));
}

uint64_t Dnode::prefetch_scan(const scale::Volume& volume, const Key& key, uint64_t records) const {
  if (!uploaded()) return UINT64_MAX;
  const std::array<Part, kRunsMax> parts = parts_with(key, true);
  uint64_t entries = 0;
  for (size_t i = 0; i < head_.runs_count; ++i) {
    const RunDesc run = desc(i);
    prefetch_part(RunView(volume, run), parts[i], records);
    entries += run.count - (parts[i].lo + parts[i].hi) / 2;
  }
  return entries;
}

namespace {
// By chance, lest a loop over so many dnodes passes one over for ever.
bool is_sampled() { return base::thread_random().below(DnodeCursor::kSampledOneIn) == 0; }

// Per entry the checksum of a whole run costs an eighth of the entries' own, or less; but what is not wanted of the run
// may have to come from memory.
bool is_worth_whole(uint64_t entries_wanted, uint64_t entries) { return 4 * entries_wanted >= 3 * entries; }
}  // namespace

// Makes the sources, each with the part of its run in which the first entry at or after `key` is.
void DnodeCursor::open(const Key& key, bool inside, uint64_t entries) {
  const std::array<Dnode::Part, kRunsMax> parts = dnode_.parts_with(key, inside);
  const bool verifies = verify_ == Verify::kAlways || is_sampled();
  uint64_t all = 0, wanted = 0;
  sources_.clear();
  for (size_t i = dnode_.places().size(); i-- > 0;) {
    const Dnode::Part& part = parts[i];
    const RunDesc desc = dnode_.desc(i);
    RunView run(volume_, desc);
    if (!verifies) run.trust_unseen();
    sources_.push_back({run, part.lo, part.hi, {}, {}});
    all += desc.count;
    wanted += std::min<uint64_t>(entries, desc.count - part.lo);
  }
  whole_ = verifies && is_worth_whole(wanted, all);
  if (whole_) return;
  for (const Source& source : sources_) dnode_.prefetch_part(source.run, {source.index, source.end}, entries);
}

void DnodeCursor::seek_in(const Key& key, bool inside, uint64_t entries) {
  damaged_ = false;
  open(key, inside, entries);
  scale::ReadBatch reads(volume_);
  scale::ReadBatch* const told = volume_.reads_wait() ? &reads : nullptr;
  for (Source& source : sources_) {
    if (!source.run.lower_bound(key, source.index, source.end, &source.index, told)) damaged_ = true;
    source.end = source.run.count();
  }
  await(entries);
  for (Source& source : sources_) {
    if (whole_) source.run.trust();
    load(source);
  }
  choose();
}

uint64_t DnodeCursor::entries() const {
  uint64_t sum = 0;
  for (const Source& source : sources_) sum += source.run.count();
  return sum;
}

std::optional<Key> DnodeCursor::key_ahead(uint64_t entries) const {
  if (sources_.empty() || damaged_) return std::nullopt;
  const Source& oldest = sources_.back();
  if (!oldest.run.uniform() || entries >= oldest.end - std::min(oldest.index, oldest.end)) return std::nullopt;
  const uint32_t ahead = oldest.index + base::checked_narrow<uint32_t>(entries);
  if (!oldest.run.sound(ahead)) return std::nullopt;
  return oldest.run.key_at(ahead);
}

void DnodeCursor::await(uint64_t entries) const {
  if (!volume_.reads_wait()) return;
  scale::ReadBatch reads(volume_);
  for (const Source& source : sources_) {
    const uint32_t first = whole_ ? 0 : source.index;
    const uint64_t count = std::min<uint64_t>(whole_ ? UINT64_MAX : entries, source.run.count() - first);
    source.run.expect(first, first + base::checked_narrow<uint32_t>(count), &reads);
  }
  reads.wait();
}

void DnodeCursor::load(Source& source) {
  uint64_t& head = heads_[static_cast<size_t>(&source - sources_.data())];
  head = UINT64_MAX;
  if (!source.valid()) return;
  if (source.run.uniform()) {
    if (!source.run.sound(source.index)) damaged_ = true;
    source.key = source.run.key_at(source.index);
  } else {
    if (!source.run.entry(source.index, &source.entry)) damaged_ = true;
    source.key = source.entry.key;
  }
  head = source.key.head;
}

// By the heads alone, unless two sources share the least one.
void DnodeCursor::choose() {
  best_ = nullptr;
  if (damaged_) return;
  const size_t n = sources_.size();
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < n; ++i) least = std::min(least, heads_[i]);
  uint32_t with_least = 0;
  for (size_t i = 0; i < n; ++i) with_least |= (heads_[i] == least ? 1U : 0U) << i;
  tied_ = least == UINT64_MAX || (with_least & (with_least - 1)) != 0;
  if (!tied_) {
    best_ = &sources_[static_cast<size_t>(__builtin_ctz(with_least))];
    return;
  }
  for (Source& source : sources_) {
    if (source.valid() && (best_ == nullptr || source.key < best_->key)) best_ = &source;
  }
}

Entry DnodeCursor::entry() const {
  if (!best_->run.uniform()) return best_->entry;
  return {best_->key, best_->run.rows(best_->index, best_->index + 1).value(0)};
}

// Passes what the current entry hides.
void DnodeCursor::pass_hidden() {
  if (!tied_) return;
  for (Source& source : sources_) {
    if (&source != best_ && source.valid() && source.key == best_->key) advance(source);
  }
}

void DnodeCursor::next() {
  pass_hidden();
  advance(*best_);
  choose();
}

DnodeCursor::Stretch DnodeCursor::take(const Key* below, uint64_t max) {
  Stretch stretch;
  Source& source = *best_;
  const uint32_t first = source.index;
  if (!source.run.uniform()) {
    const auto& [key, value, tombstone, large] = source.entry;
    const auto key_bytes = base::checked_narrow<uint32_t>(key.bytes.size());
    stretch = {{key.bytes.data(), value.data(), 1, 0, key_bytes, base::checked_narrow<uint32_t>(value.size())},
               tombstone,
               large};
    next();
    return stretch;
  }
  pass_hidden();
  if (damaged_) max = 1;  // where the next entry of another run is nobody knows
  const Key* stop = below;
  for (const Source& other : sources_) {
    if (&other != best_ && other.valid() && (stop == nullptr || other.key < *stop)) stop = &other.key;
  }
  const auto end = first + base::checked_narrow<uint32_t>(std::min<uint64_t>(max, source.end - first));
  if (source.run.trusted()) {
    source.index = end;
    if (stop != nullptr && !source.run.lower_bound_near(*stop, first + 1, end, &source.index)) damaged_ = true;
    load(source);
  } else {
    source.index = source.run.sound_below(first + 1, end, stop != nullptr ? stop->head : UINT64_MAX);
    for (load(source); source.index < end && !damaged_ && (stop == nullptr || source.key < *stop);) advance(source);
  }
  stretch.rows = source.run.rows(first, source.index);
  choose();
  return stretch;
}

bool DnodeCursor::mergeable(uint32_t key_bytes, std::span<const Entry> updates) const {
  return std::all_of(
             sources_.begin(), sources_.end(),
             [&](const Source& source) { return !source.run.uniform() || source.run.key_bytes() == key_bytes; }) &&
         std::all_of(updates.begin(), updates.end(),
                     [&](const Entry& update) { return update.key.bytes.size() == key_bytes; });
}

// Where what is left of the uniform runs below `below` ends. False: something of it is damaged, or might be.
bool DnodeCursor::find_sound_ends(const Key* below, Ends* ends) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto& [run, index, end, key, entry] = sources_[i];
    (*ends)[i] = end;
    if (!run.uniform()) continue;
    if (below != nullptr && !run.lower_bound(*below, index, end, &(*ends)[i], nullptr)) return false;
    if (!run.trusted() && run.sound_below(index, (*ends)[i], UINT64_MAX) != (*ends)[i]) return false;
  }
  return true;
}

// What is left of the variable runs, oldest first. False: keys differ in size, or damage.
bool DnodeCursor::decode_variable(uint32_t key_bytes, std::vector<Entry>* entries) const {
  entries->clear();
  for (auto source = sources_.rbegin(); source != sources_.rend(); ++source) {
    if (source->run.uniform()) continue;
    for (uint32_t i = source->index; i < source->end; ++i) {
      Entry& entry = entries->emplace_back();
      if (!source->run.entry(i, &entry) || entry.key.bytes.size() != key_bytes) return false;
    }
  }
  return true;
}

bool DnodeCursor::take_all(const Key* below, std::span<const Entry> updates, Merge* merge) {
  if (damaged_ || !valid()) return false;
  const auto key_bytes = base::checked_narrow<uint32_t>(key().bytes.size());
  Ends ends;
  if (!mergeable(key_bytes, updates) || !find_sound_ends(below, &ends)) return false;
  if (!decode_variable(key_bytes, &merge->decoded())) return false;
  const size_t head_bytes = std::min<size_t>(key_bytes, sizeof(uint64_t));
  merge->clear(key_bytes, std::min<size_t>(dnode_.head_.prefix_bits / 8, key_bytes - head_bytes));
  std::span<const Entry> decoded = merge->decoded();
  for (size_t i = sources_.size(); i-- > 0;) {  // oldest first
    Source* const source = &sources_[i];
    const uint32_t left = source->end - source->index;
    uint32_t taken = ends[i] - source->index;
    if (source->run.uniform()) {
      merge->add(source->run.rows(0, source->run.count()), source->index, ends[i]);
    } else {
      const std::span<const Entry> of_run = decoded.first(left);
      if (below != nullptr) {
        const auto is_below = [below](const Entry& entry) { return entry.key < *below; };
        taken = base::checked_narrow<uint32_t>(std::partition_point(of_run.begin(), of_run.end(), is_below) -
                                               of_run.begin());
      }
      merge->add(of_run.first(taken));
      decoded = decoded.subspan(left);
    }
    source->index += taken;
    load(*source);
  }
  merge->add(updates);
  choose();
  return true;
}

}  // namespace bonsai::persist
