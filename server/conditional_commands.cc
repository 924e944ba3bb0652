// SPDX-License-Identifier: Apache-2.0
// Commands that update keys by what they have: they read, and write on the condition that what they read is still
// there, until it is. A key that has expired is absent.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "server/commands.h"
#include "server/expiry.h"

namespace bonsai::server {
namespace {

// What a key has.
struct Seen {
  std::optional<std::string> raw;         // in the store
  std::optional<std::string_view> value;  // of raw; none: the key is absent, or has expired
  uint64_t deadline_ms = 0;
};

// What becomes of it.
struct Next {
  enum class Change : uint8_t { kNone, kPut, kDelete } change = Change::kNone;
  std::string value = {};
  uint64_t deadline_ms = 0;
};
using Change = Next::Change;

Status read(Executor* executor, std::string_view key, Seen* seen) {
  *seen = Seen();
  std::string bytes;
  const Status status = executor->get_now(key, &bytes);
  if (status.IsNotFound()) return Status::OK();
  if (!status.ok()) return status;
  seen->raw = std::move(bytes);
  const Stored stored = parse_stored(*seen->raw);
  if (has_expired(stored)) return Status::OK();
  seen->value = stored.value;
  seen->deadline_ms = stored.deadline_ms;
  return Status::OK();
}

Condition still(const Seen& seen) { return seen.raw ? Condition::Equals(*seen.raw) : Condition::Absent(); }

// Makes of a key what `make(*seen) -> Next` says, at one moment, at which it was *seen. Whenever that has to begin anew
// another update has got through.
template <class Make>
Status replace(Executor* executor, std::string_view key, Seen* seen, const Make& make) {
  for (;;) {
    if (Status status = read(executor, key, seen); !status.ok()) return status;
    const Next next = make(*seen);
    if (next.change == Change::kNone) return Status::OK();
    const Status status =
        next.change == Change::kDelete
            ? executor->remove_if_now(still(*seen), key)
            : executor->put_if_now(still(*seen), key, executor->to_store(next.value, next.deadline_ms));
    if (!status.IsConditionFailed()) return status;
  }
}

// replace(), then `write(reply, seen)`.
template <class Make, class Write>
void replace_and_reply(const Call& call, const Make& make, const Write& write) {
  call.executor.settle(&call.client);
  Seen seen;
  const Status status = replace(&call.executor, call.args[1], &seen, make);
  if (!status.ok()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { write(out, seen); });
}

template <class Make>
void reply_with_old(const Call& call, const Make& make) {
  replace_and_reply(call, make, [](Reply& out, const Seen& seen) { seen.value ? out.bulk(*seen.value) : out.null(); });
}

// Changes the bytes of the value, empty without one, by `make(&value) -> Change`; the reply is the new length.
template <class Make>
void reply_with_length(const Call& call, const Make& make) {
  size_t length = 0;
  const auto next = [&](const Seen& seen) {
    Next made{.value = std::string(seen.value.value_or("")), .deadline_ms = seen.deadline_ms};
    made.change = make(&made.value);
    length = made.value.size();
    return made;
  };
  replace_and_reply(call, next, [&](Reply& out, const Seen&) { out.integer(static_cast<int64_t>(length)); });
}

// Removes a key that has expired but is still in the store. *removed: whether there was one.
Status remove_expired(Executor* executor, std::string_view key, bool* removed) {
  Seen seen;
  *removed = false;
  if (Status status = read(executor, key, &seen); !status.ok() || !seen.raw || seen.value) return status;
  *removed = true;
  const Status status = executor->remove_if_now(still(seen), key);
  return status.IsConditionFailed() ? Status::OK() : status;
}

// write_now(); a key that must be absent may have expired.
Status write_if_absent(Executor* executor, const WriteBatch& batch, size_t* failed) {
  for (;;) {
    Status status = executor->write_now(batch, failed);
    if (!status.IsConditionFailed()) return status;
    const WriteBatch::Requirement& requirement = batch.requirements()[*failed];
    if (requirement.kind != Condition::Kind::kAbsent) return status;
    bool removed = false;
    if (Status found = remove_expired(executor, requirement.key, &removed); !found.ok()) return found;
    if (!removed) return status;
  }
}

struct SetOptions {
  bool if_absent = false, if_present = false, get = false, keep_deadline = false;
  uint64_t deadline_ms = 0;
};

// False: an error was replied.
bool parse(const Call& call, SetOptions* options) {
  std::string error;
  for (size_t i = 3; i < call.args.size() && error.empty(); ++i) {
    const std::string_view word = call.args[i];
    if (same_word(word, "NX")) {
      options->if_absent = true;
    } else if (same_word(word, "XX")) {
      options->if_present = true;
    } else if (same_word(word, "GET")) {
      options->get = true;
    } else if (same_word(word, "KEEPTTL")) {
      options->keep_deadline = true;
    } else if (!is_life(word) || i + 1 == call.args.size() || options->deadline_ms != 0) {
      error = kSyntaxError;
    } else {
      error = parse_life(word, call.args[++i], "set", &options->deadline_ms);
    }
  }
  const bool both =
      (options->if_absent && options->if_present) || (options->keep_deadline && options->deadline_ms != 0);
  if (error.empty() && both) error = kSyntaxError;
  if (!error.empty()) call.executor.error(&call.client, error);
  return error.empty();
}

void add(const Call& call, int64_t by) {
  int64_t sum = 0;
  std::string_view error;
  call.executor.settle(&call.client);
  Seen seen;
  const Status status = replace(&call.executor, call.args[1], &seen, [&](const Seen& old) {
    int64_t number = 0;
    error = {};
    if (old.value && !parse_integer(*old.value, &number)) return error = kNoInteger, Next();
    if (__builtin_add_overflow(number, by, &sum)) {
      return error = "ERR increment or decrement would overflow", Next();
    }
    return Next{.change = Change::kPut, .value = std::to_string(sum), .deadline_ms = old.deadline_ms};
  });
  if (!status.ok()) return call.executor.error(&call.client, status);
  if (!error.empty()) return call.executor.error(&call.client, error);
  call.executor.reply(&call.client, [&](Reply& out) { out.integer(sum); });
}

}  // namespace

void run_set_with_options(const Call& call) {
  SetOptions options;
  if (!parse(call, &options)) return;
  if (!options.get && !options.if_absent && !options.if_present && !options.keep_deadline) {
    return call.executor.put(&call.client, call.args[1], call.args[2], options.deadline_ms, Outcome::kOk);
  }
  bool done = false;
  const auto make = [&](const Seen& seen) {
    done = seen.value ? !options.if_absent : !options.if_present;
    if (!done) return Next();
    return Next{.change = Change::kPut,
                .value = std::string(call.args[2]),
                .deadline_ms = options.keep_deadline ? seen.deadline_ms : options.deadline_ms};
  };
  if (options.get) return reply_with_old(call, make);
  replace_and_reply(call, make, [&](Reply& out, const Seen&) { done ? out.ok() : out.null(); });
}

void run_setex(const Call& call) {
  uint64_t deadline_ms = 0;
  const bool seconds = same_word(call.args[0], "setex");
  const std::string error = parse_life(seconds ? "EX" : "PX", call.args[2], seconds ? "setex" : "psetex", &deadline_ms);
  if (!error.empty()) return call.executor.error(&call.client, error);
  call.executor.put(&call.client, call.args[1], call.args[3], deadline_ms, Outcome::kOk);
}

void run_setnx(const Call& call) {
  const auto make = [&](const Seen& seen) {
    return seen.value ? Next() : Next{.change = Change::kPut, .value = std::string(call.args[2])};
  };
  replace_and_reply(call, make, [](Reply& out, const Seen& seen) { out.integer(seen.value ? 0 : 1); });
}

void run_getset(const Call& call) {
  reply_with_old(call, [&](const Seen&) { return Next{.change = Change::kPut, .value = std::string(call.args[2])}; });
}

void run_getdel(const Call& call) {
  reply_with_old(call, [](const Seen& seen) { return Next{seen.value ? Change::kDelete : Change::kNone}; });
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
    batch.Put(call.args[i], call.executor.to_store(call.args[i + 1], 0));
  }
  call.executor.settle(&call.client);
  size_t failed = 0;
  const Status status = write_if_absent(&call.executor, batch, &failed);
  if (!status.ok() && !status.IsConditionFailed()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { out.integer(status.ok() ? 1 : 0); });
}

