// SPDX-License-Identifier: Apache-2.0
#include "server/executor.h"

#include <algorithm>
#include <utility>

#include "base/with_memory.h"
#include "server/commands.h"
#include "server/stage.h"

namespace bonsai::server {
namespace {

constexpr size_t kValueBytesKept = size_t{64} << 10;  // buffers of larger values are given back
// Of a client that has not given the password, as Redis has them.
constexpr size_t kStrangersArguments = 10, kStrangersArgumentBytes = size_t{16} << 10;
constexpr std::string_view kNoAuthentication = "NOAUTH Authentication required.";
constexpr std::string_view kHttp = "Protocol error: this is a request of HTTP, perhaps of a web page";

// The part of `value` from `from` to `to`, both inclusive; negative ones count from the end.
std::string_view part_of(std::string_view value, int64_t from, int64_t to) {
  const auto size = static_cast<int64_t>(value.size());
  if (from < 0) from = std::max<int64_t>(from + size, 0);
  if (to < 0) to = std::max<int64_t>(to + size, 0);
  to = std::min(to, size - 1);
  if (from > to || size == 0) return {};
  return value.substr(static_cast<size_t>(from), static_cast<size_t>(to - from + 1));
}

// As Outcome::kLife says.
int64_t life_of(const Stored* stored, int64_t unit_ms, bool from_now) {
  if (stored == nullptr) return -2;
  if (stored->deadline_ms == 0) return -1;
  const auto deadline_ms = static_cast<int64_t>(stored->deadline_ms);
  if (!from_now) return deadline_ms / unit_ms;
  const int64_t left_ms = std::max<int64_t>(deadline_ms - static_cast<int64_t>(wall_ms()), 0);
  return (left_ms + unit_ms / 2) / unit_ms;
}

}  // namespace

std::unique_ptr<Executor> Executor::make(State* state) {
  auto made = base::made_or_null([&] { return std::unique_ptr<Executor>(new Executor(state)); });
  if (made != nullptr && made->session_ == nullptr) made.reset();
  return made;
}

Executor::Executor(State* state)
    : state_(*state),
      session_(state->db->NewSession(kDepth)),
      timer_(&state->slow_log),
      values_(kDepth),
      statuses_(kDepth) {}

RequestLimits Executor::limits_of(const Client& client) const {
  RequestLimits limits;
  limits.request_bytes_max = state_.config.request_bytes_max;
  limits.argument_bytes_max = std::min<uint64_t>(kValueBytesMax, limits.request_bytes_max);
  if (state_.password.has_value() && !client.authenticated) {
    limits.arguments_max = kStrangersArguments;
    limits.argument_bytes_max = kStrangersArgumentBytes;
  }
  return limits;
}

bool Executor::run(Client* client) {
  running_ = client;
  const bool has_more = begin(client);
  running_ = nullptr;
  return has_more;
}

bool Executor::begin(Client* client) {
  while (!client->ending && client->unsent() < kUnsentMax) {
    const std::string_view bytes = client->in.view();
    switch (client->parser.parse(bytes, limits_of(*client))) {
      case RequestParser::Result::kMore:
        return false;
      case RequestParser::Result::kBroken:
        end_broken(client, client->parser.error());
        return false;
      case RequestParser::Result::kRequest:
        client->parser.arguments(bytes, &arguments_);
        request_bytes_ = client->parser.size();
        client->in.consume(request_bytes_);
        client->parser.next();
        if (!arguments_.empty()) execute(client);
    }
  }
  return !client->ending;
}

void Executor::execute(Client* client) {
  ++requests_;
  state_.counters.commands.fetch_add(1, std::memory_order_relaxed);
  const Command* const command = find_command(arguments_[0]);
  if (command == nullptr && is_of_http(arguments_[0])) return end_broken(client, kHttp);
  const bool stranger = state_.password.has_value() && !client->authenticated;
  if (stranger && (command == nullptr || (command->flags & kOpenToStrangers) == 0)) {
    return error(client, kNoAuthentication);
  }
  if (command == nullptr) return refuse(client, unknown_command(arguments_));
  if (!takes(*command, arguments_.size())) return refuse(client, wrong_number_of_arguments(command->name));
  client->last_command = command->name;
  if (client->transaction.is_open() && (command->flags & kAtOnce) == 0) return queue(client, *command);
  command->run({*this, state_, *client, arguments_});
  timer_.end_command(*client, arguments_, (command->flags & kOpenToStrangers) != 0);
}

// A command that cannot be carried out, nor queued.
void Executor::refuse(Client* client, std::string_view text) {
  if (client->transaction.is_open()) client->transaction.break_off();
  error(client, text);
}

void Executor::queue(Client* client, const Command& command) {
  if ((command.flags & kNotQueued) != 0) return refuse(client, kNotInTransaction);
  if (!client->transaction.queue(command, arguments_, state_.config.transaction_bytes_max)) {
    return refuse(client, kTransactionTooLarge);
  }
  reply(client, [](Reply& out) { out.simple("QUEUED"); });
}

// It broke the protocol.
void Executor::end_broken(Client* client, std::string_view why) {
  error(client, "ERR " + std::string(why));
  state_.counters.closed_broken.fetch_add(1, std::memory_order_relaxed);
  client->ending = true;
}

void Executor::error(Client* client, std::string_view text) {
  state_.counters.errors.fetch_add(1, std::memory_order_relaxed);
  reply(client, [&](Reply& out) { out.error(text); });
}

void Executor::error(Client* client, const Status& status) {
  state_.note(status);
  error(client, error_text(status));
}

void Executor::write_error(Reply* out, const Status& status) {
  state_.note(status);
  state_.counters.errors.fetch_add(1, std::memory_order_relaxed);
  out->error(error_text(status));
}

// The session's operations precede the batch, so what the client has in the batch must be done.
uint32_t Executor::next_operation(const Client& client) {
  if (operations_ == kDepth || client.joined != 0) finish();
  join_group(client);
  return operations_++;
}

// What a transaction does has its time.
void Executor::join_group(const Client& client) {
  if (stage_ == nullptr) timer_.join_group(client, arguments_, request_bytes_);
}

void Executor::wait_for(Client* client, Waiting waiting) {
  waiting_.push_back(std::move(waiting));
  ++client->pending;
}

void Executor::get(Client* client, std::string_view key, Outcome outcome, int64_t from, int64_t to) {
  const uint32_t operation = next_operation(*client);
  wait_for(client, {.client = client, .outcome = outcome, .operation = operation, .from = from, .to = to});
  if (stage_ != nullptr) {
    statuses_[operation] = stage_->get(key, &values_[operation]);
  } else {
    session_->Get(key, &values_[operation], &statuses_[operation]);
  }
}

std::string Executor::to_store(std::string_view value, uint64_t deadline_ms) {
  if (deadline_ms != 0) ++deadlines_;
  return needs_trailer(value, deadline_ms) ? with_trailer(value, deadline_ms) : std::string(value);
}

void Executor::put(Client* client, std::string_view key, std::string_view value, uint64_t deadline_ms,
                   Outcome outcome) {
  const uint32_t operation = next_operation(*client);
  if (needs_trailer(value, deadline_ms)) {
    values_[operation] = to_store(value, deadline_ms);  // stays in place until it has ended
    value = values_[operation];
  }
  wait_for(client, {.client = client, .outcome = outcome, .operation = operation});
  if (stage_ != nullptr) {
    statuses_[operation] = stage_->put(key, value);
  } else {
    session_->Put(key, value, &statuses_[operation]);
  }
}

void Executor::remove(Client* client, std::string_view key, Outcome outcome) {
  const uint32_t operation = next_operation(*client);
  wait_for(client, {.client = client, .outcome = outcome, .operation = operation});
  if (stage_ != nullptr) {
    statuses_[operation] = stage_->remove(key);
  } else {
    session_->Delete(key, &statuses_[operation]);
  }
}

void Executor::put_joined(Client* client, std::span<const std::string_view> pairs) {
  uint64_t bytes = 0;
  for (const std::string_view word : pairs) bytes += word.size();
  const size_t joined = joined_.Count();
  if (joined != 0 && (joined + pairs.size() / 2 > kJoinedMax || joined_bytes_ + bytes > kJoinedBytesMax)) finish();
  join_group(*client);
  const size_t from = joined_.Count();
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) joined_.Put(pairs[i], to_store(pairs[i + 1], 0));
  joined_bytes_ += bytes;
  wait_for(client, {.client = client,
                    .outcome = Outcome::kJoined,
                    .from = static_cast<int64_t>(from),
                    .to = static_cast<int64_t>(joined_.Count())});
  ++client->joined;
}

