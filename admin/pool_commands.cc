// SPDX-License-Identifier: Apache-2.0
// list, stat, groups, check and remove: the commands about a pool as a whole.
#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "admin/command.h"
#include "admin/flags.h"
#include "admin/pool.h"
#include "admin/progress.h"
#include "admin/ranges.h"
#include "bonsai/groups.h"
#include "bonsai/stats_fields.h"

namespace bonsai::admin {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

const char* key_format_name(KeyFormat format) { return format == KeyFormat::kFixed8 ? "fixed8" : "bytes"; }

std::string time_text(uint64_t seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&whole, &parts) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

std::string column(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

// A name or an owner comes from another node.
std::string list_table(const std::vector<PoolInfo>& pools) {
  size_t width = 24;
  for (const PoolInfo& pool : pools) width = std::max(width, escape(pool.name).size() + 2);
  std::string text = column("POOL", width) + column("SIZE", 12) + column("LAST USED", 25) + "OWNER\n";
  for (const PoolInfo& pool : pools) {
    text += column(escape(pool.name), width) + column(human_size(pool.bytes), 12) + column(time_text(pool.used_s), 25) +
            (pool.owner.empty() ? "none" : escape(pool.owner)) + "\n";
  }
  return text;
}

Json list_json(const std::string& place, const std::vector<PoolInfo>& pools) {
  Json json = {{"place", place}, {"pools", Json::array()}};
  for (const PoolInfo& pool : pools) {
    json["pools"].push_back(
        {{"name", pool.name}, {"bytes", pool.bytes}, {"owner", pool.owner}, {"last_used_s", pool.used_s}});
  }
  return json;
}

std::string used_of(uint64_t used, uint64_t all) {
  const uint64_t percent =
      all == 0 ? 0 : static_cast<uint64_t>(100.0 * static_cast<double>(used) / static_cast<double>(all));
  return human_size(used) + " of " + human_size(all) + " (" + std::to_string(percent) + " %)";
}

const char* layout_name(LayoutChoice layout) {
  return layout == LayoutChoice::kNone ? "none" : layout == LayoutChoice::kSoftware ? "software" : "hardware";
}

std::string layout_of(const Stats& stats) {
  const std::string name = layout_name(stats.layout);
  return stats.stripe_unit_bytes == 0 ? name : name + ", units of " + human_size(stats.stripe_unit_bytes);
}

const char* state_name(MemberState state) {
  switch (state) {
    case MemberState::kInSync:
      return "in_sync";
    case MemberState::kAway:
      return "away";
    case MemberState::kJoining:
      return "joining";
    case MemberState::kOut:
      break;
  }
  return "out";
}

Json member_json(const GroupMember& member) {
  return {{"name", member.name},
          {"state", state_name(member.state)},
          {"copied_bytes", member.copied_bytes},
          {"repaired_bytes", member.repaired_bytes},
          {"failure", member.failure}};
}

Json groups_json(const std::vector<GroupInfo>& groups) {
  Json json = Json::array();
  for (const GroupInfo& group : groups) {
    Json members = Json::array();
    for (const GroupMember& member : group.members) members.push_back(member_json(member));
    json.push_back({{"name", group.name},
                    {"needed", group.needed},
                    {"bytes", group.bytes},
                    {"epoch", group.epoch},
                    {"page", group.page},
                    {"scrub_bytes_per_s", group.scrub_bytes_per_s},
                    {"scrub_compared_bytes", group.scrub_compared_bytes},
                    {"scrub_passes", group.scrub_passes},
                    {"scrub_unsettled_bytes", group.scrub_unsettled_bytes},
                    {"scrub_missed_bytes", group.scrub_missed_bytes},
                    {"members", members}});
    if (group.witness) json.back()["witness"] = member_json(*group.witness);
  }
  return json;
}

// Texts come from other nodes.
std::string groups_text(const std::vector<GroupInfo>& groups) {
  std::string text;
  for (GroupInfo group : groups) {
    for (GroupMember& member : group.members) member.failure = escape(member.failure);
    if (group.witness) group.witness->failure = escape(group.witness->failure);
    text += GroupText(group);
  }
  return text;
}

Json stat_json(const Stats& stats, const std::vector<GroupInfo>& groups) {
  Json json = {{"pool", FLAGS_pool}, {"medium", stats.medium}, {"emulated", stats.emulated}};
  json["key_format"] = key_format_name(stats.key_format);
  json["layout"] = layout_name(stats.layout);
  for (const StatsField& field : kStatsFields) json[std::string(field.name)] = stats.*field.member;
  json["groups"] = groups_json(groups);
  return json;
}

std::string stat_table(const Stats& stats, const std::vector<GroupInfo>& groups) {
  std::string text =
      row("pool", FLAGS_pool) + row("medium", stats.medium) + row("keys", key_format_name(stats.key_format)) +
      row("targets", std::to_string(stats.targets)) + row("layout", layout_of(stats)) +
      row("pool size", human_size(stats.pool_bytes)) + row("log", used_of(stats.log_bytes_used, stats.log_bytes)) +
      row("data", used_of(stats.data_bytes_used, stats.data_bytes)) + row("DRAM", human_size(stats.dram_bytes)) +
      (stats.resident_bytes == 0 ? "" : row("resident", human_size(stats.resident_bytes))) +
      row("bnodes", std::to_string(stats.bnodes)) + row("dnodes", std::to_string(stats.dnodes)) +
      row("records in dnodes", std::to_string(stats.dnode_records)) + groups_text(groups);
  std::string counters;
  for (const StatsField& field : kStatsFields) {
    if (field.kind == StatsKind::kCounter && stats.*field.member != 0) {
      counters += "  " + row(field.name, std::to_string(stats.*field.member));
    }
  }
  return counters.empty() ? text : text + "since it was opened:\n" + counters;
}

Json check_json(const CheckReport& report) {
  Json json = {{"pool", FLAGS_pool},
               {"ok", report.ok()},
               {"clean", report.clean},
               {"key_format", key_format_name(report.key_format)},
               {"targets", report.targets},
               {"dnodes", report.dnodes},
               {"records", report.records},
               {"log_records", report.log_records},
               {"large_values", report.large_values},
               {"data_bytes", report.data_bytes},
               {"data_bytes_used", report.data_bytes_used},
               {"damages", Json::array()},
               {"repairs", Json::array()},
               {"missing", report.missing},
               {"ranges", Json::array()}};
  for (const Damage& damage : report.damages) {
    json["damages"].push_back({{"where", damage.where}, {"what", damage.what}, {"key_range", damage.key_range}});
  }
  for (const Damage& repair : report.repairs) {
    json["repairs"].push_back({{"where", repair.where}, {"what", repair.what}});
  }
  for (const RangeState& range : report.ranges) {
    json["ranges"].push_back(
        {{"key_range", range.key_range}, {"left", left_text(range.left)}, {"records", range.records}});
  }
  return json;
}

std::string check_table(const CheckReport& report) {
  std::string text = row("pool", FLAGS_pool) + row("keys", key_format_name(report.key_format)) +
                     row("closed in order", report.clean ? "yes" : "no; it is recovered when it is next opened") +
                     row("targets", std::to_string(report.targets)) + row("dnodes", std::to_string(report.dnodes)) +
                     row("records in dnodes", std::to_string(report.records)) +
                     row("records in the log", std::to_string(report.log_records)) +
                     row("large values", std::to_string(report.large_values)) +
                     row("data", used_of(report.data_bytes_used, report.data_bytes));
  if (report.missing != 0) {
    return text + ranges_text(report.damages, report.missing, report.ranges) +
           row("verdict", std::to_string(report.missing) + " of " + std::to_string(report.targets) +
                              " targets are missing; put them back, or restore a copy of the pool, or copy what is " +
                              "left: bonsai salvage --allow-missing --pool=" + FLAGS_pool + " NEW");
  }
  for (const Damage& damage : report.damages) {
    text += "DAMAGED  " + damage.where + ": " + damage.what +
            "\n         keys: " + (damage.key_range.empty() ? "none" : damage.key_range) + "\n";
  }
  for (const Damage& repair : report.repairs) {
    text += "UNSOUND  " + repair.where + ": " + repair.what +
            "\n         keys: none; opening the pool for updates repairs it\n";
  }
  if (report.ok() && report.repairs.empty()) return text + row("verdict", "nothing is damaged");
  if (report.ok()) {
    return text + row("verdict", "no key is affected; opening the pool for updates repairs " +
                                     std::to_string(report.repairs.size()) + " unsound places");
  }
  return text + row("verdict", std::to_string(report.damages.size()) +
                                   " damaged places; keys outside of the ranges above are safe: copy them with bonsai "
                                   "salvage --pool=" +
                                   FLAGS_pool + " NEW, or restore a copy of the pool");
}

}  // namespace

Status run_stat(const std::vector<std::string>&, ExitCode*) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  OpenPool pool;
  if (Status status = open_pool_to_read(options, &pool); !status.ok()) return status;
  const Stats stats = pool.db->GetStats();
  const std::vector<GroupInfo> groups = GetGroups(*pool.db);
  return pool.close(print(FLAGS_json ? dump(stat_json(stats, groups)) : stat_table(stats, groups)));
}

