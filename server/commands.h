// SPDX-License-Identifier: Apache-2.0
// The commands of the server: their table, which COMMAND shows, and what runs each.
#ifndef BONSAI_SERVER_COMMANDS_H_
#define BONSAI_SERVER_COMMANDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/executor.h"

namespace bonsai::server {

enum CommandFlag : uint8_t {
  kReads = 1,
  kWrites = 2,
  kOpenToStrangers = 4,  // before the password was given
  kAtOnce = 8,           // also in a transaction
  kNotQueued = 16,       // cannot be part of one
};

struct Command {
  std::string_view name;  // in lower case
  int arity;              // arguments with the name; negative: at least so many
  uint8_t flags;
  int first_key, last_key, key_step;  // where keys are among the arguments, as COMMAND shows it; 0: there is none
  std::string_view group;
  std::string_view summary;
  void (*run)(const Call& call);
};

// All commands, by name.
std::span<const Command> commands();
// The command of this name in any case; null: there is none.
const Command* find_command(std::string_view name);

inline bool takes(const Command& command, size_t arguments) {
  const auto count = static_cast<int>(arguments);
  return command.arity >= 0 ? count == command.arity : count >= -command.arity;
}

// ---- what commands share

inline void reply_ok(const Call& call) {
  call.executor.reply(&call.client, [](Reply& out) { out.ok(); });
}
// Whether two words are equal but for case.
bool same_word(std::string_view a, std::string_view b);
// A whole decimal number. False: it is none, or out of range.
bool parse_integer(std::string_view text, int64_t* value);
// Whether a word begins a line that only a client of HTTP sends. A web page can make a browser on this machine send
// such a request, whose body would be commands.
[[nodiscard]] bool is_of_http(std::string_view word);
// Whether a word is EX, PX, EXAT or PXAT, which a time follows.
bool is_life(std::string_view word);
// The deadline that such a word and its time give. Returns the error; empty: none.
std::string parse_life(std::string_view word, std::string_view time, std::string_view command, uint64_t* deadline_ms);
// Replies of Redis to what it does not take.
std::string unknown_command(std::span<const std::string_view> arguments);
std::string wrong_number_of_arguments(std::string_view name);
std::string unknown_subcommand(std::string_view subcommand, std::string_view command);
inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kReplyTooLarge =
    "ERR the reply is larger than --reply_bytes_max of the server; ask for less at a time";
inline constexpr std::string_view kNotInTransaction =
    "ERR Command not allowed inside a transaction: it looks at the whole store or changes the connection; send it "
    "before MULTI";
inline constexpr std::string_view kTransactionTooLarge =
    "ERR the transaction is larger than --transaction_bytes_max of the server; make several of it";
inline constexpr std::string_view kNoInteger = "ERR value is not an integer or out of range";

// ---- key_commands.cc: strings and keys
void run_get(const Call& call);
void run_set(const Call& call);
void run_mget(const Call& call);
void run_mset(const Call& call);
void run_del(const Call& call);
void run_exists(const Call& call);
void run_strlen(const Call& call);
void run_getrange(const Call& call);
void run_type(const Call& call);
void run_ttl(const Call& call);

// ---- conditional_commands.cc: updates of keys by what they have
void run_set_with_options(const Call& call);
void run_append(const Call& call);
void run_decr(const Call& call);
void run_decrby(const Call& call);
void run_expire(const Call& call);
void run_getdel(const Call& call);
void run_getex(const Call& call);
void run_getset(const Call& call);
void run_incr(const Call& call);
void run_incrby(const Call& call);
void run_msetnx(const Call& call);
void run_persist(const Call& call);
void run_rename(const Call& call);
void run_setex(const Call& call);
void run_setnx(const Call& call);
void run_setrange(const Call& call);

// ---- range_commands.cc: many keys in order
void run_dbsize(const Call& call);
void run_keys(const Call& call);
void run_scan(const Call& call);
void run_range(const Call& call);
void run_delrange(const Call& call);

// ---- snapshot_commands.cc
void run_snapshot(const Call& call);
// The error where there is none of that name.
std::string no_snapshot(std::string_view name);

// ---- transaction_commands.cc
void run_discard(const Call& call);
void run_exec(const Call& call);
void run_multi(const Call& call);
void run_unwatch(const Call& call);
void run_watch(const Call& call);

// ---- connection_commands.cc
void run_auth(const Call& call);
void run_client(const Call& call);
void run_echo(const Call& call);
void run_hello(const Call& call);
void run_ping(const Call& call);
void run_quit(const Call& call);
void run_reset(const Call& call);
void run_select(const Call& call);

// ---- server_commands.cc
void run_command(const Call& call);
void run_config(const Call& call);
void run_info(const Call& call);
void run_slowlog(const Call& call);
void run_time(const Call& call);

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_COMMANDS_H_
