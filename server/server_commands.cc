// SPDX-License-Identifier: Apache-2.0
// Commands about the server: INFO, CONFIG GET, COMMAND, SLOWLOG, TIME.
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bonsai/c.h"
#include "server/commands.h"
#include "server/glob.h"

namespace bonsai::server {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The version of Redis whose replies the commands follow; programs look for it.
constexpr const char* kRedisVersion = "7.0.15";

std::string count_of(const std::atomic<uint64_t>& counter) {
  return std::to_string(counter.load(std::memory_order_relaxed));
}

// ---- INFO

Pairs server_section(const State& state) {
  std::string addresses;
  for (const Address& each : state.config.listen) addresses += (addresses.empty() ? "" : ",") + each.text();
  return {{"redis_version", kRedisVersion},
          {"redis_mode", "standalone"},
          {"bonsai_version", BONSAI_VERSION_STRING},
          {"process_id", std::to_string(::getpid())},
          {"listen", addresses},
          {"io_threads", std::to_string(state.config.threads)},
          {"uptime_in_seconds", std::to_string((base::now_ns() - state.started_ns) / base::kNsPerSecond)}};
}

Pairs clients_section(const State& state) {
  return {{"connected_clients", count_of(state.counters.connections)},
          {"maxclients", std::to_string(state.config.connections_max)},
          {"watching_clients", count_of(state.watchers)},
          {"named_snapshots", std::to_string(state.snapshots.size())},
          {"closed_idle", count_of(state.counters.closed_idle)},
          {"closed_slow", count_of(state.counters.closed_slow)},
          {"closed_broken_protocol", count_of(state.counters.closed_broken)}};
}

Pairs memory_section(const State& state) {
  const Stats stats = state.db->GetStats();
  return {{"used_memory", std::to_string(stats.dram_bytes)},          {"maxmemory", "0"},
          {"pool_bytes", std::to_string(stats.pool_bytes)},           {"data_bytes", std::to_string(stats.data_bytes)},
          {"data_bytes_used", std::to_string(stats.data_bytes_used)}, {"log_bytes", std::to_string(stats.log_bytes)},
          {"log_bytes_used", std::to_string(stats.log_bytes_used)}};
}

Pairs persistence_section(const State& state) {
  const Stats stats = state.db->GetStats();
  return {{"loading", "0"},
          {"durability", state.config.buffered ? "buffered" : "durable"},
          {"ok_means", state.config.buffered ? "applied; a crash may lose the updates of the last 10 ms" : "durable"},
          {"medium", stats.medium},
          {"nvm_fences", std::to_string(stats.nvm_fences)},
          {"nvm_media_bytes", std::to_string(stats.nvm_media_bytes)},
          {"stalls", std::to_string(stats.stalls)}};
}

Pairs stats_section(const State& state) {
  const Counters& counters = state.counters;
  return {{"total_connections_received", count_of(counters.accepted)},
          {"rejected_connections", count_of(counters.refused)},
          {"total_commands_processed", count_of(counters.commands)},
          {"total_error_replies", count_of(counters.errors)},
          {"wrong_passwords", count_of(counters.wrong_passwords)},
          {"total_net_input_bytes", count_of(counters.bytes_in)},
          {"total_net_output_bytes", count_of(counters.bytes_out)},
          {"expired_keys", count_of(counters.expired)},
          {"keyspace_hits", count_of(counters.hits)},
          {"keyspace_misses", count_of(counters.misses)},
          {"operation_groups", count_of(counters.groups)},
          {"grouped_operations", count_of(counters.operations)}};
}

Pairs replication_section(const State&) { return {{"role", "master"}, {"connected_slaves", "0"}}; }

// Counts the keys, which takes time by their number.
Pairs keyspace_section(const State& state) {
  uint64_t count = 0;
  if (!state.db->Count(ScanOptions(), "", &count).ok() || count == 0) return {};
  return {{"db0", "keys=" + std::to_string(count) + ",expires=0,avg_ttl=0"}};
}

struct Section {
  std::string_view name;
  bool by_default;
  Pairs (*pairs)(const State& state);
};

constexpr std::array<Section, 7> kSections = {{{"Server", true, server_section},
                                               {"Clients", true, clients_section},
                                               {"Memory", true, memory_section},
                                               {"Persistence", true, persistence_section},
                                               {"Stats", true, stats_section},
                                               {"Replication", true, replication_section},
                                               {"Keyspace", false, keyspace_section}}};

bool wants(const Call& call, const Section& section) {
  if (call.args.size() == 1) return section.by_default;
  for (const std::string_view word : call.args.subspan(1)) {
    if (same_word(word, section.name) || same_word(word, "all") || same_word(word, "everything")) return true;
    if (same_word(word, "default") && section.by_default) return true;
  }
  return false;
}

// ---- CONFIG GET

// Names of Redis, for programs that ask for them.
Pairs settings_of(const State& state) {
  const Config& config = state.config;
  std::string bound, socket, port = "0";
  for (const Address& each : config.listen) {
    if (each.is_unix()) {
      socket = each.path;
    } else {
      bound += (bound.empty() ? "" : " ") + each.host;
      port = std::to_string(each.port);
    }
  }
  return {{"appendfsync", config.buffered ? "everysec" : "always"},
          {"appendonly", "yes"},
          {"bind", bound},
          {"databases", "1"},
          {"io-threads", std::to_string(config.threads)},
          {"maxclients", std::to_string(config.connections_max)},
          {"maxmemory", "0"},
          {"maxmemory-policy", "noeviction"},
          {"port", port},
          {"proto-max-bulk-len", std::to_string(kValueBytesMax)},
          {"save", ""},
          {"slowlog-log-slower-than", std::to_string(config.slowlog_us)},
          {"slowlog-max-len", std::to_string(config.slowlog_entries_max)},
          {"timeout", std::to_string(config.idle_s)},
          {"unixsocket", socket}};
}

// ---- COMMAND

void write_flags(const Command& command, Reply* out) {
  const bool strangers = (command.flags & kOpenToStrangers) != 0;
  const bool keys = (command.flags & (kReads | kWrites)) != 0;
  out->set((strangers ? 1U : 0U) + (keys ? 1U : 0U));
  if (keys) out->simple((command.flags & kWrites) != 0 ? "write" : "readonly");
  if (strangers) out->simple("no_auth");
}

// In the form of Redis 7, whose last parts are empty here: categories, tips, key specifications, subcommands.
void write_info(const Command& command, Reply* out) {
  out->array(10);
  out->bulk(command.name);
  out->integer(command.arity);
  write_flags(command, out);
  out->integer(command.first_key);
  out->integer(command.last_key);
  out->integer(command.key_step);
  out->set(0);
  for (int i = 0; i < 3; ++i) out->array(0);
}

void write_docs(const Command& command, Reply* out) {
  out->bulk(command.name);
  out->map(3);
  out->bulk("summary"), out->bulk(command.summary);
  out->bulk("since"), out->bulk(BONSAI_VERSION_STRING);
  out->bulk("group"), out->bulk(command.group);
}

// The commands that the words after the subcommand name; null for an unknown one. All, if there are none.
std::vector<const Command*> named(const Call& call) {
  std::vector<const Command*> found;
  if (call.args.size() <= 2) {
    for (const Command& each : commands()) found.push_back(&each);
  } else {
    for (const std::string_view name : call.args.subspan(2)) found.push_back(find_command(name));
  }
  return found;
}

// ---- SLOWLOG

constexpr int64_t kSlowEntriesDefault = 10;

void write_slow(const SlowEntry& entry, Reply* out) {
  out->array(6);
  out->integer(static_cast<int64_t>(entry.id));
  out->integer(entry.at_s);
  out->integer(static_cast<int64_t>(entry.us));
  out->array(entry.arguments.size());
  for (const std::string& each : entry.arguments) out->bulk(each);
  out->bulk(entry.address);
  out->bulk(entry.name);
}

}  // namespace