Status run_groups(const std::vector<std::string>&, ExitCode*) {
  std::string path;
  Options options;
  std::vector<GroupInfo> groups;
  Status status = pool_path(&path);
  if (status.ok()) status = options_from_flags(&options);
  if (status.ok()) status = GetGroups(path, &groups, options);
  if (!status.ok()) return status;
  if (FLAGS_json) return print(dump({{"pool", path}, {"groups", groups_json(groups)}}));
  return print(groups.empty() ? path + ": no target of it is held by several nodes, as far as these know\n"
                              : groups_text(groups));
}

Status run_scrub(const std::vector<std::string>&, ExitCode*) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  options.scrub_bytes_per_s = 0;  // the pass that is asked for is enough
  OpenPool pool;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
  Status status = ScrubGroups(*pool.db);
  const std::vector<GroupInfo> groups = GetGroups(*pool.db);
  if (status.ok()) {
    status = FLAGS_json ? print(dump({{"pool", FLAGS_pool}, {"groups", groups_json(groups)}}))
                        : print(groups.empty() ? "no target is held by several nodes: there is nothing to compare\n"
                                               : groups_text(groups));
  }
  return pool.close(std::move(status));
}

Status run_list(const std::vector<std::string>& operands, ExitCode*) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  std::vector<PoolInfo> pools;
  if (Status status = List(operands[0], &pools, options); !status.ok()) return status;
  return print(FLAGS_json ? dump(list_json(operands[0], pools)) : list_table(pools));
}

Status run_remove(const std::vector<std::string>&, ExitCode*) {
  std::string path;
  Options options;
  Status status = pool_path(&path);
  if (status.ok()) status = options_from_flags(&options);
  if (status.ok()) status = of_missing(path);
  if (!status.ok()) return status;
  status = Remove(path, options);
  if (status.IsIoError() && status.message().find("does not exist") != std::string_view::npos) return status;
  return status.ok() ? print(path + ": removed\n") : with_remedy(std::move(status), path);
}

Status run_check(const std::vector<std::string>&, ExitCode* exit) {
  std::string path;
  Options options;
  if (Status status = pool_path(&path); !status.ok()) return status;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  CheckReport report;
  Status status;
  {
    ProgressLine progress("checking");
    status = Check(
        path, &report, [&progress](double done) { progress.show(done); }, options);
  }
  if (status.IsCorruption()) return status;  // the usual advice would be this very command
  if (!status.ok()) return with_remedy(std::move(status), path);
  if (!report.ok()) *exit = kExitDamaged;
  return print(FLAGS_json ? dump(check_json(report)) : check_table(report));
}

}  // namespace bonsai::admin