Status Executor::write_part(const Waiting& part) {
  WriteBatch batch;
  for (auto i = static_cast<size_t>(part.from); i < static_cast<size_t>(part.to); ++i) {
    batch.Put(joined_.updates()[i].key, joined_.updates()[i].value);
  }
  return write_now(batch, nullptr);
}

// What is wrong with one part of the batch, or that it is too large for the log, does not concern the others: they are
// written by themselves. After any other error this would be in vain, or might have them take effect twice.
void Executor::write_joined() {
  if (joined_.Count() == 0) return;
  const Status status = write_now(joined_, nullptr);
  for (Waiting& waiting : waiting_) {
    if (waiting.outcome != Outcome::kJoined) continue;
    const Status own = status.IsInvalidArgument() ? write_part(waiting) : status;
    Reply error(&waiting.text, waiting.client->protocol);
    if (!own.ok()) write_error(&error, own);
    --waiting.client->joined;
    state_.counters.operations.fetch_add(1, std::memory_order_relaxed);
  }
  joined_.Clear();
  joined_bytes_ = 0;
}

Status Executor::get_now(std::string_view key, std::string* value) {
  return stage_ != nullptr ? stage_->get(key, value) : state_.db->Get(key, value);
}

Status Executor::put_if_now(const Condition& condition, std::string_view key, std::string_view value) {
  return stage_ != nullptr ? stage_->put_if(condition, key, value) : state_.db->PutIf(condition, key, value);
}

