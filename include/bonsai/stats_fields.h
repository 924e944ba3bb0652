// SPDX-License-Identifier: Apache-2.0
// The names of all counters and gauges of Stats in one table. The C interface, the admin program, reports and metrics
// use it, so that a counter has the same name everywhere and none is missing.
#ifndef BONSAI_STATS_FIELDS_H_
#define BONSAI_STATS_FIELDS_H_

#include <cstdint>
#include <string_view>

#include "bonsai/options.h"

namespace bonsai {

enum class StatsKind : uint8_t {
  kGauge = 0,    // a state that rises and falls
  kCounter = 1,  // grows since the store was opened
};

struct StatsField {
  std::string_view name;  // the name of the member; it ends in the unit, if any
  uint64_t Stats::*member;
  StatsKind kind;
  std::string_view help;  // one sentence for an operator
};

// Every uint64_t member of Stats, in its order.
inline constexpr StatsField kStatsFields[] = {
    {"targets", &Stats::targets, StatsKind::kGauge, "Files, devices and remote targets of the pool."},
    {"stripe_unit_bytes", &Stats::stripe_unit_bytes, StatsKind::kGauge, "Unit of a striped pool; 0: not striped."},
    {"pool_bytes", &Stats::pool_bytes, StatsKind::kGauge, "Size of the pool, all targets."},
    {"log_bytes", &Stats::log_bytes, StatsKind::kGauge, "Space for the log."},
    {"log_bytes_used", &Stats::log_bytes_used, StatsKind::kGauge, "Log segments in use."},
    {"data_bytes", &Stats::data_bytes, StatsKind::kGauge, "Space for dnodes and large values."},
    {"data_bytes_used", &Stats::data_bytes_used, StatsKind::kGauge, "Space that dnodes and large values take."},
    {"dram_bytes", &Stats::dram_bytes, StatsKind::kGauge,
     "DRAM of the index: tree, bnodes, update nodes, uploaded metadata."},
    {"resident_bytes", &Stats::resident_bytes, StatsKind::kGauge,
     "Memory of this node for what it keeps of targets on other nodes."},
    {"bnodes", &Stats::bnodes, StatsKind::kGauge, "Buffer nodes in DRAM."},
    {"dnodes", &Stats::dnodes, StatsKind::kGauge, "Data nodes on NVM."},
    {"dnode_records", &Stats::dnode_records, StatsKind::kGauge,
     "Records in dnodes, superseded and deleted ones included."},
    {"puts", &Stats::puts, StatsKind::kCounter, "Puts, those of batches included."},
    {"dels", &Stats::dels, StatsKind::kCounter, "Deletes, those of batches included."},
    {"gets", &Stats::gets, StatsKind::kCounter, "Gets."},
    {"scans", &Stats::scans, StatsKind::kCounter, "Scans and counts."},
    {"batches", &Stats::batches, StatsKind::kCounter, "Atomic batches."},
    {"gets_from_dnodes", &Stats::gets_from_dnodes, StatsKind::kCounter, "Gets that read a dnode."},
    {"offloads", &Stats::offloads, StatsKind::kCounter, "Bnodes that were merged into dnodes."},
    {"splits", &Stats::splits, StatsKind::kCounter, "Splits of ranges."},
    {"merges", &Stats::merges, StatsKind::kCounter, "Merges of ranges."},
    {"compactions", &Stats::compactions, StatsKind::kCounter, "Compactions of dnodes."},
    {"offload_us", &Stats::offload_us, StatsKind::kCounter, "Time that threads spent offloading, writers included."},
    {"updates_offloaded", &Stats::updates_offloaded, StatsKind::kCounter, "Updates that reached dnodes."},
    {"stalls", &Stats::stalls, StatsKind::kCounter, "Updates that waited for room."},
    {"stall_us", &Stats::stall_us, StatsKind::kCounter, "Time that updates waited for room."},
    {"replacements", &Stats::replacements, StatsKind::kCounter, "Updates that found a bnode full and replaced it."},
    {"replacement_us", &Stats::replacement_us, StatsKind::kCounter, "Time of these replacements."},
    {"pauses", &Stats::pauses, StatsKind::kCounter, "Throttled updates: the log filled faster than it was emptied."},
    {"pause_us", &Stats::pause_us, StatsKind::kCounter, "Time of these pauses."},
    {"wake_ups", &Stats::wake_ups, StatsKind::kCounter, "Updates that woke a background thread."},
    {"helped_ranges", &Stats::helped_ranges, StatsKind::kCounter, "Ranges that throttled writers offloaded meanwhile."},
    {"window_excesses", &Stats::window_excesses, StatsKind::kCounter,
     "Times that durability took longer than the window of mode buffered."},
    {"window_us_max", &Stats::window_us_max, StatsKind::kGauge,
     "Longest time from return to durability in mode buffered."},
    {"early_bytes", &Stats::early_bytes, StatsKind::kCounter,
     "Media bytes of early offloading and compaction, which serve reads."},
    {"user_bytes_written", &Stats::user_bytes_written, StatsKind::kCounter, "Keys and values of acknowledged updates."},
    {"nvm_bytes_stored", &Stats::nvm_bytes_stored, StatsKind::kCounter, "Bytes that this process stored to NVM."},
    {"nvm_lines_flushed", &Stats::nvm_lines_flushed, StatsKind::kCounter, "Cache lines that it flushed."},
    {"nvm_fences", &Stats::nvm_fences, StatsKind::kCounter, "Fences that it issued."},
    {"nvm_media_bytes", &Stats::nvm_media_bytes, StatsKind::kCounter, "Media blocks that it wrote, in bytes."},
    {"fabric_round_trips", &Stats::fabric_round_trips, StatsKind::kCounter,
     "Lists of requests that were posted to other nodes together."},
    {"fabric_messages", &Stats::fabric_messages, StatsKind::kCounter, "Requests to other nodes."},
    {"fabric_bytes", &Stats::fabric_bytes, StatsKind::kCounter, "Payload of requests to other nodes."},
};

}  // namespace bonsai

#endif  // BONSAI_STATS_FIELDS_H_
