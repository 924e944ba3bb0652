// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/sherman.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/step.h"
#include "bench/studies/rivals/sherman_scratch.h"

namespace bonsai::bench::rivals::sherman {

namespace {

// Errors: InvalidArgument.
Status parse_value(std::string_view value, uint64_t* word) {
  *word = 0;
  if (value.size() == sizeof *word) std::memcpy(word, value.data(), sizeof *word);
  if (*word != 0) return Status::OK();
  return Status::InvalidArgument("the Sherman-like engine stores values of 8 bytes that are not all 0");
}

}  // namespace

size_t fixed_bytes(const TreeOptions& options) { return first_page_at(options) + kPageBytes; }

void make_tree(const TreeOptions& options, const std::vector<MemoryNode*>& nodes) {
  const Address first{0, first_page_at(options)};
  const Layout& layout = options.layout;
  BONSAI_CHECK(layout.key_bytes >= 8 && layout.key_bytes <= kKeyBytesMax && options.locks_per_node > 0);
  std::array<std::byte, kPageBytes> image{};
  Head head{.version = 1};
  head.highest = Key::none(layout.key_bytes);
  Page(layout, first, image.data()).write(head, {});
  base::racy_store(nodes[0]->data() + first.offset, image.data(), image.size());
  base::word_at(nodes[0]->data() + kRootWord.offset).store(Root::of(0, first));
  nodes[0]->flush(first.offset, kPageBytes);
}

Status ShermanClient::make(Connection* connection, ComputeNode* node, const ClientOptions& options,
                           std::unique_ptr<ShermanClient>* client) {
  BONSAI_CHECK(connection->memory_nodes() == node->options().memory_nodes && options.reads_in_flight_max > 0);
  if (options.persist != Persist::kNone && !node->options().tree.layout.durable()) {
    return Status::InvalidArgument("persistence takes a tree whose leaves have the durable form");
  }
  std::unique_ptr<ShermanClient> made(new ShermanClient(connection, node, options));
  BONSAI_RETURN_IF_ERROR(RemoteHeap::make(connection, options.heap, &made->heap_));
  BONSAI_RETURN_IF_ERROR(made->make_scratch(scratch_bytes(options.reads_in_flight_max)));
  if (options.persist == Persist::kAgent) BONSAI_RETURN_IF_ERROR(FlushCaller::make(connection, &made->flusher_));
  for (size_t i = 0; i < options.reads_in_flight_max; ++i) {
    made->scan_batches_.push_back(std::make_unique<Batch>(connection));
  }
  if (node->root() == 0) BONSAI_RETURN_IF_ERROR(made->read_root());
  *client = std::move(made);
  return Status::OK();
}

ShermanClient::~ShermanClient() { static_cast<void>(finish_posted()); }

Status ShermanClient::check_key(std::string_view key) const {
  if (layout_.takes(key)) return Status::OK();
  return Status::InvalidArgument(
      "a key of " + std::to_string(key.size()) + " bytes; this tree stores keys of " +
      (layout_.key_bytes == 8 ? std::string("8 bytes")
                              : "1 to " + std::to_string(layout_.key_bytes) + " bytes whose last one is not zero"));
}

// ---- finding the leaf

Status ShermanClient::read_root() {
  batch_.read(kRootWord, scratch_->word(kRootAt));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  node_->note_root(scratch_->word_value(kRootAt));
  return Status::OK();
}

Status ShermanClient::read_image(Address page) {
  batch_.read(page, scratch(kImageAt, kPageBytes));
  return batch_.run();
}

Status ShermanClient::read_page(Address page, const Limit& limit, Seen* seen) {
  const Page image(layout_, page, scratch_->data() + kImageAt);
  for (;; ++counters_.pages_torn) {
    if (limit.expired()) return limit.status();
    BONSAI_RETURN_IF_ERROR(read_image(page));
    if (image.read_head(&seen->head) && image.read_records(seen->head, &seen->records)) return Status::OK();
  }
}

// The leaf of place->key, or one to the left of it.
Status ShermanClient::locate(const Limit& limit, Place* place) {
  place->from_cache = node_->caches() && node_->cache().find(place->key, &place->page);
  if (!place->from_cache) return descend(0, limit, place);
  ++counters_.cache_hits;
  return Status::OK();
}

// The page of place->key on `level`, or one to the left of it, from the root down. Requires: the root is not below.
Status ShermanClient::descend(uint32_t level, const Limit& limit, Place* place) {
  place->from_cache = false;
  const uint64_t root = node_->root();
  place->page = address_in(root);
  for (uint32_t at_level = Root::level(root); at_level > level;) {
    Seen seen;
    BONSAI_RETURN_IF_ERROR(read_page(place->page, limit, &seen));
    BONSAI_INVARIANT(seen.head.level == at_level);
    if (place->key >= seen.head.highest) {
      BONSAI_RETURN_IF_ERROR(move_on(seen.head, limit, at_level, place));
      continue;
    }
    place->path[at_level] = place->page;
    if (at_level == 1 && node_->caches()) node_->cache().put(seen.head, seen.records);
    place->page = child_of(seen.head, seen.records, place->key);
    --at_level;
  }
  return Status::OK();
}

// From a page of `level` that does not have the key: to its sibling; from the root if a cached page named it, or if it
// was the root itself and there is a newer one.
Status ShermanClient::move_on(const Head& head, const Limit& limit, uint32_t level, Place* place) {
  if (limit.expired()) return limit.status();
  if (place->from_cache) {
    ++counters_.cache_stale;
    node_->cache().drop(place->key);
    return descend(level, limit, place);
  }
  BONSAI_INVARIANT(place->key >= head.highest);
  if (place->page == address_in(node_->root())) {
    const uint64_t known = node_->root();
    BONSAI_RETURN_IF_ERROR(read_root());
    if (node_->root() != known) return descend(level, limit, place);
  }
  ++counters_.hops;
  place->page = head.sibling;
  return Status::OK();
}

Status ShermanClient::get(std::string_view key, std::string* value) {
  BONSAI_RETURN_IF_ERROR(check_key(key));
  const Limit limit = limit_of("sherman.get");
  Place place{.key = Key::of(key)};
  BONSAI_RETURN_IF_ERROR(locate(limit, &place));
  for (;;) {
    if (limit.expired()) return limit.status();
    base::step("sherman.leaf");
    BONSAI_RETURN_IF_ERROR(read_image(place.page));
    const Page page(layout_, place.page, scratch_->data() + kImageAt);
    Head head;
    uint64_t word = 0;
    if (!page.read_head(&head)) {
      ++counters_.pages_torn;
    } else if (!covers(head, place.key)) {
      BONSAI_RETURN_IF_ERROR(move_on(head, limit, 0, &place));
    } else if (!page.find(head, place.key, &word)) {
      ++counters_.pages_torn;
    } else {
      if (word == 0) return Status::NotFound();
      value->assign(reinterpret_cast<const char*>(&word), sizeof word);
      return Status::OK();
    }
  }
}

// ---- locks

Status ShermanClient::lock(Address page, const Limit& limit, Held* held) {
  const uint64_t locks = node_->options().tree.locks_per_node;
  const uint64_t number = base::splitmix64(packed(page)) % locks;
  held->word = {page.node, kFirstLockAt + number * sizeof(uint64_t)};
  if (LocalLocks* const local = node_->locks()) {
    held->index = page.node * locks + number;
    const bool passed_on = local->acquire(held->index);
    held->locks = local;
    if (passed_on) {
      ++counters_.handovers;
      return Status::OK();
    }
  }
  for (;; ++counters_.locks_busy) {
    if (limit.expired()) return limit.status();
    base::step("sherman.lock");
    batch_.cas(held->word, 0, node_->tag(), scratch_->word(kLockWordAt));
    BONSAI_RETURN_IF_ERROR(batch_.run());
    if (scratch_->word_value(kLockWordAt) == 0) break;
    backoff_.after(false);
  }
  backoff_.after(true);
  ++counters_.locks_taken;
  return Status::OK();
}

void ShermanClient::add_unlock(Batch* batch, const Held& held, size_t word_at) {
  batch->cas(held.word, node_->tag(), 0, scratch_->word(word_at));
}

void ShermanClient::check_unlocked(size_t word_at) const {
  BONSAI_INVARIANT(scratch_->word_value(word_at) == node_->tag());
}

Status ShermanClient::finish_posted() {
  const bool unlocks = std::exchange(posted_unlocks_, false);
  BONSAI_RETURN_IF_ERROR(posted_.finish());
  if (unlocks) check_unlocked(kPostedUnlockedAt);
  return Status::OK();
}

// Releases the lock, with what else is in posted_, and does not wait. A later CAS of this connection comes after it.
Status ShermanClient::unlock_posted(Held* held) {
  add_unlock(&posted_, *held, kPostedUnlockedAt);
  BONSAI_RETURN_IF_ERROR(posted_.post());
  posted_unlocks_ = true;
  held->release(false);
  return Status::OK();
}

// Adds a WRITE into a leaf, and the requests that make it durable. They need no list of their own if a READ in the list
// that unlocks does so.
Status ShermanClient::add_flushed(rdma::Slice from, Address to) {
  batch_.write(from, to);
  if (options_.persist == Persist::kNone) return Status::OK();
  if (options_.persist == Persist::kAgent) {
    flusher_->add(&batch_, to, from.bytes());
    BONSAI_RETURN_IF_ERROR(batch_.run());
    return flusher_->await(options_.operation_ms_max);
  }
  batch_.read(to + (from.bytes() - sizeof(uint64_t)), scratch_->word(kFlushedAt));
  return options_.persist == Persist::kCombined ? Status::OK() : batch_.run();
}

// The last lists of a change.
Status ShermanClient::write_and_unlock(rdma::Slice from, Address to, bool leaf, Held* held) {
  base::step("sherman.write");
  if (leaf) {
    BONSAI_RETURN_IF_ERROR(add_flushed(from, to));
  } else {
    batch_.write(from, to);
  }
  const bool passed_on = held->passes_on();
  if (!passed_on) add_unlock(&batch_, *held, kUnlockedAt);
  BONSAI_RETURN_IF_ERROR(batch_.run());
  if (!passed_on) check_unlocked(kUnlockedAt);
  held->release(passed_on);
  return Status::OK();
}

Status ShermanClient::unlock_and_move_on(const Head& head, const Limit& limit, uint32_t level, Held* held,
                                         Place* place) {
  BONSAI_RETURN_IF_ERROR(finish_posted());
  BONSAI_RETURN_IF_ERROR(unlock_posted(held));
  return move_on(head, limit, level, place);
}

// ---- changes

Status ShermanClient::insert(std::string_view key, std::string_view value) {
  uint64_t word = 0;
  BONSAI_RETURN_IF_ERROR(parse_value(value, &word));
  return change(key, word, Change::kInsert);
}

Status ShermanClient::update(std::string_view key, std::string_view value) {
  uint64_t word = 0;
  BONSAI_RETURN_IF_ERROR(parse_value(value, &word));
  return change(key, word, Change::kUpdate);
}

Status ShermanClient::remove(std::string_view key) { return change(key, 0, Change::kRemove); }

Status ShermanClient::change(std::string_view key, uint64_t value, Change change) {
  BONSAI_RETURN_IF_ERROR(check_key(key));
  const Limit limit = limit_of("sherman.change");
  Place place{.key = Key::of(key)};
  BONSAI_RETURN_IF_ERROR(locate(limit, &place));
  for (;;) {
    Held held;
    Seen leaf;
    BONSAI_RETURN_IF_ERROR(lock(place.page, limit, &held));
    base::step("sherman.locked");
    BONSAI_RETURN_IF_ERROR(read_page(place.page, limit, &leaf));
    if (covers(leaf.head, place.key)) {
      return change_leaf({place.key, value}, change, limit, &held, &place, &leaf);
    }
    BONSAI_RETURN_IF_ERROR(unlock_and_move_on(leaf.head, limit, 0, &held, &place));
  }
}

// The record's slot is that of its key, or the first free one. The insert that would fill the leaf splits it.
Status ShermanClient::change_leaf(const Record& record, Change change, const Limit& limit, Held* held, Place* place,
                                  Seen* leaf) {
  Page image(layout_, place->page, scratch_->data() + kImageAt);
  const auto live = [](const Record& one) { return one.word != 0; };
  const auto same = [&](const Record& one) { return live(one) && one.key == record.key; };
  auto at = std::find_if(leaf->records.begin(), leaf->records.end(), same);
  if (at == leaf->records.end() && change != Change::kInsert) {
    BONSAI_RETURN_IF_ERROR(finish_posted());
    BONSAI_RETURN_IF_ERROR(unlock_posted(held));
    return Status::NotFound();
  }
  if (at == leaf->records.end()) {
    const auto used = static_cast<size_t>(std::count_if(leaf->records.begin(), leaf->records.end(), live));
    at = std::find_if_not(leaf->records.begin(), leaf->records.end(), live);
    BONSAI_INVARIANT(at != leaf->records.end());
    if (used + 1 == leaf->records.size()) {
      *at = record;
      std::sort(leaf->records.begin(), leaf->records.end(),
                [](const Record& a, const Record& b) { return a.key < b.key; });
      BONSAI_RETURN_IF_ERROR(split(limit, held, place, leaf));
      return finish_posted();
    }
  }
  const size_t offset = image.write_record(leaf->head, static_cast<size_t>(at - leaf->records.begin()), record);
  return write_and_unlock(scratch(kImageAt + offset, layout_.record_bytes(0)), place->page + offset, true, held);
}

}  // namespace bonsai::bench::rivals::sherman
