// SPDX-License-Identifier: Apache-2.0
#include "persist/dnode_search.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "base/narrow.h"

namespace bonsai::persist {

Find DnodeSearch::run(RunReader* reader, const Dnode& dnode, const base::Key& key, uint64_t hash, Entry* entry) {
  start(reader->volume(), dnode, key, hash);
  issue(reader);
  if (!reader->wait().ok()) [[unlikely]]
    return Find::kUnavailable;
  return finish(entry, reader);
}

Find DnodeSearch::finish(Entry* entry, RunReader* reader) {
  Find found;
  while (!look(&found, entry, reader)) {
    if (!reader->wait().ok()) [[unlikely]]
      return Find::kUnavailable;
  }
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

// Dnodes without metadata: what is far was issued as a whole, what is mapped is waited for by each probe.
void DnodeSearch::next(scale::ReadBatch* reads) {
  if (!dnode_->uploaded()) {
    if (--run_ == 0) return;
    bytes_ = reads->mapped(scale::Addr::of_bits(dnode_->places()[run_ - 1].addr));
    if (bytes_ == nullptr) bytes_ = carried_[run_ - 1];
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
    hits_ = dnode_->hits_of(runs[run_ - 1], groups.fingerprints, first_, print_);
  }
  const Dnode::Run& run = runs[run_ - 1];
  const scale::Addr addr = scale::Addr::of_bits(run.addr);
  bytes_ = reads->mapped(addr);
  if (bytes_ == nullptr) [[unlikely]] {
    bytes_ = carried_[run_ - 1];
  } else if (run.variable()) [[unlikely]] {
    // The average is issued: what an entry has beyond is in blocks that follow.
    const RunView view = current_run();
    const uint64_t issued_bytes = view.desc().bytes / run.count;
    fetch(
        addr, kVariableHeadBytes, issued_bytes, [&](uint32_t index) { return view.begin_of(index); }, reads);
  } else {
    const uint32_t entry_bytes = run.entry_bytes();
    const uint32_t fetched_bytes = std::min(entry_bytes, kPrefetchBytesMax);  // the rest is read in sequence
    fetch(
        addr, fetched_bytes, entry_bytes, [=](uint32_t index) { return index * entry_bytes; }, reads);
  }
}

void DnodeSearch::carry(RunReader* reader) {
  for (size_t i = 0; i < dnode_->places().size(); ++i) {
    const RunDesc desc = dnode_->desc(i);
    carried_[i] = nullptr;
    if (reader->mapped(desc.addr) != nullptr) continue;
    const bool whole = !dnode_->uploaded() || reader->find(desc) != nullptr;
    carried_[i] = whole ? reader->bytes(desc) : carry_hits(i, desc, reader);
  }
}

// Asks for all entries of the run that may have the key. Returns where the run would begin.
const std::byte* DnodeSearch::carry_hits(size_t run, const RunDesc& desc, RunReader* reader) const {
  const RunView view = dnode_->run_view(run, nullptr, volume_->identity());
  boost::container::small_vector<RunReader::ByteRange, 8> parts;
  for (uint32_t group = groups_[run].next; group < groups_[run].end; ++group) {
    const uint32_t first = group * Dnode::kGroup;
    uint32_t hits = dnode_->hits_of(dnode_->places()[run], groups_[run].fingerprints, first, print_);
    for (; hits != 0; hits &= hits - 1) {
      const uint32_t index = index_of(first, hits);
      parts.push_back({view.begin_of(index), view.begin_of(index + 1)});
    }
  }
  return reader->parts(desc, {parts.data(), parts.size()});
}

bool DnodeSearch::lost(const RunReader& reader) const {
  const std::span<const Dnode::Run> runs = dnode_->places();
  return std::any_of(runs.begin(), runs.end(), [&](const Dnode::Run& run) { return reader.lost(run.addr); });
}

template <class OffsetOf>
void DnodeSearch::fetch(scale::Addr run, uint32_t fetched_bytes, uint64_t issued_bytes, OffsetOf offset_of,
                        scale::ReadBatch* reads) const {
  uint32_t further = hits_;
  uint32_t at;
  do {
    at = offset_of(index_of(first_, further));
    __builtin_prefetch(bytes_ + at);
    __builtin_prefetch(bytes_ + at + fetched_bytes - 1);
    further &= further - 1;
  } while (further != 0);
  reads->add(run + at, issued_bytes, base::low_bits<unsigned>(__builtin_popcount(hits_)) - 1);
}

RunView DnodeSearch::current_run() const { return dnode_->run_view(run_ - 1, bytes_, volume_->identity()); }

bool DnodeSearch::ends_elsewhere(Find* found, Entry* entry, RunReader* reader) {
  if (*found == Find::kDamaged) {
    const std::byte* const bytes = reader->mended(dnode_->desc(run_ - 1));
    if (bytes == nullptr) {
      if (reader->not_mended() == Trouble::kUnavailable) *found = Find::kUnavailable;
      return true;
    }
    carried_[run_ - 1] = bytes_ = bytes;
    *found = check(entry);
  }
  if (*found != Find::kAbsent) return true;
  next(&reader->reads());
  return false;
}

Find DnodeSearch::check(Entry* entry) const {
  if (!dnode_->uploaded()) {
    scale::ReadBatch reads(*volume_);
    return current_run().find(key_, entry, &reads);
  }
  const Dnode::Run& run = dnode_->places()[run_ - 1];
  const uint64_t seed = run_seed({volume_->identity(), run.addr, dnode_->birth(run_ - 1)});
  for (uint32_t hits = hits_; hits != 0; hits &= hits - 1) {
    const uint32_t index = index_of(first_, hits);
    if (run.variable()) {
      if (!current_run().entry(index, entry)) return Find::kDamaged;
    } else if (!uniform_entry(bytes_ + index * run.entry_bytes(), entry_seed(seed, index), run.key_bytes,
                              run.value_bytes, entry)) {
      return Find::kDamaged;
    }
    if (entry->key == key_) return Find::kFound;
  }
  return Find::kAbsent;
}

}  // namespace bonsai::persist