void run_info(const Call& call) {
  call.executor.settle(&call.client);
  std::string text;
  for (const Section& section : kSections) {
    if (!wants(call, section)) continue;
    text += (text.empty() ? "# " : "\r\n# ") + std::string(section.name) + "\r\n";
    for (const auto& [name, value] : section.pairs(call.state)) text.append(name).append(":").append(value) += "\r\n";
  }
  call.executor.reply(&call.client, [&](Reply& out) { out.text(text); });
}

void run_config(const Call& call) {
  if (!same_word(call.args[1], "GET") || call.args.size() < 3) {
    return call.executor.error(&call.client,
                               "ERR CONFIG has GET only: settings are flags of bonsai-server, which "
                               "--help lists");
  }
  Pairs found;
  for (auto& [name, value] : settings_of(call.state)) {
    for (const std::string_view pattern : call.args.subspan(2)) {
      if (!glob_matches(pattern, name)) continue;
      found.emplace_back(name, value);
      break;
    }
  }
  call.executor.reply(&call.client, [&](Reply& out) {
    out.map(found.size());
    for (const auto& [name, value] : found) out.bulk(name), out.bulk(value);
  });
}

void run_command(const Call& call) {
  const std::string_view what = call.args.size() == 1 ? "INFO" : call.args[1];
  if (same_word(what, "COUNT") && call.args.size() == 2) {
    return call.executor.reply(&call.client, [](Reply& out) { out.integer(static_cast<int64_t>(commands().size())); });
  }
  if (!same_word(what, "INFO") && !same_word(what, "DOCS")) {
    return call.executor.error(&call.client, unknown_subcommand(what, "COMMAND"));
  }
  std::vector<const Command*> found = named(call);
  const bool docs = same_word(what, "DOCS");
  if (docs) std::erase(found, nullptr);
  call.executor.reply(&call.client, [&](Reply& out) {
    docs ? out.map(found.size()) : out.array(found.size());
    for (const Command* const each : found) {
      if (each == nullptr) {
        out.null();
      } else {
        docs ? write_docs(*each, &out) : write_info(*each, &out);
      }
    }
  });
}

