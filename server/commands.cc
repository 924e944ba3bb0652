// SPDX-License-Identifier: Apache-2.0
#include "server/commands.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "server/expiry.h"

namespace bonsai::server {
namespace {

// In the order of names. docs/server.md lists them by groups.
constexpr Command kCommands[] = {
    {"append", 3, kWrites, 1, 1, 1, "string", "Adds bytes to a value; returns its length", run_append},
    {"auth", -2, kOpenToStrangers | kNotQueued, 0, 0, 0, "connection", "Gives the password", run_auth},
    {"client", -2, 0, 0, 0, 0, "connection", "ID, INFO, GETNAME, SETNAME, SETINFO of this connection", run_client},
    {"command", -1, 0, 0, 0, 0, "server", "COUNT, DOCS, INFO of the commands", run_command},
    {"config", -2, 0, 0, 0, 0, "server", "GET of settings, by patterns", run_config},
    {"dbsize", 1, kReads | kNotQueued, 0, 0, 0, "server", "Counts all keys, which takes time by their number",
     run_dbsize},
    {"decr", 2, kWrites, 1, 1, 1, "string", "Takes 1 from a number", run_decr},
    {"decrby", 3, kWrites, 1, 1, 1, "string", "Takes a number from a number", run_decrby},
    {"del", -2, kWrites, 1, -1, 1, "generic", "Deletes keys; returns how many had a value", run_del},
    {"delrange", -3, kWrites | kNotQueued, 0, 0, 0, "bonsai",
     "Deletes the keys of a range, at one moment; returns how many; LIMIT", run_delrange},
    {"discard", 1, kAtOnce, 0, 0, 0, "transactions", "Ends a transaction without effect", run_discard},
    {"echo", 2, 0, 0, 0, 0, "connection", "Returns its argument", run_echo},
    {"exec", 1, kAtOnce, 0, 0, 0, "transactions", "Carries out a transaction, at one moment", run_exec},
    {"exists", -2, kReads, 1, -1, 1, "generic", "Counts the keys that have a value", run_exists},
    {"expire", -3, kWrites, 1, 1, 1, "generic", "Gives a key a time to live, in s; NX, XX, GT, LT", run_expire},
    {"expireat", -3, kWrites, 1, 1, 1, "generic", "EXPIRE by a time since 1970", run_expire},
    {"expiretime", 2, kReads, 1, 1, 1, "generic", "Returns when a key expires, in s since 1970", run_ttl},
    {"get", 2, kReads, 1, 1, 1, "string", "Returns a value", run_get},
    {"getdel", 2, kWrites, 1, 1, 1, "string", "Deletes a key; returns the value that it had", run_getdel},
    {"getex", -2, kWrites, 1, 1, 1, "string", "Returns a value; EX, PX, EXAT, PXAT, PERSIST", run_getex},
    {"getrange", 4, kReads, 1, 1, 1, "string", "Returns part of a value", run_getrange},
    {"getset", 3, kWrites, 1, 1, 1, "string", "Sets a key; returns the value that it had", run_getset},
    {"hello", -1, kOpenToStrangers | kNotQueued, 0, 0, 0, "connection", "Chooses RESP2 or RESP3; AUTH, SETNAME",
     run_hello},
    {"incr", 2, kWrites, 1, 1, 1, "string", "Adds 1 to a number", run_incr},
    {"incrby", 3, kWrites, 1, 1, 1, "string", "Adds a number to a number", run_incrby},
    {"info", -1, kNotQueued, 0, 0, 0, "server", "Describes server and store, by sections", run_info},
    {"keys", 2, kReads | kNotQueued, 0, 0, 0, "generic", "Returns the keys that match a pattern, in order", run_keys},
    {"mget", -2, kReads, 1, -1, 1, "string", "Returns many values", run_mget},
    {"mset", -3, kWrites, 1, -1, 2, "string", "Sets many keys, all or none", run_mset},
    {"msetnx", -3, kWrites, 1, -1, 2, "string", "Sets many keys if none has a value", run_msetnx},
    {"multi", 1, kAtOnce, 0, 0, 0, "transactions", "Begins a transaction: commands are queued", run_multi},
    {"persist", 2, kWrites, 1, 1, 1, "generic", "Has a key not expire", run_persist},
    {"pexpire", -3, kWrites, 1, 1, 1, "generic", "EXPIRE in ms", run_expire},
    {"pexpireat", -3, kWrites, 1, 1, 1, "generic", "EXPIREAT in ms", run_expire},
    {"pexpiretime", 2, kReads, 1, 1, 1, "generic", "EXPIRETIME in ms", run_ttl},
    {"ping", -1, 0, 0, 0, 0, "connection", "Returns PONG, or its argument", run_ping},
    {"psetex", 4, kWrites, 1, 1, 1, "string", "SETEX in ms", run_setex},
    {"pttl", 2, kReads, 1, 1, 1, "generic", "TTL in ms", run_ttl},
    {"quit", -1, kOpenToStrangers | kAtOnce, 0, 0, 0, "connection", "Ends the connection", run_quit},
    {"range", -3, kReads | kNotQueued, 0, 0, 0, "bonsai",
     "Returns keys and values of a range, in order, as of one moment; REV, LIMIT, COUNT, SNAPSHOT", run_range},
    {"rename", 3, kWrites, 1, 2, 1, "generic", "Gives a value another key", run_rename},
    {"renamenx", 3, kWrites, 1, 2, 1, "generic", "RENAME, if the other key has no value", run_rename},
    {"reset", 1, kOpenToStrangers | kAtOnce, 0, 0, 0, "connection", "Makes the connection as new", run_reset},
    {"scan", -2, kReads | kNotQueued, 0, 0, 0, "generic", "Returns keys in order, part by part", run_scan},
    {"select", 2, 0, 0, 0, 0, "connection", "Selects database 0, the only one", run_select},
    {"set", -3, kWrites, 1, 1, 1, "string", "Sets a key to a value; NX, XX, GET, EX, PX, EXAT, PXAT, KEEPTTL", run_set},
    {"setex", 4, kWrites, 1, 1, 1, "string", "Sets a key for a time, in s", run_setex},
    {"setnx", 3, kWrites, 1, 1, 1, "string", "Sets a key if it has no value", run_setnx},
    {"setrange", 4, kWrites, 1, 1, 1, "string", "Overwrites part of a value; returns its length", run_setrange},
    {"slowlog", -2, 0, 0, 0, 0, "server", "GET, LEN, RESET of the commands that took long", run_slowlog},
    {"snapshot", -2, kReads | kNotQueued, 0, 0, 0, "bonsai",
     "CREATE, GET, LIST, DROP of snapshots with a name and a time to live", run_snapshot},
    {"strlen", 2, kReads, 1, 1, 1, "string", "Returns the length of a value", run_strlen},
    {"substr", 4, kReads, 1, 1, 1, "string", "GETRANGE by its old name", run_getrange},
    {"time", 1, 0, 0, 0, 0, "server", "Returns the server's time", run_time},
    {"ttl", 2, kReads, 1, 1, 1, "generic", "Returns how long a key lives, in s", run_ttl},
    {"type", 2, kReads, 1, 1, 1, "generic", "Returns string, or none", run_type},
    {"unlink", -2, kWrites, 1, -1, 1, "generic", "DEL by another name", run_del},
    {"unwatch", 1, 0, 0, 0, 0, "transactions", "Watches no keys any more", run_unwatch},
    {"watch", -2, kAtOnce, 1, -1, 1, "transactions", "Has EXEC do nothing if a key is updated before", run_watch},
};

constexpr size_t kNameBytesMax = 16;
constexpr size_t kShownBytesMax = 128;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  if (name.size() > kNameBytesMax) return nullptr;
  char buffer[kNameBytesMax];
  std::transform(name.begin(), name.end(), buffer, lower);
  const std::string_view wanted(buffer, name.size());
  const auto* const found = std::lower_bound(std::begin(kCommands), std::end(kCommands), wanted,
                                             [](const Command& each, std::string_view to) { return each.name < to; });
  return found != std::end(kCommands) && found->name == wanted ? found : nullptr;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool parse_integer(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_of_http(std::string_view word) { return same_word(word, "post") || same_word(word, "host:"); }

bool is_life(std::string_view word) {
  return same_word(word, "EX") || same_word(word, "PX") || same_word(word, "EXAT") || same_word(word, "PXAT");
}

std::string parse_life(std::string_view word, std::string_view time, std::string_view command, uint64_t* deadline_ms) {
  int64_t ms = 0;
  if (!parse_integer(time, &ms)) return std::string(kNoInteger);
  // EXPIRE and its siblings take a time that has passed: it deletes the key.
  const bool sets = command.find("expire") == std::string_view::npos;
  const int64_t unit_ms = lower(word[0]) == 'e' ? 1'000 : 1;
  const auto now_ms = static_cast<int64_t>(wall_ms());
  const bool from_now = word.size() == 2;
  if ((sets && ms <= 0) || __builtin_mul_overflow(ms, unit_ms, &ms) ||
      (from_now && __builtin_add_overflow(ms, now_ms, &ms))) {
    return "ERR invalid expire time in '" + std::string(command) + "' command";
  }
  *deadline_ms = ms <= 0 ? 1 : static_cast<uint64_t>(ms);  // 1: long ago
  return "";
}

std::string unknown_command(std::span<const std::string_view> arguments) {
  std::string text =
      "ERR unknown command '" + std::string(arguments[0].substr(0, kShownBytesMax)) + "', with args beginning with: ";
  const size_t bytes_max = text.size() + kShownBytesMax;
  for (const std::string_view each : arguments.subspan(1)) {
    if (text.size() >= bytes_max) break;
    text.append("'").append(each.substr(0, kShownBytesMax)).append("' ");
  }
  return text;
}

std::string wrong_number_of_arguments(std::string_view name) {
  return "ERR wrong number of arguments for '" + std::string(name) + "' command";
}

std::string unknown_subcommand(std::string_view subcommand, std::string_view command) {
  return "ERR unknown subcommand '" + std::string(subcommand.substr(0, kShownBytesMax)) + "'. This server knows of " +
         std::string(command) + " what docs/server.md lists.";
}

}  // namespace bonsai::server
