// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/clover.h"

#include <cstring>
#include <utility>

#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#include "base/step.h"
#include "base/thread.h"
#include "bench/studies/rivals/hash.h"

namespace bonsai::bench::rivals::clover {

namespace {

// The scratch memory: words, the slab that is written, the slab that is read.
constexpr size_t kWordsBytes = 64;
constexpr size_t kHeaderAt = 0, kShortcutAt = 8, kOldAt = 16, kPushedAt = 24;  // the words
constexpr size_t kWriteAt = kWordsBytes;

constexpr uint64_t kPauseUs = 20;

}  // namespace

Status CloverClient::make(Connection* connection, ComputeNode* node, const ClientOptions& options,
                          std::unique_ptr<CloverClient>* client) {
  const StoreOptions& store = node->options().store;
  BONSAI_RETURN_IF_ERROR(Store::check(store));
  if (connection->memory_nodes() != store.memory_nodes + store.metadata_workers) {
    return Status::InvalidArgument("a Clover-like client needs a connection to " + std::to_string(store.memory_nodes) +
                                   " memory nodes and then the metadata server's " +
                                   std::to_string(store.metadata_workers) + " workers");
  }
  std::unique_ptr<CloverClient> made(new CloverClient(connection, node, options));
  BONSAI_RETURN_IF_ERROR(MetadataCaller::make(connection, store.memory_nodes, &node->epochs(), &made->caller_));
  BONSAI_RETURN_IF_ERROR(FlushCaller::make(connection, &made->flusher_));
  BONSAI_RETURN_IF_ERROR(made->make_scratch(kWriteAt + 2 * store.slab_bytes));
  *client = std::move(made);
  return Status::OK();
}

Status CloverClient::ask(uint64_t hash, Cursor* cursor) {
  Answer answer;
  BONSAI_RETURN_IF_ERROR(caller_->call(Call{.ask = Ask::kFind, .hash = hash}, &answer));
  ++counters_.asked;
  if (answer.outcome != Outcome::kDone) return Status::NotFound();
  *cursor = {Link(answer.link), answer.shortcut, answer.epoch};
  return Status::OK();
}

Status CloverClient::find(uint64_t hash, Cursor* cursor) {
  return node_->cursors().find(hash, cursor) ? Status::OK() : ask(hash, cursor);
}

// Places in the chain say which of two links is newer, so a shortcut that is newer than the cursor was in the chain
// when the cursor was learned, or came later.
Link CloverClient::onward(const Cursor& cursor, Header header, bool shortcut_read, bool header_durable) {
  ++counters_.hops;
  const Link shortcut(shortcut_read ? scratch_->word_value(kShortcutAt) : 0);
  if (!shortcut.null() && shortcut.newer_than(header.next())) {
    ++counters_.jumps;
    return shortcut;
  }
  if (!header_durable) passed_.push_back({store_.slab_at(cursor.link.handle()), header.word()});
  return header.next();
}

Status CloverClient::get(std::string_view key, std::string* value) {
  const Limit limit = limit_of("clover.get");
  const uint64_t hash = hash_of(key, 1);
  const size_t slab_bytes = store_.options().slab_bytes;
  const rdma::Slice slab = scratch(kWriteAt + slab_bytes, slab_bytes);
  Cursor cursor;
  BONSAI_RETURN_IF_ERROR(find(hash, &cursor));
  passed_.clear();
  for (bool first = true;;) {
    if (limit.expired()) return limit.status();
    base::step("clover.read");
    const uint64_t epoch = node_->epochs().epoch();
    batch_.read(store_.slab_at(cursor.link.handle()), slab);
    if (first) batch_.read(store_.shortcut_at(cursor.shortcut), scratch_->word(kShortcutAt));
    BONSAI_RETURN_IF_ERROR(batch_.run());
    const Header header(base::word_at(slab.data()).load());
    if (header.version() != cursor.link.version() || !node_->cursors().usable(cursor)) {
      ++counters_.outdated;
      node_->cursors().drop(hash);
      BONSAI_RETURN_IF_ERROR(ask(hash, &cursor));
      passed_.clear();
      first = true;
      continue;
    }
    std::string_view found_key, found_value;
    if (!decode_slab(slab.data(), slab_bytes, cursor.link.version(), &found_key, &found_value)) {
      ++counters_.torn;
      continue;
    }
    if (found_key != key) return Status::NotFound();
    if (!header.next().null()) {
      cursor.link = onward(cursor, header, first, options_.persist == Persist::kNone);
      first = false;
      continue;
    }
    cursor.epoch = epoch;
    // An update that begins at a cursor takes the chain before it for durable.
    if (passed_.empty()) node_->cursors().put(hash, cursor);
    value->assign(found_value);
    return Status::OK();
  }
}

Status CloverClient::check_size(std::string_view key, std::string_view value) const {
  if (kRecordAt + key.size() + value.size() <= store_.options().slab_bytes) return Status::OK();
  return Status::InvalidArgument("a record of " + std::to_string(key.size() + value.size()) +
                                 " bytes; with slab_bytes = " + std::to_string(store_.options().slab_bytes) +
                                 " the Clover-like engine stores up to " +
                                 std::to_string(store_.options().slab_bytes - kRecordAt));
}

Status CloverClient::take_buffer(Buffer* buffer) {
  for (const Limit limit("clover.buffers", options_.buffers_ms_max); buffers_.empty(); base::sleep_us(kPauseUs)) {
    Answer answer;
    BONSAI_RETURN_IF_ERROR(caller_->call(Call{.ask = Ask::kBuffers}, &answer));
    for (size_t i = answer.buffer_count; i > 0; --i) buffers_.push_back(answer.buffers[i - 1]);
    if (!buffers_.empty()) break;
    if (limit.expired()) {
      return Status::NoSpace("no slab became free; give the memory nodes more memory, or see that collectors run");
    }
  }
  *buffer = buffers_.back();
  buffers_.pop_back();
  return Status::OK();
}

void CloverClient::add_flush(Address first, uint64_t bytes) {
  if (options_.persist == Persist::kFlushingRead) {
    batch_.read(first, scratch(kPushedAt, 1));
  } else if (options_.persist == Persist::kAgent) {
    batch_.fence();  // a SEND may pass a CAS
    flusher_->add(&batch_, first, bytes);
  }
}

Status CloverClient::run_flushed() {
  BONSAI_RETURN_IF_ERROR(batch_.run());
  return options_.persist == Persist::kAgent ? flusher_->await(options_.operation_ms_max) : Status::OK();
}

Status CloverClient::write_slab(const Buffer& buffer, std::string_view key, std::string_view value) {
  const rdma::Slice slab = scratch(kWriteAt, store_.options().slab_bytes);
  encode_slab(slab.data(), slab.bytes(), static_cast<uint8_t>(buffer.version), key, value);
  batch_.write(slab, store_.slab_at(buffer.handle));
  add_flush(store_.slab_at(buffer.handle), slab.bytes());
  return run_flushed();
}

Status CloverClient::write_version(std::string_view key, std::string_view value, const Limit& limit, Buffer* buffer) {
  for (; !node_->may_update(); base::sleep_us(kPauseUs)) {
    if (limit.expired()) return limit.status();
  }
  BONSAI_RETURN_IF_ERROR(take_buffer(buffer));
  return write_slab(*buffer, key, value);
}

Status CloverClient::insert(std::string_view key, std::string_view value) {
  const Limit limit = limit_of("clover.insert");
  BONSAI_RETURN_IF_ERROR(check_size(key, value));
  const uint64_t hash = hash_of(key, 1);
  Buffer buffer;
  BONSAI_RETURN_IF_ERROR(write_version(key, value, limit, &buffer));
  const Link own(buffer, 0);
  Answer answer;
  BONSAI_RETURN_IF_ERROR(caller_->call(Call{.ask = Ask::kInsert, .hash = hash, .link = own.word()}, &answer));
  if (answer.outcome == Outcome::kExists) {
    return link(hash, {Link(answer.link), answer.shortcut, answer.epoch}, buffer, limit);
  }
  if (answer.outcome == Outcome::kDone) {
    node_->cursors().put(hash, {own, answer.shortcut, answer.epoch});
    return Status::OK();
  }
  if (answer.outcome == Outcome::kUnavailable) {
    return Status::Unavailable("the metadata server cannot reach the memory nodes");
  }
  buffers_.push_back(buffer);
  return Status::NoSpace("the store has keys_max keys");
}

Status CloverClient::update(std::string_view key, std::string_view value) {
  const Limit limit = limit_of("clover.update");
  BONSAI_RETURN_IF_ERROR(check_size(key, value));
  const uint64_t hash = hash_of(key, 1);
  Cursor cursor;
  BONSAI_RETURN_IF_ERROR(find(hash, &cursor));
  Buffer buffer;
  BONSAI_RETURN_IF_ERROR(write_version(key, value, limit, &buffer));
  return link(hash, cursor, buffer, limit);
}

// Links the new version to the newest one, which is the cursor's or comes after it.
Status CloverClient::link(uint64_t hash, Cursor cursor, const Buffer& buffer, const Limit& limit) {
  passed_.clear();
  for (int losses = 0;;) {
    if (limit.expired()) {
      buffers_.push_back(buffer);
      return limit.status();
    }
    if (!node_->cursors().usable(cursor)) BONSAI_RETURN_IF_ERROR(ask(hash, &cursor));
    const Link own(buffer, static_cast<uint16_t>(cursor.link.place() + 1));
    const uint64_t epoch = node_->epochs().epoch();
    bool linked = false;
    BONSAI_RETURN_IF_ERROR(swap(cursor.link, own, &linked));
    if (linked) {
      BONSAI_RETURN_IF_ERROR(flush_passed());
      node_->cursors().put(hash, {own, cursor.shortcut, epoch});
      node_->add_report({hash, cursor.link.word(), own.word(), cursor.shortcut});
      return Status::OK();
    }
    ++losses;
    BONSAI_RETURN_IF_ERROR(follow(hash, losses > 1, limit, &cursor));
  }
}

Status CloverClient::swap(Link tail, Link own, bool* linked) {
  base::step("clover.swap");
  const Address header = store_.slab_at(tail.handle());
  const uint64_t expected = Header(tail.version(), Link()).word();
  batch_.cas(header, expected, Header(tail.version(), own).word(), scratch_->word(kOldAt));
  add_flush(header, sizeof(Header));
  BONSAI_RETURN_IF_ERROR(run_flushed());
  *linked = scratch_->word_value(kOldAt) == expected;
  if (!*linked) ++counters_.cas_lost;
  backoff_.after(*linked);
  return Status::OK();
}

// From a version that another one was linked to: to the newest that one list shows, or on to the newest of all.
Status CloverClient::follow(uint64_t hash, bool to_the_end, const Limit& limit, Cursor* cursor) {
  for (bool first = true; first || to_the_end; first = false) {
    if (limit.expired()) return Status::OK();  // the caller notices, too
    batch_.read(store_.slab_at(cursor->link.handle()), scratch_->word(kHeaderAt));
    if (first) batch_.read(store_.shortcut_at(cursor->shortcut), scratch_->word(kShortcutAt));
    BONSAI_RETURN_IF_ERROR(batch_.run());
    const Header header(scratch_->word_value(kHeaderAt));
    if (header.version() != cursor->link.version() || !node_->cursors().usable(*cursor)) {
      ++counters_.outdated;
      node_->cursors().drop(hash);
      return ask(hash, cursor);
    }
    if (header.next().null()) return Status::OK();
    // Where a CAS was lost, the agent was called after it.
    const bool durable = options_.persist == Persist::kNone || (first && options_.persist == Persist::kAgent);
    cursor->link = onward(*cursor, header, first, durable);
  }
  return Status::OK();
}

// A header that another client has yet to make durable may precede the new version: a loss of it must not lose the
// update.
Status CloverClient::flush_passed() {
  for (const Passed& header : passed_) {
    if (options_.persist == Persist::kFlushingRead)
      batch_.cas(header.at, header.word, header.word, scratch_->word(kOldAt));
    add_flush(header.at, sizeof(Header));
    BONSAI_RETURN_IF_ERROR(run_flushed());
  }
  return Status::OK();
}

Status CloverClient::remove(std::string_view) {
  return Status::NotSupported("the Clover-like engine removes nothing, as the published one");
}

}  // namespace bonsai::bench::rivals::clover
