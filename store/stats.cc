// SPDX-License-Identifier: Apache-2.0
// Gauges and counters of an open store.
#include <algorithm>

#include "base/clock.h"
#include "base/memory.h"
#include "store/db_impl.h"
#include "store/options.h"

namespace bonsai::store {

// The memory that `bytes` of DRAM take from the system, with their share of the heaps' rounding and free memory.
uint64_t DbImpl::with_rounding(uint64_t bytes) {
  const base::Heap::Use use = base::memory_use();
  if (use.used_bytes == 0 || use.held_bytes < use.used_bytes) return bytes;
  const double share = std::min(1.0, static_cast<double>(bytes) / static_cast<double>(use.used_bytes));
  return bytes + static_cast<uint64_t>(share * static_cast<double>(use.held_bytes - use.used_bytes));
}

void DbImpl::count_ranges(Stats* stats) const {
  const Tiers& t = *tiers_;
  stats->dram_bytes = t.index->tree().dram_bytes() + t.epochs->retired_bytes();
  {
    const auto guard = t.epochs->enter();
    t.index->tree().for_each([&](index::Bnode* bnode) {
      ++stats->bnodes;
      stats->dram_bytes += index::Index::dram_bytes(*bnode);
      const persist::Dnode* dnode = bnode->base().dnode();
      if (dnode == nullptr) return;
      ++stats->dnodes;
      stats->dnode_records += dnode->entries();
      stats->dram_bytes += dnode->dram_bytes();
    });
  }
  stats->dram_bytes = with_rounding(stats->dram_bytes) + sizeof *this;
}

Stats DbImpl::GetStats() const {
  Stats stats;
  const Tiers& t = *tiers_;
  static_cast<void>(with_memory([&] {
    stats.medium = t.medium_text;
    count_ranges(&stats);
    return Status::OK();
  }));
  stats.emulated = t.emulated;
  stats.targets = t.volume->targets();
  stats.key_format = t.pool.key_format();
  stats.layout = t.pool.layout_choice();
  stats.stripe_unit_bytes = t.pool.superblocks[0].unit_bytes;
  for (size_t i = 0; i < t.volume->targets(); ++i) stats.pool_bytes += t.volume->target_bytes(i);
  stats.log_bytes = t.pool.log_bytes();
  stats.log_bytes_used = (t.log->segments() - t.log->segments_free()) * t.log->segment_bytes();
  stats.data_bytes = t.space.capacity_bytes();
  stats.data_bytes_used = t.space.used_bytes();
  stats.resident_bytes = t.volume->resident_bytes();
  const auto sum = [&](store::Count count) { return counters_.sum(count); };
  stats.puts = sum(Count::kPuts);
  stats.dels = sum(Count::kDels);
  stats.gets = sum(Count::kGets);
  stats.scans = sum(Count::kScans);
  stats.batches = sum(Count::kBatches);
  stats.gets_from_dnodes = sum(Count::kGetsFromDnodes);
  stats.stalls = sum(Count::kStalls);
  stats.stall_us = sum(Count::kStallUs);
  stats.pauses = sum(Count::kPauses);
  stats.pause_us = sum(Count::kPauseNs) / base::kNsPerUs;
  stats.wake_ups = background_.wake_ups();
  stats.helped_ranges = background_.helped_ranges();
  stats.window_excesses = t.log->window_excesses();
  stats.window_us_max = t.log->window_us_max();
  stats.early_bytes = background_.early_bytes();
  stats.user_bytes_written = sum(Count::kUserBytes);
  const index::Work& work = t.index->work();
  stats.offloads = work.offloads.load();
  stats.splits = work.splits.load();
  stats.merges = work.merges.load();
  stats.compactions = work.compactions.load();
  stats.replacements = work.plans_by_writers.load();
  stats.replacement_us = work.plan_ns_of_writers.load() / base::kNsPerUs;
  stats.offload_us = work.offload_ns.load() / base::kNsPerUs;
  stats.updates_offloaded = work.updates_offloaded.load();
  const base::NvmCounters nvm = base::nvm_counters();
  stats.nvm_bytes_stored = nvm.bytes_stored - nvm_before_.bytes_stored;
  stats.nvm_lines_flushed = nvm.lines_flushed - nvm_before_.lines_flushed;
  stats.nvm_fences = nvm.fences - nvm_before_.fences;
  stats.nvm_media_bytes = nvm.media_bytes - nvm_before_.media_bytes;
  const rdma::Traffic traffic = t.targets->traffic();
  stats.fabric_round_trips = traffic.round_trips;
  stats.fabric_messages = traffic.messages();
  stats.fabric_bytes = traffic.bytes();
  return stats;
}

}  // namespace bonsai::store
