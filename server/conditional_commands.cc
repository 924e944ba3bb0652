// SPDX-License-Identifier: Apache-2.0
// Commands that update keys by what they have. Those that only say when to write become operations of the session;
// those that make a value of the one before read it and write on the condition that it is still there, until it is.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "server/commands.h"

namespace bonsai::server {
namespace {

using Value = std::optional<std::string>;  // none: the key is absent

// What becomes of a key.
enum class Change : uint8_t { kNone, kPut, kDelete };

Status read(Executor* executor, std::string_view key, Value* value) {
  std::string bytes;
  const Status status = executor->get_now(key, &bytes);
  *value = status.ok() ? Value(std::move(bytes)) : std::nullopt;
  return status.IsNotFound() ? Status::OK() : status;
}

Condition still(const Value& value) { return value ? Condition::Equals(*value) : Condition::Absent(); }

// Makes of a key's value what `make(seen, &value) -> Change` says, at one moment, at which it was *seen. Whenever that
// has to begin anew another update has got through.
template <class Make>
Status replace(Executor* executor, std::string_view key, Value* seen, const Make& make) {
  for (;;) {
    if (Status status = read(executor, key, seen); !status.ok()) return status;
    std::string value;
    const Change change = make(*seen, &value);
    if (change == Change::kNone) return Status::OK();
    const Status status = change == Change::kPut ? executor->put_if_now(still(*seen), key, value)
                                                 : executor->remove_if_now(still(*seen), key);
    if (!status.IsConditionFailed()) return status;
  }
}

// replace(), with the value that there was as the reply.
template <class Make>
void reply_with_old(const Call& call, const Make& make) {
  call.executor.settle(&call.client);
  Value seen;
  const Status status = replace(&call.executor, call.args[1], &seen, make);
  if (!status.ok()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { seen ? out.bulk(*seen) : out.null(); });
}

// replace() by what `make(&value)` makes of the value before, empty without one; the reply is the new length.
template <class Make>
void reply_with_length(const Call& call, const Make& make) {
  call.executor.settle(&call.client);
  Value seen;
  size_t length = 0;
  const Status status = replace(&call.executor, call.args[1], &seen, [&](const Value& old, std::string* value) {
    *value = old.value_or("");
    const Change change = make(value);
    length = value->size();
    return change;
  });
  if (!status.ok()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { out.integer(static_cast<int64_t>(length)); });
}

struct SetOptions {
  bool if_absent = false, if_present = false, get = false;
};

// False: an error was replied.
bool parse(const Call& call, SetOptions* options) {
  for (const std::string_view word : call.args.subspan(3)) {
    if (same_word(word, "NX")) {
      options->if_absent = true;
    } else if (same_word(word, "XX")) {
      options->if_present = true;
    } else if (same_word(word, "GET")) {
      options->get = true;
    } else if (!same_word(word, "KEEPTTL")) {  // keys do not expire
      const bool known =
          same_word(word, "EX") || same_word(word, "PX") || same_word(word, "EXAT") || same_word(word, "PXAT");
      call.executor.error(&call.client, known ? "ERR SET with " + std::string(word) + " is not supported by this server"
                                              : std::string(kSyntaxError));
      return false;
    }
  }
  const bool clear = !options->if_absent || !options->if_present;
  if (!clear) call.executor.error(&call.client, kSyntaxError);
  return clear;
}

void add(const Call& call, int64_t by) { call.executor.increment(&call.client, call.args[1], by); }

}  // namespace

void run_set_with_options(const Call& call) {
  SetOptions options;
  if (!parse(call, &options)) return;
  if (!options.get) {
    if (!options.if_absent && !options.if_present) {
      return call.executor.put(&call.client, call.args[1], call.args[2], Outcome::kOk);
    }
    const Condition condition = options.if_absent ? Condition::Absent() : Condition::Present();
    return call.executor.put_if(&call.client, condition, call.args[1], call.args[2], Outcome::kOk);
  }
  reply_with_old(call, [&](const Value& seen, std::string* value) {
    if (seen ? options.if_absent : options.if_present) return Change::kNone;
    *value = call.args[2];
    return Change::kPut;
  });
}

void run_setnx(const Call& call) {
  call.executor.put_if(&call.client, Condition::Absent(), call.args[1], call.args[2], Outcome::kMade);
}

void run_getset(const Call& call) {
  reply_with_old(call, [&](const Value&, std::string* value) {
    *value = call.args[2];
    return Change::kPut;
  });
}

void run_getdel(const Call& call) {
  reply_with_old(call, [](const Value& seen, std::string*) { return seen ? Change::kDelete : Change::kNone; });
}

void run_append(const Call& call) {
  reply_with_length(call, [&](std::string* value) {
    value->append(call.args[2]);
    return Change::kPut;
  });
}

void run_setrange(const Call& call) {
  int64_t at = 0;
  if (!parse_integer(call.args[2], &at)) return call.executor.error(&call.client, kNoInteger);
  if (at < 0) return call.executor.error(&call.client, "ERR offset is out of range");
  const std::string_view part = call.args[3];
  if (static_cast<uint64_t>(at) > kValueBytesMax - std::min<uint64_t>(part.size(), kValueBytesMax)) {
    return call.executor.error(&call.client, "ERR string exceeds maximum allowed size, 16 MiB");
  }
  reply_with_length(call, [&](std::string* value) {
    if (part.empty()) return Change::kNone;
    const auto from = static_cast<size_t>(at);
    value->resize(std::max(value->size(), from + part.size()), '\0');
    value->replace(from, part.size(), part);
    return Change::kPut;
  });
}

void run_incr(const Call& call) { add(call, 1); }
void run_decr(const Call& call) { add(call, -1); }

void run_incrby(const Call& call) {
  int64_t by = 0;
  if (!parse_integer(call.args[2], &by)) return call.executor.error(&call.client, kNoInteger);
  add(call, by);
}

void run_decrby(const Call& call) {
  int64_t by = 0;
  if (!parse_integer(call.args[2], &by)) return call.executor.error(&call.client, kNoInteger);
  if (by == std::numeric_limits<int64_t>::min())
    return call.executor.error(&call.client, "ERR decrement would overflow");
  add(call, -by);
}

void run_msetnx(const Call& call) {
  if (call.args.size() % 2 == 0) return call.executor.error(&call.client, wrong_number_of_arguments("msetnx"));
  WriteBatch batch;
  for (size_t i = 1; i < call.args.size(); i += 2) {
    batch.Require(call.args[i], Condition::Absent());
    batch.Put(call.args[i], call.args[i + 1]);
  }
  call.executor.settle(&call.client);
  const Status status = call.executor.write_now(batch, nullptr);
  if (!status.ok() && !status.IsConditionFailed()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { out.integer(status.ok() ? 1 : 0); });
}

// RENAME, and RENAMENX, which has no effect if the new name has a value.
void run_rename(const Call& call) {
  const bool if_absent = same_word(call.args[0], "renamenx");
  const std::string_view from = call.args[1], to = call.args[2];
  call.executor.settle(&call.client);
  Status status;
  size_t failed = 0;
  do {
    Value value;
    if (status = read(&call.executor, from, &value); !status.ok()) break;
    if (!value) return call.executor.error(&call.client, "ERR no such key");
    WriteBatch batch;
    batch.Require(from, still(value));
    if (if_absent) batch.Require(to, Condition::Absent());
    batch.Delete(from);
    batch.Put(to, *value);  // the last one counts, if both are one key
    status = call.executor.write_now(batch, &failed);
  } while (status.IsConditionFailed() && failed == 0);
  if (!status.ok() && !status.IsConditionFailed()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { if_absent ? out.integer(status.ok() ? 1 : 0) : out.ok(); });
}

}  // namespace bonsai::server