// RENAME, and RENAMENX, which has no effect if the new name has a value. The deadline goes with the value.
void run_rename(const Call& call) {
  const bool if_absent = same_word(call.args[0], "renamenx");
  const std::string_view from = call.args[1], to = call.args[2];
  call.executor.settle(&call.client);
  Status status;
  size_t failed = 0;
  do {
    Seen seen;
    if (status = read(&call.executor, from, &seen); !status.ok()) break;
    if (!seen.value) return call.executor.error(&call.client, "ERR no such key");
    WriteBatch batch;
    batch.Require(from, still(seen));
    if (if_absent) batch.Require(to, Condition::Absent());
    batch.Delete(from);
    batch.Put(to, *seen.raw);  // the last one counts, if both are one key
    status = write_if_absent(&call.executor, batch, &failed);
  } while (status.IsConditionFailed() && failed == 0);
  if (!status.ok() && !status.IsConditionFailed()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { if_absent ? out.integer(status.ok() ? 1 : 0) : out.ok(); });
}

// ---- times to live

// EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
void run_expire(const Call& call) {
  const std::string_view name = find_command(call.args[0])->name;
  const std::string_view word = name == "expire"     ? "EX"
                                : name == "pexpire"  ? "PX"
                                : name == "expireat" ? "EXAT"
                                                     : "PXAT";
  uint64_t deadline_ms = 0;
  if (const std::string error = parse_life(word, call.args[2], name, &deadline_ms); !error.empty()) {
    return call.executor.error(&call.client, error);
  }
  const std::string_view option = call.args.size() > 3 ? call.args[3] : std::string_view();
  const bool known = option.empty() || same_word(option, "NX") || same_word(option, "XX") || same_word(option, "GT") ||
                     same_word(option, "LT");
  if (!known || call.args.size() > 4) {
    return call.executor.error(&call.client, "ERR Unsupported option, or more than one of NX, XX, GT, LT");
  }
  bool done = false;
  const auto holds = [&](uint64_t old_ms) {  // 0: there is none, which is later than all
    if (same_word(option, "NX")) return old_ms == 0;
    if (same_word(option, "XX")) return old_ms != 0;
    if (same_word(option, "GT")) return old_ms != 0 && deadline_ms > old_ms;
    return !same_word(option, "LT") || old_ms == 0 || deadline_ms < old_ms;
  };
  const auto make = [&](const Seen& seen) {
    done = seen.value && holds(seen.deadline_ms);
    if (!done) return Next();
    if (deadline_ms <= wall_ms()) return Next{Change::kDelete};
    return Next{.change = Change::kPut, .value = std::string(*seen.value), .deadline_ms = deadline_ms};
  };
  replace_and_reply(call, make, [&](Reply& out, const Seen&) { out.integer(done ? 1 : 0); });
}

void run_persist(const Call& call) {
  const auto make = [](const Seen& seen) {
    if (seen.deadline_ms == 0) return Next();
    return Next{.change = Change::kPut, .value = std::string(*seen.value)};
  };
  replace_and_reply(call, make, [](Reply& out, const Seen& seen) { out.integer(seen.deadline_ms != 0 ? 1 : 0); });
}

void run_getex(const Call& call) {
  const size_t options = call.args.size() - 2;
  uint64_t deadline_ms = 0;
  std::string error;
  if (options == 2 && is_life(call.args[2])) {
    error = parse_life(call.args[2], call.args[3], "getex", &deadline_ms);
  } else if (options != 0 && (options != 1 || !same_word(call.args[2], "PERSIST"))) {
    error = kSyntaxError;
  }
  if (!error.empty()) return call.executor.error(&call.client, error);
  reply_with_old(call, [&](const Seen& seen) {
    if (!seen.value || options == 0 || (deadline_ms == 0 && seen.deadline_ms == 0)) return Next();
    return Next{.change = Change::kPut, .value = std::string(*seen.value), .deadline_ms = deadline_ms};
  });
}

}  // namespace bonsai::server
