// SPDX-License-Identifier: Apache-2.0
// Commands of strings and of single keys. They become operations of the session, or parts of a batch.
#include "server/commands.h"

namespace bonsai::server {

void run_get(const Call& call) { call.executor.get(&call.client, call.args[1], Outcome::kValue); }
void run_strlen(const Call& call) { call.executor.get(&call.client, call.args[1], Outcome::kLength); }
void run_type(const Call& call) { call.executor.get(&call.client, call.args[1], Outcome::kType); }

// TTL, PTTL, EXPIRETIME and PEXPIRETIME.
void run_ttl(const Call& call) {
  const std::string_view name = find_command(call.args[0])->name;
  const bool ms = name.starts_with('p'), from_now = name.ends_with("ttl");
  call.executor.get(&call.client, call.args[1], Outcome::kLife, ms ? 1 : 1'000, from_now ? 1 : 0);
}

void run_set(const Call& call) {
  if (call.args.size() == 3) return call.executor.put(&call.client, call.args[1], call.args[2], 0, Outcome::kOk);
  run_set_with_options(call);
}

void run_mget(const Call& call) {
  call.executor.array(&call.client, call.args.size() - 1);
  for (const std::string_view key : call.args.subspan(1)) call.executor.get(&call.client, key, Outcome::kElement);
}

void run_mset(const Call& call) {
  if (call.args.size() % 2 == 0) return call.executor.error(&call.client, wrong_number_of_arguments("mset"));
  call.executor.put_joined(&call.client, call.args.subspan(1));
}

void run_exists(const Call& call) {
  for (const std::string_view key : call.args.subspan(1)) call.executor.get(&call.client, key, Outcome::kFound);
  call.executor.sum(&call.client);
}

// Of two clients that delete one key at the same time both may count it.
void run_del(const Call& call) {
  for (const std::string_view key : call.args.subspan(1)) {
    call.executor.get(&call.client, key, Outcome::kFound);
    call.executor.remove(&call.client, key, Outcome::kDone);
  }
  call.executor.sum(&call.client);
}

void run_getrange(const Call& call) {
  int64_t from = 0, to = 0;
  if (!parse_integer(call.args[2], &from) || !parse_integer(call.args[3], &to)) {
    return call.executor.error(&call.client, kNoInteger);
  }
  call.executor.get(&call.client, call.args[1], Outcome::kPart, from, to);
}

}  // namespace bonsai::server