void run_slowlog(const Call& call) {
  SlowLog& log = call.state.slow_log;
  const std::string_view what = call.args[1];
  const size_t arguments = call.args.size();
  if (same_word(what, "LEN") && arguments == 2) {
    return call.executor.reply(&call.client, [&](Reply& out) { out.integer(static_cast<int64_t>(log.size())); });
  }
  if (same_word(what, "RESET") && arguments == 2) {
    log.reset();
    return reply_ok(call);
  }
  if (!same_word(what, "GET") || arguments > 3) {
    return call.executor.error(&call.client, unknown_subcommand(what, "SLOWLOG"));
  }
  int64_t count = kSlowEntriesDefault;
  if (arguments == 3 && !parse_integer(call.args[2], &count)) return call.executor.error(&call.client, kNoInteger);
  if (count < -1) return call.executor.error(&call.client, "ERR count should be greater than or equal to -1");
  const std::vector<SlowEntry> entries = log.newest(count < 0 ? SIZE_MAX : static_cast<size_t>(count));
  call.executor.reply(&call.client, [&](Reply& out) {
    out.array(entries.size());
    for (const SlowEntry& each : entries) write_slow(each, &out);
  });
}

void run_time(const Call& call) {
  const auto us = static_cast<uint64_t>(base::wall_seconds() * 1e6);
  call.executor.reply(&call.client, [us](Reply& out) {
    out.array(2);
    out.bulk(std::to_string(us / 1'000'000));
    out.bulk(std::to_string(us % 1'000'000));
  });
}

}  // namespace bonsai::server
