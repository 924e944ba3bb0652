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
};

// Every uint64_t member of Stats, in its order.
inline constexpr StatsField kStatsFields[] = {
    {"targets", &Stats::targets, StatsKind::kGauge},
    {"stripe_unit_bytes", &Stats::stripe_unit_bytes, StatsKind::kGauge},
    {"pool_bytes", &Stats::pool_bytes, StatsKind::kGauge},
    {"log_bytes", &Stats::log_bytes, StatsKind::kGauge},
    {"log_bytes_used", &Stats::log_bytes_used, StatsKind::kGauge},
    {"data_bytes", &Stats::data_bytes, StatsKind::kGauge},
    {"data_bytes_used", &Stats::data_bytes_used, StatsKind::kGauge},
    {"dram_bytes", &Stats::dram_bytes, StatsKind::kGauge},
    {"resident_bytes", &Stats::resident_bytes, StatsKind::kGauge},
    {"bnodes", &Stats::bnodes, StatsKind::kGauge},
    {"dnodes", &Stats::dnodes, StatsKind::kGauge},
    {"dnode_records", &Stats::dnode_records, StatsKind::kGauge},
    {"puts", &Stats::puts, StatsKind::kCounter},
    {"dels", &Stats::dels, StatsKind::kCounter},
    {"gets", &Stats::gets, StatsKind::kCounter},
    {"scans", &Stats::scans, StatsKind::kCounter},
    {"batches", &Stats::batches, StatsKind::kCounter},
    {"gets_from_dnodes", &Stats::gets_from_dnodes, StatsKind::kCounter},
    {"offloads", &Stats::offloads, StatsKind::kCounter},
    {"splits", &Stats::splits, StatsKind::kCounter},
    {"merges", &Stats::merges, StatsKind::kCounter},
    {"compactions", &Stats::compactions, StatsKind::kCounter},
    {"offload_us", &Stats::offload_us, StatsKind::kCounter},
    {"updates_offloaded", &Stats::updates_offloaded, StatsKind::kCounter},
    {"stalls", &Stats::stalls, StatsKind::kCounter},
    {"stall_us", &Stats::stall_us, StatsKind::kCounter},
    {"replacements", &Stats::replacements, StatsKind::kCounter},
    {"replacement_us", &Stats::replacement_us, StatsKind::kCounter},
    {"pauses", &Stats::pauses, StatsKind::kCounter},
    {"pause_us", &Stats::pause_us, StatsKind::kCounter},
    {"wake_ups", &Stats::wake_ups, StatsKind::kCounter},
    {"helped_ranges", &Stats::helped_ranges, StatsKind::kCounter},
    {"window_excesses", &Stats::window_excesses, StatsKind::kCounter},
    {"window_us_max", &Stats::window_us_max, StatsKind::kGauge},
    {"early_bytes", &Stats::early_bytes, StatsKind::kCounter},
    {"user_bytes_written", &Stats::user_bytes_written, StatsKind::kCounter},
    {"nvm_bytes_stored", &Stats::nvm_bytes_stored, StatsKind::kCounter},
    {"nvm_lines_flushed", &Stats::nvm_lines_flushed, StatsKind::kCounter},
    {"nvm_fences", &Stats::nvm_fences, StatsKind::kCounter},
    {"nvm_media_bytes", &Stats::nvm_media_bytes, StatsKind::kCounter},
    {"fabric_round_trips", &Stats::fabric_round_trips, StatsKind::kCounter},
    {"fabric_messages", &Stats::fabric_messages, StatsKind::kCounter},
    {"fabric_bytes", &Stats::fabric_bytes, StatsKind::kCounter},
};

}  // namespace bonsai

#endif  // BONSAI_STATS_FIELDS_H_