Status Executor::remove_if_now(const Condition& condition, std::string_view key) {
  return stage_ != nullptr ? stage_->remove_if(condition, key) : state_.db->DeleteIf(condition, key);
}

Status Executor::write_now(const WriteBatch& batch, size_t* failed) {
  return stage_ != nullptr ? stage_->write(batch, failed) : state_.db->Write(batch, failed);
}

void Executor::finish() {
  session_->Wait();
  const bool has_some = operations_ != 0 || joined_.Count() != 0;
  write_joined();
  if (stage_ == nullptr) {
    state_.deadlines.fetch_add(std::exchange(deadlines_, 0));
    state_.counters.groups.fetch_add(has_some ? 1 : 0, std::memory_order_relaxed);
    state_.counters.operations.fetch_add(operations_, std::memory_order_relaxed);
  }
  for (const Waiting& waiting : waiting_) {
    write(waiting);
    --waiting.client->pending;
  }
  waiting_.clear();
  timer_.end_group();
  for (uint32_t i = 0; i < operations_; ++i) {
    if (values_[i].capacity() > kValueBytesKept) std::string().swap(values_[i]);
  }
  operations_ = 0;
}

void Executor::abandon() {
  session_->Wait();
  for (const Waiting& waiting : waiting_) {
    waiting.client->pending = waiting.client->joined = 0;
    waiting.client->lost = true;
  }
  joined_.Clear();
  joined_bytes_ = 0;
  if (running_ != nullptr) running_->lost = true;
  running_ = nullptr;
  stage_ = nullptr;
  timer_.abandon();
  waiting_.clear();
  operations_ = 0;
}

void Executor::write(const Waiting& waiting) {
  Client& client = *waiting.client;
  Reply out(&client.out, client.protocol);
  if (waiting.outcome == Outcome::kText || !waiting.text.empty()) {
    client.out += waiting.text;
    return;
  }
  if (waiting.outcome == Outcome::kJoined) return out.ok();
  if (waiting.outcome == Outcome::kArray) {
    client.array_from = client.out.size();
    return out.array(static_cast<size_t>(waiting.from));
  }
  if (waiting.outcome == Outcome::kSum) {
    const int64_t sum = std::exchange(client.sum, 0);
    const Status failed = std::exchange(client.failed, Status());
    return failed.ok() ? out.integer(sum) : write_error(&out, failed);
  }
  const Status& status = statuses_[waiting.operation];
  const bool failed = !status.ok() && !status.IsNotFound();
  if (waiting.outcome == Outcome::kDone) {
    if (failed && client.failed.ok()) client.failed = status;
    return;
  }
  if (waiting.outcome == Outcome::kOk) return failed ? write_error(&out, status) : out.ok();
  const Stored stored = parse_stored(status.ok() ? values_[waiting.operation] : std::string_view());
  const bool found = status.ok() && !has_expired(stored);
  if (waiting.outcome == Outcome::kFound) {
    if (found) ++client.sum;
    if (failed && client.failed.ok()) client.failed = status;
    return;
  }
  if (failed) return write_error(&out, status);
  write_value(waiting, found ? &stored : nullptr);
}

// The reply of a read; null: there is no value.
void Executor::write_value(const Waiting& waiting, const Stored* stored) {
  Client& client = *waiting.client;
  Reply out(&client.out, client.protocol);
  auto& counter = stored != nullptr ? state_.counters.hits : state_.counters.misses;
  counter.fetch_add(1, std::memory_order_relaxed);
  const std::string_view value = stored != nullptr ? stored->value : std::string_view();
  switch (waiting.outcome) {
    case Outcome::kElement:
      if (client.out.size() - client.array_from + value.size() > state_.config.reply_bytes_max) {
        return out.error(kReplyTooLarge);
      }
      [[fallthrough]];
    case Outcome::kValue:
      return stored != nullptr ? out.bulk(value) : out.null();
    case Outcome::kLength:
      return out.integer(static_cast<int64_t>(value.size()));
    case Outcome::kPart:
      return out.bulk(part_of(value, waiting.from, waiting.to));
    case Outcome::kLife:
      return out.integer(life_of(stored, waiting.from, waiting.to != 0));
    default:
      return out.simple(stored != nullptr ? "string" : "none");
  }
}

}  // namespace bonsai::server
