// SPDX-License-Identifier: Apache-2.0
#include "persist/dnode.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "base/units.h"

namespace bonsai::persist {

using base::Key;

namespace {

uint64_t heap_bytes(const base::Fence& fence) {
  static const size_t inline_bytes = std::string().capacity();
  return fence.bytes().capacity() > inline_bytes ? fence.bytes().capacity() : 0;
}

}  // namespace

Dnode::Dnode(Parts parts) : head_{}, parts_(std::make_unique<const Parts>(std::move(parts))) {
  static_assert(sizeof *this + 3 * sizeof(Run) == kLine, "three runs in the first line");
  head_.open = parts_->open() ? 1 : 0;
  const uint64_t prefix_bits = head_.open != 0 ? base::common_prefix_bits(parts_->least, parts_->greatest)
                                               : base::common_prefix_bits(lo().bytes(), hi().bytes());
  head_.prefix_bits = base::checked_narrow<uint16_t>(prefix_bits);
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

// Runs that have to be read are one list of reads.
std::unique_ptr<Dnode> Dnode::make_uploaded(Parts parts, RunReader* reader, const Dnode* kept, Fresh fresh,
                                            Trouble* trouble) {
  const Runs runs = parts.runs;
  const auto is_kept = [&](size_t i) {
    return kept != nullptr && kept->uploaded() && i < kept->runs().size() && kept->runs()[i].addr == runs[i].addr;
  };
  const auto entries_of = [&](size_t i) { return i < fresh.size() ? fresh[i] : std::span<const Entry>(); };
  const auto refuse = [trouble](Trouble why) {
    if (trouble != nullptr) *trouble = why;
    return nullptr;
  };
  boost::container::static_vector<std::pair<size_t, RunView>, kRunsMax> to_note;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (is_kept(i)) continue;
    const std::byte* const bytes = entries_of(i).empty() ? reader->bytes(runs[i]) : nullptr;
    to_note.emplace_back(i, RunView(bytes, runs[i], reader->volume().identity()));
  }
  if (!reader->wait().ok()) return refuse(Trouble::kUnavailable);
  const bool keeps = to_note.size() < runs.size();
  if (parts.open()) {
    parts.least = keeps ? kept->parts_->least : "";
    parts.greatest = keeps ? kept->parts_->greatest : "";
    for (auto& [i, view] : to_note) {
      const auto note = [&, i = i, &view = view] { return note_ends(view, entries_of(i), &parts); };
      if (!reader->read_soundly(&view, note)) return refuse(reader->not_mended());
    }
  }
  const Layout to = layout(runs);
  std::unique_ptr<Dnode> dnode = make_block(std::move(parts), to.end);
  if (keeps && kept->head_.prefix_bits != dnode->head_.prefix_bits)
    return make_uploaded(*dnode->parts_, reader, nullptr, fresh, trouble);
  const Layout from = keeps ? layout(kept->runs()) : Layout();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (is_kept(i)) dnode->take_over(*kept, run_of(runs[i]), from.places[i], to.places[i]);
  }
  for (auto& [i, view] : to_note) {
    const auto note = [&, i = i, &view = view] { return dnode->note_run(view, to.places[i], entries_of(i)); };
    if (!reader->read_soundly(&view, note)) return refuse(reader->not_mended());
  }
  if (!runs.empty()) dnode->head_.fingerprints = base::checked_narrow<uint16_t>(to.places[0].fingerprints / kGroup);
  dnode->head_.uploaded = 1;
  return dnode;
}

void Dnode::take_over(const Dnode& kept, const Run& run, const Place& from, const Place& to) {
  const auto copy = [&](uint32_t source, uint32_t target, size_t bytes) {
    std::memcpy(at<char>(target), kept.at<char>(source), bytes);
  };
  copy(from.samples, to.samples, run.samples_bytes());
  copy(from.fingerprints, to.fingerprints, run.fingerprints_bytes());
  if (run.variable()) copy(from.offsets, to.offsets, run.count * sizeof(uint32_t));
}

// Widens [least, greatest] to the run's keys. As note_run() otherwise.
bool Dnode::note_ends(const RunView& view, std::span<const Entry> entries, Parts* parts) {
  Entry first, last;
  if (!entries.empty()) {
    first = entries.front();
    last = entries.back();
  } else if (!view.entry(0, &first) || !view.entry(view.count() - 1, &last)) {
    return false;
  }
  if (parts->greatest.empty() || first.key.bytes < parts->least) parts->least = first.key.bytes;
  if (parts->greatest.empty() || last.key.bytes > parts->greatest) parts->greatest = last.key.bytes;
  return true;
}

