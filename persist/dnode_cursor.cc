// SPDX-License-Identifier: Apache-2.0
#include "persist/dnode_cursor.h"

#include <algorithm>
#include <utility>

#include "base/narrow.h"
#include "base/random.h"

namespace bonsai::persist {

using base::Key;

namespace {
// At random, lest a loop over kSampledOneIn dnodes never verifies one of them.
bool is_sampled() { return base::thread_random().below(DnodeCursor::kSampledOneIn) == 0; }

// The checksum of a whole run costs an eighth, or less, of its entries' checks; but bytes of the run that the caller
// does not want may have to come from memory.
bool is_worth_whole(uint64_t entries_wanted, uint64_t entries) { return 4 * entries_wanted >= 3 * entries; }
}  // namespace

// Makes the sources, each with the part of its run in which the first entry at or after `key` is.
void DnodeCursor::open(const Key& key, bool inside, uint64_t entries, const Dnode::Located& located) {
  const bool is_located = located.dnode == &dnode_;
  const std::array<Dnode::EntryRange, kRunsMax> parts = is_located ? located.parts : dnode_.parts_with(key, inside);
  const bool verifies = verify_ == Verify::kAlways || is_sampled();
  uint64_t all = 0, wanted = 0;
  sources_.clear();
  for (size_t i = dnode_.places().size(); i-- > 0;) {
    const Dnode::EntryRange& part = parts[i];
    const std::byte* const bytes = reader_.mapped(dnode_.places()[i].addr);
    RunView& run = sources_.emplace_back(dnode_, i, bytes, reader_.volume().identity(), part).run;
    if (!verifies) run.trust_unseen();
    all += run.count();
    wanted += std::min<uint64_t>(entries, run.count() - part.lo);
  }
  whole_ = verifies && is_worth_whole(wanted, all);
  if (whole_ || is_located) return;
  for (const Source& source : sources_) Dnode::prefetch_part(source.run, {source.index, source.end}, entries, all);
}

void DnodeCursor::seek_in(const Key& key, bool inside, uint64_t entries, const Dnode::Located& located) {
  trouble_ = Trouble::kNone;
  open(key, inside, entries, located);
  scale::ReadBatch* const batch = reader_.reads().waits() ? &reader_.reads() : nullptr;
  if (batch != nullptr && !carry(key, inside, entries)) [[unlikely]]
    return;
  for (Source& source : sources_) {
    const auto find_first = [&] { return source.run.lower_bound(key, source.index, source.end, &source.index, batch); };
    if (!reader_.read_soundly(&source.run, find_first)) found_damage();
    source.end = source.there;
  }
  await(entries);
  for (Source& source : sources_) {
    if (whole_) source.run.trust();
    load(source);
  }
  choose();
}

// Reads, from each far run, the part with the first entry and the entries after it. A run that is to be verified as a
// whole, or whose entries' offsets are unknown, is read as a whole. One list. False: it did not come.
//
// Most scans begin with a record that exists. If a run has its fingerprint, the entries before it are not read. If the
// fingerprint was another key's, and the first entry may be before it, the rest is a second list.
bool DnodeCursor::carry(const Key& key, bool inside, uint64_t entries) {
  const bool guesses = inside && dnode_.uploaded();
  const uint8_t print = guesses ? fingerprint(key.hash()) : uint8_t{0};
  boost::container::static_vector<std::pair<Source*, uint32_t>, kRunsMax> guessed;
  const auto end_after = [entries](const Source& source, uint32_t last) {
    const uint64_t end = last + std::min<uint64_t>(entries, source.run.count()) + 1;
    return base::checked_narrow<uint32_t>(std::min<uint64_t>(end, source.run.count()));
  };
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (source.run.bytes() != nullptr) continue;
    if (whole_ || !source.run.knows_places() || reader_.find(source.run.desc()) != nullptr) {
      issue(&source, 0, source.run.count());
    } else if (const auto hits = guesses ? dnode_.hits_in(sources_.size() - 1 - i, {source.index, source.end}, print)
                                         : std::nullopt) {
      issue(&source, hits->lo, end_after(source, hits->hi));
      guessed.emplace_back(&source, hits->lo);
    } else {
      issue(&source, source.index, end_after(source, source.end));
    }
  }
  if (!arrived()) return false;
  bool again = false;
  for (const auto& [source, first] : guessed) {
    if (has_begin(*source, key, first)) {
      source->index = first;
      source->end = std::min(source->end, source->there);
    } else {
      issue(source, source->index, end_after(*source, source->end));
      again = true;
    }
  }
  return !again || arrived();
}

// Whether the first entry at or after `key` is among those that are here, from `first` on.
bool DnodeCursor::has_begin(const Source& source, const Key& key, uint32_t first) {
  const uint32_t end = std::min(source.end, source.there);
  uint32_t at;
  if (!source.run.lower_bound(key, first, end, &at, nullptr)) return true;  // damage, which is found again
  if (at == end) return end == source.end;
  if (at > first) return true;
  Entry entry;
  return !source.run.entry(at, &entry) || entry.key == key;
}

// Requests entries [first, end) of a carried run; all of its bytes if these are the whole. Requires: the whole, or the
// run has the offsets of its entries.
void DnodeCursor::issue(Source* source, uint32_t first, uint32_t end) {
  RunView& run = source->run;
  source->there = end;
  if (first == 0 && end == run.count()) {
    run.move_to(reader_.bytes(run.desc()));
  } else {
    const RunReader::ByteRange part{run.begin_of(first), run.begin_of(end)};
    run.move_to(reader_.parts(run.desc(), {&part, 1}));
  }
}

