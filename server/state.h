// SPDX-License-Identifier: Apache-2.0
// What all threads of the server share.
#ifndef BONSAI_SERVER_STATE_H_
#define BONSAI_SERVER_STATE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "bonsai/db.h"
#include "server/config.h"
#include "server/cursors.h"
#include "server/slow_log.h"
#include "server/snapshots.h"

namespace bonsai::server {

// Upper bounds of the classes of latencies; the last class has none.
inline constexpr std::array<uint64_t, 14> kLatencyBoundsUs = {
    10, 25, 50, 100, 250, 500, 1'000, 2'500, 10'000, 25'000, 100'000, 1'000'000, 5'000'000, 30'000'000};

// Counters since the start, and gauges. Each is one atomic that several threads change; they only inform.
struct Counters {
  std::atomic<uint64_t> connections{0};  // gauge
  std::atomic<uint64_t> accepted{0}, refused{0};
  std::atomic<uint64_t> closed_idle{0}, closed_slow{0}, closed_broken{0};
  std::atomic<uint64_t> commands{0}, errors{0}, wrong_passwords{0};
  std::atomic<uint64_t> hits{0}, misses{0};
  std::atomic<uint64_t> expired{0};                // keys that were removed
  std::atomic<uint64_t> store_failures{0};         // errors that say that the store may be lost
  std::atomic<uint64_t> groups{0}, operations{0};  // groups of operations that shared fences; operations in them
  std::atomic<uint64_t> bytes_in{0}, bytes_out{0};
  // Of requests, from when their thread took them to when their replies were written. Those of a turn have one time.
  std::array<std::atomic<uint64_t>, kLatencyBoundsUs.size() + 1> latencies{};
  std::atomic<uint64_t> latency_ns{0};

  void add_latency(uint64_t ns, uint64_t requests) {
    const auto* const bound = std::ranges::lower_bound(kLatencyBoundsUs, (ns + 999) / 1'000);
    latencies[static_cast<size_t>(bound - kLatencyBoundsUs.begin())].fetch_add(requests, std::memory_order_relaxed);
    latency_ns.fetch_add(ns * requests, std::memory_order_relaxed);
  }
};

struct State {
  State(DB* store, Config configuration, std::optional<Password> secret, uint64_t first_cursor)
      : db(store),
        config(std::move(configuration)),
        password(std::move(secret)),
        cursors(first_cursor),
        slow_log(config.slowlog_us, config.slowlog_entries_max),
        snapshots(store, config.snapshots_max) {}

  // Counts a status that clients are told.
  void note(const Status& status) {
    if (status.IsIoError() || status.IsUnavailable()) counters.store_failures.fetch_add(1, std::memory_order_relaxed);
  }

  DB* const db;
  const Config config;
  const std::optional<Password> password;
  const uint64_t started_ns = base::now_ns();
  Cursors cursors;
  SlowLog slow_log;
  Snapshots snapshots;
  Counters counters;
  std::atomic<uint64_t> clients{0};    // the id of the last one
  std::atomic<uint64_t> deadlines{0};  // values with one that were written; counted when they are in the store
  std::atomic<uint64_t> watchers{0};   // clients that watch keys
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_STATE_H_