// Fills in the metadata of one run, from its `entries` or, if that is empty, from its bytes. False if an entry is
// damaged.
bool Dnode::note_run(const RunView& view, const Place& place, std::span<const Entry> entries) {
  const RunDesc& desc = view.desc();
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
  constexpr size_t kRunBytes = 1280;  // a scan sees to the rest
  const bool knows_oldest = !oldest_run(volume).empty();
  for (const Run& run : places().subspan(knows_oldest ? 1 : 0)) {
    const std::byte* bytes = volume.hint(scale::Addr::of_bits(run.addr));
    prefetch_lines(bytes, kRunBytes / kLine);
    const size_t end = run.variable() ? 0 : size_t{run.count} * run.entry_bytes();
    const size_t offset = reinterpret_cast<uintptr_t>(bytes) % base::kPageBytes;
    for (size_t at = base::kPageBytes - offset; at < end; at += base::kPageBytes) __builtin_prefetch(bytes + at);
  }
}

void Dnode::prefetch_part(const RunView& run, const EntryRange& part, uint64_t records, uint64_t entries) {
  constexpr uint64_t kEntriesMax = 64;
  const uint64_t most = std::min(records, kEntriesMax);
  const uint64_t share = run.count() == entries ? most + 1 : most * run.count() / entries + 1;  // mostly no division
  run.prefetch(part.lo, std::min(part.hi + base::checked_narrow<uint32_t>(share), run.count()));
}

uint64_t Dnode::prefetch_scan(const scale::Volume& volume, const base::Key& key, uint64_t records,
                              Located* located) const {
  if (!uploaded()) return UINT64_MAX;
  *located = {.dnode = this, .parts = parts_with(key, true)};
  const std::array<EntryRange, kRunsMax>& parts = located->parts;
  const uint64_t all = entries();
  uint64_t sum = 0;
  for (size_t i = 0; i < places().size(); ++i) {
    const std::byte* bytes = volume.hint(scale::Addr::of_bits(places()[i].addr));
    const RunView run = run_view(i, bytes, volume.identity());
    prefetch_part(run, parts[i], records, all);
    sum += run.count() - (parts[i].lo + parts[i].hi) / 2;
  }
  return sum;
}

RunView Dnode::variable_view(size_t i, const std::byte* bytes, uint64_t identity) const {
  RunView view(bytes, runs()[i], identity);
  if (uploaded()) view.use_offsets(at<uint32_t>(layout(runs()).places[i].offsets));
  return view;
}

// The part of each run that has the first entry at or after `key`, or after which that entry begins. The samples
// determine it. They determine nothing for a key outside the range, which may lack the prefix that samples leave out.
std::array<Dnode::EntryRange, kRunsMax> Dnode::parts_with(const Key& key, bool inside) const {
  const std::span<const Run> runs = places();
  const bool sampled = uploaded() && inside;
  const Sample wanted = sampled ? sample(key) : Sample{0};
  std::array<EntryRange, kRunsMax> parts;
  size_t samples = metadata_offset(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    const uint32_t count = runs[i].count;
    parts[i] = {0, key.bytes.empty() ? 0 : count};
    if (!sampled) continue;
    const Ranks ranks = ranks_of(at<Sample>(samples), runs[i].groups(), wanted);
    samples += runs[i].samples_bytes();
    parts[i] = {(std::max(ranks.below, 1U) - 1) * kGroup, std::min(ranks.not_above * kGroup, count)};
  }
  return parts;
}

std::optional<Dnode::EntryRange> Dnode::hits_in(size_t i, const EntryRange& part, uint8_t print) const {
  const uint32_t fingerprints = layout(runs()).places[i].fingerprints;
  BONSAI_INVARIANT(uploaded() && part.lo % kGroup == 0 && part.hi <= places()[i].count);
  std::optional<EntryRange> found;
  for (uint32_t first = part.lo; first < part.hi; first += kGroup) {
    const uint32_t hits = hits_of(places()[i], fingerprints, first, print);
    if (hits == 0) continue;
    if (!found) found = {first + base::low_bits<uint32_t>(__builtin_ctz(hits)), 0};
    found->hi = first + kGroup - base::low_bits<uint32_t>(__builtin_clz(hits));
  }
  return found;
}

Status unreadable(const scale::Volume& volume, Trouble trouble, const base::Fence& lo, const base::Fence& hi) {
  if (trouble == Trouble::kUnavailable) return volume.unavailable();
  return Status::Corruption("a dnode of keys " + base::printable_range(lo, hi) + " is damaged; run `bonsai check`");
}

}  // namespace bonsai::persist