bool DnodeCursor::arrived() {
  if (reader_.wait().ok()) return true;
  trouble_ = Trouble::kUnavailable;
  best_ = nullptr;
  sources_.clear();
  return false;
}

// At the end of the available part of a run: reads the next part. False: the run has ended, or the read failed.
bool DnodeCursor::bring_more(Source* source) {
  const uint32_t count = source->run.count();
  if (source->there == count) return false;
  const uint32_t there = source->there;
  issue(source, source->index, std::min(count, there + std::max(kMoreMin, there / 2)));
  source->end = source->there;
  if (reader_.wait().ok()) return true;
  trouble_ = Trouble::kUnavailable;
  source->end = source->index;
  return false;
}

// Reads the rest of all runs. False: the read failed.
bool DnodeCursor::bring_rest() {
  bool issued = false;
  for (Source& source : sources_) {
    if (source.there == source.run.count()) continue;
    issue(&source, source.index, source.run.count());
    source.end = source.there;
    issued = true;
  }
  return !issued || arrived();
}

uint64_t DnodeCursor::entries() const {
  uint64_t sum = 0;
  for (const Source& source : sources_) sum += source.run.count();
  return sum;
}

std::optional<Key> DnodeCursor::key_ahead(uint64_t entries) const {
  if (sources_.empty() || trouble_ != Trouble::kNone) return std::nullopt;
  const Source& oldest = sources_.back();
  if (entries >= oldest.end - std::min(oldest.index, oldest.end)) return std::nullopt;
  const uint32_t ahead = oldest.index + base::checked_narrow<uint32_t>(entries);
  Entry entry;
  if (!oldest.run.entry(ahead, &entry)) return std::nullopt;
  return entry.key;
}

// Waits for reads of mapped runs; the other runs have been read.
void DnodeCursor::await(uint64_t entries) {
  if (!reader_.reads().waits()) return;
  for (const Source& source : sources_) {
    const uint32_t first = whole_ ? 0 : source.index;
    const uint64_t count = std::min<uint64_t>(whole_ ? UINT64_MAX : entries, source.run.count() - first);
    source.run.expect(first, first + base::checked_narrow<uint32_t>(count), &reader_.reads());
  }
  static_cast<void>(reader_.reads().wait());
}

void DnodeCursor::load(Source& source) {
  uint64_t& head = heads_[static_cast<size_t>(&source - sources_.data())];
  head = UINT64_MAX;
  if (!source.valid() && !bring_more(&source)) return;
  if (source.run.uniform()) {
    if (!reader_.read_soundly(&source.run, [&] { return source.run.sound(source.index); })) found_damage();
    source.key = source.run.key_at(source.index);
  } else {
    if (!reader_.read_soundly(&source.run, [&] { return source.run.entry(source.index, &source.entry); }))
      found_damage();
    source.key = source.entry.key;
  }
  head = source.key.head;
}

// By the heads alone, unless two sources share the least one.
void DnodeCursor::choose() {
  best_ = nullptr;
  if (trouble_ != Trouble::kNone) return;
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

// Skips the entries that the current one hides.
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
  if (trouble_ != Trouble::kNone) max = 1;  // the next entry of another run is unknown
  const Key* stop = below;
  for (const Source& other : sources_) {
    if (&other != best_ && other.valid() && (stop == nullptr || other.key < *stop)) stop = &other.key;
  }
  const auto end = first + base::checked_narrow<uint32_t>(std::min<uint64_t>(max, source.end - first));
  stretch.rows = source.run.rows(first, end);  // before the run may come to be read elsewhere
  const uint32_t bound = stop != nullptr ? source.run.lower_bound_near(*stop, first + 1, end) : end;
  source.index = source.run.sound_end(first + 1, bound);
  load(source);  // which finds the damage that ended it
  stretch.rows.count = source.index - first;
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

// The ends of the rest of the uniform runs below `below`. False: the rest has damage, or may have it.
bool DnodeCursor::find_sound_ends(const Key* below, Ends* ends) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto& [run, index, end, there, key, entry] = sources_[i];
    (*ends)[i] = end;
    if (!run.uniform()) continue;
    if (below != nullptr && !run.lower_bound(*below, index, end, &(*ends)[i], nullptr)) return false;
    if (run.sound_end(index, (*ends)[i]) != (*ends)[i]) return false;
  }
  return true;
}

// The rest of the variable runs, oldest first. False: keys differ in size, or damage.
bool DnodeCursor::decode_variable(uint32_t key_bytes, std::vector<Entry>* entries) const {
  entries->clear();
  for (auto source = sources_.rbegin(); source != sources_.rend(); ++source) {
    if (source->run.uniform()) continue;
    const size_t before = entries->size();
    entries->resize(before + source->end - source->index);
    if (!source->run.variable_entries(source->index, source->end, entries->data() + before)) return false;
  }
  return std::all_of(entries->begin(), entries->end(),
                     [key_bytes](const Entry& entry) { return entry.key.bytes.size() == key_bytes; });
}

bool DnodeCursor::take_all(const Key* below, std::span<const Entry> updates, Merge* merge) {
  if (!valid() || (reader_.reads().waits() && !bring_rest())) return false;
  const auto key_bytes = base::checked_narrow<uint32_t>(key().bytes.size());
  Ends ends;
  if (!mergeable(key_bytes, updates) || !find_sound_ends(below, &ends)) return false;
  if (!decode_variable(key_bytes, &merge->decoded())) return false;
  const size_t head_bytes = std::min<size_t>(key_bytes, sizeof(uint64_t));
  merge->clear(key_bytes, std::min<size_t>(dnode_.range_prefix_bits() / 8, key_bytes - head_bytes));
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
