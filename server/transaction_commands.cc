// SPDX-License-Identifier: Apache-2.0
// Transactions. EXEC carries the queued commands out on a stage (stage.h), and begins anew when other clients have
// updated what they read meanwhile. So nobody waits for a transaction, and it needs no lock.
#include <string>
#include <utility>
#include <vector>

#include "server/commands.h"
#include "server/stage.h"

namespace bonsai::server {
namespace {

constexpr int kTriesMax = 100;
constexpr std::string_view kAborted = "EXECABORT Transaction discarded because of previous errors.";
constexpr std::string_view kTooOften =
    "ERR other clients updated the keys of the transaction each time that it was tried; nothing was changed, try again";

// Appends the replies of the commands, as an array. Returns the error that ends the transaction; empty: none.
std::string_view carry_out(const Call& call, const Transaction& transaction, const Stage& stage) {
  const size_t from = call.client.out.size();
  Reply(&call.client.out, call.client.protocol).array(transaction.queued().size());
  std::vector<std::string_view> args;
  for (const Transaction::Queued& each : transaction.queued()) {
    args.assign(each.args.begin(), each.args.end());
    each.command->run({call.executor, call.state, call.client, args});
    call.executor.finish();
    if (stage.is_too_large()) return kTransactionTooLarge;
    if (call.client.out.size() - from > call.state.config.reply_bytes_max) return kReplyTooLarge;
  }
  return {};
}

// One try. *error is for kFailed.
Stage::Outcome try_once(const Call& call, const Transaction& transaction, std::string* error) {
  Stage stage(call.state.db, call.state.config.transaction_bytes_max);
  Status status = stage.begin();
  const auto fails = [&] {
    call.state.note(status);
    *error = error_text(status);
    return Stage::Outcome::kFailed;
  };
  if (!status.ok()) return fails();
  call.executor.work_on(&stage);
  *error = carry_out(call, transaction, stage);
  call.executor.work_on(nullptr);
  if (!error->empty()) return Stage::Outcome::kFailed;
  const Stage::Outcome outcome = stage.commit(transaction.watched(), &status);
  return outcome == Stage::Outcome::kFailed ? fails() : outcome;
}

}  // namespace

void run_multi(const Call& call) {
  if (call.client.transaction.is_open()) return call.executor.error(&call.client, "ERR MULTI calls can not be nested");
  call.client.transaction.open();
  reply_ok(call);
}

void run_discard(const Call& call) {
  if (!call.client.transaction.is_open()) return call.executor.error(&call.client, "ERR DISCARD without MULTI");
  call.client.transaction = Transaction();
  reply_ok(call);
}

void run_watch(const Call& call) {
  if (call.client.transaction.is_open()) {
    return call.executor.error(&call.client, "ERR WATCH inside MULTI is not allowed");
  }
  call.executor.settle(&call.client);
  const Status status = call.client.transaction.watch(&call.state, call.args.subspan(1));
  if (!status.ok()) return call.executor.error(&call.client, status);
  reply_ok(call);
}

void run_unwatch(const Call& call) {
  call.client.transaction.unwatch();
  reply_ok(call);
}

void run_exec(const Call& call) {
  Client& client = call.client;
  if (!client.transaction.is_open()) return call.executor.error(&client, "ERR EXEC without MULTI");
  const Transaction transaction = std::exchange(client.transaction, Transaction());
  if (transaction.is_broken()) return call.executor.error(&client, kAborted);
  call.executor.finish();  // of all clients: their time is not that of the transaction
  call.executor.settle(&client);
  const size_t from = client.out.size();
  Stage::Outcome outcome = transaction.watched().overtaken ? Stage::Outcome::kOvertaken : Stage::Outcome::kConflict;
  std::string error;
  for (int tries = 0; outcome == Stage::Outcome::kConflict && tries < kTriesMax; ++tries) {
    outcome = try_once(call, transaction, &error);
    if (outcome != Stage::Outcome::kDone) client.out.resize(from);
  }
  switch (outcome) {
    case Stage::Outcome::kDone:
      return;
    case Stage::Outcome::kOvertaken:
      return call.executor.reply(&client, [](Reply& out) { out.null_array(); });
    case Stage::Outcome::kConflict:
      return call.executor.error(&client, kTooOften);
    case Stage::Outcome::kFailed:
      return call.executor.error(&client, error);
  }
}

}  // namespace bonsai::server
