// SPDX-License-Identifier: Apache-2.0
// Splits of the Sherman-like engine's pages, and what follows from them above.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/step.h"
#include "bench/studies/rivals/sherman.h"
#include "bench/studies/rivals/sherman_scratch.h"

namespace bonsai::bench::rivals::sherman {

// Halves a page that has become full; `page` has all its records, the new one too, in order. It is found from the right
// half on as soon as the left half is written. Then the parent gets the right one.
Status ShermanClient::split(const Limit& limit, Held* held, Place* place, Seen* page) {
  Address fresh;
  if (const Status status = heap_->allocate(kPageUnits, &fresh); !status.ok()) {
    if (!status.IsNoSpace()) return status;
    BONSAI_RETURN_IF_ERROR(finish_posted());
    BONSAI_RETURN_IF_ERROR(unlock_posted(held));
    return status;
  }
  ++counters_.splits;
  const auto middle = page->records.begin() + static_cast<ptrdiff_t>(page->records.size() / 2);
  const Key separator = middle->key;
  Seen left = *page, right = *page;
  left.records.assign(page->records.begin(), middle);
  right.head.version = 1;
  right.head.lowest = separator;
  right.records.assign(middle, page->records.end());
  if (page->head.level > 0) {
    right.head.leftmost = address_in(middle->word);
    right.records.erase(right.records.begin());
  }
  ++left.head.version;
  left.head.highest = separator;
  left.head.sibling = fresh;
  BONSAI_RETURN_IF_ERROR(write_halves(fresh, place->page, held, page->head, left, right));
  Place parent{.key = separator, .page = {}, .from_cache = false, .path = place->path};
  const Status added = add_child({separator, packed(fresh)}, page->head.level + 1, limit, &parent);
  return added.IsNoSpace() ? Status::OK() : added;  // without its parent's record the page is found by its sibling
}

Status ShermanClient::write_halves(Address fresh, Address place, Held* held, const Head& before, const Seen& left,
                                   const Seen& right) {
  const bool durable = before.level == 0 && options_.persist != Persist::kNone;
  const rdma::Slice sibling = scratch(kFreshAt, kPageBytes), image = scratch(kPostedAt, kPageBytes);
  Page(layout_, fresh, sibling.data()).write(right.head, right.records);
  if (durable) {
    BONSAI_RETURN_IF_ERROR(add_flushed(sibling, fresh));
  } else {
    batch_.write(sibling, fresh);
  }
  BONSAI_RETURN_IF_ERROR(batch_.run());
  base::step("sherman.sibling");
  BONSAI_RETURN_IF_ERROR(finish_posted());
  if (durable) return write_left_durably(place, held, before, left);
  Page(layout_, place, image.data()).write(left.head, left.records);
  if (held->passes_on()) {
    batch_.write(image, place);
    BONSAI_RETURN_IF_ERROR(batch_.run());
    held->release(true);
  } else {
    posted_.write(image, place);
    BONSAI_RETURN_IF_ERROR(unlock_posted(held));
  }
  if (left.head.level == 1 && node_->caches()) {
    node_->cache().put(left.head, left.records);
    node_->cache().put(right.head, right.records);
  }
  return Status::OK();
}

// First with the head that names the sibling, and all records where they are; when that is durable, without those that
// have moved, and with the new record if it is of this half. Not before: a power cut may keep the record and not the
// head, and the leaf would be full.
Status ShermanClient::write_left_durably(Address place, Held* held, const Head& before, const Seen& left) {
  const rdma::Slice bytes = scratch(kImageAt, kPageBytes);
  Page image(layout_, place, bytes.data());
  std::vector<Record> records;
  BONSAI_INVARIANT(image.read_records(before, &records));
  const auto free = std::find_if(records.begin(), records.end(), [](const Record& one) { return one.word == 0; });
  const auto added = std::find_if(left.records.begin(), left.records.end(), [&](const Record& one) {
    return std::none_of(records.begin(), records.end(),
                        [&](const Record& old) { return old.word != 0 && old.key == one.key; });
  });
  const auto place_added = [&] {
    if (added == left.records.end()) return;
    static_cast<void>(image.write_record(left.head, static_cast<size_t>(free - records.begin()), *added));
  };
  image.write_head_over(before, left.head);
  BONSAI_RETURN_IF_ERROR(add_flushed(bytes, place));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  base::step("sherman.linked");
  for (size_t slot = 0; slot < records.size(); ++slot) {
    if (records[slot].key >= left.head.highest) static_cast<void>(image.write_record(left.head, slot, {}));
  }
  place_added();
  return write_and_unlock(bytes, place, true, held);
}

// Puts a record for a new child into the page of `level` that is to have it, or makes a new root for it.
Status ShermanClient::add_child(const Record& child, uint32_t level, const Limit& limit, Place* place) {
  BONSAI_CHECK(level < kLevelsMax);
  place->page = place->path[level];
  while (place->page.offset == 0) {
    if (limit.expired()) return limit.status();
    if (Root::level(node_->root()) >= level) {
      BONSAI_RETURN_IF_ERROR(descend(level, limit, place));
      continue;
    }
    bool grown = false;
    BONSAI_RETURN_IF_ERROR(grow_root(child, level, &grown));
    if (grown) return Status::OK();
  }
  for (;;) {
    Held held;
    Seen page;
    BONSAI_RETURN_IF_ERROR(lock(place->page, limit, &held));
    BONSAI_RETURN_IF_ERROR(read_page(place->page, limit, &page));
    BONSAI_INVARIANT(page.head.level == level);
    if (!covers(page.head, place->key)) {
      BONSAI_RETURN_IF_ERROR(unlock_and_move_on(page.head, limit, level, &held, place));
      continue;
    }
    const auto at = std::lower_bound(page.records.begin(), page.records.end(), child.key,
                                     [](const Record& record, const Key& key) { return record.key < key; });
    BONSAI_INVARIANT(at == page.records.end() || at->key != child.key);
    page.records.insert(at, child);
    if (page.records.size() == layout_.records_max(level)) return split(limit, &held, place, &page);
    ++page.head.version;
    Page(layout_, place->page, scratch_->data() + kImageAt).write(page.head, page.records);
    BONSAI_RETURN_IF_ERROR(write_and_unlock(scratch(kImageAt, kPageBytes), place->page, false, &held));
    if (level == 1 && node_->caches()) node_->cache().put(page.head, page.records);
    return Status::OK();
  }
}

// *grown is false if another client's root came first; it is known then.
Status ShermanClient::grow_root(const Record& child, uint32_t level, bool* grown) {
  const uint64_t root = node_->root();
  Address fresh;
  BONSAI_RETURN_IF_ERROR(heap_->allocate(kPageUnits, &fresh));
  Head head{.version = 1, .level = level};
  head.leftmost = address_in(root);
  head.highest = Key::none(layout_.key_bytes);
  Page(layout_, fresh, scratch_->data() + kFreshAt).write(head, {child});
  batch_.write(scratch(kFreshAt, kPageBytes), fresh);
  BONSAI_RETURN_IF_ERROR(batch_.run());
  base::step("sherman.root");
  batch_.cas(kRootWord, root, Root::of(level, fresh), scratch_->word(kRootAt));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  const uint64_t seen = scratch_->word_value(kRootAt);
  *grown = seen == root;
  node_->note_root(*grown ? Root::of(level, fresh) : seen);
  if (!*grown) heap_->give_back(fresh, kPageUnits);
  return Status::OK();
}

}  // namespace bonsai::bench::rivals::sherman
