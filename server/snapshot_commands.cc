// SPDX-License-Identifier: Apache-2.0
// Snapshots with a name: SNAPSHOT. RANGE reads through them, too.
#include <string>

#include "admin/text.h"
#include "server/commands.h"

namespace bonsai::server {
namespace {

// SNAPSHOT CREATE name EX s | PX ms
void create(const Call& call) {
  const bool seconds = same_word(call.args[3], "EX");
  if (!seconds && !same_word(call.args[3], "PX")) return call.executor.error(&call.client, kSyntaxError);
  int64_t life_ms = 0;
  if (!parse_integer(call.args[4], &life_ms)) return call.executor.error(&call.client, kNoInteger);
  const uint64_t longest_ms = uint64_t{call.state.config.snapshot_s_max} * 1'000;
  if (life_ms <= 0 || __builtin_mul_overflow(life_ms, seconds ? 1'000 : 1, &life_ms) ||
      static_cast<uint64_t>(life_ms) > longest_ms) {
    return call.executor.error(&call.client, "ERR a snapshot lives for 1 ms to --snapshot_s_max of the server, " +
                                                 std::to_string(call.state.config.snapshot_s_max) + " s");
  }
  call.executor.settle(&call.client);
  const Status status = call.state.snapshots.create(call.args[2], static_cast<uint64_t>(life_ms));
  if (!status.ok()) return call.executor.error(&call.client, status);
  reply_ok(call);
}

void list(const Call& call) {
  const auto rows = call.state.snapshots.list();
  call.executor.reply(&call.client, [&](Reply& out) {
    out.array(rows.size());
    for (const auto& each : rows) {
      out.array(2);
      out.bulk(each.name);
      out.integer(static_cast<int64_t>(each.left_ms));
    }
  });
}

// SNAPSHOT GET name key [key ...]. One after the other: together their values may be large.
void get(const Call& call) {
  call.executor.settle(&call.client);
  const Snapshots::Shared snapshot = call.state.snapshots.find(call.args[2]);
  if (snapshot == nullptr) return call.executor.error(&call.client, no_snapshot(call.args[2]));
  ReadOptions options;
  options.snapshot = snapshot.get();
  std::string text, raw;
  Reply out(&text, call.client.protocol);
  out.array(call.args.size() - 3);
  for (const std::string_view key : call.args.subspan(3)) {
    const Status status = call.state.db->Get(options, key, &raw);
    if (!status.ok() && !status.IsNotFound()) return call.executor.error(&call.client, status);
    const Stored stored = parse_stored(status.ok() ? raw : std::string_view());
    const bool found = status.ok() && !has_expired(stored);
    if (found && text.size() + stored.value.size() > call.state.config.reply_bytes_max) {
      return call.executor.error(&call.client, kReplyTooLarge);
    }
    found ? out.bulk(stored.value) : out.null();
    (found ? call.state.counters.hits : call.state.counters.misses).fetch_add(1, std::memory_order_relaxed);
  }
  call.client.out += text;
}

}  // namespace

std::string no_snapshot(std::string_view name) {
  return "ERR there is no snapshot '" + admin::escape(name.substr(0, kSnapshotNameBytesMax)) +
         "': it was dropped, has expired, or ended with its server; take a new one by SNAPSHOT CREATE";
}

void run_snapshot(const Call& call) {
  const std::string_view what = call.args[1];
  const size_t arguments = call.args.size();
  if (same_word(what, "CREATE") && arguments == 5) return create(call);
  if (same_word(what, "LIST") && arguments == 2) return list(call);
  if (same_word(what, "GET") && arguments >= 4) return get(call);
  if (same_word(what, "DROP") && arguments == 3) {
    const bool dropped = call.state.snapshots.drop(call.args[2]);
    return call.executor.reply(&call.client, [dropped](Reply& out) { out.integer(dropped ? 1 : 0); });
  }
  call.executor.error(&call.client, unknown_subcommand(what, "SNAPSHOT"));
}

}  // namespace bonsai::server
